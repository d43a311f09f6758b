"""The way of a row through tables that the engine itself wrote: the answer is counted by hand."""

from __future__ import annotations

import datetime as dt
import json
import random

import pytest
from pyspark.sql import functions as F

from penstock.lineage.revisions import Revisions
from penstock.lineage.trace import trace
from penstock.model import Contract, Group, Latest, Rows, stream, table, tumbling
from penstock.testing import Kit
from penstock.testing.feeds import FedTable

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "k", "type": "string"},
        {"name": "v", "type": "long"},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
EVENTS = stream(
    "bronze.events", topic="events", event_time="t", contract=Contract("events-value", AVRO)
)


@table("silver.events", inputs={"events": EVENTS}, kind=Rows())
def silver(events):
    place = [F.col("_partition").alias("partition"), F.col("_offset").alias("offset")]
    return events.select("k", "v", "t", *place)


@table(
    "gold.sums",
    inputs={"events": silver},
    kind=tumbling("10 seconds", on="t", lateness="5 seconds"),
    keys=("k", "window_start"),
)
def sums(events):
    return events.groupBy("k", "window_start", "window_end").agg(F.sum("v").alias("total"))


@table("gold.newest", inputs={"events": silver}, kind=Latest(by=("k",), order=("t", "offset")))
def newest(events):
    return events.select("k", "t", "offset", "v")


@table("gold.counts", inputs={"newest": newest}, kind=Group(by=("k",)), keys=("k",))
def counts(newest):
    return newest.groupBy("k").agg(F.max("v").alias("v"))


class Chain:
    """Tables that read each other, each run by a kit of its own."""

    def __init__(self, spark, settings) -> None:
        self.settings = settings
        folder = settings.warehouse
        self.kits = [Kit(spark, folder, silver, stream=EVENTS)]
        for definition, above in ((sums, 0), (newest, 0), (counts, 2)):
            source = self.kits[above].follower.writer
            kit = Kit(spark, folder, definition, source.schema)
            # Not a feed of its own: what the kit above writes.
            kit.feeds[str(source.name)] = FedTable(source)
            kit._changing = {str(source.name)} if above else set()
            kit._follower = kit._new_follower()
            self.kits.append(kit)
        self.sent: list[dict] = []
        tables = [{"name": "bronze.events", "kind": "stream", "topic": "events"}]
        for definition in (silver, sums, newest, counts):
            told = {"layer": definition.name.layer, "revision": "under-test"}
            tables.append({**definition.describe(), **told})
        settings.manifest.write_text(json.dumps({"tables": tables, "broken": []}))

    def send(self, rows: list[dict]) -> None:
        self.sent += rows
        self.kits[0].feed(rows)
        for kit in self.kits[1:]:
            kit.advance()

    def trace(self, table: str, **wanted: object):
        pairs = [(name, str(value)) for name, value in wanted.items()]
        found = trace(self.settings, Revisions(), table, pairs)
        assert found.count == 1
        return found.rows[0]


@pytest.fixture
def chain(spark, settings):
    dice = random.Random(5)
    chain = Chain(spark, settings)
    for batch in range(8):
        chain.send(
            [
                {
                    "k": dice.choice("abc"),
                    "v": dice.randrange(100),
                    "t": START + dt.timedelta(seconds=batch * 5 + dice.random() * 5),
                }
                for _ in range(6)
            ]
        )
    return chain


def test_windows_lead_to_exactly_the_records_in_them(chain):
    seen = 0
    for row in chain.kits[1].rows():
        offsets = [
            offset
            for offset, sent in enumerate(chain.sent)
            if sent["k"] == row["k"] and row["window_start"] <= sent["t"] < row["window_end"]
        ]
        way = chain.trace("gold.sums", k=row["k"], window_start=row["window_start"].isoformat())
        (middle,) = way.inputs
        (bronze,) = middle.inputs
        assert (middle.table, middle.rows) == ("silver.events", len(offsets))
        assert bronze.records == [(0, min(offsets), max(offsets), len(offsets))]
        assert sum(chain.sent[offset]["v"] for offset in offsets) == row["total"]
        seen += 1
    assert seen > 5


def test_a_group_over_a_table_that_changes_leads_to_all_records_of_its_key(chain):
    for key in "abc":
        way = chain.trace("gold.counts", k=key)
        (latest,) = way.inputs
        (middle,) = latest.inputs
        (bronze,) = middle.inputs
        offsets = [offset for offset, sent in enumerate(chain.sent) if sent["k"] == key]
        assert [o.table for o in (latest, middle, bronze)] == [
            "gold.newest", "silver.events", "bronze.events"
        ]  # fmt: skip
        upto = [o for o in offsets if o <= bronze.records[0][2]]
        assert bronze.records == [(0, upto[0], upto[-1], len(upto))]
        assert max(upto) == max(offsets), "the newest row of a key is what it shows"


def test_the_newest_row_came_with_the_commit_that_read_it(chain):
    last = {sent["k"]: offset for offset, sent in sorted(enumerate(chain.sent),
                                                         key=lambda s: s[1]["t"])}  # fmt: skip
    for key, offset in last.items():
        way = chain.trace("gold.newest", k=key)
        assert way.row["offset"] == offset
        (middle,) = way.inputs
        source = chain.trace("silver.events", offset=offset)
        (first, until), = middle.taken  # fmt: skip
        assert first <= source.version <= until
