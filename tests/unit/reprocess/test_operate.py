"""Operations with real writers, real workers and stands; no Spark, no Postgres.

Each test is something that once went wrong: two operators at once, a hold that comes while a swap
prepares, a stand that lapses, a companion that cannot be swapped, a crash in between.
"""

from __future__ import annotations

import json
import time
import types

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.errors import PenstockError, UsageError
from penstock.runtime.delta import swap as swapping
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.log import DeltaLog
from penstock.runtime.delta.repair import show_again
from penstock.runtime.delta.writer import RevisionWriter, live_path
from penstock.runtime.registry import Revision
from penstock.runtime.staging import Candidate
from penstock.runtime.supervise import exchange, operate, standing, tasks
from penstock.runtime.supervise.standstill import Standstill
from penstock.runtime.supervise.streams import Streams
from penstock.runtime.supervise.worker import FollowWorker
from tests.unit.reprocess.operated import TABLE, Quiet, made, reopened, rows, swapped_in_part


@pytest.fixture
def world(tmp_path, monkeypatch):
    yield from made(tmp_path, monkeypatch)


def passes(refused: pytest.ExceptionInfo[PenstockError]) -> bool:
    """Whether Airflow tries it again: it does not what was asked wrongly."""
    return refused.value.exit_code == 1


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


def test_a_crash_between_the_table_and_those_beside_it(world, monkeypatch):
    swapped_in_part(world, monkeypatch)
    writers = reopened(world)
    open_logs = {r.revision: writers.beside(r, "quarantine") for r in world.book.revisions()}
    assert open_logs["X"].live is not None, "it was never swapped: it still shows the old one"
    assert open_logs["A"].live is None
    assert DeltaTable(str(world.path(TABLE.quarantine))).to_pyarrow_table().num_rows == 1


def test_a_hold_that_comes_while_the_difference_is_computed(world, monkeypatch):
    real = operate.differences

    def slow(*rest):
        found = real(*rest)
        world.book.held = {str(TABLE): "me"}
        world.parts["X"][0].held = True
        for revision in ("X", "A"):
            writer = world.parts[revision][0]
            writer.commit(write_arrow(rows(("b", 1)), writer.path), {"i": 2})
        return found

    monkeypatch.setattr(operate, "differences", slow)
    before = world.rows()
    with pytest.raises(PenstockError, match="held") as refused:
        world.swap("A", "X")
    assert world.rows() == before
    assert passes(refused)


def test_what_lies_beside_a_table_is_finished_by_the_name_of_the_release(world, monkeypatch):
    """By the table's own, a newer candidate of it would be promoted in its place."""
    real = exchange.swap

    def fails(live, new, *rest):
        if new.name.layer == "late":
            raise PenstockError("the disk is full.", remedy="Make room.")
        return real(live, new, *rest)

    monkeypatch.setattr(exchange, "swap", fails)
    with pytest.raises(PenstockError, match="Then finish: `penstock promote --release r --why"):
        world.swap("A", "X")


def test_a_stand_that_lapses_is_noticed(world, monkeypatch):
    real = Standstill.__init__
    monkeypatch.setattr(Standstill, "__init__", lambda self, w, _: real(self, w, 0.2))
    slow = exchange.brought_up

    def late_in_the_day(*rest):
        time.sleep(0.5)
        return slow(*rest)

    monkeypatch.setattr(exchange, "brought_up", late_in_the_day)
    with pytest.raises(PenstockError, match="left standing"):
        world.swap("A", "X")
    assert world.rows() in (world.of("A"), world.of("X"))
    assert world.book.live == (world.shows() or "X")


def test_the_first_of_many_stands_outlasts_the_coming_of_the_others(world, monkeypatch):
    monkeypatch.setattr(standing, "_PATIENCE", 0.3)
    moves = [
        standing.Move(f"gold.x{n}", *(Revision(f"gold.x{n}", r, "", "", {}) for r in "XA"))
        for n in range(3)
    ]

    class Slow(Quiet):
        """It has a batch in hand."""

        def advance(self, until=None) -> bool:
            time.sleep(0.15)
            return False

    workers = [FollowWorker(str(n), lambda: Slow(context), lambda: None, lambda: None)
               for n in range(6)]  # fmt: skip
    context = world.worker(str(TABLE), "X").context
    waiting = iter(workers)

    def begun(table, revision):
        worker = next(waiting)
        worker.start()
        return worker

    monkeypatch.setattr(world, "worker", begun)
    with standing.standing(world, moves) as stands:
        for stand in stands.values():
            stand.require()
    for worker in workers:
        worker.ask_to_stop()
        worker.join()


def test_a_candidate_that_reads_fewer_tables_can_be_aligned():
    move = standing.Move(
        "gold.x", Revision("gold.x", "o", "live", "", {}), Revision("gold.x", "n", "c", "", {})
    )
    stands = {
        ("gold.x", "o"): Halt({"silver.a": 5, "silver.b": 3}, {"silver.a": 4, "silver.b": 2}),
        ("gold.x", "n"): Halt({"silver.a": 6}, {"silver.a": 3}),
    }
    standing._align(None, move, stands)
    assert stands["gold.x", "n"].positions == {"silver.a": 5}


