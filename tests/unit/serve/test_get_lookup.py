"""Look-ups: every type of key, ranges, pages, older versions, and files that go away."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from looked_up import START, UTC_US, WINDOWS, KeyedTable, at, declare, pages, rows, windows

from penstock.errors import QueryRefused, UsageError
from penstock.serve import limits
from penstock.serve.asked import Ask
from penstock.serve.catalog import UnknownTable
from penstock.serve.key_index import KeyIndex
from penstock.serve.limits import TooWide
from penstock.serve.lookup import Reader
from penstock.serve.values import as_text
from penstock.settings import Settings

# --- keys -----------------------------------------------------------------------------------
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (
        pa.string(),
        ["", "a", "a'b", 'a"b', "a/b", "../x", "a\\b", "\\N", "null", "NULL", "é\u202e", "x" * 50,
         "%27", "a;--", "\U0001f600", "a\x00b", " a", "a "],
    ),
    "long": (pa.int64(), [0, -1, 1, 2**63 - 1, -(2**63)]),
    "integer": (pa.int32(), [0, -(2**31), 2**31 - 1]),
    "decimal": (pa.decimal128(10, 2), [Decimal("0.00"), Decimal("-1.50"), Decimal("99999999.99")]),
    "wide decimal": (
        pa.decimal128(38, 9),
        [Decimal("12345678901234567890123456789.123456789"), Decimal("0.000000001"),
         Decimal("12345678901234567890123456789.123456788")],
    ),
    "double": (pa.float64(), [0.1, -2.5, 1e300, float("inf"), 5e-324]),
    "boolean": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [dt.date(2026, 11, 1), dt.date(1969, 12, 31)]),
    "timestamp": (UTC_US, [START, START.replace(microsecond=123456), START.replace(year=1960)]),
    "timestamp_ntz": (pa.timestamp("us"), [dt.datetime(2026, 11, 1), dt.datetime(1960, 1, 1, 1)]),
    "binary": (pa.binary(), [b"", b"\0\xff", b"abc"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_every_type_of_key_finds_its_row_and_no_other(
    settings: Settings, reader: Reader, kind: str
) -> None:
    arrow, values = VALUES[kind]
    schema = pa.schema([("k", arrow), ("n", pa.int64())])
    table = KeyedTable(settings, "gold.keyed", ["k"]).create(schema)
    for number, value in enumerate([*values, None]):  # a file each: statistics are put to work
        table.append(pa.table({"k": pa.array([value], arrow), "n": [number]}, schema=schema))
    for number, value in enumerate([*values, None]):
        found = reader.look(Ask("gold.keyed", (as_text(value),)))
        assert [row["n"] for row in rows(found)] == [number], value
        assert rows(found)[0]["k"] == value


def test_floats_that_are_equal_are_found_by_each_other(settings: Settings, reader: Reader) -> None:
    schema = pa.schema([("k", pa.float64()), ("n", pa.int64())])
    table = KeyedTable(settings, "gold.keyed", ["k"]).create(schema)
    for number, value in enumerate((0.0, -0.0, float("nan"), 1.0, 2.0, 3.0)):
        table.append(pa.table({"k": [value], "n": [number]}, schema=schema))
    found = {
        k: [r["n"] for r in rows(reader.look(Ask("gold.keyed", (k,))))] for k in ("-0.0", "NaN")
    }
    assert {name: sorted(numbers) for name, numbers in found.items()} == {
        "-0.0": [0, 1],
        "NaN": [2],
    }


def test_of_two_keys_any_may_be_null(settings: Settings, reader: Reader) -> None:
    table = KeyedTable(settings, "gold.windows", ["sensor", "window_start"]).create(WINDOWS)
    for number in range(6):
        table.append(windows((None if number == 3 else "s", number, number)))
    found = reader.look(Ask("gold.windows", ("\\N", as_text(at(3)))))
    assert [row["n"] for row in rows(found)] == [3]
    assert not reader.look(Ask("gold.windows", ("s", as_text(at(3))))).rows
    assert len(reader.look(Ask("gold.windows", ("s",))).rows) == 5


def test_statistics_leave_all_but_the_right_file_out(sensors: KeyedTable, reader: Reader) -> None:
    found = reader.look(Ask("gold.windows", ("s-1", as_text(at(7)))))
    assert (found.files_read, rows(found)[0]["n"]) == (1, 107)
    within = reader.look(Ask("gold.windows", ("s-1",), start=as_text(at(2)), end=as_text(at(5))))
    assert (within.files_read, len(within.rows)) == (3, 3)


def test_hashes_leave_files_out_where_statistics_cannot(settings: Settings) -> None:
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    table = KeyedTable(settings, "gold.keyed", ["k"]).create(schema)
    for file in range(20):  # every file spans all keys
        keys = list(range(file, 2000, 20))
        table.append(pa.table({"k": [*keys, file - 5000, file + 5000], "n": [file] * 102}, schema))
    index = KeyIndex(1 << 20, lambda: 1 << 40)
    with Reader(settings, index) as reader:
        for key in range(0, 2000, 37):
            found = reader.look(Ask("gold.keyed", (str(key),)))
            assert (found.files_read, rows(found)) == (1, [{"k": key, "n": key % 20}])
        assert reader.look(Ask("gold.keyed", ("2500",))).files_read == 0
    assert index.bytes == 20 * 102 * 8


def test_hashes_go_when_memory_is_short_or_the_table_too_big(settings: Settings) -> None:
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    table = KeyedTable(settings, "gold.keyed", ["k"]).create(schema)
    for file in range(8):
        table.append(pa.table({"k": [file, file + 100], "n": [file] * 2}, schema))
    short, small = KeyIndex(1 << 20, lambda: 0), KeyIndex(64, lambda: 1 << 40)
    for index in (short, small):
        with Reader(settings, index) as reader:
            assert reader.look(Ask("gold.keyed", ("7",))).rows == [(7, 7)]
        assert index.bytes == 0


def test_tables_make_room_for_each_other(settings: Settings) -> None:
    schema = pa.schema([("k", pa.int64())])
    for name in ("gold.one", "gold.two"):
        table = KeyedTable(settings, name, ["k"]).create(schema)
        for file in range(8):
            table.append(pa.table({"k": [file, file + 100]}, schema))
    index = KeyIndex(8 * 16 + 8, lambda: 1 << 40)  # one of them fits
    with Reader(settings, index) as reader:
        for name in ("gold.one", "gold.two", "gold.one"):
            assert reader.look(Ask(name, ("7",))).files_read == 1
            assert index.bytes == 8 * 16


# --- what else may be asked -----------------------------------------------------------------
def test_ranges_are_half_open_and_in_order(sensors: KeyedTable, reader: Reader) -> None:
    found = reader.look(Ask("gold.windows", (), start=as_text(at(2)), end=as_text(at(4))))
    assert [(r["window_start"], r["sensor"]) for r in rows(found)] == [
        (at(m), f"s-{s}") for m in (2, 3) for s in range(3)
    ]
    newest = reader.look(Ask("gold.windows", ("s-2",), newest_first=True, limit=2))
    assert [row["n"] for row in rows(newest)] == [209, 208]
    open_end = reader.look(Ask("gold.windows", ("s-0",), start=as_text(at(8))))
    assert [row["n"] for row in rows(open_end)] == [8, 9]
    by_value = reader.look(Ask("gold.windows", (), on="n", start="105", end="107"))
    assert [row["n"] for row in rows(by_value)] == [105, 106]


def test_only_some_columns(sensors: KeyedTable, reader: Reader) -> None:
    found = reader.look(Ask("gold.windows", ("s-1", as_text(at(0))), columns=("n", "sensor", "n")))
    assert rows(found) == [{"n": 100, "sensor": "s-1"}]


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 7, 1000])
def test_pages_hold_every_row_once_in_order(
    settings: Settings, reader: Reader, limit: int, newest: bool
) -> None:
    """Keys that are null, and rows that are equal in all of them, among the rest."""
    table = KeyedTable(settings, "gold.windows", ["sensor", "window_start"]).create(WINDOWS)
    for file in range(4):
        equal = [("a", 1, file), ("a", 1, 40 + file)]
        table.append(windows(*equal, (None, 1, 10 + file), ("b", file, 20 + file)))
        no_time = windows(("a", 2, 30 + file)).set_column(1, "window_start", pa.nulls(1, UTC_US))
        table.append(no_time)
    found = pages(reader, "gold.windows", on="n", limit=limit, newest_first=newest)
    numbers = [row["n"] for page in found for row in rows(page)]
    everything = [tens + file for tens in (0, 10, 20, 30, 40) for file in range(4)]
    assert numbers == sorted(everything, reverse=newest)
    keyed = pages(reader, "gold.windows", "a", limit=limit)
    numbers = [row["n"] for page in keyed for row in rows(page)]
    assert sorted(numbers[:8]) == [*range(4), *range(40, 44)]
    assert sorted(numbers[8:]) == [*range(30, 34)]
    assert all(len(page.rows) == limit for page in found[:-1])


def test_pages_are_of_one_version_whatever_is_committed(
    sensors: KeyedTable, reader: Reader
) -> None:
    asked = {"start": as_text(at(0)), "limit": 11}
    first = reader.look(Ask("gold.windows", (), **asked))
    sensors.append(windows(("s-0", 3.5, 999)))
    second = reader.look(Ask("gold.windows", (), **asked, cursor=first.next))
    assert second.opened.state.version == first.opened.state.version
    assert 999 not in [row["n"] for row in rows(second)]
    assert reader.look(Ask("gold.windows", ("s-0", as_text(at(3.5))))).rows


def test_a_cursor_outlives_the_process(sensors: KeyedTable, settings: Settings) -> None:
    asked = {"start": as_text(at(0)), "limit": 29}
    with Reader(settings) as reader:
        first = reader.look(Ask("gold.windows", (), **asked))
    sensors.append(windows(("s-0", 11, 999)))
    with Reader(settings) as reader:
        second = reader.look(Ask("gold.windows", (), **asked, cursor=first.next))
    assert [row["n"] for row in rows(second)] == [209]


@pytest.mark.parametrize(
    "cursor", ["", "x", "!!", "W10", "WzFd", "bnVsbA", "WyJhIiwiYiIsImMiXQ", "é"]
)
def test_what_is_no_cursor(sensors: KeyedTable, reader: Reader, cursor: str) -> None:
    with pytest.raises(UsageError, match="cursor"):
        reader.look(Ask("gold.windows", ("s-1",), cursor=cursor))


def test_a_cursor_of_another_look_up(sensors: KeyedTable, reader: Reader) -> None:
    first = reader.look(Ask("gold.windows", ("s-1",), limit=2))
    for other in (Ask("gold.windows", ("s-2",), limit=2, cursor=first.next),
                  Ask("gold.windows", ("s-1",), newest_first=True, cursor=first.next)):  # fmt: skip
        with pytest.raises(UsageError, match="another look-up"):
            reader.look(other)


# --- what makes no sense --------------------------------------------------------------------
@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (Ask("gold.windows"), "the keys sensor, window_start"),
        (Ask("gold.windows", ("a", as_text(START), "c")), "3 values were given"),
        (Ask("gold.windows", ("a", "b")), "'b' is no time"),
        (Ask("gold.windows", ("a",), start="z"), "'z' is no time"),
        (Ask("gold.windows", ("a",), columns=("nope",)), "no column 'nope'"),
        (Ask("gold.windows", ("a",), on="1; drop table x"), "no column '1; drop"),
        (Ask("gold.windows", ("a",), limit=0), "1 to 1000 rows"),
        (Ask("gold.windows", ("a",), limit=1001), "1 to 1000 rows"),
        (Ask("gold.windows", (), start=as_text(at(2)), end=as_text(at(2))), "is empty"),
    ],
)
def test_mistakes_are_told_with_what_to_do(
    sensors: KeyedTable, reader: Reader, ask: Ask, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        reader.look(ask)
    assert said in caught.value.message
    assert caught.value.remedy


def test_tables_that_are_not_there(settings: Settings, reader: Reader) -> None:
    declare(settings, {"name": "gold.empty", "kind": "rows", "keys": ["k"]})
    for name in ("gold.nope", "nope", "gold", "", "gold/../etc", "A" * 100_000, "gold.empty"):
        with pytest.raises(UnknownTable) as caught:
            reader.look(Ask(name, ("a",)))
        assert len(str(caught.value)) < 500


def test_a_table_made_since_is_found(settings: Settings, reader: Reader) -> None:
    with pytest.raises(UnknownTable):
        reader.look(Ask("gold.windows", ("a",)))
    KeyedTable(settings, "gold.windows", ["sensor"]).create(WINDOWS).append(windows(("a", 0, 5)))
    assert reader.look(Ask("gold.windows", ("a",))).rows


def test_without_keys_there_are_ranges(settings: Settings, reader: Reader) -> None:
    table = KeyedTable(settings, "silver.facts", []).create(WINDOWS)
    table.append(windows(("a", 0, 5), ("b", 1, 6)))
    with pytest.raises(UsageError, match="no keys"):
        reader.look(Ask("silver.facts", ("a",)))
    assert [r["n"] for r in rows(reader.look(Ask("silver.facts", start=as_text(at(1)))))] == [6]


@pytest.mark.parametrize(
    ("about", "key"),
    [({"dedupe": {"key": ["n"]}}, "5"), ({"kind": "quarantine"}, "row"), ({"kind": "stream"}, "0")],
)
def test_other_names_of_a_row(
    settings: Settings, reader: Reader, about: dict[str, Any], key: str
) -> None:
    kinds = [("n", pa.int64()), ("row_id", pa.string()), ("partition", pa.int32()),
             ("offset", pa.int64())]  # fmt: skip
    table = KeyedTable(settings, "silver.other", [], **about).create(pa.schema(kinds))
    table.append(
        pa.table({"n": [5], "row_id": ["row"], "partition": [0], "offset": [9]}, pa.schema(kinds))
    )
    assert len(reader.look(Ask("silver.other", (key,))).rows) == 1


def test_partitions_are_columns_like_others(settings: Settings, reader: Reader) -> None:
    """Marts have them; their values are in the log alone, before a checkpoint and after it."""
    table = KeyedTable(settings, "marts.days", ["sensor", "n"]).create(WINDOWS, ["sensor"])
    for number in range(8):
        sensor = None if number == 7 else f"it's {number % 2}"
        add = table.write(windows(("", number, number)).drop_columns(["sensor"]))
        table.commit({"add": {**add, "partitionValues": {"sensor": sensor}}})
    for _ in range(2):
        assert [r["n"] for r in rows(reader.look(Ask("marts.days", ("it's 1",))))] == [1, 3, 5]
        assert rows(reader.look(Ask("marts.days", ("it's 0", "4"))))[0]["sensor"] == "it's 0"
        assert [r["n"] for r in rows(reader.look(Ask("marts.days", ("\\N",))))] == [7]
        found = [
            r["n"] for page in pages(reader, "marts.days", on="n", limit=3) for r in rows(page)
        ]
        assert found == list(range(8))
        DeltaTable(str(table.folder)).create_checkpoint()
        for commit in (table.folder / "_delta_log").glob("*.json"):
            if int(commit.stem) < table.version:
                commit.unlink()
        reader._logs.clear()


def test_a_range_that_is_a_report_is_refused(
    sensors: KeyedTable, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_MOST_FILES", 5)
    with pytest.raises(TooWide, match="10 files") as caught:
        reader.look(Ask("gold.windows", ("s-1",)))
    assert "penstock query" in caught.value.remedy
    assert reader.look(Ask("gold.windows", ("s-1",), start=as_text(at(6)))).rows


def test_a_file_outside_its_table_is_never_opened(
    sensors: KeyedTable, reader: Reader, tmp_path: Path
) -> None:
    for path in ("../../../secrets/x.parquet", str(tmp_path / "x.parquet"), "..%2f..%2fx.parquet"):
        sensors.commit({"add": {"path": path, "partitionValues": {}, "size": 1}})
        with pytest.raises(QueryRefused, match="outside its own folder"):
            reader.look(Ask("gold.windows", ("s-1",)))
