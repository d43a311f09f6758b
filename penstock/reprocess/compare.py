"""Comparing a candidate with what is live, both as of the same input.

Rows are matched by key. A row is *equal*, *differs*, or is there on one side only. Differences that
an expectation explains are meant; of the others, those are set apart where late rows are pending on
either side, and the rest is unexpected. The share of either decides. Tables without keys, or with a
changed idea of what a row is, are compared as bags or by a declared roll-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from penstock.location import copies
from penstock.reprocess.compare_rows import (
    Matched,
    as_bags,
    by_key,
    over_time,
    refuse_statements,
    said,
)
from penstock.reprocess.comparison import Rollup, Side, TableReport, Wishes, column_diff
from penstock.runtime.delta.relate import quoted
from penstock.runtime.delta.swap import files_at

__all__ = ["compare_table"]


def compare_table(
    table: str,
    old: Side,
    new: Side,
    *,
    keys: Sequence[str],
    same_rows: bool,
    point: str | None,
    wishes: Wishes,
    scratch: Path,
    one_of_many: bool = False,
) -> TableReport:
    """Compare two sides of one table.

    Args:
        keys: the columns that name a row.
        same_rows: False when a row of the one is not the same thing as a row of the other.
        point: the time column that late rows are listed by, of a timed table.
        one_of_many: what is wished need not fit this table: it is about others too.
    """
    columns = column_diff(old.columns, new.columns)
    common = [name for name in new.columns if name in old.columns]
    method = "by key" if keys else "as bags"
    if not same_rows:
        method = "by roll-up" if wishes.rollup else "not comparable"
    report = TableReport(
        table, _about(old), _about(new), columns, method, list(keys),
        threshold=wishes.threshold, one_of_many=one_of_many,
    )  # fmt: skip
    with _database(scratch) as duck:
        _load(duck, "old", old)
        _load(duck, "new", new)
        report.quarantine = _quarantined(duck, old, new)
        late = _late(duck, old, new)
        _alike(duck, common)
        _lock(duck)
        if method == "not comparable":
            report.notes.append(
                "keys or windows changed: nothing matches by key. Declare a roll-up, or promote "
                "with --accept-differences and a reason."
            )
            return report
        if wishes.rollup is not None and not same_rows:
            keys, common = _roll_up(duck, wishes.rollup)
            report.keys, point = list(keys), None
        if keys:
            matched = Matched(keys, common, point if late else None, wishes)
            by_key(duck, report, matched)
        else:
            as_bags(duck, report, common)
            if wishes.expected or wishes.tolerances:
                report.notes.append(
                    "rows without keys are compared as bags: expectations and tolerances, which "
                    "are about pairs of rows, say nothing of it"
                )
        report.over_time = over_time(duck, keys, point)
    report.notes += _of_late_rows(report, late)
    return report


def _of_late_rows(report: TableReport, late: int) -> list[str]:
    notes = []
    if report.undecided:
        notes.append(
            f"{report.counts['set_apart']} rows differ where late rows are pending, too many to "
            f"tell by the rest. Reconcile first: penstock reconcile {report.table}"
        )
    if late:
        notes.append(f"{late} late rows are pending; what they touch is set apart")
    return notes


def _about(side: Side) -> dict[str, Any]:
    files = side.files().values()
    return {
        "revision": side.revision,
        "version": side.version,
        "inputs": side.inputs,
        "watermark": side.watermark,
        "files": len(files),
        "bytes": sum(file["size"] for file in files),
    }


# --- the database -------------------------------------------------------------------------------
def _database(scratch: Path) -> duckdb.DuckDBPyConnection:
    scratch.mkdir(parents=True, exist_ok=True)
    config: dict[str, Any] = {
        "threads": 2,
        "memory_limit": "4GB",
        "temp_directory": str(scratch),
        "python_enable_replacements": False,
    }
    duck = duckdb.connect(":memory:", config=config)
    duck.execute("SET TimeZone = 'UTC'")
    duck.execute("SET enable_progress_bar = false")
    return duck


def _load(duck: duckdb.DuckDBPyConnection, name: str, side: Side) -> None:
    files = copies(side.path / path for path in side.files())
    if files:
        duck.execute(f"create table {name}_rows as from read_parquet($1)", [files])
        return
    nothing = ", ".join(f"null as {quoted(column)}" for column in side.columns)
    duck.execute(f"create table {name}_rows as select {nothing} where false")


def _lock(duck: duckdb.DuckDBPyConnection) -> None:
    """Conditions are typed by people: from here on there is nothing to reach but these rows."""
    duck.execute("SET enable_external_access = false")
    duck.execute("SET lock_configuration = true")


def _alike(duck: duckdb.DuckDBPyConnection, common: Sequence[str]) -> None:
    """Old columns in the types of the new ones; a value that has no counterpart is null."""
    types = {
        side: {row[0]: row[1] for row in duck.execute(f"describe {side}_rows").fetchall()}
        for side in ("old", "new")
    }
    for name in common:
        wanted, had = types["new"].get(name), types["old"].get(name)
        if wanted == had or wanted is None or had is None:
            continue
        column = quoted(name)
        try:
            duck.execute(
                f"alter table old_rows alter {column} type {wanted} "
                f"using try_cast({column} as {wanted})"
            )
        except duckdb.Error:
            duck.execute(f"alter table old_rows alter {column} type {wanted} using null")


def _late(duck: duckdb.DuckDBPyConnection, old: Side, new: Side) -> int:
    """Points that late rows are pending for, on either side."""
    files = []
    for side in (old, new):
        if side.late is not None:
            path, version = side.late
            files += copies(path / name for name in files_at(path, version))
    if not files:
        return 0
    duck.execute(
        "create table late_points as select distinct window_start from read_parquet($1) "
        "where status = 'late'",  # what is expired will never settle anything
        [files],
    )
    found = duck.execute("select count(*) from late_points").fetchone()
    return int(found[0]) if found else 0


def _quarantined(duck: duckdb.DuckDBPyConnection, old: Side, new: Side) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for word, side in (("old", old), ("new", new)):
        if side.quarantine is None:
            continue
        path, version = side.quarantine
        files = copies(path / name for name in files_at(path, version))
        if not files:
            continue
        rows = duck.execute(
            "select error_class, coalesce(error, ''), count(*) from read_parquet($1) group by all",
            [files],
        ).fetchall()
        for error_class, error, number in rows:
            counts.setdefault((error_class, error), {"old": 0, "new": 0})[word] = number
    return [
        {"error_class": key[0], "error": key[1], **both} for key, both in sorted(counts.items())
    ]


def _roll_up(duck: duckdb.DuckDBPyConnection, rollup: Rollup) -> tuple[list[str], list[str]]:
    """Both sides as the declared aggregate; returns its keys and columns."""
    for text in (rollup.by, rollup.values):
        refuse_statements(text)
    said(duck, f"create table named as select {rollup.by} from new_rows limit 0", "the roll-up")  # noqa: S608
    keys = [row[0] for row in duck.execute("describe named").fetchall()]
    for name in ("old", "new"):
        said(
            duck,
            f"create table {name}_rolled as select {rollup.by}, {rollup.values} "  # noqa: S608
            f"from {name}_rows group by all",
            "the roll-up",
        )
        duck.execute(f"drop table {name}_rows")
        duck.execute(f"alter table {name}_rolled rename to {name}_rows")
    columns = [row[0] for row in duck.execute("describe new_rows").fetchall()]
    return keys, columns
