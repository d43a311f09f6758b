"""A small world to maintain: a table that grows, one that follows it, real logs, no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from penstock.model.names import TableName
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.source import new_batches
from penstock.runtime.delta.writer import RevisionWriter, live_path
from penstock.runtime.fates import outcomes
from penstock.runtime.registry import Revision, State
from penstock.runtime.supervise.compact import commit_merge
from penstock.runtime.upkeep.claims import Claim
from penstock.runtime.upkeep.maintain import Maintained, Maintenance, Pace

ROWS = pa.schema([("n", pa.int64()), ("word", pa.string())])
SILVER, GOLD = "silver.words", "gold.words"
AT_ONCE = Pace(retention=0, internal=0, min_age=0, safe_age=0, share=1.0, least=1)


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": list(numbers), "word": [f"word {n}" for n in numbers]}, schema=ROWS)


class Upkept:
    """``silver.words`` is fed by the test; ``gold.words`` copies it."""

    def __init__(self, folder: Path, token: int = 1) -> None:
        self.folder = folder
        self.silver = self._writer(SILVER, token)
        self.gold = self._writer(GOLD, token)
        self.counts = self._writer(str(TableName.parse(GOLD).outcomes), token, outcomes.SCHEMA)
        self.declared: dict[str, Any] = {"meaning": {"kind": "rows"}}

    def _writer(self, name: str, token: int, schema: pa.Schema = ROWS) -> RevisionWriter:
        return RevisionWriter(
            self.folder, TableName.parse(name), "r1", schema, token=token, live=True
        )

    def feed(self, *numbers: int) -> None:
        some = rows(*numbers)
        self.silver.commit(write_arrow(some, self.silver.path), {"test": 1}, change=Change(some))

    def follow(self, most: int = 1 << 30, batches: int = 1 << 30) -> None:
        """Let gold take in what silver has, from files."""
        at = self.gold.position(SILVER)
        self.silver.recent._rows.clear()
        found = new_batches(self.silver, -1 if at is None else at, most)
        for count, batch in enumerate(found):
            if count == batches:
                return
            change = batch.change(ROWS)
            adds = write_arrow(change.added, self.gold.path)
            self.gold.commit(adds, {SILVER: batch.to}, {"rows_in": batch.count})
        newest = self.gold.log.version
        self.counts.commit([], {"outcomes": newest})

    @property
    def revisions(self) -> list[Revision]:
        return [
            Revision(SILVER, "r1", State.LIVE, "", {}, self.declared),
            Revision(GOLD, "r1", State.LIVE, "", {SILVER: "r1"}, self.declared),
        ]

    def ask(self, table: str, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        writer = {SILVER: self.silver, GOLD: self.gold}[table]
        if arguments.get("part") == "outcomes":
            writer = self.counts
        if verb == "mark":
            return {"marked": writer.mark() + self.counts.mark()}
        return commit_merge(writer, arguments["note"])

    def maintain(self, pace: Pace = AT_ONCE, claims: list[Claim] | None = None, ask=None):
        work = Maintenance(
            self.folder, self.revisions, ask or self.ask, claims=claims or [], pace=pace
        )
        done: dict[str, Maintained] = {one.table: one for one in work.run()}
        assert not [p for one in done.values() for p in one.problems]
        return done

    def live(self, table: str = SILVER) -> Path:
        return live_path(self.folder, TableName.parse(table))

    def numbers(self, table: str = SILVER, version: int | None = None) -> list[int]:
        found = DeltaTable(str(self.live(table)), version=version).to_pyarrow_table()
        return sorted(found["n"].to_pylist())
