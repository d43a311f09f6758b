"""Operations with real writers, real workers and stands; no Spark, no Postgres.

Each test is something that once went wrong: two operators at once, a hold that comes while a swap
prepares, a stand that lapses, a companion that cannot be swapped, a crash in between.
"""

from __future__ import annotations

import time
import types
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.errors import PenstockError, UsageError
from penstock.model.names import TableName
from penstock.runtime import ends, exchange, late, operate, outcomes, quarantine, standing
from penstock.runtime import swap as swapping
from penstock.runtime.delta_log import DeltaLog
from penstock.runtime.files import write_arrow
from penstock.runtime.follow import TableContext
from penstock.runtime.holds import Holds
from penstock.runtime.registry import Revision, State
from penstock.runtime.repair import show_again
from penstock.runtime.swap import shown
from penstock.runtime.worker import FollowWorker, Standstill
from penstock.runtime.writer import RevisionWriter, live_path
from penstock.runtime.writers import Writers

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
        self.held: dict[str, str] = {}
        self.known: dict[str, Revision] = {}

    def revisions(self, *, states=State.FED) -> list[Revision]:
        found = [replace(self.known[r], state=state) for r, state in self.states.items()]
        return [revision for revision in found if revision.state in states]

    def holds(self) -> dict[str, str]:
        return dict(self.held)

    def promoted(self, done, keep) -> None:
        for revision, state in self.states.items():
            if state == State.LIVE:
                self.states[revision] = State.WARM
        self.states[done.revision] = State.LIVE
        self.done.append(done)

    def promotions(self, table=None, most=100) -> list:
        return list(reversed(self.done))

    def move(self, table, revision, *, to) -> None:
        self.states[revision] = to

    def forget(self, table, revision) -> None:
        self.states.pop(revision)

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
        while self.workers[revision].state != "running":
            time.sleep(0.01)
        return self.workers[revision]

    def running(self, table, revision) -> FollowWorker:
        return self.worker(table, revision)

    def writer(self, table, revision, part):
        return self.parts[revision][0], ("k",)

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


@pytest.fixture
def world(tmp_path, monkeypatch):
    book = Book()
    for module in (operate, ends):
        monkeypatch.setattr(module, "Staging", lambda registry: book)
        monkeypatch.setattr(module, "show_revision", lambda *a, **k: None)
    world = World(tmp_path, book)
    world.add("X", State.LIVE, rows(("a", 1)))
    world.add("A", State.CANDIDATE, rows(("a", 2)))
    world.add("W", State.WARM, rows(("a", 0)))
    yield world
    for worker in world.workers.values():
        worker.ask_to_stop()


def test_a_swap(world):
    told = world.swap("A", "X")
    assert world.rows() == world.of("A")
    assert (world.book.live, world.shows()) == ("A", "A")
    assert told["tables"][0]["beside"] == ["quarantine", "late", "outcomes"]
    again = world.swap("A", "X")  # asked again after a crash: nothing is left to do
    assert again["tables"][0]["beside"] == []
    assert "version" not in again["tables"][0]


def test_two_operators_at_once(world):
    world.swap("A", "X")
    with pytest.raises(UsageError, match="somebody else promoted it"):
        world.swap("W", "X", "rollback")
    assert world.book.live == world.shows() == "A"


def test_what_live_shows_is_noted_even_if_the_rest_fails_and_never_deleted(world):
    beside = world.path(TABLE.quarantine)
    write_deltalake(str(beside), DeltaTable(str(beside)).to_pyarrow_table(), mode="append")
    with pytest.raises(PenstockError, match="its quarantine table does not yet"):
        world.swap("A", "X")
    assert world.book.live == world.shows() == "A"
    world.book.states["A"] = State.CANDIDATE  # whatever a registry may say
    with pytest.raises(UsageError, match="not a candidate"):
        ends.drop(world, world.book, {"revisions": [[str(TABLE), "A"]]})
    assert world.rows() == world.of("A")


def test_a_candidate_whose_name_was_live_once_can_be_given_up(world):
    world.swap("A", "X")
    world.swap("X", "A", "rollback")
    world.book.states["A"] = State.CANDIDATE
    ends.drop(world, world.book, {"revisions": [[str(TABLE), "A"]]})
    assert "A" not in world.book.states
    assert world.rows() == world.of("X")


def test_a_crash_between_the_table_and_those_beside_it(world, monkeypatch):
    real = exchange.swap

    def dies(live, new, *rest):
        if new.name.layer == "quarantine":
            raise KeyboardInterrupt
        return real(live, new, *rest)

    monkeypatch.setattr(exchange, "swap", dies)
    with pytest.raises(KeyboardInterrupt):
        world.swap("A", "X")
    writers = Writers(world.settings.warehouse, lambda table: 2)
    writers.revisions = {(r.table, r.revision): r for r in world.book.revisions()}
    open_logs = {r.revision: writers.beside(r, "quarantine") for r in world.book.revisions()}
    assert open_logs["X"].live is not None, "it was never swapped: it still shows the old one"
    assert open_logs["A"].live is None
    assert DeltaTable(str(world.path(TABLE.quarantine))).to_pyarrow_table().num_rows == 1


