"""What takes more than one writer: pinning revisions to one moment, swapping live tables, dropping.

Runs in the supervisor, which holds every table's lease, in a thread of its own: the lease is
renewed meanwhile. A revision that takes part comes to a stand between two batches and is let go
afterwards; nothing else notices. A task that a crash interrupted is done again: a swap that was
committed is found in the live log and not repeated, so a release of several tables is finished.
"""

from __future__ import annotations

import logging
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from deltalake import DeltaTable

from penstock.errors import NotRunning, PenstockError, UsageError, in_a_line
from penstock.model.names import TableName
from penstock.runtime.change import Change
from penstock.runtime.delta_log import DeltaLog
from penstock.runtime.ends import drop
from penstock.runtime.follow import Follower
from penstock.runtime.register import show_revision
from penstock.runtime.registry import Registry, Revision, Task
from penstock.runtime.repair import show_again
from penstock.runtime.staging import Promotion, Staging
from penstock.runtime.swap import brought_up, difference, promoted, swap
from penstock.runtime.worker import FollowWorker, Standstill
from penstock.runtime.writer import RevisionWriter, live_path
from penstock.settings import Settings

__all__ = ["OPERATIONS", "Operator", "World"]

log = logging.getLogger("penstock.operate")

_TRIES, _PAUSE = 60, 2.0  # for the registry to come back
STAND_SECONDS = 120.0  # for a worker to finish the batch it has in hand


class World(Protocol):
    """What operations need of the streams that run."""

    settings: Settings
    token: int

    def revision(self, table: str, revision: str) -> Revision: ...
    def live(self, table: str) -> Revision: ...
    def worker(self, table: str, revision: str) -> FollowWorker: ...
    def forget(self, table: str, revision: str) -> None: ...
    def restart(self, table: str, revision: str) -> None: ...
    def writer(self, table: str, revision: str) -> tuple[RevisionWriter, tuple[str, ...]]: ...


@dataclass(frozen=True)
class Move:
    """A live table that is to show another revision."""

    table: str
    old: Revision
    new: Revision


class Operator:
    """One thread that carries out operations, one after the other."""

    def __init__(
        self,
        world: World,
        answer: Callable[[int, dict[str, Any], bool], None],
        make_registry: Callable[[], Registry],
    ) -> None:
        self._world = world
        self._answer = answer
        self._make_registry = make_registry
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="operator", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def give(self, task: Task) -> None:
        self._tasks.put(task)

    def stop(self) -> None:
        self._tasks.put(None)
        self._thread.join(5)

    def _live(self) -> None:
        registry = self._make_registry()
        while (task := self._tasks.get()) is not None:
            try:
                result = self._carried_out(task, registry)
                self._answer(task.id, result, False)
            except PenstockError as error:
                told = {"error": str(error), "usage": isinstance(error, UsageError)}
                self._answer(task.id, told, True)
            except Exception as error:
                log.exception("%s failed", task.verb)
                self._answer(task.id, {"error": in_a_line(error)}, True)
        registry.close()

    def _carried_out(self, task: Task, registry: Registry) -> dict[str, Any]:
        """While the registry is away it is tried again: what was done is not done twice."""
        for _ in range(_TRIES):
            try:
                return OPERATIONS[task.verb](self._world, registry, task.arguments)
            except NotRunning as error:
                log.warning("%s: %s", task.verb, error)
                time.sleep(_PAUSE)
        return OPERATIONS[task.verb](self._world, registry, task.arguments)


# --- standing still -----------------------------------------------------------------------------
@contextmanager
def _standing(world: World, moves: list[Move]) -> Iterator[dict[tuple[str, str], Standstill]]:
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


def _align(move: Move, stands: Mapping[tuple[str, str], Standstill], among: set[str]) -> None:
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
    short = [name for name, at in same.items() if followed.get(name) != at]
    if short:
        raise PenstockError(
            f"{move.table}@{move.new.revision} is behind the live revision in {', '.join(short)}.",
            remedy="Wait until it has caught up: `penstock stage --status`.",
        )


# --- operations -----------------------------------------------------------------------------
def _pin(world: World, registry: Registry, arguments: dict[str, Any]) -> dict[str, Any]:
    """Versions of both revisions of each table that have taken in the same input."""
    moves = [
        Move(table, world.live(table), world.revision(table, revision))
        for table, revision in arguments["to"]
    ]
    with _standing(world, moves) as stands:
        return {
            "pins": {
                move.table: {
                    "old": _pinned(stands[move.table, move.old.revision], move.old),
                    "new": _pinned(stands[move.table, move.new.revision], move.new),
                }
                for move in moves
            }
        }


def _pinned(stand: Standstill, revision: Revision) -> dict[str, Any]:
    def told(follower: Follower) -> dict[str, Any]:
        context = follower.context
        beside = {
            "quarantine": context.broken,
            "late": context.late,
            "outcomes": context.outcomes,
        }
        return {
            "revision": revision.revision,
            "version": follower.writer.log.version,
            "inputs": dict(follower.positions),
            "watermark": getattr(follower, "watermark", None),
            "beside": {name: writer.log.version for name, writer in beside.items()},
        }

    return dict(stand.call(told))


