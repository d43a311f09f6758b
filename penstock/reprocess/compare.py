"""Comparing a candidate with what is live, both as of the same input.

Rows are matched by key. A row is *equal*, *differs*, or is there on one side only. Differences are
set apart where late rows are pending on either side, and where an expectation says they are meant;
what is left is unexpected, and the share of it decides. Tables without keys, or with a changed
idea of what a row is, are compared as bags or by a declared roll-up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from penstock.errors import UsageError
from penstock.runtime.relate import quoted
from penstock.runtime.swap import files_at

__all__ = ["Expected", "Rollup", "Side", "TableReport", "Wishes", "compare_table"]

_BUCKETS = 60
_WORST = 20


@dataclass(frozen=True)
class Expected:
    """Differences that are meant: a condition on ``old`` and ``new``, and why."""

    condition: str
    reason: str


@dataclass(frozen=True)
class Rollup:
    """What to compare when rows are not the same things any more."""

    by: str
    values: str


@dataclass(frozen=True)
class Wishes:
    """What the one who compares says about it."""

    threshold: float = 0.0  # share of rows that may differ unexpectedly
    tolerances: Mapping[str, float] = field(default_factory=dict)
    expected: Sequence[Expected] = ()
    rollup: Rollup | None = None


@dataclass(frozen=True)
class Side:
    """One revision at one version, and what lies beside it."""

    revision: str
    version: int
    path: Path
    columns: dict[str, str]  # name -> type, as declared
    inputs: dict[str, int] = field(default_factory=dict)
    watermark: int | None = None
    quarantine: tuple[Path, int] | None = None
    late: tuple[Path, int] | None = None

    def files(self) -> dict[str, dict[str, Any]]:
        return files_at(self.path, self.version)


@dataclass
class TableReport:
    """What comparing one table came to."""

    table: str
    old: dict[str, Any]
    new: dict[str, Any]
    columns: dict[str, list[str]]
    method: str  # by key, as bags, by roll-up, not comparable
    keys: list[str]
    counts: dict[str, int] = field(default_factory=dict)
    expected: list[dict[str, Any]] = field(default_factory=list)
    per_column: list[dict[str, Any]] = field(default_factory=list)
    over_time: list[dict[str, Any]] = field(default_factory=list)
    worst: list[dict[str, Any]] = field(default_factory=list)
    quarantine: list[dict[str, Any]] = field(default_factory=list)
    threshold: float = 0.0
    since: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def unexpected(self) -> int:
        return self.counts.get("unexpected", 0)

    @property
    def share(self) -> float:
        return self.unexpected / max(1, self.counts.get("rows", 0))

    @property
    def within(self) -> bool:
        return self.method != "not comparable" and self.share <= self.threshold

    def as_dict(self) -> dict[str, Any]:
        told = asdict(self)
        return {**told, "share": self.share, "within": self.within}


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
) -> TableReport:
    """Compare two sides of one table.

    Args:
        keys: the columns that name a row.
        same_rows: False when a row of the one is not the same thing as a row of the other.
        point: the time column that late rows are listed by, of a timed table.
    """
    columns = _column_diff(old.columns, new.columns)
    common = [name for name in new.columns if name in old.columns]
    method = "by key" if keys else "as bags"
    if not same_rows:
        method = "by roll-up" if wishes.rollup else "not comparable"
    report = TableReport(
        table, _about(old), _about(new), columns, method, list(keys), threshold=wishes.threshold
    )
    with _database(scratch) as duck:
        _load(duck, "old", old)
        _load(duck, "new", new)
        report.quarantine = _quarantined(duck, old, new)
        late = _late(duck, old, new)
        _lock(duck)
        if method == "not comparable":
            report.notes.append(
                "keys or windows changed: nothing matches by key. Declare a roll-up, or promote "
                "with --accept-differences and a reason."
            )
            return report
        if wishes.rollup is not None:
            keys, common = _roll_up(duck, wishes.rollup)
            report.keys, point = list(keys), None
        if keys:
            matched = _Matched(keys, common, point if late else None, wishes)
            _by_key(duck, report, matched)
        else:
            _as_bags(duck, report, common)
        report.over_time = _over_time(duck, keys, point)
        if late:
            report.notes.append(f"{late} late rows are pending; what they touch is set apart")
    return report


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


def _column_diff(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, list[str]]:
    return {
        "added": [name for name in new if name not in old],
        "dropped": [name for name in old if name not in new],
        "retyped": [f"{n}: {old[n]} -> {new[n]}" for n in new if n in old and old[n] != new[n]],
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
    files = [str(side.path / path) for path in side.files()]
    if files:
        duck.execute(f"create table {name}_rows as from read_parquet($1)", [files])
        return
    nothing = ", ".join(f"null as {quoted(column)}" for column in side.columns)
    duck.execute(f"create table {name}_rows as select {nothing} where false")


def _lock(duck: duckdb.DuckDBPyConnection) -> None:
    """Conditions are typed by people: from here on there is nothing to reach but these rows."""
    duck.execute("SET enable_external_access = false")
    duck.execute("SET lock_configuration = true")


def _late(duck: duckdb.DuckDBPyConnection, old: Side, new: Side) -> int:
    """Points that late rows are pending for, on either side."""
    files = []
    for side in (old, new):
        if side.late is not None:
            path, version = side.late
            files += [str(path / name) for name in files_at(path, version)]
    if not files:
        return 0
    duck.execute(
        "create table late_points as select distinct window_start from read_parquet($1)", [files]
    )
    found = duck.execute("select count(*) from late_points").fetchone()
    return int(found[0]) if found else 0


def _quarantined(duck: duckdb.DuckDBPyConnection, old: Side, new: Side) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for word, side in (("old", old), ("new", new)):
        if side.quarantine is None:
            continue
        path, version = side.quarantine
        files = [str(path / name) for name in files_at(path, version)]
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
        _refuse_statements(text)
    keys = [row[0] for row in duck.execute(f"describe select {rollup.by} from new_rows").fetchall()]  # noqa: S608
    for name in ("old", "new"):
        _said(
            duck,
            f"create table {name}_rolled as select {rollup.by}, {rollup.values} "  # noqa: S608
            f"from {name}_rows group by all",
            "the roll-up",
        )
        duck.execute(f"drop table {name}_rows")
        duck.execute(f"alter table {name}_rolled rename to {name}_rows")
    columns = [row[0] for row in duck.execute("describe new_rows").fetchall()]
    return keys, columns


def _refuse_statements(text: str) -> None:
    if ";" in text or re.search(r"--|/\*", text):
        raise UsageError(
            f"{text!r} is more than an expression.", remedy="Leave out ';' and comments."
        )


def _said(duck: duckdb.DuckDBPyConnection, sql: str, what: str) -> None:
    try:
        duck.execute(sql)
    except duckdb.Error as error:
        raise UsageError(
            f"{what} does not work: {str(error).splitlines()[0]}",
            remedy="Columns of the live row are old.<name>, of the candidate's new.<name>.",
        ) from None


# --- by key ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Matched:
    """How rows are matched: by these keys, over these columns."""

    keys: Sequence[str]
    columns: Sequence[str]
    late_by: str | None  # the key that late rows are listed by, if any are pending
    wishes: Wishes


def _by_key(duck: duckdb.DuckDBPyConnection, report: TableReport, matched: _Matched) -> None:
    keys, common, point, wishes = (
        matched.keys,
        matched.columns,
        matched.late_by,
        matched.wishes,
    )
    values = [name for name in common if name not in keys]
    tests = {name: _same(name, wishes.tolerances.get(name)) for name in values}
    on = " and ".join(f"old.{quoted(k)} is not distinct from new.{quoted(k)}" for k in keys)
    named = ", ".join(f"coalesce(old.{quoted(k)}, new.{quoted(k)}) as {quoted(k)}" for k in keys)
    same = " and ".join(f"({test})" for test in tests.values()) or "true"
    apart = "false"
    if point is not None and point in keys:
        apart = f"coalesce(old.{quoted(point)}, new.{quoted(point)}) in (from late_points)"
    meant = []
    for number, expected in enumerate(wishes.expected):
        _refuse_statements(expected.condition)
        meant.append(f"when coalesce(({expected.condition}), false) then {number}")
    which = f"case {' '.join(meant)} end" if meant else "null"
    flags = ", ".join(f"({test}) as {quoted('=' + name)}" for name, test in tests.items())
    # `old` and `new` are rows with a mark: a missing side is one whose mark is null.
    _said(
        duck,
        f"""create table compared as select {named},
            case when old._here is null then 'only_new' when new._here is null then 'only_old'
                 when {same} then 'equal' else 'differs' end as _verdict,
            {apart} as _apart, {which} as _meant,
            {"struct_pack(" + _packed("old", common) + ")"} as _old,
            {"struct_pack(" + _packed("new", common) + ")"} as _new
            {", " + flags if flags else ""}
        from (select *, true as _here from old_rows) old
        full join (select *, true as _here from new_rows) new on {on}""",  # noqa: S608
        "an expectation",
    )
    rows = duck.execute(
        "select _verdict, _apart, _meant, count(*) from compared group by all"
    ).fetchall()
    counts = dict.fromkeys(
        ("rows", "equal", "differs", "only_old", "only_new", "set_apart", "expected", "unexpected"),
        0,
    )
    hits: dict[int, int] = {}
    for verdict, is_apart, meant_by, number in rows:
        counts["rows"] += number
        counts[verdict] += number
        if verdict == "equal":
            continue
        if is_apart:
            counts["set_apart"] += number
        elif meant_by is not None:
            counts["expected"] += number
            hits[meant_by] = hits.get(meant_by, 0) + number
        else:
            counts["unexpected"] += number
    report.counts = counts
    report.expected = [
        {"condition": e.condition, "reason": e.reason, "rows": hits.get(number, 0)}
        for number, e in enumerate(wishes.expected)
    ]
    report.per_column = _per_column(duck, values, wishes)
    report.worst = _worst(duck, keys, values)


def _same(name: str, tolerance: float | None) -> str:
    old, new = f"old.{quoted(name)}", f"new.{quoted(name)}"
    if tolerance is None:
        return f"{old} is not distinct from {new}"
    near = f"abs(cast({old} as double) - cast({new} as double)) <= {float(tolerance)!r}"
    return f"({old} is null and {new} is null) or coalesce({near}, false)"


def _packed(side: str, names: Sequence[str]) -> str:
    return ", ".join(f"{quoted(name)} := {side}.{quoted(name)}" for name in names)


def _per_column(
    duck: duckdb.DuckDBPyConnection, values: Sequence[str], wishes: Wishes
) -> list[dict[str, Any]]:
    if not values:
        return []
    sums = ", ".join(f"count(*) filter (where {quoted('=' + name)})" for name in values)
    row = duck.execute(
        f"select count(*), {sums} from compared where _verdict in ('equal', 'differs')"  # noqa: S608
    ).fetchone()
    assert row is not None  # noqa: S101
    both = row[0]
    return [
        {
            "column": name,
            "both": both,
            "equal": equal,
            "rate": equal / both if both else 1.0,
            "tolerance": wishes.tolerances.get(name),
        }
        for name, equal in zip(values, row[1:], strict=True)
    ]


def _worst(
    duck: duckdb.DuckDBPyConnection, keys: Sequence[str], values: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows that differ most: unexpected before expected, one-sided first, then by columns."""
    wrong = " + ".join(f"(not {quoted('=' + n)})::int" for n in values) or "0"
    listed = ", ".join(map(quoted, keys))
    rows = duck.execute(
        f"""select {listed}, _verdict, _apart, _meant, _old, _new from compared
        where _verdict <> 'equal'
        order by _apart, _meant is not null, _verdict = 'differs', {wrong} desc, {listed}
        limit {_WORST}"""  # noqa: S608
    ).fetchall()
    found = []
    for row in rows:
        key = dict(zip(keys, row[: len(keys)], strict=True))
        verdict, apart, meant, old, new = row[len(keys) :]
        found.append(
            {
                "key": key,
                "verdict": verdict,
                "set_apart": apart,
                "expected": meant is not None,
                "old": old if verdict != "only_new" else None,
                "new": new if verdict != "only_old" else None,
            }
        )
    return found


