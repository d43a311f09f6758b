"""The batch form of a table: the same transform over all rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from penstock.model.definition import Dedupe, Table
from penstock.model.kinds import Enrich, Latest, Totals
from penstock.model.stream import Stream
from penstock.model.windows import Session, Timed
from penstock.runtime.decode.expression import ErrorClass, decode, transform_input
from penstock.runtime.delta.upsert import IS_FINAL
from penstock.runtime.kinds.dedupe import first_of_each
from penstock.runtime.kinds.folds import fold_frame
from penstock.runtime.kinds.geometry import geometry_of
from penstock.runtime.kinds.windows import as_of, assign_sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["decoded_input", "recompute", "transform_inputs"]


def recompute(
    table: Table,
    inputs: Mapping[str, DataFrame],
    *,
    until: int | None = None,
    interval: tuple[int, int] | None = None,
) -> DataFrame:
    """The table computed from its inputs' rows.

    Args:
        inputs: the inputs by argument; of a stream, what its transform is given (decoded and
            deduplicated).
        until: for timed tables, the watermark in microseconds: results that are not final then
            are left out, or marked where the table shows them. None: everything is final.
        interval: for timed tables, only the results whose point lies in ``[start, end)``.
    """
    frames = dict(inputs)
    kind = table.kind
    if isinstance(kind, Timed):
        return _timed(table, kind, frames, until, interval)
    if isinstance(kind, Enrich):
        facts = frames.pop(next(iter(table.inputs)))
        joined: DataFrame = table(as_of(facts, frames, kind))
        return joined
    out: DataFrame = table(**frames)
    return fold_frame(kind, out) if isinstance(kind, Totals | Latest) else out


def decoded_input(
    bronze: DataFrame,
    stream: Stream,
    writers: Mapping[int, str],
    dedupe: Dedupe | None,
    broken: pa.Table,
) -> DataFrame:
    """What the transform of a table over a stream is given of bronze rows, all at once.

    Args:
        broken: what is in the table's quarantine: a row that broke the transform was the first of
            its key all the same, and is left out after that is decided.
    """
    typed = transform_input(decode(bronze.drop("headers"), stream, writers), stream)
    if dedupe is not None:
        typed = first_of_each(typed, dedupe)
    wrong = broken.filter(pc.equal(broken["error_class"], ErrorClass.TRANSFORM.value))
    names = [wrong["partition"], wrong["offset"], wrong["ingested_at"].cast(pa.int64())]
    places = [
        "/".join(map(str, place))
        for place in zip(*map(pa.ChunkedArray.to_pylist, names), strict=True)
    ]
    if not places:
        return typed
    # A topic that was made again repeats its offsets; the time of ingest tells them apart.
    taken = F.unix_micros("_ingested_at").cast("string")
    return typed.where(~F.concat_ws("/", "_partition", "_offset", taken).isin(places))


def transform_inputs(table: Table, inputs: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """What the transform itself is given: with windows assigned and dimensions joined."""
    kind, arguments = table.kind, list(table.inputs)
    first = inputs[arguments[0]]
    if isinstance(kind, Session):
        return {arguments[0]: assign_sessions(first, kind)}
    if isinstance(kind, Timed):
        return {arguments[0]: geometry_of(kind, arguments).rows(dict(inputs), None)}
    if isinstance(kind, Enrich):
        rest = {argument: inputs[argument] for argument in arguments[1:]}
        return {arguments[0]: as_of(first, rest, kind)}
    return dict(inputs)


def _timed(
    table: Table,
    kind: Timed,
    frames: dict[str, DataFrame],
    until: int | None,
    interval: tuple[int, int] | None,
) -> DataFrame:
    arguments = list(table.inputs)
    timed = {arguments[0]: frames[arguments[0]].where(F.col(kind.on).isNotNull())}
    if isinstance(kind, Session):
        out: DataFrame = table(_ended(assign_sessions(timed[arguments[0]], kind), until, interval))
        return out
    geometry = geometry_of(kind, arguments)
    limit = None if until is None else geometry.limit(until)
    cut = limit if not kind.updates else None

    def within(point: F.Column) -> F.Column:  # type: ignore[name-defined]
        condition = F.lit(True) if cut is None else point < F.lit(cut)
        if interval is not None:
            condition = condition & point.between(interval[0], interval[1] - 1)
        return condition

    out = table(geometry.rows({**frames, **timed}, within))
    if not kind.updates:
        return out
    final = F.lit(True) if limit is None else F.unix_micros(kind.point) < F.lit(limit)
    return out.withColumn(IS_FINAL, final)


def _ended(rows: DataFrame, until: int | None, interval: tuple[int, int] | None) -> DataFrame:
    if until is not None:
        rows = rows.where(F.unix_micros("window_end") <= F.lit(until))
    if interval is not None:
        rows = rows.where(F.unix_micros("window_start").between(interval[0], interval[1] - 1))
    return rows