class Halt:
    """A stand of a follower that reads as far as it is told, or to the end of its inputs."""

    def __init__(self, ends: dict[str, int], positions: dict[str, int]) -> None:
        def source(at):
            return types.SimpleNamespace(log=types.SimpleNamespace(version=at))

        def advance(until=None):
            positions.update(until or ends)
            return True

        self.positions = positions
        self.follower = types.SimpleNamespace(
            positions=positions,
            inputs={n: types.SimpleNamespace(name=n, source=source(v)) for n, v in ends.items()},
            advance=advance,
            stand=lambda: dict(positions),
        )

    def call(self, what):
        return what(self.follower)


@pytest.mark.parametrize(("old_end", "new_end"), [(9, 4), (4, 9)])
def test_versions_of_two_revisions_of_an_input_are_not_compared(old_end, new_end):
    """What is left of a release that went through in part: its input is no move of its own."""
    a = [Revision("silver.a", r, "warm", "", {}) for r in ("a1", "a2")]
    b = [Revision("gold.b", f"b{i}", "warm", "", {"silver.a": f"a{i}"}) for i in (1, 2)]
    known = {(r.table, r.revision): r for r in (*a, *b)}
    there = types.SimpleNamespace(revision=lambda table, revision: known[table, revision])
    move = standing.Move("gold.b", *b)
    pairs = standing.with_inputs(there, [move])
    assert [(p.table, p.old.revision, p.new.revision) for p in pairs] == [
        ("silver.a", "a1", "a2"),
        ("gold.b", "b1", "b2"),
    ]
    stands = {
        ("gold.b", "b1"): Halt({"silver.a": old_end}, {"silver.a": 1}),
        ("gold.b", "b2"): Halt({"silver.a": new_end}, {"silver.a": 1}),
    }
    standing._align(None, move, stands)
    assert [s.positions for s in stands.values()] == [{"silver.a": old_end}, {"silver.a": new_end}]


def test_inputs_that_are_moves_themselves_stand_once():
    a = [Revision("silver.a", r, "warm", "", {}) for r in ("a1", "a2")]
    b = [Revision("gold.b", f"b{i}", "warm", "", {"silver.a": f"a{i}"}) for i in (1, 2)]
    moves = [standing.Move("silver.a", *a), standing.Move("gold.b", *b)]
    there = types.SimpleNamespace(
        revision=lambda table, name: next(r for r in (*a, *b) if r.revision == name)
    )
    assert standing.with_inputs(there, moves) == moves


def test_a_guard_that_trips_in_the_last_batch_stops_the_swap_before_it_begins(world, monkeypatch):
    begun = []
    monkeypatch.setattr(exchange.Exchange, "swap_table", lambda *rest: begun.append(rest))
    world.parts["X"][0].held = True  # in memory; the registry does not know yet
    with pytest.raises(PenstockError, match=r"held.*guard.*Type it again\.$") as refused:
        world.swap("A", "X")
    assert begun == []
    assert passes(refused)


def test_and_typed_again_it_goes_past_what_is_held(world):
    """Released first, as it once said, every reader would be shown what the guard stopped."""
    held = world.parts["X"][0]
    held.held = True
    held.commit(write_arrow(rows(("bad", 9)), held.path), {"i": 2})
    with pytest.raises(PenstockError, match=r"Type it again\.$"):
        world.swap("W", "X", "rollback")
    world.book.held = {str(TABLE): "a guard"}  # noted in the next round
    world.swap("W", "X", "rollback")
    assert (world.rows(), world.book.held) == (world.of("W"), {})


def test_a_guard_that_trips_while_it_is_being_swapped(world, monkeypatch):
    monkeypatch.setattr(exchange.Exchange, "require_free", lambda *_: None)
    world.parts["X"][0].held = True
    with pytest.raises(PenstockError, match=r"is held\. Type it again\.$") as refused:
        world.swap("A", "X")
    assert passes(refused)


def test_a_backfill_goes_into_the_revision_it_was_computed_for_or_nowhere(world):
    world.swap("A", "X")
    old = types.SimpleNamespace(
        name=str(TABLE), writer=world.parts["X"][0], context=types.SimpleNamespace(revision="X")
    )
    with pytest.raises(UsageError, match="Run the backfill again"):
        tasks.VERBS["backfill"](old, {})


def test_a_table_that_is_held_is_not_repaired(world):
    write_deltalake(str(world.path()), rows(("foreign", 7)), mode="append")
    world.book.held = {str(TABLE): "me"}
    with pytest.raises(UsageError, match="penstock release"):
        operate._repair(world, world.book, {"table": str(TABLE), "who": "me", "why": "x"})


