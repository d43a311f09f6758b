"""Who still needs which version of which log: the one place that knows.

A need is a version of a log that somebody stands at: all commits after it will be read, and the
files of the version itself may be. Nothing of that may be cleaned up, however old it is.

| who | stands at |
| --- | --- |
| a table that follows (live, candidate or warm) | its committed position in each input |
| a history that is being built | the versions its recipe is pinned to |
| a live log, also a held one | the commit of its revision that it has mirrored |
| outcomes | the commit of the table that was counted |
| quarantine, late | the commit of the table that was carried out, if there is a later one |
| a reader outside | its claim on the live log (``claims``) |

What nobody needs is kept for the retention all the same: comparisons, queries and people who travel
back are not in this list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deltalake import DeltaTable

from penstock.location import Location, delta_table
from penstock.model.names import TableName
from penstock.runtime.delta.writer import live_path, revision_path
from penstock.runtime.kinds.history import Workshop
from penstock.runtime.registry import Revision, State
from penstock.runtime.upkeep.claims import Claim

__all__ = ["BESIDE", "Need", "Needs", "gather", "pending"]

BESIDE = ("quarantine", "late", "outcomes")


@dataclass(frozen=True)
class Need:
    """Somebody stands at a version of a log."""

    log: Location
    version: int
    who: str


class Needs:
    """All needs of one stack, at one look."""

    def __init__(self, needs: Iterable[Need]) -> None:
        self._by_log: dict[Location, list[Need]] = {}
        for need in needs:
            self._by_log.setdefault(need.log, []).append(need)

    def of(self, log: Location) -> list[Need]:
        """The needs of a log, the furthest behind first."""
        return sorted(self._by_log.get(log, []), key=lambda need: need.version)

    def keep(self, log: Location, wanted: int) -> int:
        """The newest version, not after ``wanted``, that nobody stands before."""
        return min([wanted, *(need.version for need in self.of(log))])


def gather(
    warehouse: Location, revisions: Iterable[Revision], claims: Iterable[Claim] = ()
) -> Needs:
    """Look at every log once.

    Args:
        revisions: those that are fed.
        claims: of readers outside.
    """
    found: list[Need] = []
    known = list(revisions)
    for revision in known:
        found += _of_revision(warehouse, revision)
        found += _of_build(warehouse, revision)
        for part in ("", *BESIDE):
            found += _of_mirror(warehouse, revision, part)
    for claim in claims:
        if not claim.is_over:
            log = live_path(warehouse, TableName.parse(claim.table))
            found.append(Need(log, claim.version, f"{claim.who} (claim)"))
    return Needs(found)


def input_path(warehouse: Location, source: str, revision: str) -> Location:
    """The log a table reads: bronze has no revisions."""
    name = TableName.parse(source)
    return revision_path(warehouse, name, revision) if revision else live_path(warehouse, name)


def _opened(path: Location) -> DeltaTable | None:
    return delta_table(path) if (path / "_delta_log").exists() else None


def _of_revision(warehouse: Location, revision: Revision) -> list[Need]:
    """What a table and those beside it need: of its inputs, and of its own commits."""
    name, own = TableName.parse(revision.table), f"{revision.table}@{revision.revision}"
    path = revision_path(warehouse, name, revision.revision)
    log = _opened(path)
    if log is None:
        return []
    found = []
    for source, pin in revision.inputs.items():
        at = log.transaction_version(f"{revision.revision}:{source}")
        if at is not None:  # else it will begin at the beginning, wherever that is by then
            found.append(Need(input_path(warehouse, source, pin), at, f"{own} reads"))
    for part in BESIDE:
        beside = _opened(revision_path(warehouse, getattr(name, part), revision.revision))
        if beside is None:
            continue
        word = "outcomes" if part == "outcomes" else "from"
        done = beside.transaction_version(f"{revision.revision}:{word}")
        last = log.transaction_version(f"apart:{part}")
        if part == "outcomes" or (last is not None and last > (-1 if done is None else done)):
            found.append(Need(path, -1 if done is None else done, f"{part} of {own}"))
    return found


def pending(warehouse: Location, revision: Revision) -> set[str]:
    """Where files lie that no log names yet: a build's, and those of tables beside that a commit
    has decided about and nobody has carried out."""
    name = TableName.parse(revision.table)
    path = revision_path(warehouse, name, revision.revision)
    log = _opened(path)
    found = {"table", "outcomes"} if (path / "_build").exists() else set()
    for part in BESIDE if log is not None else ():
        beside = _opened(revision_path(warehouse, getattr(name, part), revision.revision))
        last = log.transaction_version(f"apart:{part}") if log is not None else None
        done = beside.transaction_version(f"{revision.revision}:from") if beside else None
        if last is not None and last > (-1 if done is None else done):
            found.add(part)
    return found


def _of_build(warehouse: Location, revision: Revision) -> list[Need]:
    path = revision_path(warehouse, TableName.parse(revision.table), revision.revision)
    recipe = Workshop(path).recipe
    if recipe is None:
        return []
    who = f"the build of {revision.table}@{revision.revision}"
    return [
        Need(input_path(warehouse, source, revision.inputs.get(source, "")), at, who)
        for source, at in recipe.inputs.items()
    ]


def _of_mirror(warehouse: Location, revision: Revision, part: str) -> list[Need]:
    if revision.state != State.LIVE:
        return []
    name = TableName.parse(revision.table)
    name = getattr(name, part) if part else name
    live = _opened(live_path(warehouse, name))
    if live is None:
        return []
    shown = live.transaction_version(f"mirror:{revision.revision}")
    path = revision_path(warehouse, name, revision.revision)
    return [Need(path, -1 if shown is None else shown, f"live {name}")]
