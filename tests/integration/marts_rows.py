"""What the story of the marts and its tests share."""

from __future__ import annotations

import pyarrow as pa

# Each of these differs with ANSI off, but for the last four, which must work all the same.
CASTS = (
    "cast('12x' as int)",
    "cast(3000000000 as int)",
    "cast(300 as tinyint)",
    "cast('2026-02-30' as date)",
    "cast('no' as timestamp)",
    "cast(123456.789 as decimal(5,2))",
    "cast(1e30 as bigint)",
    "cast('maybe' as boolean)",
    "2147483647 + 1",
    "1 / 0",
    "element_at(array(1, 2), 5)",
    "cast('12' as int)",
    "cast('2026-02-28' as date)",
    "cast(1.005 as decimal(5,2))",
    "try_cast('x' as int)",
)


def rows_of(table: pa.Table) -> list[list[str]]:
    """Rows as text, in an order of their own: what two tables have in common is what they show."""
    names = sorted(table.column_names)
    return sorted([str(row[name]) for name in names] for row in table.to_pylist())
