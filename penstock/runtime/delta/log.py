"""A Delta log with exactly one writer, fenced.

Purpose: every commit Penstock makes, to a bronze table, a revision or a live table, goes through
``DeltaLog.commit``. How it works: a Delta commit is one small file, ``_delta_log/<version>.json``,
created only if absent. A writer knows the version it last saw or wrote and tries exactly the next
one. Taking over a table means committing the new holder's higher token first; whoever still works
from the snapshot before that finds its next version taken and is refused for good, however long it
slept (law 6). What it does not do: retry on top of somebody else's commit; only a table without
a holder, to which rows are only ever added, is open to several writers (``append_shared``). Known
limitation: a local disk is not synced after a commit, so kill -9 loses nothing but a power cut may.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from obstore.exceptions import AlreadyExistsError

from penstock import __version__
from penstock.errors import ForeignCommit, LeaseLost
from penstock.location import Location, creator, delta_table, options_of

__all__ = [
    "Action",
    "DeltaLog",
    "LEASE",
    "append_at",
    "append_shared",
    "commit_metadata",
    "metadata_action",
    "read_commit",
]

Action = dict[str, Any]
LEASE = "penstock:lease"

# Change feed on from the start: turning it on later would leave readers a gap.
_TABLE_PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "false",
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}


class DeltaLog:
    """The log of one Delta table, held by one writer with one token."""

    def __init__(self, path: Location, token: int) -> None:
        self.path = path
        self.token = token
        self.lock = threading.RLock()  # one commit at a time within this process
        self._create = creator(path)
        self._in_doubt = False  # the store did not say whether it has our last commit
        self._txns: dict[str, int | None] = {}
        self._reload()

    # --- opening --------------------------------------------------------------------------
    @classmethod
    def create(cls, path: Location, schema: pa.Schema, *, description: str = "") -> None:
        """Make the table if it is not there; an existing one is left as it is."""
        options = options_of(path)
        if (path / "_delta_log").exists() and DeltaTable.is_deltatable(str(path), options):
            return
        path.mkdir(parents=True, exist_ok=True)
        try:
            DeltaTable.create(
                str(path),
                schema=schema,
                mode="ignore",
                description=description or None,
                configuration=_TABLE_PROPERTIES,
                storage_options=options,
            )
        except DeltaError:
            if not DeltaTable.is_deltatable(str(path), options):
                raise  # else another process made it between our look and our try

    @classmethod
    def take(cls, path: Location, token: int) -> DeltaLog:
        """Open the table as its only writer: commit ``token``, or learn that a newer one rules."""
        while True:
            log = cls(path, token)
            held = log.txn(LEASE) or 0
            if held > token:
                raise LeaseLost(f"{path.name}: token {held} rules already, ours is {token}.")
            if held == token:
                return log
            try:
                log._put([], {LEASE: token}, {"operation": "PENSTOCK LEASE", "token": token})
            except AlreadyExistsError:
                continue  # the old holder got one more commit in: look again
            return log

    def _reload(self) -> None:
        self._table = delta_table(self.path)
        self.version: int = self._table.version()
        self._txns.clear()

    def txn(self, app_id: str) -> int | None:
        """The newest version recorded for ``app_id``: how idempotence and positions are kept."""
        if app_id not in self._txns:  # also when there is none: only we could add one
            self._txns[app_id] = self._recorded(app_id)
        return self._txns[app_id]

    def _recorded(self, app_id: str) -> int | None:
        """From the log as it was read first, or anew where that was cleaned up since."""
        try:
            return self._table.transaction_version(app_id)
        except DeltaError:
            self._table = self.snapshot()
            return self._table.transaction_version(app_id)

    # --- writing --------------------------------------------------------------------------
    def commit(
        self, actions: Iterable[Action], txns: Mapping[str, int], info: Mapping[str, Any]
    ) -> int:
        """Commit as the next version after the one this writer knows; returns that version."""
        try:
            return self._put(list(actions), txns, info)
        except AlreadyExistsError:
            raise self._usurped() from None

    def _put(self, actions: list[Action], txns: Mapping[str, int], info: Mapping[str, Any]) -> int:
        now = int(time.time() * 1000)
        with self.lock:
            version = self.version + 1
            lines = [
                {"commitInfo": _commit_info(info, now, blind=all("add" in a for a in actions))},
                *(
                    {"txn": {"appId": app, "version": number, "lastUpdated": now}}
                    for app, number in txns.items()
                ),
                *actions,
            ]
            body = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
            try:
                self._create(_commit_path(version), body.encode())
            except AlreadyExistsError:
                raise
            except Exception:
                self._in_doubt = True
                raise
            self._in_doubt = False
            self.version = version
            self._txns.update(txns)
            return version

    def widen(self, schema: pa.Schema) -> None:
        """Give a table of an earlier version the columns it lacks; its files have nulls there."""
        table = self.snapshot()
        known = {field.name for field in table.schema().fields}
        if not set(schema.names) <= known:
            wider = metadata_action(table, Schema.from_arrow(schema).to_json())
            self.commit([wider], {}, {"operation": "PENSTOCK WIDEN"})

    def _usurped(self) -> LeaseLost | ForeignCommit:
        """Somebody took our next version: another supervisor, a stranger, or we ourselves?"""
        held = delta_table(self.path).transaction_version(LEASE) or 0
        where = f"{self.path.parent.name}/{self.path.name}"
        if held > self.token:
            return LeaseLost(f"{where} is written by the holder of token {held} now.")
        if self._in_doubt:  # then all there is to do is to begin again with what the store has
            return LeaseLost(f"{where}: a commit of ours was taken for lost, and was not.")
        return ForeignCommit(
            f"version {self.version + 1} of {where} was written by somebody else.",
            remedy="Only Penstock may write there. Stop whoever did, then `penstock repair` the "
            "table: docs/operating.md, Foreign commits.",
        )

    # --- reading --------------------------------------------------------------------------
    def snapshot(self, version: int | None = None) -> DeltaTable:
        """A reader's view, by default at the version this writer last saw."""
        return delta_table(self.path, self.version if version is None else version)

    def commits(self, after: int) -> Iterator[tuple[int, list[Action]]]:
        """The commits after a version, oldest first, up to what this writer last saw."""
        for version in range(after + 1, self.version + 1):
            yield version, read_commit(self.path, version)


