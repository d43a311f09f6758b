"""Exchanging what a live table shows, and what the tables beside it show, while both stand."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError, UsageError
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.swap import brought_up, difference, swap
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.supervise.standing import Move, Stands, World
from penstock.runtime.supervise.worker import FollowWorker

__all__ = ["Decision", "Known", "differences", "swap_beside", "swap_table"]


Known = dict[str, tuple[Change, int, int]]


def differences(world: World, move: Move, scratch: Path) -> Known:
    """The difference of a table and of those beside it, while everything goes on."""
    olds = _writers(world.worker(move.table, move.old.revision))
    news = _writers(world.worker(move.table, move.new.revision))
    found = {}
    for name, old in olds.items():
        new, at = news[name], old.log.version
        until = new.log.version
        found[name] = (difference(old, at, new, until, scratch), at, until)
    return found


def _writers(worker: FollowWorker) -> dict[str, RevisionWriter]:
    context = worker.context
    if context is None:
        raise UsageError(
            f"{worker.name} is {worker.state}: {worker.error or 'not yet running'}.",
            remedy="See `penstock streams`.",
        )
    return {
        "table": context.writer,
        "quarantine": context.broken,
        "late": context.late,
        "outcomes": context.outcomes,
    }


@dataclass(frozen=True)
class Decision:
    """What was decided about a release, as its commits and the registry keep it."""

    verb: str
    release: str
    who: str
    why: str
    report: str
    keep_warm_seconds: float | None

    def info(self, move: Move) -> dict[str, Any]:
        return {
            "operation": f"PENSTOCK {self.verb.upper()}",
            "replaced": move.old.revision,
            "code": move.new.bundle,
            **asdict(self),
        }


def require_free(stands: Stands, moves: Sequence[Move]) -> None:
    """Nothing holds any of the tables: a guard may have tripped in the last batch of one.

    Refused before the first is swapped, this is no release in part.
    """
    for move in moves:
        for revision in (move.old, move.new):
            stand = stands[move.table, revision.revision]
            stand.require()
            if _writers(stand.worker)["table"].held:
                raise UsageError(
                    f"{move.table} is held: a guard stopped {revision.revision}.",
                    remedy=f"See `penstock status`; then `penstock release {move.table}`.",
                )


def swap_table(stands: Stands, move: Move, known: Known, decision: Decision) -> dict[str, Any]:
    """Swap a table itself; one that a crash left swapped is left as it is."""
    new_stand = stands[move.table, move.new.revision]
    keys = new_stand.call(lambda follower: follower.context.definition.keys)
    told: dict[str, Any] = {
        "table": move.table,
        "from": move.old.revision,
        "to": move.new.revision,
    }
    new = _writers(new_stand.worker)["table"]
    swapped = _exchange(stands, move, "table", known, keys, decision)
    if swapped is not None:
        told |= swapped
        told["files"] = len(new.log.snapshot().file_uris())
    return told


def swap_beside(stands: Stands, move: Move, known: Known, decision: Decision) -> list[str]:
    """Swap the tables beside it; returns those that were not swapped yet."""
    done = []
    for part in ("quarantine", "late", "outcomes"):
        try:
            if _exchange(stands, move, part, known, (), decision) is not None:
                done.append(part)
        except PenstockError as error:
            raise PenstockError(
                f"{move.table} shows {move.new.revision} now, but its {part} table does not yet: "
                f"{error.message}",
                remedy=f"{error.remedy} Then finish: `penstock {decision.verb}`.",
            ) from error
    return done


def _exchange(  # noqa: PLR0917 - all of it is one decision
    stands: Stands,
    move: Move,
    part: str,
    known: Known,
    keys: Sequence[str],
    decision: Decision,
) -> dict[str, Any] | None:
    """Let one live log show the other revision; None if it does already."""
    pair = [stands[move.table, r.revision] for r in (move.old, move.new)]
    old, new = (_writers(stand.worker)[part] for stand in pair)
    if new.live is not None:
        return None
    with old.log.lock, new.log.lock:  # a stand that lapsed must not commit in between
        for stand in pair:
            stand.require()
        if old.live is None:
            raise UsageError(
                f"the live log of {old.name} shows neither {move.old.revision} nor "
                f"{move.new.revision}.",
                remedy=f"See `penstock releases {move.table}`.",
            )
        if old.held:
            raise UsageError(f"{move.table} is held.", remedy=f"`penstock release {move.table}`")
        began = time.monotonic()
        change, old_version, new_version = known[part]
        net = brought_up(change, old, old_version, new, new_version)
        ready = time.monotonic()
        old.catch_up_mirror()
        version = swap(old.live, new, net, keys, decision.info(move))
        new.show(old.hide())
    return {
        "version": version,
        "changed": net.rows,
        "update_seconds": round(ready - began, 3),
        "commit_seconds": round(time.monotonic() - ready, 3),
    }