def test_a_hold_that_comes_while_the_difference_is_computed(world, monkeypatch):
    real = operate.differences

    def slow(*rest):
        found = real(*rest)
        world.book.held = {str(TABLE): "a hold"}
        world.parts["X"][0].held = True
        for revision in ("X", "A"):
            writer = world.parts[revision][0]
            writer.commit(write_arrow(rows(("b", 1)), writer.path), {"i": 2})
        return found

    monkeypatch.setattr(operate, "differences", slow)
    before = world.rows()
    with pytest.raises(UsageError, match="held"):
        world.swap("A", "X")
    assert world.rows() == before


def test_a_stand_that_lapses_is_noticed(world, monkeypatch):
    real = Standstill.__init__
    monkeypatch.setattr(Standstill, "__init__", lambda self, w: real(self, w, 0.2))
    slow = exchange.brought_up

    def late_in_the_day(*rest):
        time.sleep(0.5)
        return slow(*rest)

    monkeypatch.setattr(exchange, "brought_up", late_in_the_day)
    with pytest.raises(PenstockError, match="left standing"):
        world.swap("A", "X")
    assert world.rows() in (world.of("A"), world.of("X"))
    assert world.book.live == (world.shows() or "X")


def test_a_candidate_that_reads_fewer_tables_can_be_aligned():
    class Stand:
        def __init__(self, positions: dict[str, int]) -> None:
            def source(at):
                return types.SimpleNamespace(log=types.SimpleNamespace(version=at))

            self.follower = types.SimpleNamespace(
                positions=positions,
                inputs={n: types.SimpleNamespace(name=n, source=source(v))
                        for n, v in positions.items()},
                advance=lambda until=None: False,
                stand=lambda: dict(positions),
            )  # fmt: skip

        def call(self, what):
            return what(self.follower)

    move = standing.Move(
        "gold.x", Revision("gold.x", "o", "live", "", {}), Revision("gold.x", "n", "c", "", {})
    )
    stands = {
        ("gold.x", "o"): Stand({"silver.a": 5, "silver.b": 3}),
        ("gold.x", "n"): Stand({"silver.a": 5}),
    }
    standing._align(move, stands, {"gold.x"})


def test_repair_shows_the_revision_again_to_every_reader(world):
    write_deltalake(str(world.path()), rows(("foreign", 7)), mode="append")
    told = operate._repair(world, world.book, {"table": str(TABLE), "who": "me", "why": "x"})
    assert world.rows() == world.of("X")
    feed = DeltaTable(str(world.path())).load_cdf(told["version"], told["version"]).read_all()
    listed = [(r["k"], r["_change_type"]) for r in pa.table(feed).to_pylist()]
    assert listed == [("foreign", "delete")]


def test_repair_of_a_table_that_lost_a_file(world):
    live = DeltaLog(world.path(), 1)
    (path,) = swapping.files_at(world.path(), live.version)
    live.commit([{"remove": {"path": path, "dataChange": True, "size": 1}}], {}, {})
    assert world.rows() == []
    show_again(world.parts["X"][0], live, ("k",), {}, world.folder / "s")
    assert world.rows() == world.of("X")


def test_a_released_guard_is_not_taken_back():
    worker = FollowWorker("gold.x@r", lambda: None, lambda: None, lambda: None)
    worker._follower = types.SimpleNamespace(breach="a batch added 9 rows")
    writer = types.SimpleNamespace(live=object(), held=True)
    writers = types.SimpleNamespace(all=lambda: [("gold.x", "r", writer)], held=frozenset())
    holds = Holds(writers, {"gold.x@r": worker})
    assert holds.breaches() == {"gold.x": "a batch added 9 rows"}
    writers.held = frozenset({"gold.x"})
    holds.look({"gold.x"})
    writers.held = frozenset()
    holds.look(())  # the order waits for its worker
    assert holds.breaches() == {}
    worker._follower.breach = ""
    holds.look(())
    worker._follower.breach = "and again"
    assert holds.breaches() == {"gold.x": "and again"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.struct([("a", pa.int64())]), pa.struct([("b", pa.string())])),
        (pa.string(), pa.timestamp("us", tz="UTC")),
        (pa.int32(), pa.int64()),
        (pa.int64(), pa.timestamp("us")),
    ],
    ids=["structs", "text-to-time", "widened", "without-zone"],
)
def test_columns_of_another_type(tmp_path, old, new):
    def made(revision, kind, live):
        schema = pa.schema([("k", pa.string()), ("c", kind)])
        writer = RevisionWriter(tmp_path, TABLE, revision, schema, token=1, live=live)
        held = pa.Table.from_pylist([{"k": "a", "c": None}], schema)
        writer.commit(write_arrow(held, writer.path), {"i": 1})
        return writer

    one, other = made("o", old, True), made("n", new, False)
    change = swapping.difference(one, one.log.version, other, other.log.version, tmp_path / "s")
    swapping.swap(one.live, other, change, ("k",), {})
    shown_now = DeltaTable(str(live_path(tmp_path, TABLE)))
    assert shown_now.to_pyarrow_table().num_rows == 1
    assert shown_now.schema().to_json() == DeltaTable(str(other.path)).schema().to_json()
