"""One topic kept up with its live table, a transaction at a time.

**How it works.** ``step`` looks what the position says and does the next bounded piece: compares
the whole table with the topic (a changelog that has no position, or lost its place), sends the rows
that are there (events that begin), or sends the next stretch of changes. A piece and the position
after it are one transaction. A stretch of many rows is sent in several; the position then points
into it, and because a stretch gives the same rows in the same order whenever it is asked, going on
from there neither repeats nor skips.

**What it does not do.** Publish anything but live, or anything twice.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import PositionLost
from penstock.export.claim import Rebuild
from penstock.publish.compare import compare
from penstock.publish.declared import CHANGELOG, Published
from penstock.publish.live import LiveTable, Move, NoSuchVersion, Stretch, outgrown
from penstock.publish.positions import NOTHING, Position
from penstock.publish.records import Records

if TYPE_CHECKING:
    from penstock.publish.outlet import Outlet
    from penstock.settings import Settings

__all__ = ["CHUNK", "TopicWork"]

CHUNK = 20_000  # keys in one transaction: a promote that changes fewer is seen whole or not at all
_COMPARING = "comparing"  # instead of a topic's id
_COMMITS = 500  # taken together, of a changelog; only the net change of them is sent
_QUIET_COMMITS, _QUIET_SECONDS = 100, 60.0  # commits without a change are noted this often


class TopicWork:
    """Publishes one table to one topic."""

    def __init__(
        self,
        settings: Settings,
        published: Published,
        outlet: Outlet,
        scratch: Path,
        *,
        chunk: int = CHUNK,
    ) -> None:
        self.published = published
        self.table = LiveTable(settings, published.table, scratch)
        self.rebuilt = ""  # why the table was last compared whole
        self.lost = False
        self._settings = settings
        self._outlet = outlet
        self._scratch = scratch
        self._chunk = chunk
        self._records = Records(settings, published)
        self._topic_id = ""
        self._opening = 0
        self._reached: Position | None = None  # with commits that changed nothing
        self._noted_at = time.monotonic()

    # --- where it stands --------------------------------------------------------------------
    @property
    def position(self) -> Position | None:
        """What a successor would go on from."""
        text = self._outlet.note(self.published.id)
        return None if text is None else Position.from_json(text)

    @property
    def reached(self) -> int | None:
        """The version that the topic shows."""
        at = self._reached or (self.position if self._outlet.opened else None)
        return None if at is None else at.version

    @property
    def claimed(self) -> int | None:
        """The oldest version of which commits or files are still needed."""
        at = self.position if self._outlet.opened else None
        if at is None:
            return None
        return at.until if at.version == NOTHING else at.version

    @property
    def unbegun(self) -> bool:
        return self._outlet.opened and self.position is None

    def newest(self) -> int | None:
        return self.table.newest()

    def told(self) -> dict[str, Any]:
        at = self.position if self._outlet.opened else None
        return {"records": at.records if at else 0, "compared": self.rebuilt}

    def step(self) -> bool:
        """Do the next piece; False: there is nothing to do now.

        Raises:
            PenstockError: it could not be done; asked again, it is tried again.
        """
        self._outlet.open()
        if self._opening != self._outlet.openings:  # somebody else may have published meanwhile
            self._opening, self._topic_id, self._reached = self._outlet.openings, "", None
        if not self._topic_id:
            self._topic_id = self._outlet.topics.ensure(self.published)
        try:
            moved = self._stepped()
        except NoSuchVersion:
            return False
        except BaseException:  # whatever it was, nothing known before it is taken for granted
            self._topic_id, self._reached = "", None
            raise
        if moved:
            self.lost = False
        return moved

    def _stepped(self) -> bool:
        try:
            at = self._reached or self._resumed()
            return self._begin() if at is None else self._go_on(at)
        except Rebuild as lost:
            self._reached = None
            return self._begin_again(lost.reason)

    def _resumed(self) -> Position | None:
        """The position, if it is still one in this table and this topic."""
        at = self.position
        if at is None:
            return None
        if at.keys != self.published.keys:
            raise PositionLost(
                f"{self.published.table} has the keys {', '.join(self.published.keys) or 'none'} "
                f"now, {self.published.topic} was begun with {', '.join(at.keys) or 'none'}.",
                remedy="A topic keeps its keys: publish the table to another one.",
            )
        if at.topic_id == _COMPARING:
            raise Rebuild("an earlier comparison was interrupted")
        if at.topic_id != self._topic_id and self.published.kind == CHANGELOG:
            raise Rebuild("the topic was made anew")
        if at.format not in ("", self.published.format) and self.published.kind == CHANGELOG:
            # Keys in the old one would be there for ever: nothing in the new one names them.
            raise Rebuild("its format changed")
        if at.version != NOTHING and self.table.mark(at.version) not in ("", at.mark):
            raise Rebuild(f"version {at.version} is another commit than it was")
        return at

    # --- the beginning ----------------------------------------------------------------------
    def _begin(self) -> bool:
        if self.published.kind == CHANGELOG:
            return self._compare("")
        stretch = self.table.whole()
        start = self._position(NOTHING, stretch)
        if self.published.history:
            self._note(replace(start, until=stretch.until))
        else:
            self._note(self._position(stretch.until, stretch))
        return True

    def _begin_again(self, reason: str) -> bool:
        if self.published.kind == CHANGELOG:
            return self._compare(reason)
        self.lost = True
        raise PositionLost(
            f"what came to {self.published.table} since version {self._told_version()} cannot be "
            f"told any more: {reason}.",
            remedy=f"Go on from now without it: `penstock publish --go-on {self.published.topic}`.",
        )

    def _told_version(self) -> int | None:
        at = self.position
        return None if at is None else at.version

    def _compare(self, reason: str) -> bool:
        """Send what differs between the topic, as it is, and the table; then note the position."""
        self.rebuilt = reason
        stretch = self.table.whole()
        self._records.set_columns(stretch.columns)
        sent = 0
        before = self.position
        if before is not None:  # from here on it is no place to go on from
            self._note(replace(before, topic_id=_COMPARING))
        moves = self.table.moves(stretch, self.published.keys, strict=True)
        pairs = ((record.key, record.value) for m in moves for record in self._records.of(m))
        with compare(self._settings, self.published.topic, pairs, self._scratch) as differing:
            while chunk := list(islice(differing, self._chunk)):
                with self._outlet.transaction() as out:
                    for key, value in chunk:
                        out.send(self.published.topic, key, value, self._headers(stretch))
                sent += len(chunk)
        done = self._position(stretch.until, stretch)
        self._note(replace(done, records=sent + (before.records if before else 0)))
        return True

    def go_on_from_now(self) -> None:
        """Leave out what cannot be told; for events that lost their place."""
        self._topic_id = self._outlet.topics.ensure(self.published)
        stretch = self.table.whole()
        self._note(self._position(stretch.until, stretch))
        self.lost = False

    # --- changes ----------------------------------------------------------------------------
    def _go_on(self, at: Position) -> bool:
        stretch = self._next(at)
        if stretch is None:
            if self._reached is not None and self._is_stale(at):
                self._note(at)
            return False
        if self.published.kind == CHANGELOG and (lost := outgrown(at.columns, stretch.columns)):
            # Records that nobody changes would go on saying what the table has not any more.
            raise Rebuild(f"{', '.join(lost)} went or changed its type")
        self._records.set_columns(stretch.columns)
        strict = self.published.kind == CHANGELOG
        changes = self.table.moves(stretch, self.published.keys, strict=strict)
        moves = islice(changes, at.done, None)
        first = next(moves, None)
        if first is None:  # commits that changed nothing, or whose changes undid each other
            self._advance(at, stretch)
            return True
        while first is not None:
            at = self._send_chunk(at, stretch, first, moves)
            first = next(moves, None)
        if at.until is not None:  # the last chunk was full: nothing is left of the stretch
            self._advance(replace(at, until=None, done=0), stretch, noted=True)
        return True

    def _next(self, at: Position) -> Stretch | None:
        if at.version == NOTHING:
            assert at.until is not None  # noqa: S101 - so it was noted
            return replace(self.table.whole(at.until), after=None)
        most = _COMMITS if self.published.kind == CHANGELOG else 1
        return self.table.following(at.version, at.columns, most, until=at.until)

    def _send_chunk(
        self, at: Position, stretch: Stretch, first: Move, moves: Iterator[Move]
    ) -> Position:
        """One transaction: up to so many keys, and the position after them."""
        taken = sent = 0
        headers = self._headers(stretch)
        with self._outlet.transaction() as out:
            for move in _with(first, islice(moves, self._chunk - 1)):
                taken += 1
                for record in self._records.of(move):
                    if not self._is_known(record.memory, record.change):
                        out.send(
                            self.published.topic,
                            record.key,
                            record.value,
                            [*headers, *record.headers],
                        )
                        sent += 1
            whole = taken < self._chunk
            after = self._position(stretch.until if whole else at.version, stretch)
            after = replace(
                after,
                columns=stretch.columns if whole else at.columns,
                mark=after.mark if whole else at.mark,
                until=None if whole else stretch.until,
                done=0 if whole else at.done + taken,
                records=at.records + sent,
            )
            out.keep(self.published.id, after.to_json())
        self._reached, self._noted_at = after, time.monotonic()
        return after

    def _is_known(self, memory: str, change: str) -> bool:
        """For events without corrections: was this row sent before, or is it one that went?

        What goes is remembered; when it comes back, by a rollback, it is not sent again.
        """
        if not memory:
            return False
        name = f"{self.published.id}#{memory}"
        gone = int(self._outlet.planned(name) or 0)
        if change == "delete":
            self._outlet.keep(name, str(gone + 1).encode())
            return True
        if change == "insert" and gone:
            self._outlet.keep(name, str(gone - 1).encode() if gone > 1 else None)
            return True
        return change != "insert"

    # --- positions --------------------------------------------------------------------------
    def _position(self, version: int, stretch: Stretch) -> Position:
        return Position(
            version=version,
            columns=stretch.columns,
            keys=self.published.keys,
            topic_id=self._topic_id,
            mark="" if version == NOTHING else self.table.mark(version),
            at=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
            format=self.published.format,
        )

    def _advance(self, at: Position, stretch: Stretch, *, noted: bool = False) -> None:
        after = self._position(stretch.until, stretch)
        after = replace(after, records=at.records)
        if noted or at.until is not None or self._is_stale(after):
            self._note(after)
        else:
            self._reached = after

    def _is_stale(self, at: Position) -> bool:
        """So far from what is noted that a successor would have too much to look at."""
        noted = self.position
        behind = at.version - (noted.version if noted else NOTHING)
        late = behind > 0 and time.monotonic() - self._noted_at > _QUIET_SECONDS
        return behind >= _QUIET_COMMITS or late

    def _note(self, at: Position) -> None:
        with self._outlet.transaction() as out:
            out.keep(self.published.id, at.to_json())
        self._reached, self._noted_at = at, time.monotonic()

    def _headers(self, stretch: Stretch) -> list[tuple[str, bytes]]:
        return [("penstock-version", str(stretch.until).encode())]


def _with(first: Move, rest: Iterator[Move]) -> Iterator[Move]:
    yield first
    yield from rest
