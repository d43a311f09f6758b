"""Tables to look rows up in: as ``live_tables``, with statistics and declared keys."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from live_tables import LiveTable, removal

from penstock.runtime.delta.files import described
from penstock.serve.asked import Ask
from penstock.serve.lookup import Answer, Reader
from penstock.settings import Settings

UTC_US = pa.timestamp("us", "UTC")
START = dt.datetime(2026, 11, 1, 10, tzinfo=dt.UTC)
WINDOWS = pa.schema([("sensor", pa.string()), ("window_start", UTC_US), ("n", pa.int64())])


class KeyedTable(LiveTable):
    """A live table with keys; its files have the statistics the engine writes."""

    def __init__(self, settings: Settings, label: str, keys: Sequence[str], **about: Any) -> None:
        super().__init__(settings.warehouse.joinpath(*label.split(".")))
        declare(settings, {"name": label, "kind": "rows", "keys": list(keys), **about})

    def write(self, data: pa.Table, where: str = "_revisions/r1", **options: Any) -> dict[str, Any]:
        body = super().write(data, where, **options)
        told = described(self.folder / body["path"], self.folder)["add"]
        return {**body, "stats": told["stats"]}

    def replace(self, gone: Sequence[dict[str, Any]], *tables: pa.Table, rev: str = "r1") -> list:
        """One commit: these files out, these rows in."""
        adds = [self.write(data, f"_revisions/{rev}") for data in tables if data.num_rows]
        self.commit(*(removal(add) for add in gone), *({"add": add} for add in adds))
        return adds

    def vacuum(self, files: Sequence[dict[str, Any]]) -> None:
        for add in files:
            (self.folder / add["path"]).unlink()


def declare(settings: Settings, *entries: dict[str, Any]) -> None:
    """Add to the manifest; as the engine does, in one step."""
    path = settings.manifest
    known = json.loads(path.read_text())["tables"] if path.exists() else []
    names = {entry["name"] for entry in entries}
    kept = [entry for entry in known if entry["name"] not in names]
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"tables": [*kept, *entries]}))
    fresh.rename(path)


def rows(answer: Answer) -> list[dict[str, Any]]:
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def pages(reader: Reader, table: str, *key: str, **asked: Any) -> list[Answer]:
    """Every page of a look-up, in order."""
    found = [reader.look(Ask(table, key, **asked))]
    while found[-1].next is not None:
        found.append(reader.look(Ask(table, key, **asked, cursor=found[-1].next)))
    return found


def on_disk(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}


Make = Callable[..., KeyedTable]


def at(minute: float) -> dt.datetime:
    return START + dt.timedelta(minutes=minute)


def windows(*given: tuple[str | None, float, int]) -> pa.Table:
    listed = [dict(zip(WINDOWS.names, (s, at(m), n), strict=True)) for s, m, n in given]
    return pa.Table.from_pylist(listed, WINDOWS)
