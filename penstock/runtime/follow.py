"""Following: a revision takes in its input commit by commit, in order, each exactly once.

Every table above bronze runs this way, whether its input is bronze or another revision, whether it
is called inside the ingest batch, from a thread of its own or to catch up after a crash: the
position it last committed says where to go on, and nothing else does.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.model.definition import Table
from penstock.runtime.delta_log import Action
from penstock.runtime.source import Batch, Source, new_batches
from penstock.runtime.writer import RevisionWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Follower", "TableContext"]

CATCH_UP_ROWS = 500_000  # rows taken in at once while behind


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


class Follower(ABC):
    """One revision of one table with one input; subclasses say what a batch turns into."""

    def __init__(self, context: TableContext, source: Source, source_name: str) -> None:
        self.context = context
        self.source = source
        self.source_name = source_name
        self.writer = context.writer
        self.broken = context.broken
        for writer in (self.writer, self.broken):
            writer.catch_up_mirror()
        at = self.writer.position(source_name)
        self.position = -1 if at is None else at
        self.quarantined = 0

    @property
    def name(self) -> str:
        return str(self.context.definition.name)

    @property
    def behind(self) -> int:
        """Input commits not taken in yet."""
        return self.source.log.version - self.position

    def advance(self) -> bool:
        """Take in everything the input has now; True when there was anything."""
        moved = False
        # After a crash between the two commits, quarantine is one batch ahead: end a batch just
        # there, so that its bad rows are recognised as written and the next ones are not.
        ahead = self.broken.position(self.source_name)
        for batch in new_batches(self.source, self.position, CATCH_UP_ROWS, cut=ahead):
            if batch.count:
                self.take(batch)
            self.position = batch.to
            moved = moved or batch.count > 0
        return moved

    @abstractmethod
    def take(self, batch: Batch) -> None:
        """Compute one batch and commit it at its position."""

    def set_apart(self, adds: list[Action], at: int) -> None:
        """Commit files to quarantine, once for this position, before the table goes past it."""
        done = self.broken.position(self.source_name)
        if not adds or (done is not None and done >= at):
            return
        self.broken.append(adds, {self.source_name: at})
        self.quarantined += sum(json.loads(a["add"]["stats"])["numRecords"] for a in adds)

    def status(self) -> dict[str, Any]:
        return {
            "table": self.name,
            "revision": self.context.revision,
            "version": self.writer.log.version,
            "position": self.position,
            "behind": self.behind,
            "quarantined": self.quarantined,
        }
