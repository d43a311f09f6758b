"""A small table of every kind, and random lives for them."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from penstock.model import (
    Enrich,
    Group,
    History,
    Latest,
    Rows,
    Table,
    Totals,
    hopping,
    interval_join,
    session,
    sliding,
    sql_table,
    table,
    tumbling,
)

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
STAMP = pa.timestamp("us", tz="UTC")
EVENTS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", STAMP), ("n", pa.int64())])
DIMENSION = pa.schema(
    [("k", pa.string()), ("colour", pa.string()), ("valid_from", STAMP), ("valid_to", STAMP)]
)
CHANGES = pa.schema(
    [
        ("k", pa.string()),
        ("v", pa.int64()),
        ("t", STAMP),
        ("n", pa.int64()),
        ("gone", pa.bool_()),
        ("cut", pa.bool_()),
        ("snap", pa.bool_()),
    ]
)
_TIMES = {"lateness": "3 seconds", "reconcile_within": "40 seconds"}


@dataclass(frozen=True)
class Case:
    """A table under test, its inputs, and how its life goes."""

    table: Table
    schemas: dict[str, pa.Schema] = field(default_factory=lambda: {"silver.events": EVENTS})
    changing: bool = False
    make: Callable[[random.Random, int, str], dict[str, Any]] | None = None


def _window(name: str, kind: Any, by: str = "window_start") -> Table:
    @table(name, inputs={"events": "silver.events"}, kind=kind, keys=("k", by))
    def windowed(events):
        return events.groupBy("k", "window_start", "window_end").agg(
            F.sum("v").alias("total"), F.count(F.lit(1)).alias("rows"), F.max("t").alias("last")
        )

    return windowed


@table("silver.doubled", inputs={"events": "silver.events"}, kind=Rows(), keys=("n",))
def doubled(events):
    return events.where("v % 5 != 0").select("k", (F.col("v") * 2).alias("w"), "t", "n")


@table("gold.medians", inputs={"events": "silver.events"}, kind=Group(by=("k",)), keys=("k",))
def medians(events):
    return events.groupBy("k").agg(
        F.expr("percentile(v, 0.5)").alias("median"),
        F.countDistinct("v").alias("values"),
        F.max("t").alias("last"),
    )


@table(
    "gold.both",
    inputs={"events": "silver.events", "others": "silver.others"},
    kind=Group(by=("k",)),
    keys=("k", "side"),
)
def both(events, others):
    sides = events.withColumn("side", F.lit("l")).unionByName(others.withColumn("side", F.lit("r")))
    return sides.groupBy("k", "side").agg(F.sum("v").alias("total"))


@table(
    "gold.sliding_rekeyed",
    inputs={"events": "silver.events"},
    kind=sliding("5 seconds", by=("k",), on="t", updates=True, **_TIMES),
    keys=("k", "window_end"),
)
def rekeyed(events):
    """Keys that come out as others: as one there is none of, and as one there is."""
    named = F.when(F.col("k") == "c", "C").when(F.col("k") == "b", "a").otherwise(F.col("k"))
    known = events.where("v != 3").withColumn("k", named)
    return known.groupBy("k", "window_start", "window_end").agg(F.sum("v").alias("total"))


@table(
    "gold.session_rekeyed",
    inputs={"events": "silver.events"},
    kind=session("3 seconds", by=("k",), on="t", **_TIMES),
    keys=("k", "window_start"),
)
def renamed(events):
    """Sessions under names that no row of the input has."""
    named = events.withColumn("k", F.upper("k"))
    return named.groupBy("k", "window_start", "window_end").agg(F.sum("v").alias("total"))


by_sql = sql_table(
    "gold.by_sql",
    inputs={"events": "silver.events"},
    kind=Group(by=("k",)),
    keys=("k",),
    query="select k, count(*) as rows, min(v) as least from {events} group by k",
)


@table(
    "gold.totals",
    inputs={"events": "silver.events", "others": "silver.others"},
    kind=Totals(by=("k",)),
)
def totals(events, others):
    def part(rows, sign):
        amount = (F.col("v") * sign).cast("decimal(12,2)").alias("amount")
        return rows.select("k", amount, F.lit(1).alias("rows"))

    return part(events, 1).unionByName(part(others.where("v < 7"), -1))


@table(
    "silver.newest",
    inputs={"changes": "silver.changes"},
    kind=Latest(by=("k",), order=("t", "n"), deleted="gone", truncated="cut"),
)
def newest(changes):
    return changes.select("k", "v", "t", "n", "gone", "cut")


@table(
    "silver.versions",
    inputs={"changes": "silver.changes"},
    kind=History(
        by=("k",), order=("n",), since="t", deleted="gone", truncated="cut", snapshot="snap"
    ),
)
def versions(changes):
    return changes.select("k", "v", "t", "n", "gone", "cut", "snap")


@table(
    "gold.coloured",
    inputs={"events": "silver.events", "colours": "silver.colours"},
    kind=Enrich(by=("k",), on="t"),
    keys=("n",),
)
def coloured(events):
    return events.where("v != 3").select("n", "k", "t", F.col("colours.colour").alias("colour"))


def _joined(name: str, how: Any) -> Table:
    kind = interval_join(
        by=("k",), on="t", right_on="t", before="2 seconds", after="4 seconds", how=how, **_TIMES
    )

    @table(
        name,
        inputs={"events": "silver.events", "others": "silver.others"},
        kind=kind,
        keys=("n", "other"),
    )
    def joined(events):
        return events.select("n", "k", "t", "v", F.col("others.n").alias("other"))

    return joined


@table(
    "gold.newest_before",
    inputs={"events": "silver.events", "others": "silver.others"},
    kind=interval_join(
        by=("k",), on="t", right_on="t", before="4 seconds", updatable_for="10 seconds", **_TIMES
    ),
    keys=("n",),
)
def newest_before(events):
    """All pairs of a left row come together, so one of them can be chosen."""
    newest = F.struct("others.t", "others.n")
    return events.groupBy("n", "k", "t", "v").agg(F.max_by("others.n", newest).alias("other"))


_TWO = {"silver.events": EVENTS, "silver.others": EVENTS}
_HOP = {"every": "2 seconds", "on": "t", **_TIMES}


def _change(dice: random.Random, number: int, _: str) -> dict[str, Any]:
    cut = dice.random() < 0.06
    return {
        "k": None if cut else dice.choice("abc"),
        "v": dice.randrange(9),
        "t": START + dt.timedelta(seconds=number // 2),
        "n": number,
        "gone": dice.random() < 0.2,
        "cut": cut,
        "snap": dice.random() < 0.2,
    }


def event(dice: random.Random, number: int, _: str) -> dict[str, Any]:
    """One row; times jump about, now and then by far more than the lateness."""
    back = dice.choice([0, 0, 0, 1, 2, 2.9, 8, 30, 70])
    seconds = max(0.0, number * 0.7 - back)
    if dice.random() < 0.5:  # on the very edge of windows, sessions and joins
        seconds = float(round(seconds))
    at = START + dt.timedelta(seconds=seconds, microseconds=dice.choice([0, 0, 1, 2]))
    return {
        "k": dice.choice(["a", "b", "c", None]),
        "v": dice.randrange(9),
        "t": None if dice.random() < 0.03 else at,
        "n": number,
    }


def crowded(dice: random.Random, number: int, _: str) -> dict[str, Any]:
    """One row of one of many keys, whose sessions begin and end amid those of others."""
    back = dice.choice([0, 0, 0, 0, 1, 2, 5, 12, 25])
    seconds = round(max(0.0, number * 0.35 - back) * 2) / 2
    at = START + dt.timedelta(seconds=seconds, microseconds=dice.choice([-1, 0, 0, 1]))
    return {"k": dice.choice(["a", "b", "c", "d", None]), "v": number % 7, "t": at, "n": number}


def _keyed_event(dice: random.Random, number: int, source: str) -> dict[str, Any]:
    if source != "silver.colours":
        return {**event(dice, number, source), "k": dice.choice("abc")}
    # each number has a place of its own: a key never has two versions at one moment
    slot, key = (number * 7) % 16, "abc"[(number * 7) // 16 % 3]
    since = START + dt.timedelta(seconds=5 * slot)
    return {
        "k": key,
        "colour": dice.choice(["red", "green", "blue"]),
        "valid_from": since,
        "valid_to": since + dt.timedelta(seconds=5) if slot < 15 else None,
    }


CASES: dict[str, Case] = {
    "rows": Case(doubled),
    "rows_changing": Case(doubled, changing=True),
    "group": Case(medians),
    "group_changing": Case(medians, changing=True),
    "group_two": Case(both, _TWO, changing=True),
    "group_sql": Case(by_sql),
    "totals": Case(totals, _TWO),
    "totals_changing": Case(totals, _TWO, changing=True),
    "latest": Case(newest, {"silver.changes": CHANGES}, make=_change),
    "latest_changing": Case(newest, {"silver.changes": CHANGES}, changing=True, make=_change),
    "history": Case(versions, {"silver.changes": CHANGES}, make=_change),
    "history_changing": Case(versions, {"silver.changes": CHANGES}, changing=True, make=_change),
    "enrich": Case(
        coloured,
        {"silver.events": EVENTS, "silver.colours": DIMENSION},
        changing=True,
        make=_keyed_event,
    ),
    "tumbling": Case(_window("gold.tumbling", tumbling("4 seconds", on="t", **_TIMES))),
    "hopping": Case(_window("gold.hopping", hopping("6 seconds", **_HOP))),
    "offset": Case(_window("gold.shifted", hopping("6 seconds", offset="1 second", **_HOP))),
    "updates": Case(_window("gold.updating", hopping("6 seconds", updates=True, **_HOP))),
    "updatable": Case(
        _window("gold.updatable", hopping("6 seconds", updatable_for="10 seconds", **_HOP))
    ),
    "updates_updatable_changing": Case(
        _window(
            "gold.all_of_it", hopping("6 seconds", updates=True, updatable_for="5 seconds", **_HOP)
        ),
        changing=True,
    ),
    "hopping_changing": Case(
        _window("gold.hopping_changing", hopping("6 seconds", **_HOP)), changing=True
    ),
    "sliding": Case(
        _window("gold.sliding", sliding("5 seconds", by=("k",), on="t", **_TIMES), "window_end")
    ),
    "sliding_updates": Case(
        _window(
            "gold.sliding_updates",
            sliding("5 seconds", by=("k",), on="t", updates=True, **_TIMES),
            "window_end",
        ),
        changing=True,
    ),
    "sliding_rekeyed": Case(rekeyed),
    "sliding_rekeyed_changing": Case(rekeyed, changing=True),
    "session": Case(_window("gold.sessions", session("3 seconds", by=("k",), on="t", **_TIMES))),
    "session_rekeyed": Case(renamed),
    "session_rekeyed_changing": Case(renamed, changing=True),
    "join_left": Case(_joined("gold.left_join", "left"), _TWO),
    "join_newest": Case(newest_before, _TWO, changing=True),
    "join_inner": Case(_joined("gold.inner_join", "inner"), _TWO, changing=True),
}
