"""From a definition to a follower: which one runs a table, and with what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import DefinitionError
from penstock.model.catalog import Catalog
from penstock.model.definition import Table
from penstock.model.kinds import Enrich, Group, Latest, Rows, Totals
from penstock.model.stream import Stream
from penstock.model.windows import Session, Timed
from penstock.runtime.decode.expression import decode, transform_input
from penstock.runtime.decode.schemas import SchemaRegistry
from penstock.runtime.ingest.bronze import bronze_schema
from penstock.runtime.kinds.batch import recompute
from penstock.runtime.kinds.contracts import ContractMapper, DedupeMapper
from penstock.runtime.kinds.enriched import EnrichFollower
from penstock.runtime.kinds.follow import Follower, Input, TableContext
from penstock.runtime.kinds.grouped import GroupFollower
from penstock.runtime.kinds.keyed import KeyedFollower
from penstock.runtime.kinds.mapping import Calculation, Mapper, RowMapper
from penstock.runtime.kinds.rows import RevisedRowsFollower, RowsFollower
from penstock.runtime.kinds.sessions import SessionFollower
from penstock.runtime.kinds.timed import TimedFollower

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "arrow_fields",
    "arrow_schema",
    "changes",
    "empty_inputs",
    "follower",
    "output_frame",
    "typed_input",
]


def changes(catalog: Catalog, table: Table) -> bool:
    """True where rows of the table may be changed or taken back: its readers must expect it."""
    kind = table.kind
    if isinstance(kind, Rows):
        return any(
            changes(catalog, catalog.tables[name])
            for name in table.inputs.values()
            if name in catalog.tables
        )
    return True


def arrow_schema(frame: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return pa.schema([field.with_nullable(True) for field in to_arrow_schema(frame.schema)])


def arrow_fields(declared: Mapping[str, Any]) -> pa.Schema:
    """The Arrow schema of a table, from the schema its revision was registered with."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(dict(declared))
    return pa.schema([field.with_nullable(True) for field in to_arrow_schema(schema)])


def typed_input(session: SparkSession, stream: Stream) -> DataFrame:
    """What a definition on a stream sees, without a row in it."""
    bronze = session.createDataFrame(bronze_schema().empty_table())
    return transform_input(decode(bronze, stream, {}), stream)


def empty_inputs(
    session: SparkSession, table: Table, given: Callable[[str], Stream | pa.Schema]
) -> dict[str, DataFrame]:
    """Empty frames of a table's inputs, by argument."""
    frames = {}
    for argument, name in table.inputs.items():
        source = given(str(name))
        frames[argument] = (
            typed_input(session, source)
            if isinstance(source, Stream)
            else session.createDataFrame(source.empty_table())
        )
    return frames


def output_frame(table: Table, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """The table over empty inputs: its columns and types."""
    return recompute(table, inputs)


def follower(
    context: TableContext,
    inputs: Mapping[str, Input],
    stream: Stream | None = None,
    schemas: SchemaRegistry | None = None,
) -> Follower:
    """The follower that runs a table of this kind.

    Args:
        stream: the stream the table decodes, if its input is bronze.
        schemas: where writer schemas are looked up; needed with a stream.
    """
    definition, kind = context.definition, context.definition.kind
    if isinstance(kind, Session):
        return SessionFollower(context, inputs)
    if isinstance(kind, Timed):
        return TimedFollower(context, inputs)
    if isinstance(kind, Enrich):
        return EnrichFollower(context, inputs)
    if isinstance(kind, Group):
        given = {a: i.source.schema for a, i in inputs.items()}
        calculation = Calculation(
            context.session, given, definition, context.writer.schema, str(definition.name)
        )
        return GroupFollower(context, inputs, calculation)
    if isinstance(kind, Totals | Latest):
        mapped = arrow_schema(_mapped_frame(context, inputs, stream))
        mappers = _mappers(context, inputs, stream, schemas, mapped)
        return KeyedFollower(context, inputs, mappers, mapped)
    if isinstance(kind, Rows):
        (mapper,) = _mappers(context, inputs, stream, schemas, context.writer.schema).values()
        revised = any(given.changes for given in inputs.values())
        return (RevisedRowsFollower if revised else RowsFollower)(context, inputs, mapper)
    raise DefinitionError(f"{definition.place}: nothing runs tables of kind {kind.word}.")


def _mapped_frame(
    context: TableContext, inputs: Mapping[str, Input], stream: Stream | None
) -> DataFrame:
    """What the transform itself returns, over empty inputs."""
    session = context.session
    if stream is not None:
        frames = {next(iter(inputs)): typed_input(session, stream)}
    else:
        frames = {
            a: session.createDataFrame(i.source.schema.empty_table()) for a, i in inputs.items()
        }
    out: DataFrame = context.definition(**frames)
    return out


def _mappers(
    context: TableContext,
    inputs: Mapping[str, Input],
    stream: Stream | None,
    schemas: SchemaRegistry | None,
    output: pa.Schema,
) -> dict[str, Mapper]:
    session, definition = context.session, context.definition
    if stream is not None:
        assert schemas is not None  # noqa: S101
        argument, given = next(iter(inputs.items()))
        typed = arrow_schema(typed_input(session, stream))
        if definition.dedupe is None:
            return {
                argument: ContractMapper(session, definition, stream, schemas, output, typed=typed)
            }
        at = context.writer.position(given.name)
        deduping = DedupeMapper(
            session,
            definition,
            stream,
            schemas,
            output,
            typed=typed,
            source=given.source,
            position=-1 if at is None else at,
            scratch=context.scratch,
        )
        return {argument: deduping}
    known = {a: i.source.schema for a, i in inputs.items()}
    calculation = Calculation(session, known, definition, output, str(definition.name))
    return {
        a: RowMapper(calculation, a, i.name, {other: s for other, s in known.items() if other != a})
        for a, i in inputs.items()
    }
