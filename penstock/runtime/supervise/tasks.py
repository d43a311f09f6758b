"""What operators can ask of the one who writes a table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError, UsageError
from penstock.runtime.kinds.backfill import backfill_timed
from penstock.runtime.kinds.backfill_net import backfill_net
from penstock.runtime.kinds.follow import Follower
from penstock.runtime.kinds.timed import TimedFollower
from penstock.runtime.mend.mended import mended_mapper
from penstock.runtime.mend.replay import expire, replay
from penstock.runtime.supervise.compact import compact, mark

__all__ = ["VERBS"]

Verb = Callable[[Follower, dict[str, Any]], dict[str, Any]]


def _reconcile(table: Follower, arguments: dict[str, Any]) -> dict[str, Any]:
    return table.reconcile()


def _run(table: Follower, arguments: dict[str, Any]) -> dict[str, Any]:
    """Take in everything there was when this began, commit and count it.

    One look may not do: it ends after a batch when something else is asked of the table meanwhile.
    """
    ends = {given.name: given.source.log.version for given in table.inputs.values()}
    while any(table.positions[name] < end for name, end in ends.items()):
        if table.stopping():
            raise PenstockError(
                f"{table.name} was told to stop, {table.behind} commits of its inputs before the "
                "end.",
                remedy=f"What was taken in stays. Then: `penstock run {table.name}`.",
            )
        before = dict(table.positions)
        table.advance()
        if table.positions == before:
            raise PenstockError(
                f"{table.name} takes in nothing, {table.behind} commits of its inputs before the "
                "end.",
                remedy="See `penstock streams`, then run it again.",
            )
    table.settle(now=True)
    return {"version": table.writer.log.version, "behind": table.behind}


def _replay(table: Follower, arguments: dict[str, Any]) -> dict[str, Any]:
    """By the mended code of a bundle, where one is named, else by the table's own."""
    mapper = None
    if arguments.get("bundle"):
        mapper = mended_mapper(table, Path(arguments["bundle"]), arguments["jobs"])
    return replay(table, mapper, arguments.get("ids"))


def _expire(table: Follower, arguments: dict[str, Any]) -> dict[str, Any]:
    """Let go of quarantined bytes that are older than the table keeps them."""
    return {"expired": expire(table, dt.datetime.now(dt.UTC))}


def _backfill(table: Follower, arguments: dict[str, Any]) -> dict[str, Any]:
    """Put an interval that was computed elsewhere in the place of what is there.

    Computed by the code of one revision from what that revision held: into another it must not go.
    """
    if table.writer.live is None:
        raise UsageError(
            f"{table.name} shows another revision than {table.context.revision} by now, "
            "for which this was computed.",
            remedy="Nothing was changed. Run the backfill again.",
        )
    _require_there(table.name, arguments)
    if isinstance(table, TimedFollower):
        return backfill_timed(table, arguments)
    return backfill_net(table, arguments)


def _require_there(table: str, arguments: dict[str, Any]) -> None:
    """Whoever computed the files may be gone, and they with him: no fault of the table's."""
    files = [file for word in ("files", "added", "gone") for file in arguments.get(word, ())]
    missing = [file for file in files if not Path(file).exists()]
    if missing:
        raise UsageError(
            f"{len(missing)} of {len(files)} files of a backfill of {table} are gone.",
            remedy="Nothing was changed. Run the backfill again.",
        )


VERBS: dict[str, Verb] = {
    "backfill": _backfill,
    "compact": compact,
    "expire": _expire,
    "mark": mark,
    "reconcile": _reconcile,
    "replay": _replay,
    "run": _run,
}
