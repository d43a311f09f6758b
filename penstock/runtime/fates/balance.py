"""Do outcomes balance? Asked of the tables alone: no supervisor, no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from penstock.location import Location, delta_table
from penstock.model.names import TableName
from penstock.runtime.delta.writer import live_path, revision_path

__all__ = ["Balance", "balances"]


@dataclass(frozen=True)
class Balance:
    """One input of one table: its rows, and what became of them."""

    table: str
    input: str
    rows: int  # times the number of windows each falls into
    outcomes: dict[str, int]

    @property
    def missing(self) -> int:
        return self.rows - sum(self.outcomes.values())

    def as_dict(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "input": self.input,
            "rows": self.rows,
            **self.outcomes,
            "missing": self.missing,
        }


def balances(
    warehouse: Location, entry: dict[str, Any], revisions: dict[str, str]
) -> list[Balance]:
    """What the manifest's ``entry`` of a table comes to, as of its newest counted commit.

    Args:
        revisions: the live revision of every table.
    """
    name, revision = TableName.parse(entry["name"]), entry["revision"]
    counted = revision_path(warehouse, name.outcomes, revision)
    try:
        table = delta_table(counted)
    except TableNotFoundError:
        return []
    version = table.transaction_version(f"{revision}:outcomes")
    if version is None:
        return []
    rows = table.to_pyarrow_table(columns=["input", "outcome", "rows"])
    main = delta_table(revision_path(warehouse, name, revision), version)
    return [
        _balance(warehouse, entry, source, counted=rows, main=main, revisions=revisions)
        for source in entry["inputs"].values()
    ]


def _balance(
    warehouse: Location,
    entry: dict[str, Any],
    source: str,
    *,
    counted: pa.Table,
    main: DeltaTable,
    revisions: dict[str, str],
) -> Balance:
    position = main.transaction_version(f"{entry['revision']}:{source}")
    name = TableName.parse(source)
    path = (
        live_path(warehouse, name)
        if name.layer == "bronze"
        else revision_path(warehouse, name, revisions[source])
    )
    mine = counted.filter(pc.equal(counted["input"], source))
    sums = mine.group_by("outcome").aggregate([("rows", "sum")]).to_pylist()
    outcomes = {row["outcome"]: row["rows_sum"] for row in sums if row["rows_sum"]}
    has = 0 if position is None else _rows(path, position)
    return Balance(entry["name"], source, has * _weight(entry), dict(sorted(outcomes.items())))


def _rows(path: Location, version: int) -> int:
    adds = pa.table(delta_table(path, version).get_add_actions(flatten=True))
    return int(pc.sum(adds["num_records"]).as_py() or 0)


def _weight(entry: dict[str, Any]) -> int:
    """Into how many windows a row falls."""
    if entry["kind"] != "window":
        return 1
    return int(entry["size_us"]) // int(entry["every_us"])
