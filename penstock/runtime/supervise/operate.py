"""What takes more than one writer: pinning revisions to one moment, swapping live tables, dropping.

Runs in the supervisor that holds the tables, in a thread of its own: its slot is renewed meanwhile,
and no table leaves it before this is done. A revision that takes part comes to a stand between two
batches and is let go afterwards; nothing else notices. A task that a crash interrupted is done
again: a swap that was committed is found in the live log and not repeated, so a release of several
tables is finished.
"""

from __future__ import annotations

import logging
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from penstock.errors import NotRunning, PenstockError, UsageError, in_a_line
from penstock.location import delta_table
from penstock.model.names import TableName
from penstock.runtime.declared.register import show_revision
from penstock.runtime.delta.log import DeltaLog
from penstock.runtime.delta.repair import show_again
from penstock.runtime.delta.swap import promoted
from penstock.runtime.delta.writer import RevisionWriter, live_path
from penstock.runtime.kinds.follow import Follower
from penstock.runtime.kinds.timed import WATERMARK
from penstock.runtime.mend.void import mark
from penstock.runtime.registry import Registry, Revision, State, Task
from penstock.runtime.staging import Hold, Promotion, Staging
from penstock.runtime.supervise.compact import compact_bronze
from penstock.runtime.supervise.ends import drop
from penstock.runtime.supervise.exchange import Decision, Exchange, differences
from penstock.runtime.supervise.standing import STAND_SECONDS, Move, Stands, World, standing
from penstock.runtime.supervise.standstill import Standstill
from penstock.runtime.supervise.sweep import sweep

__all__ = ["OPERATIONS", "Operator", "World"]

log = logging.getLogger("penstock.operate")

_TRIES, _PAUSE = 60, 2.0  # for the registry to come back


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


# --- operations -----------------------------------------------------------------------------
def _pin(world: World, registry: Registry, arguments: dict[str, Any]) -> dict[str, Any]:
    """Versions of both revisions of each table that have taken in the same input."""
    live = _live(registry)
    moves = [
        Move(table, world.revision(table, live[table]), world.revision(table, revision))
        for table, revision in arguments["to"]
    ]
    with standing(world, moves) as stands:
        return {"pins": {move.table: _pins(world, stands, move) for move in moves}}


def _live(registry: Registry) -> dict[str, str]:
    """What is live now; what runs knows it only as of its last look."""
    return {r.table: r.revision for r in registry.revisions(states=(State.LIVE,))}


def _pins(world: World, stands: Stands, move: Move) -> dict[str, Any]:
    new = _pinned(stands[move.table, move.new.revision], move.new)
    stand = stands.get((move.table, move.old.revision))
    if stand is None:
        return {"old": _pinned_parked(world, move.old, new["inputs"]), "new": new}
    return {"old": _pinned(stand, move.old), "new": new}


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


def _pinned_parked(world: World, revision: Revision, inputs: Collection[str]) -> dict[str, Any]:
    """Of one that stopped for good: as far as it came, whatever the other has read since."""

    def writer(part: str) -> RevisionWriter:
        return world.writer(revision.table, revision.revision, part)

    table = writer("table")
    reached = {name: table.position(name) for name in inputs}
    return {
        "revision": revision.revision,
        "version": table.log.version,
        "inputs": {name: -1 if at is None else at for name, at in reached.items()},
        "watermark": table.position(WATERMARK),
        "beside": {part: writer(part).log.version for part in ("quarantine", "late", "outcomes")},
    }


def _swap(world: World, registry: Registry, arguments: dict[str, Any]) -> dict[str, Any]:
    """Let each live table show the revision named, in order; each in one commit.

    What a check or a guard holds is no reason to keep showing it: its hold ends with the swap. What
    a person holds may be rolled back, and stays held then. So does what was swapped before: a hold
    that came since then is of what is live now. The commit of a swap tells which hold it ends.
    """
    staging = Staging(registry)
    known_of: dict[str, Any] = {f.name: arguments.get(f.name) for f in fields(Decision)}
    decision = Decision(**known_of)
    moves = _decided(world, registry, arguments["to"], arguments["expected"])
    holds = _holds_of(staging, moves, decision.verb)
    moves = [_seen(world, move, held=move.table in holds) for move in moves]
    scratch = _scratch(world)
    began = time.monotonic()
    known = {move.table: differences(world, move, scratch) for move in moves}
    stood, done = time.monotonic(), []
    try:
        with standing(world, moves) as stands:
            _refuse_new_holds(staging, moves, holds)  # while the difference was computed
            exchange = Exchange(world, stands, decision, scratch, holds)
            exchange.require_free(moves)  # of all of them, before the first
            for move in moves:
                told = exchange.swap_table(move, known[move.table])
                # Before anything else can go wrong: the log shows it, so the registry has to know.
                _note(world, staging, move, decision)
                if move.table in holds:
                    told |= _let_go(staging, exchange, move, swapped="version" in told)
                told["beside"] = exchange.swap_beside(move, known[move.table])
                done.append(told)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return {
        "tables": done,
        "prepared_seconds": round(stood - began, 3),
        "held_seconds": round(time.monotonic() - stood, 3),
    }


