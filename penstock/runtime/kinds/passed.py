"""Which columns a transform passes on as they are, read from Spark's analysed plan.

Where the key of a result is the key of its rows, a row can change no results but those of its key.
A transform that makes another key of it, however plainly, may put rows of several keys into one
result: so what cannot be seen to stay the same is taken for changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import TransformError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["passes_on", "require_beginnings"]

# What neither fills a column with other values nor gives other values its name, as a union does.
_PLAIN = frozenset(
    {"Aggregate", "Deduplicate", "Distinct", "Filter", "Generate", "LocalRelation", "LogicalRDD"}
    | {"Project", "Sort", "SubqueryAlias", "View", "Window"}
)
_PLAIN_JOINS = frozenset({"INNER", "CROSS", "LEFT SEMI", "LEFT ANTI"})  # others make nulls


def passes_on(
    transform: Callable[[DataFrame], DataFrame], given: DataFrame, columns: Sequence[str]
) -> bool:
    """Whether each of these columns comes out of a transform as it went in.

    Args:
        given: what the transform is given, with or without rows.
    """
    before, after = _analysed(given), _analysed(transform(given))
    if not all(map(_is_plain, _nodes(after))):
        return False
    was, became = _ids(before), _ids(after)
    return all(name in became and became[name] == was.get(name) for name in columns)


def require_beginnings(table: str, begins: pa.ChunkedArray, times: pa.ChunkedArray) -> None:
    """Raise where a session's result begins when no row is: it would not be found again by that."""
    moments = times.cast(pa.int64()).combine_chunks()
    known = pc.is_in(begins.cast(pa.int64()), value_set=moments)
    if not pc.all(known, min_count=0).as_py():
        raise TransformError(
            f"{table}: its transform does not pass window_start on as it is, nor what its sessions "
            "are by: which results late rows change cannot be told.",
            remedy="Keep window_start as it comes, and give what is made of it another name.",
        )


def _analysed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _each(plan.children()):
        yield from _nodes(child)


def _is_plain(node: Any) -> bool:
    name = node.nodeName()
    return name in _PLAIN or (name == "Join" and node.joinType().sql() in _PLAIN_JOINS)


def _ids(plan: Any) -> dict[str, int]:
    """Spark's number of each column: a column that is computed gets a new one."""
    return {str(a.name()): int(a.exprId().id()) for a in _each(plan.output())}


def _each(found: Any) -> Iterator[Any]:
    return (found.apply(number) for number in range(found.size()))
