"""What must hold between a definition and the columns of its inputs and its output.

Said at registration, with file, line and remedy: a declaration that would go wrong on data only
is worse than one that is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from penstock.errors import DefinitionError
from penstock.model.definition import Table
from penstock.model.kinds import Enrich, Group, History, Latest, Rows, Totals
from penstock.model.windows import IntervalJoin, Session, Sliding, Timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["check_inputs", "check_output"]

_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def check_inputs(
    table: Table, inputs: Mapping[str, DataFrame], *, decodes: bool, changing: Mapping[str, bool]
) -> None:
    """Raise what is wrong with the inputs of a table."""
    _raise(table, _input_problems(table, inputs, decodes, changing))


def _input_problems(
    table: Table, inputs: Mapping[str, DataFrame], decodes: bool, changing: Mapping[str, bool]
) -> Iterator[str]:
    kind = table.kind
    if decodes and not isinstance(kind, Rows | Totals | Latest):
        yield (
            f"a {kind.word} table reads tables, not a stream: declare a rows table on the stream "
            "and read that"
        )
    if decodes and len(inputs) > 1:
        yield "a table that decodes a stream reads nothing else: put a rows table in between"
    if table.dedupe is not None:
        if not decodes:
            yield "dedupe is for a table that decodes a stream"
        yield from _missing("dedupe", table.dedupe.key, next(iter(inputs.values())))
    if any(changing.values()):
        if isinstance(kind, Rows) and not table.keys:
            yield "rows of its input may change: name the keys of its own rows"
        if isinstance(kind, Session):
            yield "rows of its input may change, which sessions cannot follow"
    yield from _column_problems(table, inputs)


def _column_problems(table: Table, inputs: Mapping[str, DataFrame]) -> Iterator[str]:
    kind, (first, *rest) = table.kind, inputs.items()
    if isinstance(kind, Group):
        for argument, frame in inputs.items():
            yield from _missing(f"by, on {argument}", kind.by, frame)
            yield from _inexact(kind.by, frame)
    if isinstance(kind, Timed):
        yield from _not_a_time(kind.on, first[1], first[0])
    if isinstance(kind, Session | Sliding):
        yield from _missing("by", kind.by, first[1])
    if isinstance(kind, IntervalJoin):
        yield from _not_a_time(kind.right_on, rest[0][1], rest[0][0])
        for argument, frame in inputs.items():
            yield from _missing(f"by, on {argument}", kind.by, frame)
    if isinstance(kind, Enrich):
        yield from _not_a_time(kind.on, first[1], first[0])
        yield from _missing("keys", table.keys, first[1])
        yield from _missing(f"by, on {first[0]}", kind.by, first[1])
        for argument, frame in rest:
            yield from _missing(f"by, on {argument}", kind.by, frame)
            yield from _missing(f"history, on {argument}", ("valid_from", "valid_to"), frame)


def check_output(table: Table, mapped: DataFrame | None, out: DataFrame) -> None:
    """Raise what is wrong with what a table returns.

    Args:
        mapped: what the transform of a keyed table returns, before it is folded.
    """
    _raise(table, _output_problems(table, mapped, out))


def _output_problems(table: Table, mapped: DataFrame | None, out: DataFrame) -> Iterator[str]:
    kind = table.kind
    if mapped is not None and isinstance(kind, Totals | Latest):
        yield from _mapped_problems(kind, mapped)
    yield from _missing("keys", table.keys, out)
    yield from _inexact(table.keys, out)
    if isinstance(kind, Timed):
        yield from _missing("the result's time", (kind.point,), out)
    if isinstance(kind, Session):
        yield from _missing("the session's end", ("window_end",), out)
    if isinstance(kind, Enrich):
        yield from _missing("the facts' time", (kind.on,), out)
        for name in ("valid_from", "valid_to"):
            if name in out.columns:
                yield f"an enriched row has no {name}: it is about one moment"
    for name in out.columns:
        if name.startswith("_"):
            yield f"{name!r} begins with an underscore: such names are the engine's own"


def _mapped_problems(kind: Totals | Latest, mapped: DataFrame) -> Iterator[str]:
    yield from _missing("by", kind.by, mapped)
    yield from _inexact(kind.by, mapped)
    if isinstance(kind, Totals):
        for field in mapped.schema:
            exact = isinstance(field.dataType, (*_INTEGERS, T.DecimalType))
            if field.name not in kind.by and not exact:
                yield (
                    f"{field.name} is {field.dataType.simpleString()}: totals add whole numbers "
                    "and decimals; cast it"
                )
        return
    for field in mapped.schema:
        if isinstance(field.dataType, T.ArrayType | T.StructType | T.MapType):
            yield f"{field.name} is nested and cannot say which row is newer: keep it as text"
    yield from _missing("order", kind.order, mapped)
    yield from _missing("flags", kind.flags, mapped)
    if isinstance(kind, History):
        yield from _not_a_time(kind.since, mapped, "the transform")


def _missing(what: str, names: tuple[str, ...], frame: DataFrame) -> Iterator[str]:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        yield f"{what}: there is no {', '.join(missing)}; there is {', '.join(frame.columns)}"


def _inexact(names: tuple[str, ...], frame: DataFrame) -> Iterator[str]:
    for field in frame.schema:
        if field.name in names and isinstance(field.dataType, T.FloatType | T.DoubleType):
            yield f"key {field.name} is a floating-point number: cast it to a decimal"


def _not_a_time(name: str, frame: DataFrame, argument: str) -> Iterator[str]:
    if name not in frame.columns:
        columns = ", ".join(frame.columns)
        yield f"there is no {name!r} in {argument}, whose columns are {columns}"
    elif not isinstance(frame.schema[name].dataType, T.TimestampType):
        yield f"{name} of {argument} is no timestamp"


def _raise(table: Table, problems: Iterator[str]) -> None:
    found = list(problems)
    if found:
        raise DefinitionError(f"{table.place}: {table.name}: {'; '.join(found)}.")