def _as_bags(duck: duckdb.DuckDBPyConnection, report: TableReport, common: Sequence[str]) -> None:
    listed = ", ".join(map(quoted, common))
    counts = {}
    for word, one, other in (("only_old", "old", "new"), ("only_new", "new", "old")):
        row = duck.execute(
            f"select count(*) from (select {listed} from {one}_rows "  # noqa: S608
            f"except all select {listed} from {other}_rows)"
        ).fetchone()
        counts[word] = int(row[0]) if row else 0
    sizes = {}
    for side in ("old", "new"):
        row = duck.execute(f"select count(*) from {side}_rows").fetchone()  # noqa: S608
        sizes[side] = int(row[0]) if row else 0
    equal = sizes["old"] - counts["only_old"]
    different = counts["only_old"] + counts["only_new"]
    report.counts = {
        "rows": equal + different, "equal": equal, "differs": 0, **counts,
        "set_apart": 0, "expected": 0, "unexpected": different,
    }  # fmt: skip
    samples = []
    for word, one, other in (("only_old", "old", "new"), ("only_new", "new", "old")):
        rows = duck.execute(
            f"select {listed} from {one}_rows except all select {listed} from {other}_rows "  # noqa: S608
            f"limit {_WORST // 2}"
        ).fetchall()
        samples += [
            {
                "key": {}, "verdict": word, "set_apart": False, "expected": False,
                "old": dict(zip(common, row, strict=True)) if one == "old" else None,
                "new": dict(zip(common, row, strict=True)) if one == "new" else None,
            }
            for row in rows
        ]  # fmt: skip
    report.worst = samples


def _over_time(
    duck: duckdb.DuckDBPyConnection, keys: Sequence[str], point: str | None
) -> list[dict[str, Any]]:
    """Verdicts by time, in at most sixty steps, where a key is a time."""
    if not keys:
        return []
    types = {row[0]: row[1] for row in duck.execute("describe compared").fetchall()}
    times = [k for k in keys if types[k].startswith("TIMESTAMP")]
    if not times:
        return []
    on = quoted(point if point in times else times[0])
    rows = duck.execute(
        f"""with span as (select min({on}) as low, max({on}) as high from compared),
        placed as (
            select least({_BUCKETS - 1}, floor({_BUCKETS} * epoch({on} - low)
                / greatest(epoch(high - low), 1))::int) as step, {on} as _at, _verdict
            from compared, span where {on} is not null)
        select step, min(_at), count(*) filter (where _verdict = 'equal'),
            count(*) filter (where _verdict = 'differs'),
            count(*) filter (where _verdict = 'only_old'),
            count(*) filter (where _verdict = 'only_new')
        from placed group by step order by step"""  # noqa: S608
    ).fetchall()
    names = ("at", "equal", "differs", "only_old", "only_new")
    return [dict(zip(names, row[1:], strict=True)) for row in rows]
