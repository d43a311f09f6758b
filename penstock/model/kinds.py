"""The kinds of table: how rows of the input become rows of the output over time.

One frozen class per kind. A kind says what the table means; whether that runs as a stream, in
batch, fused or alone is the runtime's matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from penstock.model.duration import micros, parse_duration

__all__ = ["Kind", "Rows", "Window", "hopping", "tumbling"]


@dataclass(frozen=True)
class Rows:
    """Each input row becomes zero or more output rows by itself: map, filter, branch."""

    def describe(self) -> dict[str, Any]:
        return {"kind": "rows"}

    def problems(self) -> list[str]:
        return []


@dataclass(frozen=True)
class Window:
    """Rows are gathered in event-time windows; a window is written once, when it is final.

    The runtime gives the transform its input with two more columns, ``window_start`` and
    ``window_end``, one row per window a row falls into; the transform groups by them.

    Args:
        size: length of a window.
        every: how far one window starts after the one before it.
        on: the event-time column of the input.
        lateness: how long after a window's end its rows may still arrive.
        offset: shift of every window's start from the epoch.
    """

    size: str
    every: str
    on: str
    lateness: str = "0 seconds"
    offset: str = "0 seconds"

    def problems(self) -> list[str]:
        found = []
        for field in ("size", "every", "lateness", "offset"):
            try:
                length = parse_duration(getattr(self, field))
            except ValueError as error:
                found.append(f"window {field}: {error}")
                continue
            if field in ("size", "every") and length <= timedelta(0):
                found.append(f"window {field} must be longer than nothing")
        if not found and micros(self.size_delta) % micros(self.every_delta):
            found.append(
                f"a window of {self.size} cannot advance by {self.every}: "
                "the size must be a multiple of the advance"
            )
        return found

    @property
    def size_delta(self) -> timedelta:
        return parse_duration(self.size)

    @property
    def every_delta(self) -> timedelta:
        return parse_duration(self.every)

    @property
    def lateness_delta(self) -> timedelta:
        return parse_duration(self.lateness)

    @property
    def offset_delta(self) -> timedelta:
        return parse_duration(self.offset)

    @property
    def panes(self) -> int:
        """How many windows a row falls into."""
        return micros(self.size_delta) // micros(self.every_delta)

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "window",
            "size_us": micros(self.size_delta),
            "every_us": micros(self.every_delta),
            "lateness_us": micros(self.lateness_delta),
            "offset_us": micros(self.offset_delta),
            "on": self.on,
        }


def hopping(
    size: str, *, every: str, on: str, lateness: str = "0 seconds", offset: str = "0 seconds"
) -> Window:
    """Windows of ``size`` that start every ``every``: a row falls into several of them."""
    return Window(size=size, every=every, on=on, lateness=lateness, offset=offset)


def tumbling(
    size: str, *, on: str, lateness: str = "0 seconds", offset: str = "0 seconds"
) -> Window:
    """Windows of ``size`` side by side: a row falls into exactly one."""
    return Window(size=size, every=size, on=on, lateness=lateness, offset=offset)


Kind = Rows | Window
