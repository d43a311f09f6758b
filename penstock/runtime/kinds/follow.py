"""Following: a revision takes in its inputs commit by commit, in order, each exactly once.

Every table above bronze runs this way, whether its input is bronze or another revision, whether it
runs live or catches up after a crash: the positions it last committed say where to go on, and
nothing else does. One commit decides about everything a batch came to: the table's own files, the
rows set apart from it (quarantine, late) and what became of every input row.
"""

from __future__ import annotations

import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.definition import Table
from penstock.runtime.decode.expression import ErrorClass
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.log import Action
from penstock.runtime.delta.source import Batch, Source, new_batches
from penstock.runtime.delta.store import Store
from penstock.runtime.delta.upsert import Upserts, layout_of
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.fates import quarantine
from penstock.runtime.fates.outcomes import Outcome, OutcomesTable, Tally
from penstock.runtime.fates.quarantined import held_in, taken_out
from penstock.runtime.kinds.guards import GUARD, breach
from penstock.runtime.kinds.mapping import Revised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Follower", "Input", "TableContext"]

log = logging.getLogger("penstock.follow")

CATCH_UP_ROWS = 500_000  # rows taken in at once while behind
ALL_BAD = 100  # so many bad rows in a row, and not one good, are an alarm
SETTLE_SECONDS = 5.0  # a table that waits for more commits how far it has read this often


@dataclass(frozen=True)
class Input:
    """One input of a table: what its function calls it, its name, and where to read it."""

    argument: str
    name: str
    source: Source
    changes: bool = False  # rows of it may go, not only come


@dataclass(frozen=True)
class TableContext:
    """What it takes to run one revision of one table.

    The writers outlive the follower: when a follower fails and is made anew, those who read the
    table keep reading the same object.
    """

    session: SparkSession
    definition: Table
    revision: str
    writer: RevisionWriter
    broken: RevisionWriter
    late: RevisionWriter
    outcomes: RevisionWriter
    scratch: Path  # for copies that can be made again


