"""The writers of one supervisor: one per table, revision and token, opened when first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from penstock.location import Location, delta_table
from penstock.model.names import TableName
from penstock.runtime.delta.log import DeltaLog
from penstock.runtime.delta.repair import refuse_foreign, refuse_others
from penstock.runtime.delta.swap import shown
from penstock.runtime.delta.writer import RevisionWriter, live_path
from penstock.runtime.fates import late, outcomes, quarantine
from penstock.runtime.ingest.bronze import BronzeWriter
from penstock.runtime.kinds.build import arrow_fields
from penstock.runtime.registry import Revision, State

__all__ = ["Writers"]

_BESIDE = {"quarantine": quarantine.SCHEMA, "late": late.SCHEMA, "outcomes": outcomes.SCHEMA}


class Writers:
    """Workers open writers from their own threads; two of one table would be one too many."""

    def __init__(self, warehouse: Location, token_of: Callable[[str], int]) -> None:
        self._warehouse = warehouse
        self._token_of = token_of  # what a table, and all beside it, is written under
        self._opening = threading.RLock()
        self._bronze: dict[TableName, BronzeWriter] = {}
        self._tables: dict[tuple[str, str], RevisionWriter] = {}
        self.revisions: dict[tuple[str, str], Revision] = {}  # as of the last look
        self.held: frozenset[str] = frozenset()  # tables whose live log stands still

    def bronze(self, name: TableName) -> BronzeWriter:
        with self._opening:
            if name not in self._bronze:
                self._bronze[name] = BronzeWriter(
                    self._warehouse, name, token=self._token_of(str(name))
                )
            return self._bronze[name]

    def of(self, revision: Revision) -> RevisionWriter:
        """The writer of a revision, which is also the one of live while live shows it."""
        return self._one(revision, TableName.parse(revision.table), self._schema(revision))

    def beside(self, revision: Revision, word: str) -> RevisionWriter:
        """That of its quarantine, late or outcomes table."""
        return self._one(revision, getattr(TableName.parse(revision.table), word), _BESIDE[word])

    def unshown(self, revision: Revision, part: str = "table") -> RevisionWriter:
        """The writer of a revision, opened without a look at the live log if it has to be.

        Such a one is not kept: it shows nothing until it is told to.
        """
        name, schema = TableName.parse(revision.table), self._schema(revision)
        if part != "table":
            name, schema = getattr(name, part), _BESIDE[part]
        with self._opening:
            known = self._tables.get((str(name), revision.revision))
            return known or self._made(revision, name, schema, live=False)

    def all(self) -> Iterator[tuple[str, str, RevisionWriter]]:
        """Table, revision and writer, of those that are open."""
        for (name, revision), writer in list(self._tables.items()):
            yield name, revision, writer

    def logs(self) -> list[DeltaLog]:
        tables = list(self._tables.values())
        live = [writer.live for writer in tables if writer.live is not None]
        return [b.log for b in list(self._bronze.values())] + [w.log for w in tables] + live

    def forget(self, names: Iterable[TableName], revision: str) -> None:
        with self._opening:
            for name in names:
                self._tables.pop((str(name), revision), None)

    def let_go(self, table: str) -> None:
        """Forget every writer of a table: another supervisor will have it."""
        name = TableName.parse(table)
        beside = {str(one) for one in (name, name.quarantine, name.late, name.outcomes)}
        with self._opening:
            self._bronze.pop(name, None)
            for key in [key for key in self._tables if key[0] in beside]:
                del self._tables[key]

    # --- opening ----------------------------------------------------------------------------
    def _one(self, revision: Revision, name: TableName, schema: pa.Schema) -> RevisionWriter:
        key = (str(name), revision.revision)
        with self._opening:
            if key not in self._tables:
                live = self._shows(name, revision)
                if live:
                    path = live_path(self._warehouse, name)
                    refuse_foreign(path, str(name))
                    refuse_others(path, str(name), revision.revision)
                self._tables[key] = self._made(revision, name, schema, live=live)
            return self._tables[key]

    def _made(
        self, revision: Revision, name: TableName, schema: pa.Schema, *, live: bool
    ) -> RevisionWriter:
        return RevisionWriter(
            self._warehouse,
            name,
            revision.revision,
            schema,
            token=self._token_of(revision.table),
            live=live,
            # A hold is of live: one left on another revision would be taken for its guard's.
            held=live and str(name) in self.held,
            about={"code": revision.bundle, "reads": dict(revision.inputs)},
        )

    def _schema(self, revision: Revision) -> pa.Schema:
        return arrow_fields(revision.declared["schema"])

    def _shows(self, name: TableName, revision: Revision) -> bool:
        """Whether a live log shows this revision: the log itself says so, once it was swapped."""
        path = live_path(self._warehouse, name)
        known = [r for table, r in self.revisions if table == revision.table]
        if len(known) > 1 and (path / "_delta_log").exists():
            log = delta_table(path)
            actual = shown(log, known)
            if actual is not None:
                return actual == revision.revision
            # Never swapped: then it shows the one that was ever mirrored into it.
            mirrored = [r for r in known if log.transaction_version(f"mirror:{r}") is not None]
            if mirrored:
                return revision.revision in mirrored
        return revision.state == State.LIVE
