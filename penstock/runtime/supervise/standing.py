"""Two revisions of a table at a stand, at the same input: what comparing and swapping need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from penstock.errors import PenstockError, UsageError
from penstock.model.names import TableName
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.ingest.bronze import BronzeWriter
from penstock.runtime.kinds.follow import Follower
from penstock.runtime.registry import Revision
from penstock.runtime.supervise.standstill import Standstill
from penstock.runtime.supervise.worker import FollowWorker
from penstock.settings import Settings

__all__ = ["STAND_SECONDS", "Move", "Stands", "World", "standing"]

STAND_SECONDS = 120.0  # for a worker to finish the batch it has in hand
_PATIENCE = 120.0  # for as long a stand waits without a call, for each that is with it

Stands = Mapping[tuple[str, str], Standstill]  # by table and revision


class World(Protocol):
    """What operations need of the streams that run."""

    settings: Settings

    def token_of(self, table: str) -> int: ...
    def answers_for(self, table: str) -> bool: ...
    def revision(self, table: str, revision: str) -> Revision: ...
    def worker(self, table: str, revision: str) -> FollowWorker: ...
    def bronze(self, name: TableName) -> BronzeWriter: ...
    def wake(self, stream: str) -> None: ...
    def forget(self, table: str, revision: str) -> None: ...
    def restart(self, table: str, revision: str) -> None: ...
    def running(self, table: str, revision: str) -> FollowWorker | None: ...
    def parked(self, table: str, revision: str) -> bool: ...
    def writer(self, table: str, revision: str, part: str) -> RevisionWriter: ...
    def keys(self, table: str, revision: str) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Move:
    """A live table that is to show another revision.

    ``as_shown``: what live shows is what the new revision is compared with, and not what the old
    one has by now: that one does not run, or it is held and live shows less of it.
    """

    table: str
    old: Revision
    new: Revision
    as_shown: bool = False


@contextmanager
def standing(world: World, moves: list[Move]) -> Iterator[Stands]:
    """Both revisions of every table, at the same input; let go at the end, whatever happens.

    The new one comes to a stand first, so the old one, which reads all there is when it comes to
    a stand, is never behind it. Then the new one reads exactly as far. Where the two read different
    revisions of an input, those have come to a stand before, at the same input of their own, and
    each side reads its own to the end: versions of two logs cannot be compared.

    An old one that is parked or stopped writes nothing more: it has no stand, and the new one must
    have taken in what that one committed.

    The first waits for all others to arrive, to be aligned and to be swapped: the more there are,
    the longer each waits before it takes itself for forgotten.
    """
    stands: dict[tuple[str, str], Standstill] = {}
    pairs = with_inputs(world, moves)
    patience = _PATIENCE * 2 * len(pairs)
    workers = _workers(world, pairs)
    try:
        for who, worker in workers.items():
            stands[who] = Standstill(worker, patience)
            stands[who].arrived(STAND_SECONDS)
        for move in pairs:
            _align(world, move, stands)
        yield stands
    finally:
        for stand in stands.values():
            stand.let_go()


def _workers(world: World, pairs: list[Move]) -> dict[tuple[str, str], FollowWorker]:
    """Who is to stand, in order.

    All are found before the first stands: one that is starting takes minutes, and one that fails
    has to be stopped by a person. Nobody stands still for that.
    """
    found: dict[tuple[str, str], FollowWorker] = {}
    for move in pairs:
        for revision in (move.new, move.old):
            if revision is move.old and world.parked(move.table, revision.revision):
                continue
            found[move.table, revision.revision] = world.worker(move.table, revision.revision)
    return found


def with_inputs(world: World, moves: list[Move]) -> list[Move]:
    """The moves, each after the inputs of which its two sides read different revisions.

    Such an input is mostly a move itself. It is none where a release went through in part, or was
    taken back in part, and the rest follows by itself.
    """
    found: dict[str, Move] = {}
    asked = {move.table: move for move in moves}

    def add(move: Move) -> None:
        for name, revision in move.new.inputs.items():
            before = move.old.inputs.get(name)
            if name in found or before is None or before == revision:
                continue
            pair = (world.revision(name, before), world.revision(name, revision))
            add(asked.get(name) or Move(name, *pair))
        found.setdefault(move.table, move)

    for move in moves:
        add(move)
    return list(found.values())


def _align(world: World, move: Move, stands: Stands) -> None:
    old = stands.get((move.table, move.old.revision))
    new = stands[move.table, move.new.revision]
    if old is None:
        _require_past(world, move, new)
        return

    def reach(follower: Follower) -> dict[str, int]:
        follower.advance()
        return follower.stand()

    reached: dict[str, int] = old.call(reach)
    pins = move.old.inputs, move.new.inputs
    same = {n: at for n, at in reached.items() if pins[0].get(n) == pins[1].get(n)}

    def follow(follower: Follower) -> dict[str, int]:
        ends = {i.name: i.source.log.version for i in follower.inputs.values()}
        until = {name: same.get(name, end) for name, end in ends.items()}
        behind = {n: at for n, at in follower.positions.items() if at > until[n]}
        if behind:
            raise UsageError(
                f"{move.table}@{move.new.revision} has read further than what is live: {behind}.",
                remedy="Let the live revision catch up (`penstock streams`), then try again.",
            )
        follower.advance(until)
        return follower.stand()

    followed: dict[str, int] = new.call(follow)
    short = [name for name, at in same.items() if followed.get(name, at) != at]
    if short:
        raise PenstockError(
            f"{move.table}@{move.new.revision} is behind the live revision in {', '.join(short)}.",
            remedy="Wait until it has caught up: `penstock stage --status`.",
        )


def _require_past(world: World, move: Move, new: Standstill) -> None:
    """The new one reads all there is, and is not behind what a parked one committed."""

    def follow(follower: Follower) -> dict[str, int]:
        follower.advance()
        return follower.stand()

    reached: dict[str, int] = new.call(follow)
    writer = world.writer(move.table, move.old.revision, "table")
    pins = move.old.inputs, move.new.inputs
    same = [name for name in reached if pins[0].get(name) == pins[1].get(name)]
    short = [name for name in same if reached[name] < (writer.position(name) or -1)]
    if short:
        raise PenstockError(
            f"{move.table}@{move.new.revision} is behind the live revision in {', '.join(short)}.",
            remedy="Wait until it has caught up: `penstock stage --status`.",
        )
