"""Showing a stack at work: a live table of steps on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.platform.stack import Event

__all__ = ["Progress", "steps"]

_FINAL = {"started", "unchanged", "failed", "skipped", "stopped"}
_COLOURS = {
    "waiting": "dim",
    "working": "yellow",
    "stopping": "yellow",
    "started": "green",
    "unchanged": "green",
    "stopped": "green",
    "failed": "red",
    "skipped": "red",
}


@dataclass
class _Step:
    state: str
    detail: str = ""
    since: float = field(default_factory=time.monotonic)
    ended: float | None = None

    @property
    def seconds(self) -> float:
        return 0.0 if self.state == "waiting" else (self.ended or time.monotonic()) - self.since


class Progress:
    """Collects events; knows per service its state, what it does and for how long."""

    def __init__(self) -> None:
        self.steps: dict[str, _Step] = {}
        self.note = ""

    def take(self, event: Event) -> bool:
        """Record an event; True when it is news (the same detail again is not)."""
        if not event.service:
            news = self.note != event.detail
            self.note = event.detail
            return news
        self.note = ""
        step = self.steps.get(event.service)
        if step is None or step.state == "waiting":
            self.steps[event.service] = _Step(event.state, event.detail)
            return True
        news = (step.state, step.detail) != (event.state, event.detail)
        step.state, step.detail = event.state, event.detail
        if event.state in _FINAL:
            step.ended = time.monotonic()
        return news

    def record(self, event: Event) -> None:
        self.take(event)

    def seconds(self) -> dict[str, float]:
        return {name: round(step.seconds, 1) for name, step in self.steps.items()}

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        note = Text(self.note, style="table.caption") if self.note else None
        table = Table(box=None, pad_edge=False, caption=note)
        for title in ("service", "state", "seconds", ""):
            table.add_column(title, justify="right" if title == "seconds" else "left")
        for name, step in self.steps.items():
            seconds = f"{step.seconds:.1f}" if step.seconds else ""
            state = Text(step.state, style=_COLOURS[step.state])
            table.add_row(name, state, seconds, Text(step.detail))  # of a log, as it stands there
        return table


@contextmanager
def steps(*, quiet: bool = False) -> Iterator[tuple[Progress, Callable[[Event], None]]]:
    """A progress and the function that feeds it; shown live if this is a terminal."""
    progress = Progress()
    if quiet:
        yield progress, progress.record
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        with Live(progress, console=Console(stderr=True), refresh_per_second=8):
            yield progress, progress.record
    else:
        yield progress, lambda event: _line(progress, event)


def _line(progress: Progress, event: Event) -> None:
    if progress.take(event) and event.state != "waiting":
        text = f"{event.service:<11}{event.state:<10}{event.detail}".rstrip()
        seconds = progress.seconds().get(event.service, 0.0)
        ended = f" ({seconds} s)" if event.state in _FINAL else ""
        click.echo(text + ended, err=True)
