"""What a change means, what goes together, where a history begins: plain functions."""

from __future__ import annotations

import datetime as dt

import pytest

from penstock.errors import UsageError
from penstock.model import Group, Rows, table, tumbling
from penstock.model.catalog import Catalog
from penstock.model.names import TableName
from penstock.reprocess.history import how_built
from penstock.reprocess.plan import classify, same_rows, selection
from penstock.reprocess.request import begin_at

MEANING = {"kind": "window", "keys": ["k", "window_start"], "size_us": 5, "every_us": 5}


@pytest.mark.parametrize(
    ("old", "new", "meaning", "category"),
    [
        (None, {"a": "long"}, MEANING, "new"),
        ({"a": "long"}, {"a": "long"}, MEANING, "same columns"),
        ({"a": "long"}, {"a": "long", "b": "string"}, MEANING, "additive"),
        ({"a": "long", "b": "string"}, {"a": "long"}, MEANING, "breaking"),
        ({"a": "integer"}, {"a": "long"}, MEANING, "breaking"),
        ({"a": "long"}, {"a": "long"}, {**MEANING, "size_us": 10}, "breaking"),
        ({"a": "long"}, {"a": "long"}, {**MEANING, "keys": ["k"]}, "breaking"),
        ({"a": "long"}, {"a": "long"}, {**MEANING, "lateness_us": 9}, "same columns"),
    ],
)
def test_what_a_change_means_to_readers(old, new, meaning, category):
    assert classify(old, new, MEANING, meaning)[0] == category


def test_retyped_columns_are_named():
    _, columns = classify({"a": "integer", "b": "x"}, {"a": "long", "c": "y"}, MEANING, MEANING)
    assert columns == {"added": ["c"], "dropped": ["b"], "retyped": ["a: integer -> long"]}


def test_another_window_is_another_row():
    assert same_rows(MEANING, {**MEANING, "lateness_us": 3})
    assert not same_rows(MEANING, {**MEANING, "every_us": 1})


def _made(name: str, *reads: str):
    inputs = {f"i{n}": read for n, read in enumerate(reads)}

    @table(name, inputs=inputs, kind=Rows() if len(reads) == 1 else Group(by=("k",)),
           keys=() if len(reads) == 1 else ("k",))  # fmt: skip
    def made(*frames):
        return frames[0]

    return made


@pytest.fixture
def catalog(monkeypatch):
    monkeypatch.setattr("penstock.model.definition._input_problems", lambda declared: [])
    monkeypatch.setattr("penstock.model.catalog._drop_dangling", lambda streams, tables: [])
    made = [
        _made("silver.a", "bronze.a"),
        _made("silver.b", "bronze.b"),
        _made("gold.c", "silver.a"),
        _made("gold.d", "gold.c"),
        _made("gold.e", "silver.b"),
    ]
    return Catalog.build(made)


def names(found) -> list[str]:
    return sorted(map(str, found))


def test_what_goes_live_together(catalog):
    every = list(catalog.tables)
    changed = [TableName.parse(n) for n in ("silver.a", "gold.c", "gold.d", "gold.e")]
    assert names(selection(catalog, changed, None)) == names(changed)
    together = ["gold.c", "gold.d", "silver.a"]
    assert names(selection(catalog, changed, "gold.c")) == together
    assert names(selection(catalog, changed, "gold.d")) == together
    assert names(selection(catalog, changed, "gold.e")) == ["gold.e"]
    assert selection(catalog, changed, "silver.b") == []
    assert selection(catalog, [], None) == []
    ordered = [str(n) for n in selection(catalog, every, "gold.d")]
    assert ordered.index("silver.a") < ordered.index("gold.c") < ordered.index("gold.d")
    with pytest.raises(UsageError, match=r"no table gold\.z"):
        selection(catalog, changed, "gold.z")


NOW = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)


def test_where_a_history_begins():
    assert begin_at("BEGINNING", NOW) is None
    assert begin_at("beginning", NOW) is None
    hour = begin_at("1 hour", NOW)
    assert hour == begin_at("2026-11-17T11:00Z", NOW) == begin_at("2026-11-17T12:00+01:00", NOW)
    with pytest.raises(UsageError, match="neither"):
        begin_at("soon", NOW)
    with pytest.raises(UsageError, match="longer than 100 years"):
        begin_at("999999 days", NOW)
    with pytest.raises(UsageError, match="not come yet"):
        begin_at("2027-01-01", NOW)


def test_which_histories_are_built_as_a_batch():
    @table("gold.w", inputs={"i": "silver.a"}, kind=tumbling("5 minutes", on="t"),
           keys=("k", "window_start"))  # fmt: skip
    def windowed(i):
        return i

    @table("silver.r", inputs={"i": "silver.a"}, kind=Rows())
    def rows(i):
        return i

    assert how_built(windowed, decodes=False) == "batch"
    assert how_built(rows, decodes=False) == "follow"
    assert how_built(windowed, decodes=True) == "follow"
