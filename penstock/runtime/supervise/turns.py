"""When a table takes in what is new: late enough to take much at once, early enough to be on time.

Freshness is a promise from a row's coming in until its effect is in the table. Part of it is kept
free for the work itself and for the tables below; the rest a row may wait, wherever it waits. A
round costs about the same for ten rows as for a thousand, so the longer they wait, the cheaper.

Tables that may wait take turns, a few at once. Of those who want one, the one whose rows are due
first goes first, so that a table in a hurry does not stand behind forty that are not.
"""

from __future__ import annotations

import datetime as dt
import heapq
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Turns", "longest_wait"]

_ROOM = dt.timedelta(seconds=5)  # of a promise, for the work: measured at 500 records a second
_LONGEST_TURN = 5.0  # seconds


def longest_wait(freshness: dt.timedelta) -> dt.timedelta:
    """How long a row may wait if it is to be there within its freshness."""
    return freshness - min(freshness / 2, _ROOM)


class Turns:
    """Who goes next.

    A turn ends after a while even where its work does not: a table that catches up for minutes goes
    on beside the others and holds up nobody. Nor does anybody wait for ever: who has waited for as
    long as a turn may last is due, however long its rows could have waited.
    """

    def __init__(self, at_once: int, longest: float = _LONGEST_TURN) -> None:
        self._at_once, self._longest = at_once, longest
        self._lock = threading.Lock()
        self._order = itertools.count()  # of those due at the same moment, who came first
        self._waiting: list[tuple[float, int, threading.Event]] = []
        self._begun: dict[threading.Event, float] = {}

    @contextmanager
    def one(self, due: float, mine: threading.Event | None = None) -> Iterator[None]:
        """Do something in one's turn.

        Args:
            due: when it should be done (``time.monotonic``).
            mine: set when the turn has come; set by anybody else, it is not waited for any longer.
        """
        mine = mine or threading.Event()
        with self._lock:
            due = min(due, time.monotonic() + self._longest)
            place = (due, next(self._order), mine)
            heapq.heappush(self._waiting, place)
            self._admit()
        while not mine.wait(self._longest):
            with self._lock:
                self._admit()
        with self._lock:
            if place in self._waiting:  # hurried: it goes beside those whose turn it is
                self._waiting.remove(place)
                heapq.heapify(self._waiting)
        try:
            yield
        finally:
            with self._lock:
                self._begun.pop(mine, None)
                self._admit()

    def _admit(self) -> None:
        now = time.monotonic()
        for turn in [t for t, begun in self._begun.items() if now - begun >= self._longest]:
            del self._begun[turn]
        while self._waiting and len(self._begun) < self._at_once:
            _, _, turn = heapq.heappop(self._waiting)
            self._begun[turn] = now
            turn.set()
