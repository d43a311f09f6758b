"""Writing one revision, and mirroring it into the live table while it is live.

A table's folder holds the live log and, under ``_revisions/<revision>``, each revision as a Delta
table of its own. The live log's actions point at the revision's files, so nothing is copied and
any Delta reader works at the stable path. The mirror marks how far it got with a txn action; after
a crash it goes on from there.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.location import Location
from penstock.model.names import TableName
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.log import Action, DeltaLog, commit_metadata

__all__ = ["RevisionWriter", "live_path", "revision_path"]

_DATA_ACTIONS = ("add", "remove", "cdc")
_RECENT_BYTES = 64 << 20
_RECENT_COMMITS = 256  # small tables weigh far more than the bytes of their rows


def live_path(warehouse: Location, name: TableName) -> Location:
    return warehouse / name.layer / name.name


def revision_path(warehouse: Location, name: TableName, revision: str) -> Location:
    return live_path(warehouse, name) / "_revisions" / revision


class RevisionWriter:
    """The only writer of one revision of one table, and of its live mirror."""

    def __init__(
        self,
        warehouse: Location,
        name: TableName,
        revision: str,
        schema: pa.Schema,
        *,
        token: int,
        live: bool,
        held: bool = False,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.revision = revision
        self.schema = schema
        self.path = revision_path(warehouse, name, revision)
        self.recent = RecentRows(_RECENT_BYTES)
        self._about = dict(about or {})
        self._mirrored = -1  # the newest commit of the revision that live shows
        self.companions: dict[str, RevisionWriter] = {}
        self.tallies: dict[int, list[list[Any]]] = {}  # of commits not yet in the outcomes table
        DeltaLog.create(self.path, schema, description=f"{name} revision {revision}")
        self.log = DeltaLog.take(self.path, token)
        self.held = held or bool(self.position("guard"))  # live stands still, the revision goes on
        self.live: DeltaLog | None = None
        if live:
            DeltaLog.create(live_path(warehouse, name), schema, description=str(name))
            self.live = DeltaLog.take(live_path(warehouse, name), token)
            self.catch_up_mirror()

    # --- positions ------------------------------------------------------------------------
    def position(self, source: str) -> int | None:
        """How far this revision has taken in ``source``; the basis of exactly-once."""
        return self.log.txn(f"{self.revision}:{source}")

    # --- writing --------------------------------------------------------------------------
    def commit(
        self,
        actions: list[Action],
        positions: Mapping[str, int],
        info: Mapping[str, Any] | None = None,
        *,
        change: Change | None = None,
        apart: Mapping[str, list[Action]] | None = None,
        tally: list[list[Any]] | None = None,
        born: float | None = None,
    ) -> int:
        """Commit files and input positions together, then show them to readers of live.

        Args:
            actions: adds, removes and change files of this table.
            positions: how far each input is taken in by this commit.
            change: the rows that came and went, for readers in this process.
            apart: actions of the companions (quarantine, late): decided by this commit, carried
                out by them afterwards, or after a crash.
            tally: what became of the input rows.
            born: when the oldest of the rows behind it came in (``time.monotonic``).
        """
        txns = {f"{self.revision}:{source}": at for source, at in positions.items()}
        told = {**self._about, "revision": self.revision, "inputs": dict(positions), **(info or {})}
        if tally:
            told["outcomes"] = tally
        apart = {name: some for name, some in (apart or {}).items() if some}
        with self.log.lock:
            if apart:
                told["apart"] = apart
                txns |= {_apart(name): self.log.version + 1 for name in apart}
            version = self.log.commit(actions, txns, told)
            if tally:
                self.tallies[version] = tally
            if actions:
                self.recent.note(version, born)
            if change is not None:
                self.recent.put(version, change)
            for name, some in apart.items():
                self.companions[name].take_over(version, some)
            self._show(version, actions)
        return version

    # --- companions -----------------------------------------------------------------------
    def adopt(self, name: str, companion: RevisionWriter) -> None:
        """Let a companion table carry out what this table's commits decide for it."""
        self.companions[name] = companion
        last = self.log.txn(_apart(name))
        done = companion.position("from")
        done = -1 if done is None else done
        if last is None or last <= done:
            return
        for version in range(done + 1, last + 1):
            some = commit_metadata(self.path, version).get("apart", {}).get(name)
            if some:
                companion.take_over(version, some)

    def take_over(self, version: int, actions: list[Action]) -> None:
        """As a companion: carry out what version ``version`` of the main table decided."""
        self.commit(actions, {"from": version})

    # --- the mirror -----------------------------------------------------------------------
    def _show(self, version: int, actions: list[Action]) -> None:
        """Mirror the commit just made; after one that could not be mirrored, all since then."""
        if self.live is None or self.held:
            return
        if self._mirrored != version - 1:
            self.catch_up_mirror()
            return
        if actions:
            self._mirror(version, actions)
        self._mirrored = version

    def catch_up_mirror(self) -> int:
        """Mirror what a crash, a failed commit or a hold left behind; returns how many commits."""
        if self.live is None or self.held:
            return 0
        with self.log.lock:
            marker = self.live.txn(self.marker)
            done = 0
            for version, actions in self.log.commits(after=-1 if marker is None else marker):
                data = [a for a in actions if any(kind in a for kind in _DATA_ACTIONS)]
                if data:
                    self._mirror(version, data)
                    done += 1
            self._mirrored = self.log.version
            return done

    def mark(self) -> bool:
        """Note how far live shows this revision, where nothing had to be mirrored for long."""
        with self.log.lock:
            if self.live is None or self.held or self._mirrored != self.log.version:
                return False
            if self.live.txn(self.marker) == self._mirrored:
                return False
            self._mirror(self._mirrored, [])
            return True

    def show(self, live: DeltaLog) -> None:
        """From now on live shows this revision, and shows all of it already."""
        self.live = live
        self._mirrored = self.log.version

    def hide(self) -> DeltaLog:
        """From now on live shows another revision; returns live's log."""
        live, self.live = self.live, None
        assert live is not None  # noqa: S101
        return live

    @property
    def marker(self) -> str:
        """The transaction that says how far live shows this revision."""
        return f"mirror:{self.revision}"

    def _mirror(self, version: int, actions: list[Action]) -> None:
        assert self.live is not None  # noqa: S101
        prefix = f"_revisions/{self.revision}/"
        moved = [
            {kind: {**body, "path": prefix + body["path"]} for kind, body in action.items()}
            for action in actions
        ]
        about = {**self._about, "revision": self.revision, "revision_version": version}
        self.live.commit(moved, {self.marker: version}, about)


