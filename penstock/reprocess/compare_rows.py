"""Rows of two sides, matched and counted; by DuckDB, over tables ``old_rows`` and ``new_rows``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from penstock.errors import UsageError
from penstock.reprocess.comparison import Expected, TableReport, Wishes
from penstock.runtime.delta.relate import quoted

__all__ = ["Matched", "as_bags", "by_key", "over_time", "refuse_statements", "said"]

_BUCKETS = 60
_WORST = 20


def refuse_statements(text: str) -> None:
    if ";" in text or re.search(r"--|/\*", text):
        raise UsageError(
            f"{text!r} is more than an expression.", remedy="Leave out ';' and comments."
        )


def said(duck: duckdb.DuckDBPyConnection, sql: str, what: str) -> None:
    try:
        duck.execute(sql)
    except duckdb.Error as error:
        raise UsageError(
            f"{what} does not work: {str(error).splitlines()[0]}",
            remedy="Columns of the live row are old.<name>, of the candidate's new.<name>.",
        ) from None


@dataclass(frozen=True)
class Matched:
    """How rows are matched: by these keys, over these columns."""

    keys: Sequence[str]
    columns: Sequence[str]
    late_by: str | None  # the key that late rows are listed by, if any are pending
    wishes: Wishes


def by_key(duck: duckdb.DuckDBPyConnection, report: TableReport, matched: Matched) -> None:
    keys, common, point, wishes = (
        matched.keys,
        matched.columns,
        matched.late_by,
        matched.wishes,
    )
    values = [name for name in common if name not in keys]
    unknown = [name for name in wishes.tolerances if name not in values]
    if unknown and report.method == "by key" and not report.one_of_many:
        raise UsageError(
            f"there is no column {unknown[0]} to be tolerant about.",
            remedy=f"The columns compared are {', '.join(values)}.",
        )
    tests = {name: _same(name, wishes.tolerances.get(name)) for name in values}
    on = " and ".join(f"old.{quoted(k)} is not distinct from new.{quoted(k)}" for k in keys)
    named = ", ".join(f"coalesce(old.{quoted(k)}, new.{quoted(k)}) as {quoted(k)}" for k in keys)
    same = " and ".join(f"({test})" for test in tests.values()) or "true"
    # A key that is there twice has a twin each: one side having more of them shows.
    by, order = (", ".join(map(quoted, names)) for names in (keys, common))
    twin = f"row_number() over (partition by {by} order by {order}) as _penstock_twin"
    apart = "false"
    if point is not None and point in keys:
        apart = f"coalesce(old.{quoted(point)}, new.{quoted(point)}) in (from late_points)"
    expectations = _fitting(duck, report, wishes.expected)
    meant = [
        f"when coalesce(({expected.condition}), false) then {number}"
        for number, expected in enumerate(expectations)
    ]
    which = f"case {' '.join(meant)} end" if meant else "null"
    flags = ", ".join(f"({test}) as {quoted('=' + name)}" for name, test in tests.items())
    # `old` and `new` are rows with a mark: a missing side is one whose mark is null.
    said(
        duck,
        f"""create table compared as select {named},
            case when old._penstock_here is null then 'only_new'
                 when new._penstock_here is null then 'only_old'
                 when {same} then 'equal' else 'differs' end as _verdict,
            {apart} as _apart, {which} as _meant,
            {"struct_pack(" + _packed("old", common) + ")"} as _old,
            {"struct_pack(" + _packed("new", common) + ")"} as _new
            {", " + flags if flags else ""}
        from (select *, true as _penstock_here, {twin} from old_rows) old
        full join (select *, true as _penstock_here, {twin} from new_rows) new
            on {on} and old._penstock_twin = new._penstock_twin""",  # noqa: S608
        "an expectation",
    )
    report.counts, hits = _counted(duck)
    report.expected = [
        {"condition": e.condition, "reason": e.reason, "rows": hits.get(number, 0)}
        for number, e in enumerate(expectations)
    ]
    report.per_column = _per_column(duck, values, wishes)
    report.worst = _worst(duck, keys, values)


def _fitting(
    duck: duckdb.DuckDBPyConnection, report: TableReport, expected: Sequence[Expected]
) -> list[Expected]:
    """The expectations that are about this table; of those that name none, if they can be."""
    found = []
    for one in expected:
        refuse_statements(one.condition)
        if one.table not in (None, report.table):
            continue
        test = f"select ({one.condition}) from old_rows old, new_rows new limit 0"  # noqa: S608
        try:
            said(duck, test, f"the expectation {one.condition!r}")
        except UsageError as error:
            if one.table is not None or not report.one_of_many:
                raise
            report.notes.append(f"not about this table: {error.message}")
            continue
        found.append(one)
    return found


def _counted(duck: duckdb.DuckDBPyConnection) -> tuple[dict[str, int], dict[int, int]]:
    """How many rows came to which verdict, and how many each expectation explains."""
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
        if meant_by is not None:  # explained, whatever late rows will do to it
            counts["expected"] += number
            hits[meant_by] = hits.get(meant_by, 0) + number
        elif is_apart:
            counts["set_apart"] += number
        else:
            counts["unexpected"] += number
    return counts, hits


def _same(name: str, tolerance: float | None) -> str:
    old, new = f"old.{quoted(name)}", f"new.{quoted(name)}"
    if tolerance is None:
        return f"{old} is not distinct from {new}"
    near = f"abs(cast({old} as double) - cast({new} as double)) <= {float(tolerance)!r}"
    return f"{old} is not distinct from {new} or coalesce({near}, false)"


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


def as_bags(duck: duckdb.DuckDBPyConnection, report: TableReport, common: Sequence[str]) -> None:
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


def over_time(
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
