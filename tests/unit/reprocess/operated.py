"""A table with three revisions to operate on: real writers, workers and stands; the registry is a
book in memory, and there is no Spark."""

from __future__ import annotations

import time
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.errors import TransformError
from penstock.model.names import TableName
from penstock.reprocess import release
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.swap import shown
from penstock.runtime.delta.writer import RevisionWriter, live_path
from penstock.runtime.fates import late, outcomes, quarantine
from penstock.runtime.kinds.follow import TableContext
from penstock.runtime.registry import Revision, State
from penstock.runtime.staging import Hold
from penstock.runtime.supervise import ends, exchange, operate, sweep
from penstock.runtime.supervise.worker import FollowWorker, Order
from penstock.runtime.supervise.writers import Writers

ROWS = pa.schema([("k", pa.string()), ("v", pa.int64())])
TABLE = TableName.parse("gold.x")
FIELDS = [
    {"name": "k", "type": "string", "nullable": True, "metadata": {}},
    {"name": "v", "type": "long", "nullable": True, "metadata": {}},
]
DECLARED = {"schema": {"type": "struct", "fields": FIELDS}}


def rows(*pairs: tuple[str, int]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": v} for k, v in pairs], ROWS)


class Quiet:
    """A follower that has nothing to follow."""

    breach = ""

    def __init__(self, context: TableContext) -> None:
        self.context, self.writer = context, context.writer
        self.inputs: dict = {}
        self.positions: dict[str, int] = {}

    def advance(self, until=None) -> bool:
        return False

    def waiting_since(self) -> float | None:
        return None

    def stand(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        return

    def status(self) -> dict:
        return {}


class Book:
    """What a registry keeps of swaps and holds, in memory."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.done: list = []
        self.held: dict[str, str] = {}  # by whom
        self.known: dict[str, Revision] = {}

    def revisions(self, *, states=State.FED) -> list[Revision]:
        found = [self.now(revision) for revision in self.states]
        return [revision for revision in found if revision.state in states]

    def holds(self) -> dict[str, Hold]:
        return {table: Hold(table, "a reason", who, "") for table, who in self.held.items()}

    def release(self, table, held_by=None) -> bool:
        return self.held.pop(table, None) is not None

    def promoted(self, done, keep) -> None:
        for revision, state in self.states.items():
            if state == State.LIVE:
                self.states[revision] = State.WARM
        self.states[done.revision] = State.LIVE
        self.done.append(done)

    def promotions(self, table=None, most=None, *, release=None) -> list:
        return list(reversed(self.done))

    def move(self, table, revision, *, to) -> None:
        self.states[revision] = to

    def forget(self, table, revision) -> None:
        self.states.pop(revision)

    def overdue(self) -> list[tuple[str, str]]:
        return []

    def droppable(self, keep_seconds: float) -> list[tuple[str, str]]:
        return []

    def now(self, revision: str) -> Revision:
        return replace(self.known[revision], state=self.states[revision])

    @property
    def live(self) -> str:
        return next(r for r, state in self.states.items() if state == State.LIVE)


class World:
    def token_of(self, table) -> int:
        return 1

    def __init__(self, folder, book: Book) -> None:
        self.settings = types.SimpleNamespace(warehouse=folder / "w", run=folder / "r", home=folder)
        self.book, self.workers, self.parts = book, {}, {}
        self.folder = folder

    def add(self, revision: str, state: str, held: pa.Table) -> None:
        def made(name, schema):
            return RevisionWriter(
                self.folder / "w", name, revision, schema, token=1, live=state == State.LIVE
            )

        parts = (made(TABLE, ROWS), made(TABLE.quarantine, quarantine.SCHEMA),
                 made(TABLE.late, late.SCHEMA), made(TABLE.outcomes, outcomes.SCHEMA))  # fmt: skip
        bad = pa.Table.from_pylist([{"row_id": revision}], quarantine.SCHEMA)
        parts[0].companions["quarantine"] = parts[1]
        apart = {"quarantine": write_arrow(bad, parts[1].path)}
        parts[0].commit(write_arrow(held, parts[0].path), {"i": 1}, apart=apart)
        self.parts[revision] = parts
        definition = types.SimpleNamespace(keys=("k",))
        context = TableContext(None, definition, revision, *parts, self.folder / "scratch")
        worker = FollowWorker(
            f"{TABLE}@{revision}", lambda: Quiet(context), lambda: None, lambda: None
        )
        worker.start()
        self.workers[revision] = worker
        self.book.known[revision] = Revision(str(TABLE), revision, state, "b", {}, DECLARED)
        self.book.states[revision] = state

    def revision(self, table, revision) -> Revision:
        return self.book.known[revision]

    def worker(self, table, revision) -> FollowWorker:
        worker, deadline = self.workers[revision], time.monotonic() + 30
        while worker.state != "running":
            if time.monotonic() > deadline:
                raise AssertionError(f"{worker.name} is {worker.state}: {worker.error}")
            time.sleep(0.01)
        return worker

    def running(self, table, revision) -> FollowWorker:
        return self.worker(table, revision)

    def parked(self, table, revision) -> bool:
        return self.workers[revision].state == "parked"

    def park(self, revision: str) -> None:
        """Let its batch break in a way that no row is to blame for."""

        def breaks(follower):
            raise TransformError("it overflows", remedy="")

        worker = self.worker(str(TABLE), revision)
        worker.order(Order(breaks, lambda told: None, lambda told: None))
        worker.join()
        assert worker.state == "parked"

    def writer(self, table, revision, part):
        return self.parts[revision][("table", "quarantine", "late", "outcomes").index(part)]

    def keys(self, table, revision) -> tuple[str, ...]:
        return ("k",)

    def answers_for(self, table) -> bool:
        return True

    def restart(self, table, revision) -> None:
        return

    def forget(self, table, revision) -> None:
        self.workers[revision].ask_to_stop()
        self.workers[revision].join()

    def path(self, name: TableName = TABLE):
        return live_path(self.settings.warehouse, name)

    def rows(self) -> list[tuple]:
        return sorted(tuple(r.values()) for r in
                      DeltaTable(str(self.path())).to_pyarrow_table().to_pylist())  # fmt: skip

    def of(self, revision: str) -> list[tuple]:
        table = self.parts[revision][0].log.snapshot().to_pyarrow_table()
        return sorted(tuple(r.values()) for r in table.to_pylist())

    def shows(self) -> str | None:
        return shown(DeltaTable(str(self.path())), list(self.parts))

    def swap(self, to: str, replacing: str, verb: str = "promote") -> dict:
        asked = {"to": [[str(TABLE), to]], "expected": {str(TABLE): replacing}, "verb": verb,
                 "release": "r", "who": "me", "why": "y", "report": ""}  # fmt: skip
        return operate._swap(self, self.book, asked)


def made(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[World]:
    """X is live, A a candidate, W warm."""
    book = Book()
    for module in (operate, ends, sweep, release):
        patch.setattr(module, "Staging", lambda registry: book)
    for module in (operate, ends):
        patch.setattr(module, "show_revision", lambda *a, **k: None)
    world = World(folder, book)
    world.add("X", State.LIVE, rows(("a", 1)))
    world.add("A", State.CANDIDATE, rows(("a", 2)))
    world.add("W", State.WARM, rows(("a", 0)))
    yield world
    for worker in world.workers.values():
        worker.ask_to_stop()


def reopened(world: World) -> Writers:
    """What a supervisor that starts opens tables with."""
    writers = Writers(world.settings.warehouse, lambda table: 2)
    writers.revisions = {(r.table, r.revision): r for r in world.book.revisions()}
    return writers


def swapped_in_part(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash after the table itself was swapped, before those beside it were."""
    real = exchange.swap

    def dies(live, new, *rest):
        if new.name.layer == "quarantine":
            raise KeyboardInterrupt
        return real(live, new, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(exchange, "swap", dies)
        with pytest.raises(KeyboardInterrupt):
            world.swap("A", "X")


class Idle:
    """A follower of nothing."""

    breach, context = "", None

    def advance(self, until=None) -> bool:
        return False

    def waiting_since(self) -> None:
        return None

    def close(self) -> None:
        return