def _seen(world: World, move: Move, *, held: bool) -> Move:
    """A move, and whether what live shows is all that can be compared with."""
    return replace(move, as_shown=held or world.parked(move.table, move.old.revision))


def _let_go(staging: Staging, exchange: Exchange, move: Move, *, swapped: bool) -> dict[str, Any]:
    """The hold of a check or a guard was of what live does not show any more; others stay."""
    hold = staging.holds().get(move.table)
    if hold is None:
        return {}
    told = f"{hold.held_by}: {hold.reason}"
    if not hold.by_itself or not (swapped or exchange.ends(move, hold)):
        exchange.keep_held(move)
        return {"still_held": told}
    if staging.release(hold.table, hold.held_by):
        return {"released": told}
    return _let_go(staging, exchange, move, swapped=swapped)  # somebody joined it, or ended it


def _scratch(world: World) -> Path:
    """Of this process alone: another supervisor may be at the same for its own tables."""
    return world.settings.run / "swap" / str(os.getpid())


def _holds_of(staging: Staging, moves: list[Move], verb: str) -> dict[str, Hold]:
    """The holds that a swap ends or leaves; raises where a person's stands against it."""
    every = staging.holds()
    found = {move.table: every[move.table] for move in moves if move.table in every}
    for table, hold in found.items():
        if not hold.by_itself and verb != "rollback":
            raise UsageError(
                f"{table} is held by {hold.held_by}: {hold.reason}.",
                remedy=f"First: `penstock release {table}`.",
            )
    return found


def _refuse_new_holds(staging: Staging, moves: list[Move], known: Mapping[str, Hold]) -> None:
    """Nor one that somebody joined: who held a table by itself is not alone any more."""
    now, asked = staging.holds(), {move.table for move in moves}
    changed = sorted(t for t in now.keys() & asked if now[t] != known.get(t))
    if changed:
        raise PenstockError(f"{changed[0]} is held since just now.", remedy="Type it again.")


def _decided(
    world: World, registry: Registry, wanted: list[tuple[str, str]], expected: Mapping[str, str]
) -> list[Move]:
    """What was decided, each table after those it reads; nothing else may be live since then."""
    moves, live = [], _live(registry)
    for table, revision in wanted:
        if live.get(table) not in (revision, expected[table]):
            raise UsageError(
                f"{table} shows revision {live.get(table)} by now, not {expected[table]}: "
                "somebody else promoted it meanwhile.",
                remedy=f"See `penstock releases {table}`, then compare again.",
            )
        old, new = world.revision(table, expected[table]), world.revision(table, revision)
        moves.append(Move(table, old, new))
    return moves


def _note(world: World, staging: Staging, move: Move, decision: Decision) -> None:
    """Write down that a table was swapped: in the registry and in the manifest."""
    live = live_path(world.settings.warehouse, TableName.parse(move.table))
    version = delta_table(live).transaction_version(promoted(move.new.revision)) or 0
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
    table, part = arguments["table"], arguments.get("part", "table")
    revision = _live(registry)[table]
    if table in Staging(registry).holds():  # it would show all that is held back
        raise UsageError(f"{table} is held.", remedy=f"First: `penstock release {table}`.")
    name = TableName.parse(table)
    path = live_path(world.settings.warehouse, name if part == "table" else getattr(name, part))
    info = {
        "operation": "PENSTOCK REPAIR",
        "verb": "repair",
        "replaced": revision,
        "release": "",
        "report": "",
        "keep_warm_seconds": None,
        "who": arguments["who"],
        "why": arguments["why"],
    }
    worker = world.running(table, revision)
    stand = Standstill(worker) if worker is not None else None
    try:
        if stand is not None:
            stand.arrived(STAND_SECONDS)
        writer = world.writer(table, revision, part)
        keys = world.keys(table, revision) if part == "table" else ()
        # A guard may have tripped in its last batch. Of one that does not run the registry tells
        # all: there is nobody who could carry a release out, so what it held is shown by this.
        if stand is not None and writer.held:
            raise UsageError(
                f"{table} is held: a guard stopped {revision}.",
                remedy=f"See `penstock status`; then `penstock release {table}`.",
            )
        live = DeltaLog.take(path, world.token_of(table))
        told = show_again(writer, live, keys, info, _scratch(world))
    finally:
        if stand is not None:
            stand.let_go()
    world.restart(table, revision)
    return {"table": table, **told}


def _void(world: World, registry: Registry, arguments: dict[str, Any]) -> dict[str, Any]:
    """Mark records of a topic as void, or take the marks away; what reads it follows."""
    name = TableName.parse(arguments["stream"])
    ranges = {int(part): some for part, some in arguments["ranges"].items()}
    info = {"who": arguments["who"], "why": arguments["why"], "undo": arguments["undo"]}
    reason = None if arguments["undo"] else arguments["why"]
    told = mark(world.bronze(name), ranges, reason, info)
    world.wake(str(name))
    return {"stream": str(name), **told}


OPERATIONS: dict[str, Callable[[World, Registry, dict[str, Any]], dict[str, Any]]] = {
    "compact-bronze": compact_bronze,
    "drop": drop,
    "pin": _pin,
    "repair": _repair,
    "swap": _swap,
    "sweep": sweep,
    "void": _void,
}
