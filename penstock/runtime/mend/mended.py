"""A table's rows made by other code than its revision's: how a mended definition replays rows.

Only where what it returns has the columns the table has: anything else is a new revision, and goes
live by being staged, compared and promoted.
"""

from __future__ import annotations

from pathlib import Path

from penstock.errors import UsageError
from penstock.model.definition import Table
from penstock.model.names import TableName
from penstock.model.stream import Stream
from penstock.runtime.code.bundle import Bundle
from penstock.runtime.kinds.build import arrow_schema, typed_input
from penstock.runtime.kinds.contracts import ContractMapper, DedupeMapper
from penstock.runtime.kinds.follow import Follower
from penstock.runtime.kinds.mapping import Calculation, Mapper, RowMapper
from penstock.runtime.kinds.rows import RowsFollower

__all__ = ["mended_mapper"]


def mended_mapper(table: Follower, bundle: Path, jobs: str) -> Mapper:
    """What the table's definition in a bundle makes of its input rows."""
    if not isinstance(table, RowsFollower):
        raise UsageError(
            f"{table.name} keeps rows by key, made by its own code: other code cannot add to them.",
            remedy="Stage the mended definition; its rows in quarantine count when it is promoted.",
        )
    catalog = Bundle(bundle, jobs).catalog()
    name = TableName.parse(table.name)
    if name not in catalog.tables:
        reason = next((b.reason for b in catalog.broken if b.what == table.name), "it is not there")
        raise UsageError(f"the tree's {table.name} cannot be used: {reason}")
    definition = catalog.tables[name]
    stream = catalog.stream_of(definition)
    _check(table, definition, stream)
    if stream is None:
        given = table.first
        calculation = Calculation(
            table.context.session,
            {given.argument: given.source.schema},
            definition,
            table.writer.schema,
            table.name,
        )
        return RowMapper(calculation, given.argument, given.name, {})
    own, session, output = table.mapper, table.context.session, table.writer.schema
    assert isinstance(own, ContractMapper)  # noqa: S101 - it reads the same stream
    typed = arrow_schema(typed_input(session, stream))
    if not isinstance(own, DedupeMapper) or definition.dedupe is None:
        return ContractMapper(session, definition, stream, own.schemas, output, typed=typed)
    return DedupeMapper(
        session,
        definition,
        stream,
        own.schemas,
        output,
        typed=typed,
        source=table.first.source,
        position=own.position,
        scratch=table.context.scratch,
        seen=own.seen,
    )


def _check(table: Follower, definition: Table, stream: Stream | None) -> None:
    session, given = table.context.session, table.first
    if (
        list(definition.inputs) != [given.argument]
        or str(definition.inputs[given.argument]) != given.name
    ):
        raise UsageError(f"the tree's {table.name} reads something else than the live one.")
    frame = (
        typed_input(session, stream)
        if stream is not None
        else session.createDataFrame(given.source.schema.empty_table())
    )
    returned = arrow_schema(definition(frame))
    if not returned.equals(table.writer.schema):
        raise UsageError(
            f"the tree's {table.name} returns other columns than the live one has.",
            remedy="Stage it as a new revision; its rows in quarantine count when it is promoted.",
        )
