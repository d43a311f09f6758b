"""How far a table's stream is behind its input, as the supervisor last said; nobody waits for it.

The registry is asked beside the questions, at most every few seconds. Where it does not answer, or
no supervisor has beaten lately, nothing is known, and the answer says so with null.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from penstock.runtime import heartbeat
from penstock.settings import Settings

__all__ = ["Lag"]

_EVERY_S = 5.0
_OLD_S = 30.0


class Lag:
    """The last heartbeat, asked for in the background."""

    def __init__(
        self,
        settings: Settings,
        read: Callable[[Settings], heartbeat.Heartbeat | None] = heartbeat.read,
    ) -> None:
        self._settings = settings
        self._read = read
        self._lock = threading.Lock()
        self._asking: threading.Thread | None = None
        self._asked_at, self._known_at = float("-inf"), float("-inf")
        self._behind: Mapping[tuple[str, str], int | None] = {}

    def behind(self, table: str, revision: str | None, *, wait_s: float = 0.0) -> int | None:
        """Input commits (of a topic: records) not taken in yet; None: not known."""
        self._refresh()
        if wait_s and self._asking is not None:
            self._asking.join(wait_s)
        if time.monotonic() - self._known_at > _OLD_S:
            return None
        return self._behind.get((table, revision or ""))

    def _refresh(self) -> None:
        with self._lock:
            if time.monotonic() - self._asked_at < _EVERY_S:
                return
            self._asked_at = time.monotonic()
            self._asking = threading.Thread(target=self._ask, name="lag", daemon=True)
            self._asking.start()

    def _ask(self) -> None:
        beat = self._read(self._settings)
        if beat is None or beat.age_seconds > heartbeat.STALE_AFTER:
            return
        self._behind = {_name(stream): stream.get("behind") for stream in beat.streams}
        self._known_at = time.monotonic()


def _name(stream: Mapping[str, Any]) -> tuple[str, str]:
    return str(stream.get("table") or stream.get("stream")), str(stream.get("revision") or "")
