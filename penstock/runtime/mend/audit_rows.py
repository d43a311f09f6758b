"""The two sides of an audit as rows: the source brought up to date, and the difference of the two.

Nothing here asks a database: Arrow tables and events come in, counts and examples go out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.runtime.delta.relate import connection, matching, quoted

__all__ = ["Difference", "Event", "Report", "Snapshot", "compare", "fitted", "rolled_forward"]

EXAMPLES = 20


# --- what comes out ---------------------------------------------------------------------------
@dataclass(frozen=True)
class Difference:
    """One key that is not the same on both sides."""

    key: dict[str, Any]
    problem: str  # missing, surplus, differs, doubled
    columns: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # source's, table's value


@dataclass(frozen=True)
class Report:
    """What an audit found; ``examples`` has the first differences, the counts have all."""

    table: str
    source: str
    lsn: str
    rows: int
    missing: int
    surplus: int
    differing: int
    doubled: int
    examples: list[Difference]
    columns: list[str]
    not_compared: dict[str, list[str]] = field(default_factory=dict)
    changed_since: int = 0  # keys that were changed in the source while the audit ran
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        return not (self.missing or self.surplus or self.differing or self.doubled)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "equal": self.equal}


# --- the source's side ------------------------------------------------------------------------
@dataclass(frozen=True)
class Snapshot:
    """Which transactions a snapshot of Postgres holds, as ``pg_current_snapshot`` writes it."""

    lowest: int
    highest: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        lowest, highest, running = text.split(":")
        return cls(int(lowest), int(highest), frozenset(int(x) for x in running.split(",") if x))

    def holds(self, transaction: int) -> bool:
        """Is a transaction, numbered in 32 bits as the log does, visible?"""
        number = (self.highest & ~0xFFFFFFFF) | (transaction & 0xFFFFFFFF)
        if number - self.highest >= 1 << 31:
            number -= 1 << 32
        elif self.highest - number > 1 << 31:
            number += 1 << 32
        return number < self.lowest or (number < self.highest and number not in self.running)


@dataclass(frozen=True)
class Event:
    """A change that was committed after the snapshot; ``row`` is None of a delete."""

    order: tuple[int, int]
    key: tuple[Any, ...] | None  # None: everything was truncated
    row: dict[str, Any] | None


def rolled_forward(
    rows: pa.Table, events: Iterable[Event], by: Sequence[str]
) -> tuple[pa.Table, int]:
    """The rows after these changes, and how many keys they touched."""
    newest: dict[tuple[Any, ...], dict[str, Any] | None] = {}
    for event in sorted(events, key=lambda e: e.order):
        if event.key is None:
            rows = rows.slice(0, 0)
            newest.clear()
        else:
            newest[event.key] = event.row
    if not newest:
        return rows, 0
    scopes = pa.table(
        {
            name: pa.array([key[n] for key in newest], rows.schema.field(name).type)
            for n, name in enumerate(by)
        }
    )
    alive = [row for row in newest.values() if row is not None]
    fresh = fitted({n: [row[n] for row in alive] for n in rows.column_names}, rows.schema)
    return pa.concat_tables([matching(rows, scopes, within=False), fresh]), len(newest)


def fitted(values: dict[str, list[Any]], schema: pa.Schema) -> pa.Table:
    """Python values in the table's own types."""
    arrays = []
    for kind in schema:
        try:
            arrays.append(pa.array(values[kind.name], kind.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
            raise PenstockError(
                f"column {kind.name} of the source holds what the table's {kind.type} cannot: "
                f"{str(error).splitlines()[0]}",
                remedy="Widen the column in the contract, or have the value mended.",
            ) from error
    return pa.Table.from_arrays(arrays, schema=schema)


# --- both sides -------------------------------------------------------------------------------
def compare(source: pa.Table, copied: pa.Table, by: Sequence[str]) -> dict[str, Any]:
    """Counts and first differences of two tables of the same columns, by key."""
    columns = [name for name in source.column_names if name not in by]
    keys = ", ".join(quoted(name) for name in by)
    same = " and ".join(f"s.{quoted(n)} = c.{quoted(n)}" for n in by)
    told = ", ".join(f"coalesce(s.{quoted(n)}, c.{quoted(n)}) as {quoted(n)}" for n in by)
    tests = [f"s.{quoted(n)} is distinct from c.{quoted(n)}" for n in columns] or ["false"]
    first = quoted(by[0])
    duck = connection()
    duck.execute(
        f"""create or replace temp table differences as
        select {told}, s.{first} is null as surplus, c.{first} is null as missing,
            [{", ".join(tests)}] as differs,
            struct_pack({_packed("s", columns)}) as in_source,
            struct_pack({_packed("c", columns)}) as in_copy
        from source s full outer join copied c on {same}
        where s.{first} is null or c.{first} is null or {" or ".join(tests)}"""  # noqa: S608
    )
    duck.execute(
        f"""create or replace temp table doubled as
        select {keys} from copied group by {keys} having count(*) > 1"""  # noqa: S608
    )
    ((missing, surplus, differing, twice),) = duck.execute(
        """select count(*) filter (missing), count(*) filter (surplus),
        count(*) filter (not missing and not surplus), (select count(*) from doubled)
        from differences"""
    ).fetchall()
    order = f"order by {keys} limit {EXAMPLES}"
    found = duck.sql(f"select * from differences {order}")  # noqa: S608
    examples = [_difference(row, by, columns) for row in found.to_arrow_table().to_pylist()]
    found = duck.sql(f"select * from doubled {order}")  # noqa: S608
    examples += [Difference(row, "doubled") for row in found.to_arrow_table().to_pylist()]
    duck.execute("drop table differences; drop table doubled")
    return {
        "missing": missing,
        "surplus": surplus,
        "differing": differing,
        "doubled": twice,
        "examples": examples[:EXAMPLES],
    }


def _packed(side: str, columns: Sequence[str]) -> str:
    names = [f"{quoted(n)} := {side}.{quoted(n)}" for n in columns]
    return ", ".join(names) or '"_" := 0'


def _difference(row: dict[str, Any], by: Sequence[str], columns: Sequence[str]) -> Difference:
    key = {name: row[name] for name in by}
    if row["missing"] or row["surplus"]:
        return Difference(key, "missing" if row["missing"] else "surplus")
    differing = [name for name, differs in zip(columns, row["differs"], strict=True) if differs]
    return Difference(
        key, "differs", {n: (row["in_source"][n], row["in_copy"][n]) for n in differing}
    )
