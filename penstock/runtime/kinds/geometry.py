"""Which results a row touches, and when a result is final: the arithmetic of timed kinds.

Every result has a *point*: a window its start, a sliding window and an interval join the moment
they are about. A result is final when the watermark has passed ``point + reach``. A row at time t
touches points in ``[t - back, t + ahead]`` and is accounted for at its *own* points: one per
window it falls into, one otherwise. Points and times are microseconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from penstock.model.windows import IntervalJoin, Sliding, Timed, Window
from penstock.runtime.kinds.windows import assign_sliding, assign_windows, paired

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    Condition = Callable[[Column], Column]

__all__ = ["Geometry", "geometry_of", "times_of"]


class Geometry(ABC):
    """One timed kind, as numbers."""

    reach: int
    weight = 1  # how many points a row is accounted for at
    by: tuple[str, ...] = ()  # columns within which a row touches results, where that is declared

    def __init__(self, arguments: list[str]) -> None:
        self.arguments = arguments

    def limit(self, watermark: int) -> int:
        """The first point that is not final at this watermark."""
        return watermark - self.reach + 1

    @abstractmethod
    def back(self, argument: str) -> int: ...

    @abstractmethod
    def ahead(self, argument: str) -> int: ...

    @abstractmethod
    def own(self, argument: str, times: np.ndarray) -> list[np.ndarray]:
        """The points rows are accounted for at, one array per point of a row."""

    @abstractmethod
    def rows(self, frames: dict[str, DataFrame], within: Condition | None) -> DataFrame:
        """What the transform is given, for the points that ``within`` picks."""


class _Grid(Geometry):
    def __init__(self, window: Window, arguments: list[str]) -> None:
        super().__init__(arguments)
        self._window = window
        self.reach = window.us("size")
        self.weight = window.panes

    def back(self, argument: str) -> int:
        return self.reach - 1

    def ahead(self, argument: str) -> int:
        return 0

    def own(self, argument: str, times: np.ndarray) -> list[np.ndarray]:
        every, offset = self._window.us("every"), self._window.us("offset")
        newest = times - np.mod(times - offset, every)
        return [newest - pane * every for pane in range(self._window.panes)]

    def rows(self, frames: dict[str, DataFrame], within: Condition | None) -> DataFrame:
        found = assign_windows(frames[self.arguments[0]], self._window)
        return found if within is None else found.where(within(F.unix_micros("window_start")))


class _Moments(Geometry):
    def __init__(self, sliding: Sliding, arguments: list[str]) -> None:
        super().__init__(arguments)
        self._sliding = sliding
        self.by = sliding.by
        self.reach = 1

    def back(self, argument: str) -> int:
        return 0

    def ahead(self, argument: str) -> int:
        return self._sliding.us("size") - 1

    def own(self, argument: str, times: np.ndarray) -> list[np.ndarray]:
        return [times]

    def rows(self, frames: dict[str, DataFrame], within: Condition | None) -> DataFrame:
        return assign_sliding(frames[self.arguments[0]], self._sliding, within)


class _Pairs(Geometry):
    def __init__(self, join: IntervalJoin, arguments: list[str]) -> None:
        super().__init__(arguments)
        self._join = join
        self.reach = join.us("after") + 1

    def back(self, argument: str) -> int:
        return 0 if argument == self.arguments[0] else self._join.us("after")

    def ahead(self, argument: str) -> int:
        return 0 if argument == self.arguments[0] else self._join.us("before")

    def own(self, argument: str, times: np.ndarray) -> list[np.ndarray]:
        return [times - self.back(argument)]

    def rows(self, frames: dict[str, DataFrame], within: Condition | None) -> DataFrame:
        left, right = (frames[argument] for argument in self.arguments)
        if within is not None:
            left = left.where(within(F.unix_micros(self._join.on)))
        return paired(left, right, self._join, self.arguments[1])


def times_of(kind: Timed, arguments: list[str]) -> dict[str, str]:
    """The time column of each input, by argument."""
    times = dict.fromkeys(arguments, kind.on)
    if isinstance(kind, IntervalJoin):
        times[arguments[1]] = kind.right_on
    return times


def geometry_of(kind: Timed, arguments: list[str]) -> Geometry:
    if isinstance(kind, Window):
        return _Grid(kind, arguments)
    if isinstance(kind, Sliding):
        return _Moments(kind, arguments)
    assert isinstance(kind, IntervalJoin)  # noqa: S101
    return _Pairs(kind, arguments)
