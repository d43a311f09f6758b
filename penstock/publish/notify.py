"""A notification: the changes of a live table become notices in the outbox."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import PositionLost
from penstock.export.claim import Rebuild
from penstock.publish.declared import Published
from penstock.publish.live import LiveTable, Move, NoSuchVersion, Stretch
from penstock.publish.outbox import Outbox, notice_id
from penstock.publish.positions import Position
from penstock.publish.values import plain

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

    @property
    def reached(self) -> int | None:
        return None if self._at is None else self._at.version

    @property
    def claimed(self) -> int | None:
        return self.reached

    def newest(self) -> int | None:
        return self._table.newest()

    def told(self) -> dict[str, Any]:
        return {}

    def step(self) -> bool:
        """Take in the next changes; False: there are none."""
        try:
            at = self._at or self._resumed()
            if at is None:
                self.go_on_from_now()
                return True
            stretch = self._table.following(at.version, at.columns, _COMMITS)
            if stretch is None:
                return False
            with self._outbox.transaction():
                for move in self._table.moves(stretch, self.published.keys):
                    self._take(move)
                after = self._position(stretch)
                self._outbox.keep(self.published.name, after.to_json().decode())
        except NoSuchVersion:
            return False
        except Rebuild as lost:
            self._at = None
            raise PositionLost(
                f"what came to {self.published.table} cannot be told any more: {lost.reason}.",
                remedy=f"Go on from now: `penstock publish --go-on {self.published.name}`.",
            ) from None
        except BaseException:
            self._at = None
            raise
        self._at = after
        return True

    def go_on_from_now(self) -> None:
        """Whatever is there now is history."""
        at = self._position(self._table.whole())
        with self._outbox.transaction():
            self._outbox.keep(self.published.name, at.to_json().decode())
        self._at = at

    def _resumed(self) -> Position | None:
        told = self._outbox.position(self.published.name)
        if told is None:
            return None
        at = Position.from_json(json.dumps(told).encode())
        if at.keys != self.published.keys:
            raise PositionLost(
                f"{self.published.table} has other keys now than when {self.published.name} began.",
                remedy="Give the notification another name.",
            )
        if self._table.mark(at.version) not in ("", at.mark):
            raise Rebuild(f"version {at.version} is another commit than it was")
        return at

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
        to = self.published.to
        before = move.before if move.before is not None and move.before[to] is not None else None
        after = move.after if move.after is not None and move.after[to] is not None else None
        same = before is not None and after is not None and str(before[to]) == str(after[to])
        if before is not None and not same:
            self._outbox.unsay(self._about(before))
        if after is not None:
            texts = (self.published.subject, self.published.text)
            subject, text = (_filled(template, after) for template in texts)
            self._outbox.say(self._about(after), " ".join(subject.split()), text, known=same)

    def _about(self, row: Mapping[str, Any]) -> dict[str, str]:
        key = json.dumps(plain({name: row[name] for name in self.published.keys}))
        recipient = str(row[self.published.to])
        name, table = self.published.name, self.published.table
        return {
            "id": notice_id(name, table, key, recipient),
            "notification": name,
            "table_name": table,
            "key": key,
            "recipient": recipient,
            "every": self.published.every,
        }


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
