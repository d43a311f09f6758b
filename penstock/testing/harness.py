"""One table over one input, both on disk, driven batch by batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.model.definition import Table
from penstock.model.windows import Window
from penstock.runtime import quarantine
from penstock.runtime.batch import recompute
from penstock.runtime.files import conform, write_arrow
from penstock.runtime.follow import Follower, TableContext
from penstock.runtime.rows import RowsFollower
from penstock.runtime.slices import SliceFollower
from penstock.runtime.windows import assign_windows
from penstock.runtime.writer import RevisionWriter, live_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Harness"]

_REVISION = "under-test"


class Harness:
    """Feeds an input table and lets the table under test follow it, as the supervisor would."""

    def __init__(
        self, session: SparkSession, folder: Path, table: Table, input_schema: pa.Schema
    ) -> None:
        self.session = session
        self.folder = folder
        self.table = table
        self.input_name = next(iter(table.inputs.values()))
        self.input_schema = input_schema
        self._token = 0
        self._fed = 0
        self.restart()

    def restart(self) -> None:
        """Open everything anew under a higher token: memory is gone, commits are not."""
        self._token += 1
        self.source = self._writer(self.input_name, self.input_schema)
        writer = self._writer(self.table.name, self._output_schema())
        broken = self._writer(self.table.name.quarantine, quarantine.SCHEMA)
        context = TableContext(self.session, self.table, _REVISION, writer, broken)
        window = isinstance(self.table.kind, Window)
        follow = SliceFollower if window else RowsFollower
        self.follower: Follower = follow(context, self.source, str(self.input_name))

    def feed(self, rows: pa.Table | list[dict[str, Any]], *, follow: bool = True) -> None:
        """Commit rows to the input, and let the table take them in."""
        table = pa.Table.from_pylist(rows, self.input_schema) if isinstance(rows, list) else rows
        table = conform(table, self.input_schema)
        self._fed += 1
        adds = write_arrow(table, self.source.path)
        self.source.append(adds, {"test": self._fed}, rows=table)
        if follow:
            self.follower.advance()

    def rows(self) -> list[dict[str, Any]]:
        """What readers of the live table see, in the order of its columns' values."""
        return self._live(self.table.name)

    def quarantined(self) -> list[dict[str, Any]]:
        return self._live(self.table.name.quarantine)

    def batch_rows(self) -> list[dict[str, Any]]:
        """The batch form of the table over all of the input; for windows, those that are final."""
        frame = self.session.createDataFrame(self.source.log.snapshot().to_pyarrow_table())
        until = self.follower.watermark if isinstance(self.follower, SliceFollower) else None
        out = recompute(self.table, frame, until=until)
        return _sorted(conform(out.toArrow(), self._output_schema()))

    def _writer(self, name: Any, schema: pa.Schema) -> RevisionWriter:
        return RevisionWriter(self.folder, name, _REVISION, schema, token=self._token, live=True)

    def _output_schema(self) -> pa.Schema:
        empty = self.session.createDataFrame(self.input_schema.empty_table())
        if isinstance(self.table.kind, Window):
            empty = assign_windows(empty, self.table.kind)
        fields = [f.with_nullable(True) for f in to_arrow_schema(self.table(empty).schema)]
        return pa.schema(fields)

    def _live(self, name: Any) -> list[dict[str, Any]]:
        return _sorted(DeltaTable(str(live_path(self.folder, name))).to_pyarrow_table())


def _sorted(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: [str(value) for value in row.values()])