def _swap(world: World, registry: Registry, arguments: dict[str, Any]) -> dict[str, Any]:
    """Let each live table show the revision named, in order; each in one commit."""
    staging = Staging(registry)
    held = set(staging.holds()) & {table for table, _ in arguments["to"]}
    if held:
        table = min(held)
        raise UsageError(f"{table} is held.", remedy=f"First: `penstock release {table}`.")
    moves = _decided(world, arguments["to"], arguments["expected"])
    known_of: dict[str, Any] = {f.name: arguments.get(f.name) for f in fields(_Decision)}
    decision = _Decision(**known_of)
    scratch = world.settings.run / "swap"
    began = time.monotonic()
    known = {move.table: _differences(world, move, scratch) for move in moves}
    prepared, done = time.monotonic() - began, []
    try:
        with _standing(world, moves) as stands:
            held_since = time.monotonic()
            for move in moves:
                done.append(_swap_one(stands, move, known[move.table], decision))
                _note(world, staging, move, decision)
            held_for = time.monotonic() - held_since
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return {
        "tables": done,
        "prepared_seconds": round(prepared, 3),
        "held_seconds": round(held_for if moves else 0.0, 3),
    }


def _decided(
    world: World, wanted: list[tuple[str, str]], expected: Mapping[str, str]
) -> list[Move]:
    """What was decided, each table after those it reads; nothing else may be live since then."""
    moves = []
    for table, revision in wanted:
        live = world.live(table).revision
        if live not in (revision, expected[table]):
            raise UsageError(
                f"{table} shows revision {live} by now, not {expected[table]}: somebody else "
                "promoted it meanwhile.",
                remedy=f"See `penstock releases {table}`, then compare again.",
            )
        old, new = world.revision(table, expected[table]), world.revision(table, revision)
        moves.append(Move(table, old, new))
    return moves


_Known = dict[str, tuple[Change, int, int]]


def _differences(world: World, move: Move, scratch: Path) -> _Known:
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
class _Decision:
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


def _swap_one(
    stands: Mapping[tuple[str, str], Standstill], move: Move, known: _Known, decision: _Decision
) -> dict[str, Any]:
    """Swap a table and those beside it; what a crash left swapped already is left as it is."""
    olds = _writers(stands[move.table, move.old.revision].worker)
    new_stand = stands[move.table, move.new.revision]
    news = _writers(new_stand.worker)
    keys = new_stand.call(lambda follower: follower.context.definition.keys)
    told: dict[str, Any] = {
        "table": move.table,
        "from": move.old.revision,
        "to": move.new.revision,
    }
    for name, old in olds.items():
        if old.live is None:
            continue
        new, began = news[name], time.monotonic()
        change, old_version, new_version = known[name]
        net = brought_up(change, old, old_version, new, new_version)
        ready = time.monotonic()
        old.catch_up_mirror()
        by = keys if name == "table" else ()
        version = swap(old.live, new, net, by, decision.info(move))
        new.show(old.hide())
        if name == "table":
            told["version"] = version
            told["changed"] = net.rows
            told["files"] = len(new.log.snapshot().file_uris())
            told["update_seconds"] = round(ready - began, 3)
            told["commit_seconds"] = round(time.monotonic() - ready, 3)
    return told


def _note(world: World, staging: Staging, move: Move, decision: _Decision) -> None:
    """Write down that a table was swapped: in the registry and in the manifest."""
    live = live_path(world.settings.warehouse, TableName.parse(move.table))
    version = DeltaTable(str(live)).transaction_version(promoted(move.new.revision)) or 0
    staging.promoted(
        Promotion(
            move.table,
            move.new.revision,
            move.old.revision,
            decision.verb,
            decision.release,
            version,
            decision.who,
            decision.why,
            decision.report,
            "",
        ),
        decision.keep_warm_seconds,
    )
    show_revision(world.settings, move.new, declared=decision.verb == "promote")
    log.info("%s: %s shows %s", decision.verb, move.table, move.new.revision)


def _repair(world: World, registry: Registry, arguments: dict[str, Any]) -> dict[str, Any]:
    """Let a live table that a stranger wrote to show its revision again."""
    table = arguments["table"]
    revision = world.live(table)
    writer, keys = world.writer(table, revision.revision)
    live = DeltaLog.take(live_path(world.settings.warehouse, TableName.parse(table)), world.token)
    info = {
        "operation": "PENSTOCK REPAIR",
        "verb": "repair",
        "replaced": revision.revision,
        "release": "",
        "report": "",
        "keep_warm_seconds": None,
        "who": arguments["who"],
        "why": arguments["why"],
    }
    told = show_again(writer, live, keys, info, world.settings.run / "swap")
    world.restart(table, revision.revision)
    return {"table": table, **told}


OPERATIONS: dict[str, Callable[[World, Registry, dict[str, Any]], dict[str, Any]]] = {
    "drop": drop,
    "pin": _pin,
    "repair": _repair,
    "swap": _swap,
}