def _apart(name: str) -> str:
    return f"apart:{name}"


class RecentRows:
    """The changes of the newest commits, so that followers in this process need not read files.

    And since when their rows have been on their way, so that a follower knows how long those it has
    not taken in have waited already, before it and in the tables below.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held = 0
        self._rows: OrderedDict[int, Change] = OrderedDict()
        self._born: OrderedDict[int, float] = OrderedDict()

    def note(self, version: int, born: float | None) -> None:
        """Rows came or went with a version; the oldest of them is so old, or new if unknown."""
        self._born[version] = time.monotonic() if born is None else born
        if len(self._born) > _RECENT_COMMITS:
            self._born.popitem(last=False)

    def oldest_after(self, version: int) -> float | None:
        """Since when the oldest rows of later versions have been on their way; None: no rows."""
        oldest = None
        for at, born in reversed(list(self._born.items())):  # others commit meanwhile
            if at <= version:
                break
            oldest = born if oldest is None else min(oldest, born)
        return oldest

    def put(self, version: int, rows: Change | pa.Table) -> None:
        rows = Change(rows) if isinstance(rows, pa.Table) else rows
        if rows.nbytes > self._limit // 2:
            return
        self._rows[version] = rows
        self._held += rows.nbytes
        while self._held > self._limit or len(self._rows) > _RECENT_COMMITS:
            _, old = self._rows.popitem(last=False)
            self._held -= old.nbytes

    def get(self, version: int) -> Change | None:
        return self._rows.get(version)