def append_shared(path: Location, adds: Iterable[Action], info: Mapping[str, Any]) -> int:
    """Append to a table that has no holder and several writers; returns the version it became.

    New rows depend on nothing that others commit, so whoever finds its version taken takes the
    next one: nothing is lost and nothing is written twice.
    """
    actions = list(adds)
    if any("add" not in action for action in actions):
        raise ValueError("only new files can be appended to a table that has no holder")
    log = DeltaLog(path, token=0)
    if log.txn(LEASE):
        raise LeaseLost(f"{path.parent.name}/{path.name} has a holder; only that one may write.")
    while True:
        try:
            return log._put(actions, {}, info)
        except AlreadyExistsError:
            log.version += 1


def append_at(
    path: Location,
    adds: Iterable[Action],
    positions: Mapping[str, tuple[int | None, int]],
    info: Mapping[str, Any],
) -> int | None:
    """Append rows, and how far their input was read, as one commit; the version it became.

    ``positions`` holds for each txn id where the rows begin and end. None, and nothing is written,
    when one of them is not where the rows begin any more: somebody else has those rows in. For a
    table without a holder, like ``append_shared``.
    """
    actions = list(adds)
    while True:
        log = DeltaLog(path, token=0)
        if log.txn(LEASE):
            raise LeaseLost(
                f"{path.parent.name}/{path.name} has a holder; only that one may write."
            )
        if any(log.txn(app) != begin for app, (begin, _) in positions.items()):
            return None
        try:
            return log._put(actions, {app: end for app, (_, end) in positions.items()}, info)
        except AlreadyExistsError:
            continue  # others committed: are the positions still the same?


def _commit_path(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


def _commit_info(info: Mapping[str, Any], now: int, *, blind: bool) -> Action:
    extra = {k: v for k, v in info.items() if k != "operation"}
    return {
        "timestamp": now,
        "operation": info.get("operation", "WRITE"),
        "operationParameters": {"mode": "Append"},
        "engineInfo": f"penstock/{__version__}",
        "isBlindAppend": blind,
        "userMetadata": json.dumps(extra, separators=(",", ":"), sort_keys=True),
    }


def read_commit(path: Location, version: int) -> list[Action]:
    """The actions of one commit."""
    text = (path / _commit_path(version)).read_text()
    return [json.loads(line) for line in text.splitlines() if line]


def metadata_action(table: DeltaTable, schema: str) -> Action:
    """The action that gives a table another schema (Delta's JSON) and leaves the rest."""
    known = table.metadata()
    return {
        "metaData": {
            "id": str(known.id),
            "name": known.name,
            "description": known.description,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": [],
            "configuration": dict(known.configuration),
            "createdTime": known.created_time,
        }
    }


def commit_metadata(path: Location, version: int) -> dict[str, Any]:
    """What a commit of ours tells beside its actions."""
    for action in read_commit(path, version):
        if "commitInfo" in action:
            told: dict[str, Any] = json.loads(action["commitInfo"].get("userMetadata") or "{}")
            return told
    return {}
