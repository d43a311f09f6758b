"""Told to stop: a flag that SIGTERM and SIGINT set, so that loops end with nothing half done."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

__all__ = ["Stopping"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopping(threading.Event):
    """An event that is set by a signal while it is entered; a second signal is as without it.

    Example:
        >>> with Stopping() as stopping:
        ...     while not stopping.is_set():
        ...         ...
    """

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stopping:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._told)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _told(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        self.set()

    def _restore(self) -> None:
        while self._before:
            number, before = self._before.popitem()
            signal.signal(number, before)
