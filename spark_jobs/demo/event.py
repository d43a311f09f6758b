"""What generators make, and how real feeds go wrong: late, twice, or not to be read at all."""

from __future__ import annotations

import datetime as dt
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["Clock", "Event", "Flaws", "Shares", "disturbed", "wall_clock"]

Clock = Callable[[], dt.datetime]
_REMEMBERED = 20  # a row sent again comes at most this many rows after the first time
_FAR_OFF = dt.timedelta(days=4000)


@dataclass(frozen=True)
class Event:
    """A row to send, or raw bytes that break the contract."""

    stream: str
    key: str
    at: dt.datetime
    row: dict[str, Any] | None
    raw: bytes | None = None


@dataclass(frozen=True)
class Shares:
    """How many of all rows are sent late or twice, and how many bad ones come on top."""

    late: float = 0.01
    duplicate: float = 0.005
    bad: float = 0.005


@dataclass(frozen=True)
class Flaws:
    """How rows of one stream go wrong.

    Args:
        time: the field that holds the event time, if the payload does.
        late_by: how many seconds late rows are at most.
        spoilt: changes to a row, each of which breaks the contract.
        twice: rows may be sent again; false where nothing tells a row from its copy.
    """

    time: str | None = None
    late_by: float = 60.0
    spoilt: tuple[Mapping[str, Any], ...] = ()
    twice: bool = True


def wall_clock() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def disturbed(
    events: Iterator[Event], dice: random.Random, shares: Shares, flaws: Mapping[str, Flaws]
) -> Iterator[Event]:
    """The same events, some of them late, and copies and bad rows between them.

    Nothing is taken away: what is sold was delivered, whatever goes wrong on the way.
    """
    recent: deque[Event] = deque(maxlen=_REMEMBERED)
    for event in events:
        flaw = flaws[event.stream]
        if dice.random() < shares.bad:
            yield _spoilt(dice, event, flaw)
        if recent and dice.random() < shares.duplicate:
            yield dice.choice(recent)
        late = dice.random() < shares.late
        back = dt.timedelta(seconds=dice.uniform(0, flaw.late_by)) if late else dt.timedelta()
        sent = _moved(event, -back, flaw)
        if flaw.twice:
            recent.append(sent)
        yield sent


def _moved(event: Event, by: dt.timedelta, flaw: Flaws) -> Event:
    row = event.row
    if row is not None and flaw.time is not None:
        row = {**row, flaw.time: row[flaw.time] + by}
    return replace(event, at=event.at + by, row=row)


def _spoilt(dice: random.Random, event: Event, flaw: Flaws) -> Event:
    """One of the ways in which a copy of the row breaks the contract."""
    kind = dice.randrange(len(flaw.spoilt) + 2)
    if kind == 0:
        return replace(event, row=None, raw=b"not to be read by anybody")
    if kind == 1:
        return _moved(event, _FAR_OFF, flaw)
    return replace(event, row={**(event.row or {}), **flaw.spoilt[kind - 2]})