class Follower(ABC):
    """One revision of one table; subclasses say what a batch turns into."""

    def __init__(self, context: TableContext, inputs: Mapping[str, Input]) -> None:
        self.context = context
        self.inputs = dict(inputs)
        self.writer = context.writer
        self.broken = context.broken
        self.late_table = context.late
        self.writer.catch_up_mirror()
        for name, companion in (("quarantine", self.broken), ("late", self.late_table)):
            companion.catch_up_mirror()
            self.writer.adopt(name, companion)
        context.outcomes.catch_up_mirror()
        self.writer.adopt("outcomes", context.outcomes)
        self.outcomes = OutcomesTable(self.writer, context.outcomes)
        self.tally = Tally()
        self.positions = {i.name: self._committed(i.name) for i in self.inputs.values()}
        self.quarantined = 0
        self._bad_in_a_row = 0
        self.apart: dict[str, list[Action]] = {}
        # Asked between two batches of a long way: whether to go on now.
        self.go_on: Callable[[Batch], bool] = lambda batch: True
        self.stopping: Callable[[], bool] = lambda: False  # told to leave after the batch in hand
        self._settled = time.monotonic()
        self._born: float | None = None  # the oldest row of the round in hand
        self._since: dict[str, int] = {}  # where the round in hand began
        self.breach = "a guard of it" if self.writer.position(GUARD) else ""

    @property
    def name(self) -> str:
        return str(self.context.definition.name)

    @property
    def first(self) -> Input:
        return next(iter(self.inputs.values()))

    @property
    def behind(self) -> int:
        """Input commits not taken in yet."""
        return sum(i.source.log.version - self.positions[i.name] for i in self.inputs.values())

    def waiting_since(self) -> float | None:
        """Since when the oldest row not taken in yet has been on its way; None: there is none."""
        inputs = self.inputs.values()
        oldest = (i.source.recent.oldest_after(self.positions[i.name]) for i in inputs)
        return min((born for born in oldest if born is not None), default=None)

    def _committed(self, name: str) -> int:
        at = self.writer.position(name)
        return -1 if at is None else at

    # --- moving on ------------------------------------------------------------------------
    def advance(self, until: Mapping[str, int] | None = None) -> bool:
        """Take in everything the inputs have now; True when there was anything.

        Args:
            until: by input, the version to stop at; for whoever has to stand where another stands.
        """
        moved = False
        self._born, self._since = self.waiting_since(), dict(self.positions)
        for given in self.reading_order():
            bound = None if until is None else until.get(given.name)
            at = self.positions[given.name]
            for batch in new_batches(given.source, at, CATCH_UP_ROWS, bound):
                if batch.count:
                    self.take(given, batch)
                    moved = True
                self.positions[given.name] = batch.to
                if until is None and not self.go_on(batch):
                    break
        self.settle()
        self._born, self._since = None, {}
        return moved

    def reading_order(self) -> list[Input]:
        """Which input is looked at first."""
        return list(self.inputs.values())

    @abstractmethod
    def take(self, given: Input, batch: Batch) -> None:
        """Compute one batch of one input; commit it, or keep it until there is what to commit."""

    def stand(self) -> dict[str, int]:
        """Commit how far everything has been read; returns the positions as committed."""
        committed = {name: self._committed(name) for name in self.positions}
        if committed != self.positions or self.tally or self.apart:
            self.commit([])
        self.outcomes.flush(now=True)
        return dict(self.positions)

    def settle(self, *, now: bool = False) -> None:
        """Commit what was read without a result, and bring the outcomes up to date, when due."""
        waiting = bool(self.tally) or bool(self.apart)
        if waiting and (now or time.monotonic() - self._settled >= SETTLE_SECONDS):
            self.commit([])
        self.outcomes.flush(now=now)

    def commit(
        self,
        actions: list[Action],
        change: Change | None = None,
        at: Mapping[str, int] | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        """One commit for all that was read, set apart and counted since the last one."""
        reached = {name: version for name, version in self.positions.items() if version >= 0}
        known = {**reached, **self.extra_positions(), **(at or {})}
        if self._since:  # what lies between it and the commit before had no effect
            info = {**(info or {}), "since": self._since}
        told = self._guarded(actions, change)
        if told:  # before the commit: readers of live must not see it
            self.writer.held = True
            known[GUARD] = 1
            info = {**(info or {}), "guard": told}
        self.writer.commit(
            actions,
            known,
            info,
            change=change,
            apart=self.apart,
            tally=self.tally.take(),
            born=self._born,
        )
        self.apart = {}
        self._settled = time.monotonic()

    def _guarded(self, actions: list[Action], change: Change | None) -> str:
        definition = self.context.definition
        if definition.guards is None or self.writer.live is None:
            return ""  # nobody reads a candidate, and it catches up in big batches
        told = breach(definition.guards, definition.keys, change, actions)
        if told:
            log.error("%s is held: %s", self.name, told)
            self.breach = told
        return told

    def release(self) -> int:
        """What a guard held is shown; returns how many commits."""
        if self.writer.position(GUARD):
            self.commit([], at={GUARD: 0})
        self.breach, self.writer.held = "", False
        return self.writer.catch_up_mirror()

    def extra_positions(self) -> dict[str, int]:
        """What else the commit must remember, such as a watermark."""
        return {}

    # --- setting apart --------------------------------------------------------------------
    def set_apart(self, given: Input, rows: pa.Table, *, count: bool = True) -> None:
        """Quarantine rows, with the next commit."""
        self.set_apart_files(given, write_arrow(rows, self.broken.path), count=count)

    def set_apart_files(self, given: Input, adds: list[Action], *, count: bool = True) -> int:
        """The same for rows written already; returns how many they are."""
        rows = int(sum(json.loads(a["add"]["stats"])["numRecords"] for a in adds))
        if rows:
            self.apart.setdefault("quarantine", []).extend(adds)
            self.quarantined += rows
            if count:
                self.tally.add(given.name, Outcome.QUARANTINED, rows)
        return rows

    def let_out(self, given: Input, gone: pa.Table) -> pa.Table:
        """Rows of a topic that went leave quarantine, with the next commit.

        Returns what is in quarantine of the input, as it was before. Typed rows stay: an equal one
        may still be there.
        """
        held = held_in(self.broken)
        held = held.filter(pc.equal(held["source"], given.name))
        if quarantine.is_bronze(gone.schema):
            ids = set(held["row_id"].to_pylist()) & set(quarantine.ids_of(gone))
            if ids:
                self.apart.setdefault("quarantine", []).extend(taken_out(self.broken, ids))
                self.forgive(ids)
        return held

    def count_revised(self, given: Input, change: Change, revised: Revised) -> None:
        """What became of the rows of a change, against what had become of those that went."""
        mapped = revised.mapped
        went = 0 if change.gone is None else change.gone.num_rows
        counted = min(revised.came, mapped.rows.num_rows) - min(revised.went, revised.gone.num_rows)
        # Bad rows that came are counted where they are set apart.
        rest = change.added.num_rows - mapped.bad.num_rows - (went - revised.held)
        self.tally.add(given.name, Outcome.QUARANTINED, -revised.held)
        self.tally.add(given.name, Outcome.DUPLICATE, mapped.duplicates)
        self.tally.add(given.name, Outcome.COUNTED, counted)
        self.tally.add(given.name, Outcome.FILTERED, rest - mapped.duplicates - counted)

    def watch(self, good: int, bad: int) -> None:
        """Notice a topic that turns all bad: rows are safe in quarantine, but nobody gets any."""
        self._bad_in_a_row = 0 if good else self._bad_in_a_row + bad
        if bad and self.alarm and self._bad_in_a_row - bad < ALL_BAD:
            log.error("%s: %s", self.name, self.alarm)

    @property
    def alarm(self) -> str:
        """What an operator should look at, in words; empty when there is nothing."""
        if self._bad_in_a_row < ALL_BAD:
            return ""
        return (
            f"the last {self._bad_in_a_row} rows all went to quarantine: "
            f"`penstock quarantine list {self.name}`"
        )

    def set_late(self, rows: pa.Table) -> None:
        """List rows as late, with the next commit."""
        if rows.num_rows:
            adds = write_arrow(rows, self.late_table.path)
            self.apart.setdefault("late", []).extend(adds)

    def condemned_before(self, given: Input, *, transform: bool = True) -> set[str]:
        """Ids of the rows of an input that this table has in quarantine.

        Args:
            transform: also those that broke the transform, not the contract.
        """
        if self.broken.position("from") is None:
            return set()
        columns = ["row_id", "source", "error_class"]
        known = self.broken.log.snapshot().to_pyarrow_table(columns=columns)
        return {
            row["row_id"]
            for row in known.to_pylist()
            if row["source"] == given.name
            and (transform or row["error_class"] != ErrorClass.TRANSFORM)
        }

    # --- copies ---------------------------------------------------------------------------
    def stores(self) -> list[Store]:
        """Copies of rows this follower keeps beside its table."""
        return []

    def close(self) -> None:
        """Let go of files; the follower is of no use afterwards."""
        for store in self.stores():
            store.close()

    def forget_copies(self) -> None:
        """Throw the copies away, damaged as they may be: the next follower fills them again."""
        for store in self.stores():
            store.clear()

    def reconcile(self) -> dict[str, Any]:
        """Make late rows count; tables without windows have none."""
        return {"late": 0, "results": 0, "changed": 0}

    # --- corrections ----------------------------------------------------------------------
    def layout(self) -> Upserts:
        """Its files, to rewrite some; those who seldom do look at them only then."""
        upserts: Upserts | None = getattr(self, "upserts", None)
        if upserts is not None:
            return upserts
        keys = self.context.definition.keys
        return layout_of(self.writer.path, self.writer.log.version, self.writer.schema, keys)

    def touched_since(self, inputs: Mapping[str, int], version: int) -> pa.Table | None:
        """Scopes computed anew since some versions of the inputs, when it had ``version`` itself.

        None where rows do not hang together: what came since adds to what was there.
        """
        return None

    def changes_since(self, given: Input, version: int) -> Iterator[Change]:
        """What was taken in of an input since a version of it."""
        reached = self.positions[given.name]
        for batch in new_batches(given.source, version, CATCH_UP_ROWS, until=reached):
            yield batch.change(given.source.schema)

    def forgive(self, ids: set[str]) -> None:
        """Rows that have left quarantine are rows like any others again."""
        return

    def _held(self) -> str:
        if self.writer.live is None or not self.writer.held:
            return ""
        why = f" ({self.breach})" if self.breach else ""
        return f"live is held{why}: `penstock release {self.name}`"

    def status(self) -> dict[str, Any]:
        return {
            "table": self.name,
            "revision": self.context.revision,
            "version": self.writer.log.version,
            "position": self.positions[self.first.name],
            "behind": self.behind,
            "quarantined": self.quarantined,
            "alarm": self.alarm or self._held(),
        }
