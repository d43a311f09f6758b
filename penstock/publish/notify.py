"""A notification: the changes of a live table become notices in the outbox."""

from __future__ import annotations

import datetime as dt
import json
import string
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import DefinitionError, PositionLost
from penstock.export.claim import Rebuild
from penstock.publish.declared import Published
from penstock.publish.live import LiveTable, Move, NoSuchVersion, Stretch
from penstock.publish.outbox import Outbox, notice_id
from penstock.publish.positions import Position
from penstock.publish.values import plain
from penstock.storable import as_json, storable

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["NotifyWork"]

_COMMITS = 500  # taken together: what changed and changed back in between is not told


class NotifyWork:
    """Keeps the notices of one notification up with its table.

    Rows that are there when it begins are history: nobody is told of them, nor of what becomes of
    them later.
    """

    def __init__(self, settings: Settings, published: Published, scratch: Path) -> None:
        self.published = published
        self._table = LiveTable(settings, published.table, scratch)
        self._outbox = Outbox(settings)
        self._at: Position | None = None
        self._known: int | None = None  # the version of the last position there was
        self.unbegun = False  # until the outbox says so
        self.lost = False

    @property
    def reached(self) -> int | None:
        return None if self._at is None else self._at.version

    @property
    def claimed(self) -> int | None:
        """Also while it cannot go on: keys that changed may be changed back."""
        return self._known

    def newest(self) -> int | None:
        return self._table.newest()

    def told(self) -> dict[str, Any]:
        return {}

    def step(self) -> bool:
        """Take in the next changes; False: there are none."""
        try:
            at = self._at or self._resumed()
            self.unbegun = at is None
            if at is None:
                self.go_on_from_now()
                return True
            stretch = self._table.following(at.version, at.columns, _COMMITS)
            if stretch is None:
                return False
            self._require_columns(stretch)
            with self._outbox.transaction():
                for move in self._table.moves(stretch, self.published.keys):
                    self._take(move)
                after = self._position(stretch)
                self._outbox.keep(self.published.name, after.to_json().decode())
        except NoSuchVersion:
            return False
        except Rebuild as lost:
            self._at, self.lost = None, True
            raise PositionLost(
                f"what came to {self.published.table} cannot be told any more: {lost.reason}.",
                remedy=f"Go on from now: `penstock publish --go-on {self.published.name}`.",
            ) from None
        except BaseException:
            self._at = None
            raise
        self._stand_at(after)
        return True

    def go_on_from_now(self) -> None:
        """Whatever is there now is history."""
        at = self._position(self._table.whole())
        with self._outbox.transaction():
            self._outbox.keep(self.published.name, at.to_json().decode())
        self._stand_at(at)

    def _stand_at(self, at: Position) -> None:
        self._at, self._known, self.unbegun, self.lost = at, at.version, False, False

    def _resumed(self) -> Position | None:
        told = self._outbox.position(self.published.name)
        if told is None:
            return None
        at = Position.from_json(json.dumps(told).encode())
        self._known = at.version
        if at.keys != self.published.keys:
            raise PositionLost(
                f"{self.published.table} has other keys now than when {self.published.name} began.",
                remedy="Give the notification another name.",
            )
        if self._table.mark(at.version) not in ("", at.mark):
            raise Rebuild(f"version {at.version} is another commit than it was")
        return at

    def _require_columns(self, stretch: Stretch) -> None:
        told = (self.published.subject, self.published.text)
        named = {self.published.to, *(name for text in told for name in _named(text))}
        if missing := sorted(named - {column.name for column in stretch.columns}):
            raise DefinitionError(
                f"{self.published.name} speaks of {', '.join(missing)}, which "
                f"{self.published.table} has not any more.",
                remedy="Change what it says, or let the table have the column again.",
            )

    def _position(self, stretch: Stretch) -> Position:
        return Position(
            version=stretch.until,
            columns=stretch.columns,
            keys=self.published.keys,
            topic_id="",
            mark=self._table.mark(stretch.until),
            at=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        )

    def _take(self, move: Move) -> None:
        """One row's change, to those it concerned and those it concerns."""
        before, after = move.before, move.after
        known = False
        if before is not None:
            known = True  # by whom it names already
            if after is None or self._person(before) != self._person(after):
                # Whoever it names now hears of it unless it is history, of which nobody does.
                known = not self._outbox.unsay(self._about(before))
        if after is None:
            return
        if self._person(after) is None:
            self._outbox.tell_nobody(self._about(after), known=known)
        else:
            self._outbox.say(self._about(after), *self._said(after), known=known)

    def _person(self, row: Mapping[str, Any]) -> str | None:
        value = row[self.published.to]
        return None if value is None else str(value)

    def _said(self, row: Mapping[str, Any]) -> tuple[str, str]:
        subject, text = (_filled(t, row) for t in (self.published.subject, self.published.text))
        return storable(" ".join(subject.split())), storable(text)

    def _about(self, row: Mapping[str, Any]) -> dict[str, str]:
        keys = plain({name: row[name] for name in self.published.keys})
        recipient = self._person(row)
        name, table = self.published.name, self.published.table
        return {
            "id": notice_id(name, table, json.dumps(keys), recipient),
            "notification": name,
            "table_name": table,
            "key": as_json(keys),
            "recipient": storable(recipient or ""),
            "every": self.published.every,
        }


def _named(text: str) -> list[str]:
    """The columns a text speaks of."""
    return [field for _, field, _, _ in string.Formatter().parse(text) if field is not None]


def _filled(text: str, row: Mapping[str, Any]) -> str:
    """The text with the row's values; what does not fit its format is shown as it is."""
    try:
        return text.format_map(row)
    except (ValueError, TypeError):
        return text.format_map({name: _Bare(value) for name, value in row.items()})


class _Bare:
    """A value that takes any format."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __format__(self, _: str) -> str:
        return str(self._value)
