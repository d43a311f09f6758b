"""What came of a run, as plain data: per model, per test; what failed has the query to see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from penstock.location import Location, delta_table

__all__ = ["Built", "Fresh", "Outcome", "Tested", "built_of", "fresh_of", "rows_in", "tested_of"]

_GOOD = {"success", "pass", "warn", "no-op"}


@dataclass(frozen=True)
class Built:
    """One model or snapshot."""

    name: str
    kind: str  # view, table, incremental, snapshot
    status: str  # success, error, skipped
    seconds: float
    rows: int | None = None  # a view has none of its own
    how: str = ""  # of incremental marts: what was computed
    message: str = ""


@dataclass(frozen=True)
class Tested:
    """One test that did not pass."""

    name: str
    status: str  # fail, warn, error, skipped
    failures: int
    message: str
    query: str  # the failing rows


@dataclass(frozen=True)
class Fresh:
    """How old the newest row of a live table is."""

    table: str
    status: str  # pass, warn, error, empty
    newest: str
    age_seconds: float | None


@dataclass
class Outcome:
    """A whole run."""

    models: list[Built] = field(default_factory=list)
    tests_passed: int = 0
    tests: list[Tested] = field(default_factory=list)
    fresh: list[Fresh] = field(default_factory=list)
    tables: int = 0  # live tables with data that the marts read
    empty: list[str] = field(default_factory=list)
    seconds: float = 0.0
    docs: str = ""

    @property
    def ok(self) -> bool:
        whole = all(model.status in _GOOD for model in self.models)
        return whole and all(test.status == "warn" for test in self.tests)

    def as_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


def built_of(results: Iterable[Any], tables: Location, hows: dict[str, str]) -> list[Built]:
    """Models and snapshots among dbt's results."""
    return [
        Built(
            name=f"{result.node.schema}.{result.node.name}",
            kind=str(result.node.config.materialized),
            status=str(result.status),
            seconds=round(float(result.execution_time), 2),
            rows=_rows(result, tables),
            how=hows.get(result.node.name, ""),
            message="" if str(result.status) == "success" else str(result.message or "").strip(),
        )
        for result in results
        if result.node.resource_type in ("model", "snapshot")
    ]


def _rows(result: Any, tables: Location) -> int | None:
    if str(result.status) != "success" or result.node.config.materialized == "view":
        return None
    return rows_in(tables / result.node.name)


def rows_in(folder: Location) -> int | None:
    """Rows of a table's newest version, by the statistics in its log."""
    try:
        adds = pa.table(delta_table(folder).get_add_actions(flatten=True))
    except (DeltaError, OSError):
        return None
    return sum(n or 0 for n in adds["num_records"].to_pylist())


def tested_of(results: Iterable[Any]) -> tuple[int, list[Tested]]:
    """How many tests passed, and those that did not."""
    tests = [r for r in results if r.node.resource_type in ("test", "unit_test")]
    bad = [
        Tested(
            name=result.node.name,
            status=str(result.status),
            failures=int(result.failures or 0),
            message=str(result.message or "").strip(),
            query=str(getattr(result.node, "compiled_code", "") or "").strip(),
        )
        for result in tests
        if str(result.status) != "pass"
    ]
    return len(tests) - len(bad), bad


def fresh_of(results: Iterable[Any], empty: Iterable[str]) -> list[Fresh]:
    """How fresh the live tables are; one without rows is empty, not late."""
    none = set(empty)
    found = []
    for result in results:
        table = f"{result.node.schema}.{result.node.identifier}"
        newest = getattr(result, "max_loaded_at", None)
        blank = table in none or newest is None or newest.year == 1
        found.append(
            Fresh(
                table=table,
                status="empty" if blank else str(result.status),
                newest="" if blank or newest is None else newest.isoformat(),
                age_seconds=None if blank else round(float(result.age), 1),
            )
        )
    return found
