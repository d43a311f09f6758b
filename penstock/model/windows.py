"""The kinds that gather rows in event time: windows, sessions, sliding windows, interval joins.

All of them share one clock: the watermark, the newest event time seen (of the slower input, where
there are two) less ``lateness``. A result is final when the watermark has passed its end. Rows
that come later still are counted in-band while the result is ``updatable_for``, then kept as late
and counted by `penstock reconcile`, and expire when they come ``reconcile_within`` after the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal

from penstock.model.duration import micros, parse_duration
from penstock.model.kinds import Kind

__all__ = [
    "IntervalJoin",
    "Session",
    "Sliding",
    "Timed",
    "Window",
    "hopping",
    "interval_join",
    "session",
    "sliding",
    "tumbling",
]

_NONE = "0 seconds"
_WEEK = "7 days"


@dataclass(frozen=True)
class Timed(Kind):
    """What every kind with event-time results declares.

    Args:
        on: the event-time column of the (left) input.
        lateness: how far rows may lag behind the newest one and still be on time.
        updatable_for: how long after it is final a result is still changed by rows as they come.
        reconcile_within: how long after its end a result may be changed at all.
        updates: also write results that are not final yet; the table gets a column ``is_final``.
    """

    on: str
    lateness: str = _NONE
    updatable_for: str = _NONE
    reconcile_within: str = _WEEK
    updates: bool = False

    lengths: ClassVar[tuple[str, ...]] = ("lateness", "updatable_for", "reconcile_within")
    positive: ClassVar[tuple[str, ...]] = ()

    def problems(self) -> list[str]:
        found = super().problems()
        for name in (*self.positive, *self.lengths):
            try:
                length = parse_duration(getattr(self, name))
            except ValueError as error:
                found.append(f"{self.word} {name}: {error}")
                continue
            if name in self.positive and length <= timedelta(0):
                found.append(f"{self.word} {name} must be longer than nothing")
        return found

    @property
    def point(self) -> str:
        """The column of the results that says which of them a time belongs to."""
        return "window_start"

    def us(self, name: str) -> int:
        """A declared length in microseconds."""
        return micros(parse_duration(getattr(self, name)))

    def describe(self) -> dict[str, Any]:
        spans = {f"{name}_us": self.us(name) for name in (*self.positive, *self.lengths)}
        return {"kind": self.word, "on": self.on, "updates": self.updates, **spans}

    def _columns(self) -> Mapping[str, tuple[str, ...]]:
        return {"on": (self.on,)}


@dataclass(frozen=True)
class Window(Timed):
    """Windows of one size on a grid; the transform groups by ``window_start``, ``window_end``."""

    size: str = ""
    every: str = ""
    offset: str = _NONE

    word: ClassVar[str] = "window"
    positive: ClassVar[tuple[str, ...]] = ("size", "every")
    lengths: ClassVar[tuple[str, ...]] = (*Timed.lengths, "offset")

    def problems(self) -> list[str]:
        found = super().problems()
        if not found and self.us("size") % self.us("every"):
            found.append(
                f"a window of {self.size} cannot advance by {self.every}: "
                "the size must be a multiple of the advance"
            )
        return found

    @property
    def panes(self) -> int:
        """How many windows a row falls into."""
        return self.us("size") // self.us("every")

    def key_problems(self, keys: tuple[str, ...]) -> list[str]:
        return _needs(keys, "window_start")


@dataclass(frozen=True)
class Session(Timed):
    """Rows of one key with less than ``gap`` between them; ends ``gap`` after its last row."""

    gap: str = ""
    by: tuple[str, ...] = ()

    word: ClassVar[str] = "session"
    positive: ClassVar[tuple[str, ...]] = ("gap",)

    def problems(self) -> list[str]:
        found = super().problems()
        if not self.by:
            found.append("a session has a key: by=('user_id',), say")
        for name in ("updates", "updatable_for"):
            if getattr(self, name) not in (False, _NONE):
                found.append(f"sessions have no {name}: they are written when final")
        return found

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "by": self.by}

    def _columns(self) -> Mapping[str, tuple[str, ...]]:
        return {**super()._columns(), "by": self.by}

    def key_problems(self, keys: tuple[str, ...]) -> list[str]:
        return _needs(keys, "window_start", *self.by)


@dataclass(frozen=True)
class Sliding(Timed):
    """For each row, the rows of its key in the ``size`` before it, itself included.

    One window per key and moment: rows of one key at the same microsecond share it. The transform
    groups by the key and ``window_end``; a row at exactly ``window_start`` is not in the window.
    """

    size: str = ""
    by: tuple[str, ...] = ()

    word: ClassVar[str] = "sliding"
    positive: ClassVar[tuple[str, ...]] = ("size",)

    def problems(self) -> list[str]:
        found = super().problems()
        if not self.by:
            found.append("a sliding window has a key: by=('sensor',), say")
        return found

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "by": self.by}

    def _columns(self) -> Mapping[str, tuple[str, ...]]:
        return {**super()._columns(), "by": self.by}

    def key_problems(self, keys: tuple[str, ...]) -> list[str]:
        return _needs(keys, "window_end", *self.by)

    @property
    def point(self) -> str:
        return "window_end"


@dataclass(frozen=True)
class IntervalJoin(Timed):
    """Left rows with the right rows whose time lies within ``before`` and ``after`` of theirs.

    The runtime joins: the transform takes one argument, the left input, in which each matching
    right row is a struct column named by its argument; with ``how="left"`` a left row without a
    match stays, with a null struct.
    """

    by: tuple[str, ...] = ()
    right_on: str = ""
    before: str = _NONE
    after: str = _NONE
    how: Literal["left", "inner"] = "left"

    word: ClassVar[str] = "interval_join"
    arity: ClassVar[tuple[int, int]] = (2, 2)
    lengths: ClassVar[tuple[str, ...]] = (*Timed.lengths, "before", "after")

    def problems(self) -> list[str]:
        found = super().problems()
        if not self.by:
            found.append("an interval join has a key: by=('order_id',), say")
        if self.how not in ("left", "inner"):
            found.append(f"how is 'left' or 'inner', not {self.how!r}")
        return found

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "by": self.by, "right_on": self.right_on, "how": self.how}

    def _columns(self) -> Mapping[str, tuple[str, ...]]:
        return {**super()._columns(), "by": self.by, "right_on": (self.right_on,)}

    def arguments(self, inputs: list[str]) -> list[str]:
        return inputs[:1]

    def key_problems(self, keys: tuple[str, ...]) -> list[str]:
        return [] if keys else ["an interval join has keys: what names one pair of rows"]

    @property
    def point(self) -> str:
        return self.on


def _needs(keys: tuple[str, ...], *wanted: str) -> list[str]:
    missing = [name for name in wanted if name not in keys]
    return [f"its keys must have {', '.join(missing)} among them"] if missing else []


def hopping(
    size: str,
    *,
    every: str,
    on: str,
    lateness: str = _NONE,
    offset: str = _NONE,
    updatable_for: str = _NONE,
    reconcile_within: str = _WEEK,
    updates: bool = False,
) -> Window:
    """Windows of ``size`` that start every ``every``: a row falls into several of them."""
    return Window(
        on,
        lateness,
        updatable_for,
        reconcile_within,
        updates,
        size=size,
        every=every,
        offset=offset,
    )


def tumbling(
    size: str,
    *,
    on: str,
    lateness: str = _NONE,
    offset: str = _NONE,
    updatable_for: str = _NONE,
    reconcile_within: str = _WEEK,
    updates: bool = False,
) -> Window:
    """Windows of ``size`` side by side: a row falls into exactly one."""
    return Window(
        on, lateness, updatable_for, reconcile_within, updates, size=size, every=size, offset=offset
    )


def session(
    gap: str,
    *,
    by: tuple[str, ...],
    on: str,
    lateness: str = _NONE,
    reconcile_within: str = _WEEK,
) -> Session:
    """Rows of a key that follow each other within ``gap``."""
    return Session(on, lateness, reconcile_within=reconcile_within, gap=gap, by=by)


def sliding(
    size: str,
    *,
    by: tuple[str, ...],
    on: str,
    lateness: str = _NONE,
    updatable_for: str = _NONE,
    reconcile_within: str = _WEEK,
    updates: bool = False,
) -> Sliding:
    """At each row, what came before it within ``size``."""
    return Sliding(on, lateness, updatable_for, reconcile_within, updates, size=size, by=by)


def interval_join(
    *,
    by: tuple[str, ...],
    on: str,
    right_on: str,
    before: str = _NONE,
    after: str = _NONE,
    how: Literal["left", "inner"] = "left",
    lateness: str = _NONE,
    updatable_for: str = _NONE,
    reconcile_within: str = _WEEK,
    updates: bool = False,
) -> IntervalJoin:
    """Left rows and the right rows near them in time: ``-before <= right - left <= after``."""
    return IntervalJoin(
        on,
        lateness,
        updatable_for,
        reconcile_within,
        updates,
        by=by,
        right_on=right_on,
        before=before,
        after=after,
        how=how,
    )
