"""Small real Delta tables: a live log written by hand, as Penstock's mirror writes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

DELTA_TYPES = {
    pa.string(): "string",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


def delta_type(kind: pa.DataType) -> Any:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        return delta_schema(pa.schema(list(kind)))
    if pa.types.is_list(kind):
        inner = delta_type(kind.value_type)
        return {"type": "array", "elementType": inner, "containsNull": True}
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": delta_type(kind.key_type),
            "valueType": delta_type(kind.item_type),
            "valueContainsNull": True,
        }
    return DELTA_TYPES[kind]


def delta_schema(schema: pa.Schema) -> dict[str, Any]:
    fields = [
        {"name": f.name, "type": delta_type(f.type), "nullable": True, "metadata": {}}
        for f in schema
    ]
    return {"type": "struct", "fields": fields}


class LiveTable:
    """A live log whose add actions point into ``_revisions/<rev>/``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = -1
        self.files = 0
        (folder / "_delta_log").mkdir(parents=True)

    def commit(self, *actions: dict[str, Any], timestamp: int | None = None) -> int:
        self.version += 1
        stamp = 1_767_225_600_000 + self.version * 1000 if timestamp is None else timestamp
        lines = [*actions, {"commitInfo": {"timestamp": stamp, "operation": "MIRROR"}}]
        path = self.folder / "_delta_log" / f"{self.version:020}.json"
        staged = path.with_suffix(".tmp")
        staged.write_text("\n".join(map(json.dumps, lines)))
        staged.rename(path)  # a commit appears whole, as put-if-absent makes it
        return self.version

    def create(self, schema: pa.Schema, partition_by: Sequence[str] = ()) -> LiveTable:
        protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 4}
        if pa.timestamp("us") in schema.types:
            features = ["timestampNtz"]
            protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}
            protocol["writerFeatures"] = [*features, "changeDataFeed"]
        self.commit({"protocol": protocol}, self.metadata(schema, partition_by))
        return self

    def metadata(self, schema: pa.Schema, partition_by: Sequence[str] = ()) -> dict[str, Any]:
        return {
            "metaData": {
                "id": "11111111-1111-1111-1111-111111111111",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(delta_schema(schema)),
                "partitionColumns": list(partition_by),
                "configuration": {"delta.enableChangeDataFeed": "true"},
                "createdTime": 0,
            }
        }

    def write(self, data: pa.Table, where: str = "_revisions/r1", **options: Any) -> dict[str, Any]:
        """Write a parquet file and return the body of an action that names it."""
        self.files += 1
        relative = f"{where}/part-{self.files:05}.parquet"
        path = self.folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(data, path, **options)
        return {
            "path": relative,
            "partitionValues": {},
            "size": path.stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
        }

    def append(self, data: pa.Table, rev: str = "r1", **options: Any) -> dict[str, Any]:
        body = self.write(data, f"_revisions/{rev}", **options)
        self.commit({"add": body}, {"txn": {"appId": f"mirror:{rev}", "version": self.version}})
        return body

    def cdc(self, data: pa.Table, rev: str = "r1") -> dict[str, Any]:
        body = self.write(data, f"_revisions/{rev}/_change_data")
        del body["modificationTime"]
        return {"cdc": {**body, "dataChange": False}}


def removal(add: dict[str, Any], *, data_change: bool = True) -> dict[str, Any]:
    return {
        "remove": {
            "path": add["path"],
            "deletionTimestamp": 1,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": add["partitionValues"],
            "size": add["size"],
        }
    }


STATS = pa.schema([("ticker", pa.string()), ("trades", pa.int64()), ("price", pa.float64())])


def stats(*rows: tuple[str, int, float]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(STATS.names, row, strict=True)) for row in rows], STATS)