def test_nor_is_one_that_a_guard_stopped_in_its_last_batch(world):
    """The registry does not know of it yet; what the guard holds back must not be shown."""
    writer = world.parts["X"][0]
    writer.held = True
    writer.commit(write_arrow(rows(("bad", 9)), writer.path), {"i": 2})
    before = world.rows()
    asked = {"table": str(TABLE), "who": "me", "why": "x"}
    with pytest.raises(UsageError, match=f"a guard stopped X.*penstock release {TABLE}"):
        operate._repair(world, world.book, asked)
    assert world.rows() == before
    world.running = lambda table, revision: None  # parked: nobody would carry a release out
    operate._repair(world, world.book, asked)
    assert world.rows() == world.of("X")


def test_repair_shows_the_revision_again_to_every_reader(world):
    write_deltalake(str(world.path()), rows(("foreign", 7)), mode="append")
    told = operate._repair(world, world.book, {"table": str(TABLE), "who": "me", "why": "x"})
    assert world.rows() == world.of("X")
    feed = DeltaTable(str(world.path())).load_cdf(told["version"], told["version"]).read_all()
    listed = [(r["k"], r["_change_type"]) for r in pa.table(feed).to_pylist()]
    assert listed == [("foreign", "delete")]


def test_repair_after_a_file_that_lacks_a_column(world):
    """Delta reads null there; so has whoever takes the rows back."""
    pq.write_table(rows(("foreign", 7)).select(["v"]), world.path() / "foreign.parquet")
    add = {"path": "foreign.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0,
           "dataChange": True}  # fmt: skip
    told = [{"commitInfo": {"operation": "WRITE", "engineInfo": "a stranger's"}}, {"add": add}]
    version = DeltaTable(str(world.path())).version() + 1
    log = world.path() / "_delta_log" / f"{version:020d}.json"
    log.write_text("\n".join(json.dumps(action) for action in told))
    told = operate._repair(world, world.book, {"table": str(TABLE), "who": "me", "why": "x"})
    assert world.rows() == world.of("X")
    feed = DeltaTable(str(world.path())).load_cdf(told["version"], told["version"]).read_all()
    gone = [(r["k"], r["v"], r["_change_type"]) for r in pa.table(feed).to_pylist()]
    assert gone == [(None, 7, "delete")]


def test_repair_of_a_table_that_lost_a_file(world):
    live = DeltaLog(world.path(), 1)
    (path,) = swapping.files_at(world.path(), live.version)
    live.commit([{"remove": {"path": path, "dataChange": True, "size": 1}}], {}, {})
    assert world.rows() == []
    show_again(world.parts["X"][0], live, ("k",), {}, world.folder / "s")
    assert world.rows() == world.of("X")


def test_what_cannot_be_swapped_beside_a_table_is_refused_before_the_table(world, monkeypatch):
    swapped_in_part(world, monkeypatch)
    with pytest.raises(UsageError, match=f"quarantine.* shows neither A nor W.*releases {TABLE}"):
        world.swap("W", "A")
    assert world.shows() == world.book.live == "A"
    world.swap("A", "X")  # finished as it says
    world.swap("W", "A")
    assert world.shows() == "W"


def test_a_hold_is_of_the_revision_that_live_shows(world):
    writers = reopened(world)
    writers.held = frozenset({str(TABLE)})
    held = {r.revision: writers.of(r).held for r in world.book.revisions()}
    assert held == {"X": True, "A": False, "W": False}, "nobody would let the others go again"


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
    def one_of(revision, kind, live):
        schema = pa.schema([("k", pa.string()), ("c", kind)])
        writer = RevisionWriter(tmp_path, TABLE, revision, schema, token=1, live=live)
        held = pa.Table.from_pylist([{"k": "a", "c": None}], schema)
        writer.commit(write_arrow(held, writer.path), {"i": 1})
        return writer

    one, other = one_of("o", old, True), one_of("n", new, False)
    change = swapping.difference(one, one.log.version, other, other.log.version, tmp_path / "s")
    swapping.swap(one.live, other, change, ("k",), {})
    shown_now = DeltaTable(str(live_path(tmp_path, TABLE)))
    assert shown_now.to_pyarrow_table().num_rows == 1
    assert shown_now.schema().to_json() == DeltaTable(str(other.path)).schema().to_json()


def test_what_was_promoted_goes_at_full_pace():
    workers = {n: FollowWorker(n, lambda: None, lambda: None, lambda: None) for n in "ab"}
    streams = types.SimpleNamespace(workers={f"gold.x@{n}": w for n, w in workers.items()})
    staged = {("gold.x", "a"): Candidate("gold.x", "a", "r", "batch", share=0.3)}
    Streams._set_paces(streams, staged)
    assert [w.share for w in workers.values()] == [0.3, 1.0]
    Streams._set_paces(
        streams, {("gold.x", "b"): Candidate("gold.x", "b", "r", "batch", paused=True)}
    )
    assert [w.share for w in workers.values()] == [1.0, 0.0]
