"""A live table with a life: appends, updates, compactions, swaps, rollbacks, changed schemas.

Real Delta tables, written as the engine writes them (RevisionWriter, swap), without Spark.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from penstock.model.names import TableName
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import removal, write_arrow, write_changes
from penstock.runtime.delta.swap import adapted_rows, difference, files_at, swap
from penstock.runtime.delta.writer import RevisionWriter
from penstock.settings import Settings

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
BASE = pa.schema(
    [
        ("k", pa.int64()),
        ("v", pa.int32()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("ok", pa.bool_()),
        ("money", pa.decimal128(28, 2)),
        ("t", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("arr", pa.list_(pa.int64())),
        ("st", pa.struct([("a", pa.int64()), ("b", pa.string()), ("l", pa.list_(pa.string()))])),
        ("tags", pa.map_(pa.string(), pa.int64())),
    ]
)
SCHEMAS = {
    "base": BASE,
    "more": BASE.append(pa.field("p99", pa.float64())),
    "wide": BASE.set(1, pa.field("v", pa.int64())),
    "less": BASE.remove(2),
    "text": BASE.set(1, pa.field("v", pa.string())),
    "first": BASE.insert(0, pa.field("p01", pa.float64())),
}


def made(dice: random.Random, schema: pa.Schema, keys: list[int]) -> pa.Table:
    """Rows with everything in them that is hard to carry: nulls, NaN, zones, nested values."""
    rows = [_row(dice, key) for key in keys]
    if schema.field("v").type == pa.string():
        rows = [{**row, "v": None if row["v"] is None else str(row["v"])} for row in rows]
    return pa.Table.from_pylist([{n: row.get(n) for n in schema.names} for row in rows], schema)


def _row(dice: random.Random, key: int) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if dice.random() < 0.2 else value

    number = dice.randrange(4)  # few values: duplicates are wanted
    return {
        "k": key,
        "v": maybe(number),
        "f": maybe(dice.choice([0.1, 1e300, float("nan"), float("inf"), -2.5])),
        "s": maybe(dice.choice(["", "a", "ö'\\\"\n", "b" * 40])),
        "ok": maybe(number > 1),
        "money": maybe(Decimal(number * 10**18) / 100),
        "t": maybe(START + dt.timedelta(microseconds=number + 1)),
        "day": maybe(dt.date(1969 + number, 1, 1)),
        "raw": maybe(bytes([0, 255, number])),
        "arr": maybe([number, None][: number + 1] if number else []),
        "st": maybe({"a": maybe(number), "b": maybe("x"), "l": maybe(["y"])}),
        "tags": maybe([("a", number), ("b", None)] if number else []),
        "p99": maybe(number / 3),
        "p01": maybe(number / 7),
    }


class World:
    """One live table and its revisions, of which one is shown."""

    def __init__(self, settings: Settings, name: str = "gold.sums", *, keyed: bool = False,
                 seed: int = 1, rows: int = 40) -> None:  # fmt: skip
        self.settings, self.name, self.keyed = settings, TableName.parse(name), keyed
        self.dice = random.Random(seed)
        self.next_key = 0
        self.revisions = 1
        settings.warehouse.mkdir(parents=True, exist_ok=True)
        self._declare(name)
        self.writer = RevisionWriter(settings.warehouse, self.name, "r1", BASE, token=1, live=True)
        self.old: RevisionWriter | None = None
        self.append(rows)

    def _declare(self, name: str) -> None:
        found = {"tables": [], "broken": []}
        if self.settings.manifest.exists():
            found = json.loads(self.settings.manifest.read_text())
        keys = ["k"] if self.keyed else []
        found["tables"].append({"name": name, "kind": "rows", "keys": keys, "revision": "r1"})
        self.settings.manifest.write_text(json.dumps(found))

    @property
    def live(self) -> Path:
        return self.settings.warehouse / self.name.layer / self.name.name

    @property
    def version(self) -> int:
        return DeltaTable(str(self.live)).version()

    # --- what happens to it -----------------------------------------------------------------
    def append(self, count: int = 10) -> None:
        keys = []
        for _ in range(count):
            if self.keyed or self.dice.random() < 0.5:
                self.next_key += 1
                keys.append(self.next_key)
            else:
                keys.append(self.dice.randrange(5))
        rows = made(self.dice, self.writer.schema, keys)
        if count > 3 and not self.keyed:
            rows = pa.concat_tables([rows, rows.slice(0, 2)])  # the very same row, twice
        self.writer.commit(write_arrow(rows, self.writer.path), {"n": 1}, change=Change(rows))

    def update(self) -> None:
        """Rewrite a file: some rows go, some change; the change file says which."""
        files = files_at(self.writer.path, self.writer.log.version)
        if not files:
            return
        path = self.dice.choice(sorted(files))
        schema = self.writer.schema
        rows = pq.read_table(self.writer.path / path, partitioning=None).cast(schema)
        marks = [self.dice.random() for _ in range(rows.num_rows)]
        stay = rows.filter(pa.array([m > 0.4 for m in marks]))
        gone = rows.filter(pa.array([m <= 0.4 for m in marks]))
        again = gone["k"].to_pylist()[: gone.num_rows // 2 + 1]
        came = made(self.dice, schema, again)
        change = Change(came, gone)
        new = write_arrow(pa.concat_tables([stay, came]), self.writer.path)
        told = write_changes(change, ("k",) if self.keyed else (), self.writer.path)
        if told:
            self.writer.commit(
                [removal(path, files[path]["size"]), *new, *told], {"n": 1}, change=change
            )

    def compact(self) -> None:
        """All files as one; no row changes."""
        files = files_at(self.writer.path, self.writer.log.version)
        rows = [
            pq.read_table(self.writer.path / path, partitioning=None).cast(self.writer.schema)
            for path in files
        ]
        if not rows:
            return
        new = write_arrow(pa.concat_tables(rows), self.writer.path)
        for action in new:
            action["add"]["dataChange"] = False
        out = [removal(path, add["size"], changed=False) for path, add in files.items()]
        self.writer.commit([*out, *new], {"n": 1})

    def promote(self, schema: str = "", *, alter: float = 0.2) -> None:
        """Swap in a revision in which some rows differ, or the columns."""
        wanted = SCHEMAS[schema] if schema else self.writer.schema
        self.revisions += 1
        new = RevisionWriter(self.settings.warehouse, self.name, f"r{self.revisions}", wanted,
                             token=1, live=False)  # fmt: skip
        rows = adapted_rows(self.rows(), wanted)
        marks = [self.dice.random() < alter for _ in range(rows.num_rows)]
        kept = rows.filter(pa.array([not m for m in marks]))
        keys = rows.filter(pa.array(marks))["k"].to_pylist()[1:]
        rows = pa.concat_tables([kept, made(self.dice, wanted, keys)])
        new.commit(write_arrow(rows, new.path), {"n": 1}, change=Change(rows))
        self._swap(new)

    def rollback(self) -> None:
        if self.old is not None:
            self._swap(self.old)

    def _swap(self, new: RevisionWriter) -> None:
        old = self.writer
        net = difference(old, old.log.version, new, new.log.version, self.settings.home / "run")
        assert old.live is not None
        swap(old.live, new, net, ("k",) if self.keyed else (), {"operation": "PENSTOCK PROMOTE"})
        new.show(old.hide())
        self.old, self.writer = old, new

    # --- what it is -------------------------------------------------------------------------
    def rows(self, version: int | None = None) -> pa.Table:
        table = DeltaTable(str(self.live), version=version)
        return pa.table(table.to_pyarrow_table()).cast(self.writer.schema) if (
            version is None) else table.to_pyarrow_table()  # fmt: skip

    def bag(self) -> Counter[str]:
        return bag(self.rows())


def bag(rows: pa.Table) -> Counter[str]:
    """Rows by what they look like: NaN is equal to itself, and the order of columns is told."""
    return Counter(repr(list(row.items())) for row in rows.to_pylist())


def exported(file: Path | str, table: str, schema: pa.Schema) -> pa.Table:
    with duckdb.connect(str(file), read_only=True) as duck:
        duck.execute("SET TimeZone = 'UTC'")
        return duck.sql(f"SELECT * FROM {table}").to_arrow_table().cast(schema)
