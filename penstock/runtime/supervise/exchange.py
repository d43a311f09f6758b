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

__all__ = ["Decision", "Known", "differences", "require_free", "swap_beside", "swap_table"]

Known = dict[str, tuple[Change, int, int]]

_PARTS = ("table", "quarantine", "late", "outcomes")


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
    """Every table can be swapped, and so can what lies beside it.

    A guard may have tripped in the last batch of one, or an earlier swap is not finished yet.
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
        for part in _PARTS:
            _require_shown(*_pair(stands, move, part), move)


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
    for part in _PARTS[1:]:
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
    old, new = _pair(stands, move, part)
    if new.live is not None:
        return None
    with old.log.lock, new.log.lock:  # a stand that lapsed must not commit in between
        for revision in (move.old, move.new):
            stands[move.table, revision.revision].require()
        _require_shown(old, new, move)
        assert old.live is not None  # noqa: S101 - it shows one of them, and not the new one
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


def _pair(stands: Stands, move: Move, part: str) -> tuple[RevisionWriter, RevisionWriter]:
    """The writers of both revisions of a table, or of one of those beside it."""
    old, new = (stands[move.table, revision.revision] for revision in (move.old, move.new))
    return _writers(old.worker)[part], _writers(new.worker)[part]


def _require_shown(old: RevisionWriter, new: RevisionWriter, move: Move) -> None:
    if old.live is None and new.live is None:
        raise UsageError(
            f"the live log of {old.name} shows neither {move.old.revision} nor "
            f"{move.new.revision}: an earlier swap of {move.table} was not finished.",
            remedy=f"See `penstock releases {move.table}`; finish that one first.",
        )
