"""A small stack on disk, written by the engine's own writers: a topic, a rows table, windows.

No Spark and no services: what is in which commit is decided here, so a test knows the right answer
without asking the code it tests.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.lineage.revisions import Revisions
from penstock.lineage.trace import trace
from penstock.model.names import TableName
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import removal, write_arrow, write_changes
from penstock.runtime.delta.log import Action
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.fates import quarantine
from penstock.runtime.ingest.bronze import BronzeWriter, bronze_schema
from penstock.settings import Settings

NOBODY = Revisions()
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MINUTE = 60_000_000
TOPIC_ID = "Tid/1"
STAMP = pa.timestamp("us", tz="UTC")
EVENTS = pa.schema(
    [("k", pa.string()), ("v", pa.int64()), ("at", STAMP),
     ("partition", pa.int32()), ("offset", pa.int64())]
)  # fmt: skip
SUMS = pa.schema([("k", pa.string()), ("window_start", STAMP), ("total", pa.int64())])
TOTALS = pa.schema([("k", pa.string()), ("total", pa.int64())])
Row = dict[str, Any]


def at(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def entry(name: str, kind: str, inputs: dict[str, str], revision: str, **more: Any) -> Row:
    layer = name.partition(".")[0]
    return {"name": name, "layer": layer, "kind": kind, "inputs": inputs, "revision": revision,
            "place": f"spark_jobs/{name.replace('.', '/')}.py:7", **more}  # fmt: skip


class World:
    """``bronze.events`` -> ``silver.events`` (rows) -> ``gold.sums`` (windows of a minute)."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.offsets = {0: 0, 1: 0}
        self.bronze = BronzeWriter(
            self.folder, TableName.parse("bronze.events"), token=1, topic_id=TOPIC_ID
        )
        self.broken = self.writer("quarantine.silver_events", "s1", quarantine.SCHEMA)
        self.silver = self.writer("silver.events", "s1", EVENTS)
        self.silver.adopt("quarantine", self.broken)
        self.gold = self.writer("gold.sums", "g1", SUMS)
        self.entries = [
            {"name": "bronze.events", "layer": "bronze", "kind": "stream", "topic": "events"},
            entry("silver.events", "rows", {"events": "bronze.events"}, "s1", keys=[]),
            entry("gold.sums", "window", {"events": "silver.events"}, "g1",
                  keys=["k", "window_start"], on="at", size_us=MINUTE, every_us=MINUTE),
            *({"name": f"{layer}.{of.replace('.', '_')}", "layer": layer, "kind": layer, "of": of}
              for of in ("silver.events", "gold.sums")
              for layer in ("quarantine", "late", "outcomes")),
        ]  # fmt: skip
        self.declare()

    @property
    def folder(self) -> Path:
        return self.settings.warehouse

    def declare(self, *more: Row) -> None:
        self.entries += more
        self.settings.manifest.parent.mkdir(parents=True, exist_ok=True)
        self.settings.manifest.write_text(json.dumps({"tables": self.entries, "broken": []}))

    def writer(
        self, name: str, revision: str, schema: pa.Schema, *, live: bool = True
    ) -> RevisionWriter:
        return RevisionWriter(
            self.folder, TableName.parse(name), revision, schema,
            token=1, live=live, about={"code": f"code-{revision}"},
        )  # fmt: skip

    # --- writing --------------------------------------------------------------------------
    def send(self, *rows: tuple[str, int, float], partition: int = 0) -> list[Row]:
        """One bronze commit of rows (key, value, seconds); returns them as silver has them."""
        made, records = [], []
        for key, value, seconds in rows:
            offset = self.offsets[partition]
            self.offsets[partition] += 1
            made.append({"k": key, "v": value, "at": at(seconds),
                         "partition": partition, "offset": offset})  # fmt: skip
            records.append({"value": b"x", "topic": "events", "topic_id": TOPIC_ID,
                            "partition": partition, "offset": offset, "timestamp_type": 0,
                            "timestamp": at(seconds), "ingested_at": at(seconds)})  # fmt: skip
        table = pa.Table.from_pylist(records, schema=bronze_schema())
        files = write_arrow(table, self.bronze.path)
        self.bronze.append(files, {partition: self.offsets[partition]}, table)
        return made

    def follow(self, rows: list[Row], *, to: RevisionWriter | None = None, **more: Any) -> int:
        """One silver commit that takes in all of bronze; returns its version."""
        silver = to or self.silver
        files = write_arrow(pa.Table.from_pylist(rows, schema=EVENTS), silver.path)
        position = {"bronze.events": self.bronze.log.version}
        return silver.commit(files, position, {"rows_in": len(rows)}, **more)

    def sum_up(self, rows: list[Row], *, of: RevisionWriter | None = None) -> int:
        """One gold commit that has read all of silver; without rows it only says how far."""
        table = pa.Table.from_pylist(rows, schema=SUMS)
        files = write_arrow(table, self.gold.path)
        return self.gold.commit(files, {"silver.events": (of or self.silver).log.version})


def rewrite(
    writer: RevisionWriter, old: pa.Table, new: pa.Table, keys: tuple[str, ...]
) -> list[Action]:
    """Replace a table's only file by one with other rows, with a change file that tells the net."""
    (file,) = pa.table(writer.log.snapshot().get_add_actions(flatten=True)).to_pylist()
    came = [row for row in new.to_pylist() if row not in old.to_pylist()]
    went = [row for row in old.to_pylist() if row not in new.to_pylist()]
    change = Change(
        pa.Table.from_pylist(came, schema=new.schema), pa.Table.from_pylist(went, schema=new.schema)
    )
    return [
        removal(file["path"], file["size_bytes"]),
        *write_arrow(new, writer.path, "b00-0000"),
        *write_changes(change, keys, writer.path),
    ]


def follow(world: World, table: str, revisions: Revisions = NOBODY, **wanted: object):
    """The trace of the one row meant."""
    pairs = [(name, str(value)) for name, value in wanted.items()]
    found = trace(world.settings, revisions, table, pairs)
    assert found.count == 1
    (row,) = found.rows
    return row
