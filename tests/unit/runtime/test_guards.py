"""Guards hold a live table before readers see what is wrong; the revision goes on."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import DefinitionError
from penstock.model import Guards, Rows, table
from penstock.runtime.delta.change import Change
from penstock.runtime.kinds.guards import breach
from penstock.testing import Kit

EVENTS = pa.schema([("k", pa.string()), ("v", pa.int64())])


def rows(*pairs) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": v} for k, v in pairs], EVENTS)


@pytest.mark.parametrize(
    ("guards", "added", "word"),
    [
        (Guards(null_rate={"v": 0.5}), rows(("a", None), ("b", 1)), ""),
        (Guards(null_rate={"v": 0.4}), rows(("a", None), ("b", 1)), "50.0% of a batch's v"),
        (Guards(null_rate={"v": 0.4}, least_rows=3), rows(("a", None)), ""),
        (Guards(most_rows=2), rows(("a", 1), ("b", 1)), ""),
        (Guards(most_rows=1), rows(("a", 1), ("b", 1)), "added 2 rows"),
        (Guards(unique_keys=True), rows(("a", 1), ("b", 1)), ""),
        (Guards(unique_keys=True), rows(("a", 1), ("a", 2)), "came more than once"),
        (Guards(null_rate={"v": 0.0}), rows(), ""),
    ],
)
def test_what_a_batch_breaks(guards, added, word):
    told = breach(guards, ("k",), Change(added), [])
    assert (word in told) if word else told == ""


def test_of_big_batches_the_files_tell():
    stats = '{"numRecords": 10, "nullCount": {"v": 4}}'
    add = {"add": {"stats": stats}}
    assert breach(Guards(null_rate={"v": 0.3}), (), None, [add, add])
    assert not breach(Guards(null_rate={"v": 0.5}), (), None, [add])
    assert breach(Guards(most_rows=19), (), None, [add, add])


def test_wrong_guards_are_refused():
    with pytest.raises(DefinitionError, match="share between 0 and 1"):

        @table("gold.x", inputs={"events": "silver.events"}, kind=Rows(),
               guards=Guards(null_rate={"v": 7}))  # fmt: skip
        def x(events):
            return events

    with pytest.raises(DefinitionError, match="needs keys"):

        @table("gold.y", inputs={"events": "silver.events"}, kind=Rows(),
               guards=Guards(unique_keys=True))  # fmt: skip
        def y(events):
            return events


@pytest.mark.spark
def test_live_is_held_until_it_is_released(spark, tmp_path):
    @table("gold.guarded", inputs={"events": "silver.events"}, kind=Rows(),
           guards=Guards(null_rate={"v": 0.2}))  # fmt: skip
    def guarded(events):
        return events.select("k", "v")

    kit = Kit(spark, tmp_path, guarded, EVENTS)
    kit.feed([{"k": "a", "v": 1}])
    kit.feed([{"k": "b", "v": None}])
    assert [r["k"] for r in kit.rows()] == ["a"]
    assert "100.0%" in kit.follower.breach
    kit.feed([{"k": "c", "v": 3}])
    assert [r["k"] for r in kit.rows()] == ["a"], "nothing passes a held live table"
    kit.restart()  # a crash does not release it
    assert kit.follower.breach
    kit.feed([{"k": "d", "v": 4}])
    assert [r["k"] for r in kit.rows()] == ["a"]
    kit.follower.release()
    assert [r["k"] for r in kit.rows()] == ["a", "b", "c", "d"]
    kit.restart()
    kit.feed([{"k": "e", "v": 5}])
    assert len(kit.rows()) == 5
    assert not any(kit.balance().values())
