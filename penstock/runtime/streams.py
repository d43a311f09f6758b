"""The streams of one supervisor: from registered revisions to running workers.

While a supervisor holds the lease it has one ``Streams``: the writers of every table it owns, all
opened under one token, and a worker per topic and per revision. ``converge`` compares what should
run with what does and starts or stops the difference.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import DefinitionError
from penstock.model.catalog import Catalog
from penstock.model.names import TableName
from penstock.model.stream import Stream
from penstock.model.windows import Window
from penstock.runtime import quarantine
from penstock.runtime.bronze import BronzeWriter
from penstock.runtime.bundle import Bundle
from penstock.runtime.delta_log import DeltaLog
from penstock.runtime.follow import Follower, TableContext
from penstock.runtime.ingest import Ingest
from penstock.runtime.kafka import describe_topic, spark_options
from penstock.runtime.registry import Revision, State
from penstock.runtime.rows import ContractFollower, RowsFollower
from penstock.runtime.schemas import SchemaRegistry
from penstock.runtime.slices import SliceFollower
from penstock.runtime.source import Source
from penstock.runtime.worker import FollowWorker, IngestWorker, Worker
from penstock.runtime.writer import RevisionWriter
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Streams"]

log = logging.getLogger("penstock.streams")


class Streams:
    """Everything that runs under one lease."""

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        token: int,
        on_lease_lost: Callable[[], None],
    ) -> None:
        self.session = session
        self.settings = settings
        self.token = token
        self.workers: dict[str, Worker] = {}
        self.broken: dict[str, str] = {}
        self._on_lease_lost = on_lease_lost
        self._schemas = SchemaRegistry(settings.registry_url)
        self._catalogs: dict[str, Catalog] = {}
        self._bronze: dict[TableName, BronzeWriter] = {}
        self._tables: dict[tuple[str, str], RevisionWriter] = {}
        self._revisions: dict[tuple[str, str], Revision] = {}
        self._opening = (
            threading.RLock()
        )  # workers open writers; two of one table would be one too many
        self._readers: dict[str, list[str]] = {}  # a stream -> the streams to wake when it moves
        self._restarts: dict[str, int] | None = None
        self._leaving: set[str] = set()

    # --- convergence ----------------------------------------------------------------------
    def converge(self, revisions: list[Revision], wishes: dict[str, tuple[bool, int]]) -> None:
        """Start what should run and does not; stop what runs and should not."""
        wanted: dict[str, Callable[[], Worker]] = {}
        self._revisions = {(r.table, r.revision): r for r in revisions}
        for revision in revisions:
            try:
                wanted |= self._wanted_for(revision)
                self.broken.pop(revision.table, None)
            except DefinitionError as error:
                if self.broken.get(revision.table) != str(error):
                    log.error("%s cannot run: %s", revision.table, error)
                self.broken[revision.table] = str(error)
        for name in [n for n in wanted if not wishes.get(n, (True, 0))[0]]:
            del wanted[name]
        for name in self._asked_to_restart(wishes):
            self._ask_to_stop(name)
        for name in [n for n in self.workers if n not in wanted]:
            self._ask_to_stop(name)
        self._bury()
        for name, make in wanted.items():
            if name not in self.workers:
                self.workers[name] = make()
                self.workers[name].start()

    def _asked_to_restart(self, wishes: dict[str, tuple[bool, int]]) -> list[str]:
        """Streams whose restart was asked for since the last look; what came before us is done."""
        asked = {name: count for name, (_, count) in wishes.items()}
        before = asked if self._restarts is None else self._restarts
        self._restarts = asked
        return [n for n in asked if asked[n] > before.get(n, 0) and n in self.workers]

    def _ask_to_stop(self, name: str) -> None:
        """Never wait here: the lease must be renewed meanwhile."""
        self.workers[name].ask_to_stop()
        self._leaving.add(name)

    def _bury(self) -> None:
        """Forget workers that were asked to stop, once they cannot write any more.

        Until then their name stays taken: two workers of one table must not run at once.
        """
        for name in [n for n, w in self.workers.items() if w.ended]:
            if name in self._leaving or self.workers[name].state not in ("parked", "stopped"):
                self._leaving.discard(name)
                del self.workers[name]

    def stop(self) -> None:
        """Topics first, then what follows them, each after the batch in hand."""
        for worker in self.workers.values():
            worker.ask_to_stop()
        for worker in self.workers.values():
            worker.join()
        self.workers.clear()
        self._leaving.clear()

    def status(self) -> list[dict[str, Any]]:
        broken = [
            {"stream": table, "state": "broken", "error": reason, "table": table}
            for table, reason in self.broken.items()
        ]
        return [worker.status() for worker in list(self.workers.values())] + broken

    def logs(self) -> list[DeltaLog]:
        """Every log this supervisor writes, for upkeep."""
        tables = list(self._tables.values())
        live = [writer.live for writer in tables if writer.live is not None]
        return [b.log for b in list(self._bronze.values())] + [w.log for w in tables] + live

    # --- from a revision to workers -------------------------------------------------------
    def _wanted_for(self, revision: Revision) -> dict[str, Callable[[], Worker]]:
        name = TableName.parse(revision.table)
        catalog = self._catalog(revision.bundle)
        if name not in catalog.tables:
            reason = next((b.reason for b in catalog.broken), "it is not in its bundle")
            raise DefinitionError(f"{name} revision {revision.revision}: {reason}")
        definition = catalog.tables[name]
        own = f"{name}@{revision.revision}"
        stream = catalog.stream_of(definition)
        wanted: dict[str, Callable[[], Worker]] = {}
        if stream is not None:
            upstream = str(stream.name)
            wanted[upstream] = lambda: self._ingest_worker(stream)
        else:
            source = next(iter(definition.inputs.values()))
            upstream = f"{source}@{revision.inputs[str(source)]}"
        readers = self._readers.setdefault(upstream, [])
        if own not in readers:
            readers.append(own)
        wanted[own] = lambda: self._follow_worker(own, revision, catalog)
        return wanted

    def _catalog(self, address: str) -> Catalog:
        if address not in self._catalogs:
            root = self.settings.bundles / address
            if not root.is_dir():
                raise DefinitionError(f"its code bundle {address} is gone from {root.parent}.")
            self._catalogs[address] = Bundle(root, self.settings.jobs).catalog()
        return self._catalogs[address]

    def _ingest_worker(self, stream: Stream) -> Worker:
        def make() -> Ingest:
            topic = describe_topic(self.settings, stream.topic)
            bronze = self._bronze_writer(stream.name)
            return Ingest(self.session, stream, topic, bronze, self._waker(str(stream.name)))

        def begin(ingest: Ingest) -> None:
            ingest.start(spark_options(self.settings), self.settings.run / "checkpoints")

        return IngestWorker(str(stream.name), make, begin, self._on_lease_lost)

    def _follow_worker(self, own: str, revision: Revision, catalog: Catalog) -> Worker:
        def make() -> Follower:
            return self._follower(revision, catalog)

        return FollowWorker(own, make, self._on_lease_lost, self._waker(own))

    def _follower(self, revision: Revision, catalog: Catalog) -> Follower:
        definition = catalog.tables[TableName.parse(revision.table)]
        context = TableContext(
            self.session,
            definition,
            revision.revision,
            self._writer(revision, definition.name, self._schema(revision)),
            self._writer(revision, definition.name.quarantine, quarantine.SCHEMA),
        )
        stream = catalog.stream_of(definition)
        if stream is not None:
            bronze = self._bronze_writer(stream.name)
            return ContractFollower(context, bronze, stream, self._schemas)
        name = next(iter(definition.inputs.values()))
        source = self._source(name, revision.inputs[str(name)])
        follow = SliceFollower if isinstance(definition.kind, Window) else RowsFollower
        return follow(context, source, str(name))

    # --- writers, one per table and token -------------------------------------------------
    def _source(self, name: TableName, revision: str) -> Source:
        upstream = self._revisions.get((str(name), revision))
        if upstream is None:
            raise DefinitionError(f"{name}@{revision}, which it reads, is not fed any more.")
        return self._writer(upstream, name, self._schema(upstream))

    def _bronze_writer(self, name: TableName) -> BronzeWriter:
        with self._opening:
            if name not in self._bronze:
                self._bronze[name] = BronzeWriter(self.settings.warehouse, name, token=self.token)
            return self._bronze[name]

    def _writer(self, revision: Revision, name: TableName, schema: pa.Schema) -> RevisionWriter:
        key = (str(name), revision.revision)
        with self._opening:
            if key not in self._tables:
                self._tables[key] = RevisionWriter(
                    self.settings.warehouse,
                    name,
                    revision.revision,
                    schema,
                    token=self.token,
                    live=revision.state == State.LIVE,
                    about={"code": revision.bundle},
                )
            return self._tables[key]

    def _schema(self, revision: Revision) -> pa.Schema:
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        declared = StructType.fromJson(revision.declared["schema"])
        fields = [field.with_nullable(True) for field in to_arrow_schema(declared)]
        return pa.schema(fields)

    def _waker(self, stream: str) -> Callable[[], None]:
        def wake() -> None:
            for reader in self._readers.get(stream, []):
                worker = self.workers.get(reader)
                if worker is not None:
                    worker.wake()

        return wake
