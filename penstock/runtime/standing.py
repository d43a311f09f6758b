"""Two revisions of a table at a stand, at the same input: what comparing and swapping need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from penstock.errors import PenstockError, UsageError
from penstock.model.names import TableName
from penstock.runtime.bronze import BronzeWriter
from penstock.runtime.follow import Follower
from penstock.runtime.registry import Revision
from penstock.runtime.worker import FollowWorker, Standstill
from penstock.runtime.writer import RevisionWriter
from penstock.settings import Settings

__all__ = ["STAND_SECONDS", "Move", "Stands", "World", "standing"]

STAND_SECONDS = 120.0  # for a worker to finish the batch it has in hand

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
    def writer(
        self, table: str, revision: str, part: str
    ) -> tuple[RevisionWriter, tuple[str, ...]]: ...


@dataclass(frozen=True)
class Move:
    """A live table that is to show another revision."""

    table: str
    old: Revision
    new: Revision


@contextmanager
def standing(world: World, moves: list[Move]) -> Iterator[Stands]:
    """Both revisions of every table, at the same input; let go at the end, whatever happens.

    The new one comes to a stand first, so the old one, which reads all there is when it comes to
    a stand, is never behind it. Then the new one reads exactly as far. Where the input is itself
    among the tables, it stands already, and each side reads its own input to the end.
    """
    stands: dict[tuple[str, str], Standstill] = {}
    among = {move.table for move in moves}
    try:
        for move in moves:
            for revision in (move.new, move.old):
                stand = Standstill(world.worker(move.table, revision.revision))
                stands[move.table, revision.revision] = stand
                stand.arrived(STAND_SECONDS)
        for move in moves:
            _align(move, stands, among)
        yield stands
    finally:
        for stand in stands.values():
            stand.let_go()


def _align(move: Move, stands: Stands, among: set[str]) -> None:
    old = stands[move.table, move.old.revision]
    new = stands[move.table, move.new.revision]

    def reach(follower: Follower) -> dict[str, int]:
        follower.advance()
        return follower.stand()

    reached: dict[str, int] = old.call(reach)
    same = {name: at for name, at in reached.items() if name not in among}

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
