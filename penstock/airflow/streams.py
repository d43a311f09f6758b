"""Looking at the streams from Airflow: heartbeat, state and lag, in words an operator can use."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from penstock.errors import NotRunning
from penstock.runtime.heartbeat import STALE_AFTER, Heartbeat, read
from penstock.settings import Settings

__all__ = ["StreamsStale", "describe", "require_fresh", "watch_streams"]

_log = logging.getLogger(__name__)


class StreamsStale(NotRunning):
    """The supervisor has not been heard of for too long: nobody moves the streams."""


def watch_streams(settings: Settings | None = None) -> dict[str, Any]:
    """Log what the streams do; fail when the heartbeat is missing or old.

    Returns what was seen, so that it can be read as the task's result.
    """
    beat = require_fresh(read(settings or Settings.load()))
    for line in describe(beat):
        _log.info("%s", line)
    seen = {"age_seconds": round(beat.age_seconds, 1), "state": beat.state}
    return seen | {"streams": [{k: str(v) for k, v in s.items()} for s in beat.streams]}


def require_fresh(beat: Heartbeat | None, stale_after: float = STALE_AFTER) -> Heartbeat:
    """The heartbeat, if it is recent enough to believe."""
    remedy = "Look at `penstock status` and logs/supervisor.log; `penstock up` starts it again."
    if beat is None:
        raise StreamsStale("the stream supervisor has left no heartbeat.", remedy=remedy)
    if beat.age_seconds > stale_after:
        raise StreamsStale(
            f"the stream supervisor was last heard of {beat.age_seconds:.0f} s ago "
            f"(state {beat.state}, {stale_after:.0f} s allowed).",
            remedy=remedy,
        )
    return beat


def describe(beat: Heartbeat) -> Iterator[str]:
    """One line for the supervisor, one per stream with everything the stream reports."""
    yield f"supervisor: {beat.state}, heartbeat {beat.age_seconds:.1f} s ago"
    for stream in beat.streams:
        name = stream.get("stream") or stream.get("name") or "?"
        rest = ", ".join(f"{k} {v}" for k, v in stream.items() if k not in ("stream", "name"))
        yield f"{name}: {rest}"
