"""One table and its inputs, on disk, driven batch by batch."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.location import Location, delta_table, near
from penstock.model.definition import Table
from penstock.model.names import TableName
from penstock.model.stream import Stream
from penstock.model.windows import Timed, Window
from penstock.runtime.delta.files import conform
from penstock.runtime.delta.writer import RevisionWriter, live_path, revision_path
from penstock.runtime.fates import late as late_lines
from penstock.runtime.fates import outcomes, quarantine, quarantined
from penstock.runtime.fates.quarantine import sound
from penstock.runtime.kinds.batch import decoded_input, recompute
from penstock.runtime.kinds.build import arrow_schema, empty_inputs, follower, output_frame
from penstock.runtime.kinds.follow import Follower, Input, TableContext
from penstock.runtime.kinds.history import adopt_history
from penstock.runtime.kinds.prepared import to_frame
from penstock.runtime.mend.void import mark
from penstock.runtime.times import NEVER
from penstock.testing.feeds import FedStream, FedTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Kit"]

_REVISION = "under-test"
Row = dict[str, Any]


class Kit:
    """Feeds the inputs of a table and lets it follow them, as the supervisor would.

    Args:
        table: the table under test.
        schemas: the Arrow schema of each input that is a table, by name; of a table with one input
            the schema alone will do.
        stream: the stream, where the table decodes one.
        changing: names of inputs whose rows the test will take back (``remove``).
        beside: another kit whose inputs this one reads: a second revision of the same table, not
            shown to readers. See `candidate`.
    """

    def __init__(
        self,
        session: SparkSession,
        folder: Location,
        table: Table,
        schemas: Mapping[str, pa.Schema] | pa.Schema | None = None,
        *,
        stream: Stream | None = None,
        changing: Sequence[str] = (),
        beside: Kit | None = None,
    ) -> None:
        self.session = session
        self.beside = beside
        self.revision: str = _REVISION if beside is None else f"{beside.revision}-next"
        self.folder = folder
        self.table = table
        self.stream = stream
        if isinstance(schemas, pa.Schema):
            schemas = {str(name): schemas for name in table.inputs.values()}
        self._schemas = dict(schemas or {})
        self._changing = set(changing)
        self._token = 0
        self._fed = 0
        self.candidates: list[Kit] = []
        self.feeds: dict[str, FedTable | FedStream] = {} if beside is None else beside.feeds
        self._follower: Follower | None = None
        self.restart()

    # --- driving --------------------------------------------------------------------------
    def restart(self) -> None:
        """Open everything anew under a higher token: memory is gone, commits are not."""
        self._token += 1
        for name in [] if self.beside else map(str, self.table.inputs.values()):
            old = self.feeds.get(name)
            if self.stream is not None:
                known = old.writers if isinstance(old, FedStream) else None
                self.feeds[name] = FedStream(self.folder, self.stream, self._token, known)
            else:
                self.feeds[name] = FedTable(self._writer(name, self._schemas[name]))
        if self._follower is not None:
            self._follower.close()
        self._follower = self._new_follower()

    def candidate(self, table: Table, *, build: bool = False, piece_rows: int = 100) -> Kit:
        """Another revision of the table, beside this one and reading the same inputs.

        Args:
            build: compute its history as a batch, in pieces, as `penstock stage` does; else it
                follows its inputs from the beginning.
        """
        if build:
            self._build(table, piece_rows)
        made = Kit(
            self.session,
            self.folder,
            table,
            self._schemas,
            stream=self.stream,
            changing=tuple(self._changing),
            beside=self,
        )
        self.candidates.append(made)
        return made

    def _build(self, table: Table, piece_rows: int) -> None:
        from penstock.reprocess.history import HistoryBuilder, Pinned

        pinned = {}
        for argument, name in table.inputs.items():
            source = self.feeds[str(name)].source
            pinned[argument] = Pinned(str(name), source.path, source.schema, source.log.version)
        HistoryBuilder(
            self.session,
            table,
            into=revision_path(self.folder, table.name, f"{self.revision}-next"),
            beside=revision_path(self.folder, table.name.outcomes, f"{self.revision}-next"),
            schema=self._output_schema(table),
            inputs=pinned,
            piece_rows=piece_rows,
        ).run(lambda progress: True)

    @property
    def follower(self) -> Any:
        """What runs the table, as the supervisor would."""
        return self._follower

    def _new_follower(self) -> Follower:
        name = self.table.name
        context = TableContext(
            self.session,
            self.table,
            self.revision,
            self._writer(str(name), self._output_schema()),
            self._writer(str(name.quarantine), quarantine.SCHEMA),
            self._writer(str(name.late), late_lines.SCHEMA),
            self._writer(str(name.outcomes), outcomes.SCHEMA),
            near(self.folder) / "scratch" / self.revision,
        )
        inputs = {
            argument: Input(argument, str(n), self.feeds[str(n)].source, self._changes(str(n)))
            for argument, n in self.table.inputs.items()
        }
        adopt_history(context)
        feed = next(iter(self.feeds.values()))
        schemas: Any = feed if isinstance(feed, FedStream) else None
        return follower(context, inputs, self.stream, schemas)

    def _changes(self, name: str) -> bool:
        return name in self._changing

    def feed(
        self,
        rows: pa.Table | Sequence[Row],
        to: str | None = None,
        *,
        follow: bool = True,
        at: dt.datetime | None = None,
    ) -> None:
        """Commit rows to an input (the only one, or the one named), and let the table follow.

        Of a stream: rows are encoded by its contract, bytes go as they are; ``at`` is the ingest
        time.
        """
        feed = self._feed(to)
        if isinstance(feed, FedStream):
            feed.send(list(rows), at)
        else:
            feed.add(_table(rows, feed.source.schema))
        if follow:
            self.advance()

    def remove(
        self, rows: pa.Table | Sequence[Row], to: str | None = None, *, follow: bool = True
    ) -> None:
        """Take rows back from an input that was declared as changing."""
        feed = self._feed(to)
        assert isinstance(feed, FedTable)  # noqa: S101
        feed.remove(_table(rows, feed.source.schema))
        if follow:
            self.advance()

    def void(self, offsets: Sequence[int], reason: str | None, *, follow: bool = True) -> int:
        """Mark records of the stream as void, as `penstock void` does; no reason: as not void."""
        feed = self._feed(None)
        assert isinstance(feed, FedStream)  # noqa: S101
        told = mark(feed.source, {0: [(o, o) for o in offsets]}, reason, {})
        if follow:
            self.advance()
        return told["marked"]

    def _feed(self, to: str | None) -> FedTable | FedStream:
        if to is None:
            (feed,) = self.feeds.values()
            return feed
        return self.feeds[to]

    def advance(self) -> None:
        """Let the table take in what its inputs have."""
        self.follower.advance()

    def reconcile(self) -> dict[str, Any]:
        """Make late rows count, as `penstock reconcile` does."""
        told: dict[str, Any] = self.follower.reconcile()
        return told

    def lose_copies(self) -> None:
        """Delete what can be made again from the tables alone; a restart must not notice."""
        self.follower.forget_copies()
        self.restart()

    def maintain(self) -> dict[str, Any]:
        """Merge, clean up and remove all that nobody needs, of the table and its inputs.

        As `penstock maintain` does it, but at once: nothing is kept for its age alone.
        """
        from penstock.testing.upkeep import maintained

        return maintained(self)

    # --- looking --------------------------------------------------------------------------
    def rows(self) -> list[Row]:
        """What readers of the live table see, in the order of its columns' values."""
        return self._live(self.table.name)

    def quarantined(self) -> list[Row]:
        self.follower.settle(now=True)
        return self._live(self.table.name.quarantine)

    def late(self) -> list[Row]:
        self.follower.settle(now=True)
        return self._live(self.table.name.late)

    def outcomes(self) -> dict[str, int]:
        """How many rows came to which outcome, over all windows and inputs."""
        totals: dict[str, int] = {}
        for row in self._outcome_rows():
            totals[row["outcome"]] = totals.get(row["outcome"], 0) + row["rows"]
        return {name: number for name, number in sorted(totals.items()) if number}

    def balance(self) -> dict[str, int]:
        """Per input: rows it has less rows accounted for; all zero, or rows were lost."""
        weight = self.table.kind.panes if isinstance(self.table.kind, Window) else 1
        left = {name: feed.count() * weight for name, feed in self.feeds.items()}
        for row in self._outcome_rows():
            left[row["input"]] -= row["rows"]
        return left

    def _outcome_rows(self) -> list[Row]:
        self.follower.settle(now=True)
        return self._live(self.table.name.outcomes)

    def batch_rows(self) -> list[Row]:
        """The batch form of the table over all of its inputs."""
        schema = self._output_schema()
        until = getattr(self.follower, "watermark", None)
        if isinstance(self.table.kind, Timed) and until is None:
            if not self.table.kind.updates:
                return []
            until = NEVER
        expired = self._expired()
        whole = recompute(self.table, self._inputs(expired), until=until)
        rows = conform(whole.toArrow(), schema)
        if isinstance(self.table.kind, Window) and expired.num_rows:
            rows = self._without_expired(rows, expired, until)
        return _sorted(rows)

    def _expired(self) -> pa.Table:
        return late_lines.lines(self.follower.late_table, late_lines.EXPIRED)

    def _inputs(self, expired: pa.Table) -> dict[str, DataFrame]:
        given = {}
        for argument, name in self.table.inputs.items():
            feed = self.feeds[str(name)]
            rows = feed.rows()
            if isinstance(feed, FedStream):
                given[argument] = self._decoded(feed, rows)
                continue
            if isinstance(self.table.kind, Timed) and not isinstance(self.table.kind, Window):
                rows = late_lines.excused(rows, expired, str(name))
            condemned = {r["row_id"] for r in self.quarantined() if r["source"] == str(name)}
            given[argument] = to_frame(self.session, sound(rows, condemned))
        return given

    def _decoded(self, feed: FedStream, rows: pa.Table) -> DataFrame:
        assert self.stream is not None  # noqa: S101
        held = quarantined.held_in(self.follower.broken)
        bronze = to_frame(self.session, rows.drop_columns("headers"))
        return decoded_input(bronze, self.stream, feed.writers, self.table.dedupe, held)

    def _without_expired(self, rows: pa.Table, expired: pa.Table, until: Any) -> pa.Table:
        """Windows with expired rows, computed without these."""
        points = expired["window_start"]
        parts = [rows.filter(pc.invert(pc.is_in(rows["window_start"], pc.unique(points))))]
        (argument,) = self.table.inputs
        (feed,) = self.feeds.values()
        for point in pc.unique(points):
            mine = expired.filter(pc.equal(points, point))
            at = point.cast(pa.int64()).as_py()
            name = str(self.table.inputs[argument])
            condemned = {r["row_id"] for r in self.quarantined()}
            rest = sound(late_lines.excused(feed.rows(), mine, name), condemned)
            left = to_frame(self.session, rest)
            out = recompute(self.table, {argument: left}, until=until, interval=(at, at + 1))
            parts.append(conform(out.toArrow(), rows.schema))
        return pa.concat_tables(parts)

    def _writer(self, name: str, schema: pa.Schema) -> RevisionWriter:
        return RevisionWriter(
            self.folder,
            TableName.parse(name),
            self.revision,
            schema,
            token=self._token,
            live=self.beside is None,
        )

    def _output_schema(self, table: Table | None = None) -> pa.Schema:
        def given(name: str) -> Stream | pa.Schema:
            return self.stream if self.stream is not None else self._schemas[name]

        table = table or self.table
        return arrow_schema(output_frame(table, empty_inputs(self.session, table, given)))

    def _live(self, name: TableName) -> list[Row]:
        path = live_path(self.folder, name)
        if self.beside is not None:
            path = revision_path(self.folder, name, self.revision)
        return _sorted(delta_table(path).to_pyarrow_table())


def _table(rows: pa.Table | Sequence[Row], schema: pa.Schema) -> pa.Table:
    made = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema)
    return conform(made, schema)


def _sorted(rows: pa.Table) -> list[Row]:
    return sorted(rows.to_pylist(), key=lambda row: [str(value) for value in row.values()])
