"""How far each incremental mart has read, and what was touched since.

**Purpose.** A promote, a rollback or a reconcile changes old rows of a live table. A mart that asks
for rows newer than its newest would never see that. So an incremental mart follows the change feed
from the version it last read, and computes the scopes (hours, days) with a changed row anew.

**How it works.** The version read is noted in the mart's own commit, together with its rows: the
metadata of the commit says ``{"mart", "code", "read": {table: {"id", "version"}}}``. Before dbt
starts, the note is read back, the change feed since then gives the touched scopes, and dbt is told
them (variable ``positions``). A mart is rebuilt instead where the note cannot be relied on:
there is none; the mart's or its views' SQL is not what wrote it; the table at that path is another
one or went back; its columns changed in between; the feed does not reach back or is too long; or
somebody wrote to the mart since (a restore, an update by hand).

**What it does not do.** Pin what a model reads. A model may see rows newer than the version noted;
their scopes are touched again in the next run, which computes them whole. So a mart may be ahead of
its note, never behind it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from penstock.errors import in_a_line
from penstock.location import Location, delta_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Follower", "Position", "position_of"]

# Every commit is at least one small file to open: past some thousands the whole table is sooner
# read. And a statement should stay one a person can read: a year of days, some weeks of hours.
MOST_COMMITS = 3000
MOST_SCOPES = 400
_LOOK_BACK = 100  # commits: between two runs only upkeep writes to a mart

# What may come after the commit that has the note without touching rows.
_HARMLESS = {
    "OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES",
    "CHANGE COLUMN", "COMPUTE STATS",
}  # fmt: skip


_WRITTEN = re.compile(r"[0-9-]{8,12}( [0-9:.]{8,15})?")


@dataclass(frozen=True)
class Follower:
    """An incremental mart, as its model declares it."""

    mart: str
    follows: Mapping[str, str]  # table -> the scope of one of its rows, in SQL
    code: str  # fingerprint of its SQL and of the views it reads
    folder: Location


@dataclass(frozen=True)
class Position:
    """What dbt is told about one mart."""

    rebuild: bool
    why: str
    touched: list[str] = field(default_factory=list)  # SQL literals
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class _Rebuild(Exception):
    """The change feed cannot be used; says why."""


def position_of(
    session: SparkSession, follower: Follower, sources: Mapping[str, Location], *, full: bool
) -> Position:
    """What the mart has to do in this run.

    Args:
        sources: the live folders of tables with data; one that is not here is empty.
        full: somebody asked for everything anew.
    """
    tables = {n: _open(sources[n]) for n in follower.follows if n in sources}
    reads = {n: {"id": str(t.metadata().id), "version": t.version()} for n, t in tables.items()}
    note = json.dumps({"mart": follower.mart, "code": follower.code, "read": reads})
    if full:
        return Position(True, "asked for", note=note)
    try:
        before = _noted(follower)
        touched: set[str] = set()
        for name, scope in follower.follows.items():
            table = (sources[name], tables[name]) if name in tables else None
            touched |= _touched(session, name, scope, table, before.get(name))
        if len(touched) > MOST_SCOPES:
            raise _Rebuild(f"{len(touched):,} scopes were touched")
    except _Rebuild as reason:
        return Position(True, str(reason), note=note)
    return Position(False, _told(before, reads), sorted(touched), note)


def _told(before: Mapping[str, Any], reads: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {before[name]['version'] if name in before else 'from nothing'}"
        f" to {read['version']}"
        for name, read in reads.items()
    )


def _open(folder: Location, version: int | None = None) -> DeltaTable:
    return delta_table(folder, version)


# --- the note -----------------------------------------------------------------------------------
def _noted(follower: Follower) -> dict[str, Any]:
    """What the mart's newest rows were computed from."""
    try:
        history = _open(follower.folder).history(_LOOK_BACK)
    except (DeltaError, OSError):
        raise _Rebuild("it does not exist yet") from None
    for commit in history:
        note = _read_note(commit.get("userMetadata"))
        if note.get("mart") == follower.mart:
            if note.get("code") != follower.code:
                raise _Rebuild("its SQL changed")
            return dict(note.get("read", {}))
        if commit.get("operation") not in _HARMLESS:
            raise _Rebuild(f"somebody else wrote to it ({commit.get('operation')})")
    raise _Rebuild("it has no note of what it read")


def _read_note(text: object) -> dict[str, Any]:
    try:
        read = json.loads(str(text))
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


# --- the change feed ----------------------------------------------------------------------------
def _touched(
    session: SparkSession,
    name: str,
    scope: str,
    source: tuple[Location, DeltaTable] | None,
    before: Mapping[str, Any] | None,
) -> set[str]:
    if source is None:
        if before is not None:
            raise _Rebuild(f"{name} is gone")
        return set()
    if before is None:
        raise _Rebuild(f"{name} had no data when it was last read")
    folder, table = source
    _same_table(name, folder, table, before)
    first, last = int(before["version"]) + 1, table.version()
    if first > last:
        return set()
    if last - first >= MOST_COMMITS:
        raise _Rebuild(f"{name} is {last - first + 1:,} commits ahead")
    # The name is one of the catalog's, the scope is the model's own SQL.
    scopes = f"SELECT DISTINCT {scope} AS scope FROM table_changes('{name}', {first}, {last})"  # noqa: S608
    feed = f"SELECT typeof(scope), CAST(scope AS string) FROM ({scopes})"  # noqa: S608
    try:
        rows = session.sql(feed).collect()
    except Exception as error:  # commits or files cleaned up, or Delta refuses: the table has all
        raise _Rebuild(f"the change feed of {name} cannot be read: {in_a_line(error)}") from None
    return {_literal(str(row[0]), str(row[1])) for row in rows}


def _same_table(name: str, folder: Location, table: DeltaTable, before: Mapping[str, Any]) -> None:
    if before.get("id") != str(table.metadata().id):
        raise _Rebuild(f"{name} is another table than the one last read")
    if int(before["version"]) > table.version():
        raise _Rebuild(f"{name} went back behind version {before['version']}")
    try:
        then = _open(folder, int(before["version"])).schema()
    except (DeltaError, OSError):
        raise _Rebuild(f"version {before['version']} of {name} was cleaned up") from None
    if then.to_json() != table.schema().to_json():
        raise _Rebuild(f"{name} has other columns than when it was last read")


def _literal(kind: str, text: str) -> str:
    """A scope is a date or a moment, as Spark writes it; anything else is the model's mistake."""
    if kind not in ("date", "timestamp") or not _WRITTEN.fullmatch(text):
        raise _Rebuild(f"{text!r} is neither a day nor an hour")
    return f"{kind}'{text}'"
