"""Inputs of a table under test: a table, or a topic, that grows as the test says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.location import Location, delta_table
from penstock.model.stream import Stream
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import removal, write_arrow, write_changes
from penstock.runtime.delta.relate import minus
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.ingest.bronze import BronzeWriter, bronze_schema

__all__ = ["FedStream", "FedTable"]

_START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class FedTable:
    """An input that is a table."""

    def __init__(self, writer: RevisionWriter) -> None:
        self.source = writer
        fed = writer.position("test")
        self._fed = 0 if fed is None else fed

    def add(self, rows: pa.Table) -> None:
        self._commit(write_arrow(rows, self.source.path), Change(rows))

    def remove(self, rows: pa.Table) -> None:
        """Rewrite the table without these rows, as an upserting table would."""
        table = self.source.log.snapshot()
        left = minus(self.rows(), rows)
        change = Change(rows.slice(0, 0), rows)
        out = [
            removal(add["path"], add["size_bytes"])
            for add in pa.table(table.get_add_actions(flatten=True)).to_pylist()
        ]
        told = write_changes(change, (), self.source.path)
        self._commit([*out, *write_arrow(left, self.source.path), *told], change)

    def _commit(self, actions: list[Any], change: Change) -> None:
        self._fed += 1
        self.source.commit(actions, {"test": self._fed}, change=change)

    def rows(self) -> pa.Table:
        return self.source.log.snapshot().to_pyarrow_table().cast(self.source.schema)

    def count(self) -> int:
        return int(self.rows().num_rows)


class FedStream:
    """An input that is a topic of one partition, and the schema registry of its writers."""

    def __init__(
        self, folder: Location, stream: Stream, token: int, writers: dict[int, str] | None = None
    ) -> None:
        self.stream = stream
        self.writers = {1: stream.contract.schema_json} if writers is None else writers
        self.source = BronzeWriter(folder, stream.name, token=token, topic_id="test")

    def writer(self, schema_id: int) -> str | None:
        """As the registry answers."""
        return self.writers.get(schema_id)

    def send(self, rows: Sequence[dict[str, Any] | bytes | None], at: dt.datetime | None) -> None:
        """One bronze commit; a row's event time (``_at``) travels as the record's time."""
        start = self.source.next_offset(0) or 0
        at = at or _START + dt.timedelta(seconds=start)
        records = [self._record(row, start + index, at) for index, row in enumerate(rows)]
        table = pa.Table.from_pylist(records, schema=bronze_schema())
        adds = write_arrow(table, self.source.path)
        self.source.append(adds, {0: start + len(records)}, table)

    def _record(
        self, row: dict[str, Any] | bytes | None, offset: int, at: dt.datetime
    ) -> dict[str, Any]:
        value, stamp = row, at
        if isinstance(row, dict):
            from penstock.clients.encode import encoder

            stamp = row.get("_at", at)
            fields = {name: field for name, field in row.items() if name != "_at"}
            value = encoder(self.stream.contract, 1)(fields)
        return {
            "key": None,
            "value": value,
            "cluster_id": "test",
            "topic": self.stream.topic,
            "topic_id": "test",
            "partition": 0,
            "offset": offset,
            "timestamp": stamp,
            "timestamp_type": 0,
            "ingested_at": at,
        }

    def rows(self) -> pa.Table:
        table = delta_table(self.source.path, self.source.log.version)
        return table.to_pyarrow_table().cast(self.source.schema)

    def count(self) -> int:
        return int(self.rows().num_rows)
