"""Committing a merge: the only part of compaction that the writer of a table has to do.

The files were merged by somebody else, some time ago. Under the lock of the log it is looked
whether any of them has gone since; if so the merge is refused, and nothing happened. The commit
changes no data and says so, in the revision's log and in live's: whoever follows commits, or reads
a change feed, sees nothing of it. Files that go stay on disk until nobody can ask for them.
"""

from __future__ import annotations

from typing import Any, Protocol

from penstock.errors import UsageError
from penstock.location import Location
from penstock.model.names import TableName
from penstock.runtime.delta.files import removal
from penstock.runtime.delta.log import Action, DeltaLog
from penstock.runtime.delta.upsert import Upserts
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.kinds.follow import Follower
from penstock.runtime.registry import Registry
from penstock.runtime.supervise.standing import World
from penstock.runtime.upkeep.merge import Merge, read_note

__all__ = ["commit_merge", "compact", "compact_bronze", "mark"]

OPERATION = "PENSTOCK COMPACT"


class Compacted(Protocol):
    """A table's writer: of bronze, or of a revision."""

    path: Location
    log: DeltaLog


def compact(table: Follower, arguments: dict[str, Any]) -> dict[str, Any]:
    """Commit a merge of a table, or of one beside it, in the thread that writes them."""
    context, part = table.context, arguments["part"]
    writers = {
        "table": context.writer,
        "quarantine": context.broken,
        "late": context.late,
        "outcomes": context.outcomes,
    }
    upserts = getattr(table, "upserts", None) if part == "table" else None
    return commit_merge(writers[part], arguments["note"], upserts)


def commit_merge(writer: Compacted, note: str, upserts: Upserts | None = None) -> dict[str, Any]:
    """Put a merged file in the place of the files it holds, if they are all still there."""
    merge = read_note(writer.path, note)
    if merge is None:
        raise UsageError(f"the merge {note} of {writer.path.name} was given up.")
    with writer.log.lock:
        _require_all(writer.log, merge)
        out = [removal(path, size, changed=False) for path, size in merge.out]
        version = _committed(writer, [*out, merge.add], merge)
        if upserts is not None:
            upserts.exchange([path for path, _ in merge.out], merge.add["add"])
    (writer.path / "_merges" / f"{note}.json").unlink(missing_ok=True)
    return {"version": version, "files": len(merge.out), "bytes": merge.size}


def _require_all(log: DeltaLog, merge: Merge) -> None:
    wanted = {path for path, _ in merge.out}
    for _, actions in log.commits(after=merge.version):
        if any("remove" in a and a["remove"]["path"] in wanted for a in actions):
            raise UsageError("files of the merge were replaced meanwhile.", remedy="Try again.")


def _committed(writer: Compacted, actions: list[Action], merge: Merge) -> int:
    told = {"operation": OPERATION, "first": merge.first, "last": merge.last}
    if isinstance(writer, RevisionWriter):
        return writer.commit(actions, {}, told)
    return writer.log.commit(actions, {}, told)


def compact_bronze(world: World, registry: Registry, arguments: dict[str, Any]) -> dict[str, Any]:
    """The same for bronze, which has no follower: its log's lock is enough, since it only grows."""
    return commit_merge(world.bronze(TableName.parse(arguments["table"])), arguments["note"])


def mark(table: Follower, arguments: dict[str, Any]) -> dict[str, Any]:
    """Note in live's log how far it shows the revision, after many commits without a row.

    Until it is noted, the revision has to keep all of them: a crash would have them read again.
    """
    context = table.context
    writers = (context.writer, context.broken, context.late, context.outcomes)
    return {"marked": sum(writer.mark() for writer in writers)}
