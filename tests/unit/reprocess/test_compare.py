"""Two sides of a table, compared: by key, as bags, by roll-up, with late rows and expectations."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import UsageError
from penstock.model.names import TableName
from penstock.reprocess.compare import compare_table
from penstock.reprocess.comparison import Expected, Rollup, Side, Wishes
from penstock.reprocess.report import render
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.fates import late as late_lines

STAMP = pa.timestamp("us", tz="UTC")
START = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema([("k", pa.string()), ("window_start", STAMP), ("n", pa.int64()),
                    ("mean", pa.float64())])  # fmt: skip
COLUMNS = {"k": "string", "window_start": "timestamp", "n": "long", "mean": "double"}


def row(k: str, minute: int, n: int = 1, mean: float = 1.0, **more) -> dict:
    at = START + dt.timedelta(minutes=minute)
    return {"k": k, "window_start": at, "n": n, "mean": mean, **more}


class Tables:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def side(self, revision, rows, *, schema=SCHEMA, late=(), status="late") -> Side:
        writer = self._written("gold.x", revision, pa.Table.from_pylist(rows, schema))
        lines = pa.Table.from_pylist(
            [{"row_id": "r", "source": "s", "window_start": at, "status": status} for at in late],
            late_lines.SCHEMA,
        )
        beside = self._written("late.gold_x", revision, lines)
        columns = {f.name: str(f.type) for f in schema}
        return Side(revision, writer.log.version, writer.path, columns, {"silver.y": 7},
                    late=(beside.path, beside.log.version))  # fmt: skip

    def _written(self, name: str, revision: str, rows: pa.Table) -> RevisionWriter:
        writer = RevisionWriter(
            self.folder, TableName.parse(name), revision, rows.schema, token=1, live=False
        )
        writer.commit(write_arrow(rows, writer.path), {"t": 1})
        return writer

    def compare(self, old: Side, new: Side, wishes: Wishes | None = None, **more):
        asked = {"keys": ("k", "window_start"), "same_rows": True, "point": "window_start", **more}
        return compare_table(
            "gold.x", old, new, wishes=wishes or Wishes(), scratch=self.folder / "s", **asked
        )


@pytest.fixture
def tables(tmp_path):
    return Tables(tmp_path)


def test_equal_sides(tables):
    rows = [row("a", 1), row("b", 2), row(None, 3)]
    report = tables.compare(tables.side("o", rows), tables.side("n", rows))
    assert report.counts["equal"] == report.counts["rows"] == 3
    assert report.within
    assert report.worst == []


def test_every_way_to_differ(tables):
    old = [row("a", 1), row("b", 2, n=5), row("c", 3)]
    new = [row("a", 1), row("b", 2, n=6), row("d", 4)]
    report = tables.compare(tables.side("o", old), tables.side("n", new))
    wanted = {"rows": 4, "equal": 1, "differs": 1, "only_old": 1, "only_new": 1, "unexpected": 3}
    assert {name: report.counts[name] for name in wanted} == wanted
    assert not report.within
    assert [w["verdict"] for w in report.worst] == ["only_old", "only_new", "differs"]
    assert {c["column"]: c["equal"] for c in report.per_column} == {"n": 1, "mean": 2}
    assert sum(step["differs"] for step in report.over_time) == 1


def test_a_threshold_is_a_share_of_all_rows(tables):
    old = tables.side("o", [row("a", m) for m in range(10)])
    new = tables.side("n", [row("a", m, n=2 if m == 0 else 1) for m in range(10)])
    assert not tables.compare(old, new, Wishes(threshold=0.09)).within
    assert tables.compare(old, new, Wishes(threshold=0.1)).within


def test_tolerances_are_per_column_and_nulls_equal_nulls(tables):
    old = tables.side("o", [row("a", 1, mean=1.0), row("b", 1, mean=None), row("c", 1, mean=None)])
    new = tables.side("n", [row("a", 1, mean=1.05), row("b", 1, mean=None), row("c", 1, mean=1.0)])
    assert tables.compare(old, new).unexpected == 2
    assert tables.compare(old, new, Wishes(tolerances={"mean": 0.1})).unexpected == 1
    assert tables.compare(old, new, Wishes(tolerances={"n": 9})).unexpected == 2


def test_what_is_expected_does_not_count(tables):
    old = tables.side("o", [row("a", 1, n=5), row("b", 1, n=5), row("c", 1)])
    new = tables.side("n", [row("a", 1, n=4), row("b", 1, n=6)])
    meant = [
        Expected("new.n < old.n", "fewer"),
        Expected("new.k is null", "gone"),
    ]
    report = tables.compare(old, new, Wishes(expected=meant))
    assert (report.counts["expected"], report.unexpected) == (2, 1)
    assert [e["rows"] for e in report.expected] == [1, 1]
    assert report.worst[0]["key"]["k"] == "b", "what nobody expected comes first"


@pytest.mark.parametrize(
    "condition",
    ["nonsense(", "true; drop table old_rows", "old.nothing = 1", "true -- x", "/* */ true",
     "exists (select * from read_csv('/etc/passwd'))"],
)  # fmt: skip
def test_conditions_reach_nothing_but_the_rows(tables, condition):
    side = tables.side("o", [row("a", 1)])
    other = tables.side("n", [row("a", 1, n=2)])
    with pytest.raises(UsageError):
        tables.compare(side, other, Wishes(expected=[Expected(condition, "x")]))


def test_late_rows_are_set_apart(tables):
    at = START + dt.timedelta(minutes=1)
    old = tables.side("o", [row("a", 1, n=5), row("a", 2, n=5)], late=[at])
    new = tables.side("n", [row("a", 1, n=6), row("a", 2, n=6)])
    report = tables.compare(old, new)
    assert (report.counts["set_apart"], report.unexpected) == (1, 1)
    assert any("late" in note for note in report.notes)


def test_a_late_row_in_each_window_does_not_let_everything_pass(tables):
    minutes = range(10)
    late = [START + dt.timedelta(minutes=m) for m in minutes]
    old = tables.side("o", [row("a", m, n=5) for m in minutes], late=late)
    new = tables.side("n", [row("a", m, n=6) for m in minutes])
    report = tables.compare(old, new, Wishes(threshold=0.9))
    assert (report.counts["set_apart"], report.unexpected) == (10, 0)
    assert not report.alike
    assert not report.within
    assert report.as_dict()["undecided"]
    assert any("penstock reconcile gold.x" in note for note in report.notes)
    for count, passes in ((5, True), (6, False)):
        some = tables.side(f"f{count}", [row("a", m, n=6 if m < count else 5) for m in minutes])
        assert tables.compare(old, some, Wishes()).within is passes
    assert tables.compare(old, some, Wishes(threshold=0.6)).within


def test_what_is_meant_needs_no_reconciling(tables):
    at = START + dt.timedelta(minutes=1)
    old = tables.side("o", [row("a", 1, n=5)], late=[at])
    new = tables.side("n", [row("a", 1, n=4)])
    report = tables.compare(old, new, Wishes(expected=[Expected("new.n < old.n", "fewer")]))
    assert (report.counts["set_apart"], report.counts["expected"]) == (0, 1)
    assert report.within


def test_columns_that_came_or_went_are_told_and_not_compared(tables):
    more = SCHEMA.append(pa.field("p99", pa.float64()))
    old = tables.side("o", [row("a", 1)])
    new = tables.side("n", [row("a", 1, p99=2.0)], schema=more)
    report = tables.compare(old, new)
    assert report.columns["added"] == ["p99"]
    assert report.within
    back = tables.compare(new, old)
    assert back.columns["dropped"] == ["p99"]
    assert back.within


def test_without_keys_rows_count_with_multiplicity(tables):
    old = tables.side("o", [row("a", 1), row("a", 1), row("b", 1)])
    new = tables.side("n", [row("a", 1), row("b", 1), row("b", 1)])
    report = tables.compare(old, new, keys=())
    counts = report.counts
    assert (counts["equal"], counts["only_old"], counts["only_new"]) == (2, 1, 1)
    assert report.method == "as bags"


def test_other_windows_need_a_roll_up(tables):
    old = tables.side("o", [row("a", m, n=1) for m in range(4)] + [row("b", 0, n=3)])
    new = tables.side("n", [row("a", 0, n=2), row("a", 2, n=2), row("b", 0, n=4)])
    plain = tables.compare(old, new, same_rows=False)
    assert (plain.method, plain.within) == ("not comparable", False)
    rolled = tables.compare(old, new, Wishes(rollup=Rollup("k", "sum(n) as n")), same_rows=False)
    assert rolled.counts["equal"] == 1
    assert rolled.worst[0]["key"] == {"k": "b"}
    with pytest.raises(UsageError, match="roll-up"):
        tables.compare(old, new, Wishes(rollup=Rollup("k", "sum(nothing)")), same_rows=False)


def test_empty_sides(tables):
    full = tables.side("n", [row("a", 1)])
    empty = tables.side("o", [])
    assert tables.compare(empty, full).counts["only_new"] == 1
    assert tables.compare(full, empty).counts["only_old"] == 1


def test_the_page_escapes_what_comes_from_outside(tables):
    evil = "<script>alert(1)</script>"
    old = tables.side("o", [row(evil, 1), row("b", 5)])
    new = tables.side("n", [row(evil, 1, n=2), row("b", 5)])
    meant = [Expected("false", evil)]
    report = tables.compare(old, new, Wishes(expected=meant))
    page = render({"title": evil, "release": evil, "at": "now", "who": evil, "within": False,
                   "tables": [report.as_dict()]})  # fmt: skip
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "<svg" in page


def test_a_key_that_is_there_twice_shows(tables):
    one = tables.side("o", [row("a", 1)])
    many = tables.side("n", [row("a", 1), row("a", 1), row("a", 1)])
    assert tables.compare(one, many).counts["only_new"] == 2
    assert tables.compare(many, one).counts["only_old"] == 2


def test_expired_rows_settle_nothing(tables):
    at = START + dt.timedelta(minutes=1)
    old = tables.side("o", [row("a", 1, n=1)], late=[at], status="expired")
    new = tables.side("n", [row("a", 1, n=999)])
    assert tables.compare(old, new).unexpected == 1


def test_retyped_columns_are_compared_as_far_as_they_go(tables):
    text = SCHEMA.set(2, pa.field("n", pa.string()))
    old = tables.side("o", [row("a", 1, n=5), row("b", 1, n=6)])
    new = tables.side("n", [row("a", 1, n="5"), row("b", 1, n="one")], schema=text)
    report = tables.compare(old, new)
    assert (report.counts["equal"], report.counts["differs"]) == (1, 1)
    back = tables.compare(new, old)
    assert (back.counts["equal"], back.counts["differs"]) == (1, 1)


def test_a_roll_up_does_not_hide_rows_that_can_be_matched(tables):
    old = tables.side("o", [row("a", 1, n=1), row("a", 2, n=9)])
    new = tables.side("n", [row("a", 1, n=9), row("a", 2, n=1)])
    rolled = tables.compare(old, new, Wishes(rollup=Rollup("k", "sum(n) as n")))
    assert rolled.unexpected == 2


def test_not_a_number_is_equal_to_itself(tables):
    odd = float("nan")
    old = tables.side("o", [row("a", 1, mean=odd), row("b", 1, mean=float("inf"))])
    new = tables.side("n", [row("a", 1, mean=odd), row("b", 1, mean=float("inf"))])
    assert tables.compare(old, new, Wishes(tolerances={"mean": 0.1})).within


def test_a_tolerance_for_no_column_is_refused(tables):
    side, other = (tables.side(name, [row("a", 1)]) for name in "on")
    with pytest.raises(UsageError, match="no column median"):
        tables.compare(side, other, Wishes(tolerances={"median": 1}))
