"""A table of change capture held against the table it copies, at one moment of the source.

Purpose: say whether a keyed table (latest or history) over a Debezium stream *is* its Postgres
table, and if not, which keys differ, in what.

How it works. The source never stands still, so two reads of two systems can only be compared if it
is known exactly which transactions each of them holds:

1. Bronze's version ``before`` is noted. Then one REPEATABLE READ transaction of the source reads
   ``pg_current_snapshot()`` and every row: it holds the transactions visible in that snapshot and
   no others. The end of the server's log read after it, L, lies behind the commit of each of them.
2. The slot's ``confirmed_flush_lsn`` passing L means that all of them are in Kafka: Connect commits
   records and position in one transaction and only then confirms. Kafka's ends are read then,
   bronze is awaited there, and the table takes in all of bronze.
3. A transaction that is *not* visible in the snapshot committed after it was taken, so its events
   can only be in bronze commits after ``before``. These few are read; each event names its
   transaction, and the snapshot says whether it is visible. Those that are not are applied to the
   rows of step 1: the source as it was at L, plus what was committed since and is in the table too.
4. The two are compared, column by column, in the table's own types.

An LSN alone would not do: a change has the LSN at which it was written, yet counts from its commit
on, and a transaction may commit long after it wrote.

What it does not do: look behind the current state. Earlier versions of a history are not in the
source any more. Columns are compared by name; those that only one side has are listed, not
compared. A row in quarantine is a difference, as it should be.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import pg8000.native
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.database import said
from penstock.errors import NotRunning, PenstockError, ServiceFailed, UsageError
from penstock.location import Location, copy_of, delta_table
from penstock.model.contract import Contract
from penstock.model.contract_wire import message_reader
from penstock.model.definition import Table
from penstock.model.formats import Debezium
from penstock.model.kinds import History, Latest
from penstock.model.names import TableName
from penstock.model.stream import Stream
from penstock.runtime.code.bundle import Bundle
from penstock.runtime.delta.log import read_commit
from penstock.runtime.delta.relate import quoted
from penstock.runtime.delta.writer import live_path, revision_path
from penstock.runtime.ingest.connectors import Capture, Connector, capture_of, source_database
from penstock.runtime.ingest.slots import look_at, lsn_number, lsn_text
from penstock.runtime.ingest.topics import describe_topic
from penstock.runtime.mend.audit_rows import (
    Event,
    Report,
    Snapshot,
    compare,
    fitted,
    rolled_forward,
)
from penstock.runtime.registry import Registry, State
from penstock.settings import Settings

__all__ = ["Audit"]

PATIENCE = 120.0  # seconds until Kafka, bronze and the table must have caught up
_CHUNK = 5_000
_LOOK = 0.3


class Audit:
    """One audit of one table; ``run`` is all of it.

    Args:
        advance: have the table take in everything bronze holds, and wait for it.
        say: told what is being waited for.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        *,
        advance: Callable[[], object],
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.settings = settings
        self.name = TableName.parse(name)
        self._advance = advance
        self._say = say
        self.revision, self.table, self.stream = self._declared()
        self.capture: Capture = capture_of(settings.project, self.stream.topic)
        self.relation = self.stream.topic.removeprefix(f"{self.capture.prefix}.")

    @property
    def by(self) -> tuple[str, ...]:
        kind = self.table.kind
        assert isinstance(kind, Latest)  # noqa: S101
        return kind.by

    def _declared(self) -> tuple[str, Table, Stream]:
        """The live revision's own definition, from its bundle."""
        registry = Registry(self.settings)
        live = [r for r in registry.revisions(states=(State.LIVE,)) if r.table == str(self.name)]
        registry.close()
        if not live:
            raise UsageError(
                f"there is no live table {self.name}.", remedy="See `penstock tables`."
            )
        catalog = Bundle(self.settings.bundles / live[0].bundle, self.settings.jobs).catalog()
        table = catalog.tables[self.name]
        stream = catalog.stream_of(table)
        captured = stream is not None and isinstance(stream.contract.format, Debezium)
        if stream is None or not captured or not isinstance(table.kind, Latest):
            raise UsageError(
                f"{self.name} is not the copy of a database table: only a latest or history table "
                "over a Debezium stream is.",
                remedy="See `penstock tables`, and docs/cdc.md.",
            )
        return live[0].revision, table, stream

    # --- the whole ------------------------------------------------------------------------
    def run(self) -> Report:
        began = time.monotonic()
        Connector(self.settings, self.capture.connector).require_running()
        before = delta_table(self._bronze).version()
        copied = pa.schema(delta_table(self._path).schema().to_arrow())
        with source_database(self.settings, self.capture.database) as database:
            columns, not_compared = self._columns(database, copied)
            schema = pa.schema([copied.field(name) for name in columns])
            snapshot, rows = self._read_source(database, schema)
            (end,) = database.run("select pg_current_wal_insert_lsn()::text")[0]
        self._await_delivery(lsn_number(end))
        self._await_bronze()
        self._say("waiting until the table has taken in all of it")
        self._advance()
        copy, reached = self._read_copy(schema)
        events = self._events_since(before, reached, snapshot)
        source, changed = rolled_forward(rows, events, self.by)
        return Report(
            table=str(self.name),
            source=f"{self.capture.database}.{self.relation}",
            lsn=end,
            rows=source.num_rows,
            columns=columns,
            not_compared=not_compared,
            changed_since=changed,
            seconds=round(time.monotonic() - began, 1),
            **compare(source, copy, self.by),
        )

    @property
    def _bronze(self) -> Location:
        return live_path(self.settings.warehouse, self.stream.name)

    @property
    def _path(self) -> Location:
        return revision_path(self.settings.warehouse, self.name, self.revision)

    # --- step 1: the source ---------------------------------------------------------------
    def _columns(
        self, database: pg8000.native.Connection, copied: pa.Schema
    ) -> tuple[list[str], dict[str, list[str]]]:
        """The columns both sides have, and those only one has."""
        schema, _, relation = self.relation.partition(".")
        there = [
            row[0]
            for row in database.run(
                "select column_name::text from information_schema.columns "
                "where table_schema = :schema and table_name = :relation order by ordinal_position",
                schema=schema,
                relation=relation,
            )
        ]
        if not there:
            raise ServiceFailed(
                f"the source has no table {self.relation} that may be read.",
                remedy="It was dropped or renamed; see docs/cdc.md, `Changes of the schema`.",
            )
        declared = set(self.stream.contract.columns)
        both = [name for name in copied.names if name in declared and name in there]
        lacking = [name for name in self.by if name not in both]
        if lacking:
            raise ServiceFailed(
                f"the source has no column {', '.join(lacking)}, by which {self.name} is keyed.",
                remedy="See docs/cdc.md, `Changes of the schema`.",
            )
        return both, {
            "only_in_source": [name for name in there if name not in both],
            "only_in_table": [n for n in copied.names if n in declared and n not in there],
        }

    def _read_source(
        self, database: pg8000.native.Connection, schema: pa.Schema
    ) -> tuple[Snapshot, pa.Table]:
        """Every row, in one snapshot; text where the table has text, whatever the source's type."""
        wanted = ", ".join(
            f"{quoted(f.name)}::text" if _is_text(f.type) else quoted(f.name) for f in schema
        )
        relation = ".".join(quoted(part) for part in self.relation.split(".", 1))
        self._say(f"reading {self.capture.database}.{self.relation}")
        database.run("begin isolation level repeatable read read only")
        try:
            snapshot = Snapshot.parse(database.run("select pg_current_snapshot()::text")[0][0])
            database.run(
                f"declare audited no scroll cursor for select {wanted} from {relation}"  # noqa: S608
            )
            parts = [schema.empty_table()]
            while found := database.run(f"fetch {_CHUNK} from audited"):
                values = {n: [row[i] for row in found] for i, n in enumerate(schema.names)}
                parts.append(fitted(values, schema))
        except pg8000.native.DatabaseError as error:
            raise ServiceFailed(
                f"the source could not be read: {said(error)}",
                remedy="See docs/cdc.md; the role analyst must be able to read the table.",
            ) from error
        finally:
            database.run("rollback")
        return snapshot, pa.concat_tables(parts)

    # --- step 2: until everything is here -------------------------------------------------
    def _await_delivery(self, end: int) -> None:
        """Until the slot has confirmed the end; heartbeats move it when nothing else does."""
        self._say(f"waiting until all changes up to {lsn_text(end)} are in Kafka")

        def delivered() -> bool:
            with source_database(self.settings, self.capture.database) as database:
                look = look_at(database, self.capture.slot)
            if not look.exists or look.invalid or look.wal_status == "lost":
                raise ServiceFailed(
                    f"the replication slot {self.capture.slot} is lost, and changes with it.",
                    remedy="See docs/cdc.md, `When the slot is lost`.",
                )
            return look.confirmed >= end

        if not _until(delivered):
            Connector(self.settings, self.capture.connector).require_running()
            raise ServiceFailed(
                f"the connector {self.capture.connector} runs, but did not deliver the changes up "
                f"to {lsn_text(end)} within {PATIENCE:.0f} s.",
                remedy="Look at logs/connect.log; then run the audit again.",
            )

    def _await_bronze(self) -> None:
        self._say(f"waiting until {self.stream.name} has them")
        topic = describe_topic(self.settings, self.stream.topic)

        def arrived() -> bool:
            bronze = delta_table(self._bronze)
            return all(
                (bronze.transaction_version(f"kafka:{topic.topic_id}:{part}") or 0) >= end
                for part, end in topic.latest.items()
                if end > topic.earliest[part]
            )

        if not _until(arrived):
            raise NotRunning(
                f"{self.stream.name} did not take in what Kafka has within {PATIENCE:.0f} s.",
                remedy="Is the supervisor running? See `penstock streams`.",
            )

    # --- step 3: what was committed since -------------------------------------------------
    def _read_copy(self, schema: pa.Schema) -> tuple[pa.Table, int]:
        """The table's current rows at one version, and the bronze version they go up to."""
        table = delta_table(self._path)
        reached = table.transaction_version(f"{self.revision}:{self.stream.name}")
        history = isinstance(self.table.kind, History)
        wanted = [*schema.names, "valid_to"] if history else schema.names
        rows = table.to_pyarrow_table(columns=wanted)
        if history:
            rows = rows.filter(pc.is_null(rows["valid_to"]))
        return rows.select(schema.names).cast(schema), -1 if reached is None else reached

    def _events_since(self, before: int, reached: int, snapshot: Snapshot) -> list[Event]:
        read = message_reader(*_wire(self.stream.contract))
        found = []
        for version in range(before + 1, reached + 1):
            for value, offset in _messages(self._bronze, version):
                message = read(value)
                if message.skipped or message.change is None or message.row is None:
                    continue  # what cannot be read is in quarantine: the table has it not either
                source = json.loads(value)["source"]
                if message.change["op"] == "r":
                    raise PenstockError(
                        "the connector is taking a snapshot: source and table are about to agree.",
                        remedy="Run the audit again when it is through; logs/connect.log tells.",
                    )
                if snapshot.holds(int(source["txId"])):
                    continue
                order = (message.change["lsn"], offset)
                found.append(self._event(order, message.change["op"], message.row))
        return found

    def _event(self, order: tuple[int, int], op: str, row: dict[str, Any]) -> Event:
        if op == "t":
            return Event(order, None, None)
        return Event(order, tuple(row[name] for name in self.by), None if op == "d" else row)


def _wire(contract: Contract) -> tuple[str, Debezium]:
    assert isinstance(contract.format, Debezium)  # noqa: S101
    return contract.schema_json, contract.format


def _messages(bronze: Location, version: int) -> Iterable[tuple[bytes, int]]:
    for action in read_commit(bronze, version):
        added = action.get("add")
        if added and added["dataChange"]:
            rows = pq.read_table(
                copy_of(bronze / added["path"]), columns=["value", "offset"], partitioning=None
            )
            yield from zip(rows["value"].to_pylist(), rows["offset"].to_pylist(), strict=True)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _until(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK)
    return True
