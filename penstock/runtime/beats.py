"""Signs of life of supervisors, and what several of them come to together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Heartbeat", "together"]


@dataclass(frozen=True)
class Heartbeat:
    """The last sign of life of a supervisor."""

    supervisor: str
    state: str
    age_seconds: float
    pid: int
    streams: list[dict[str, Any]]
    leads: bool = False  # it has a slot now

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def name(self) -> str:
        """As the platform calls it."""
        return self.supervisor.partition("@")[0]


def together(beats: Sequence[Heartbeat]) -> Heartbeat | None:
    """The working supervisor's newest sign of life; a standby's only if there is no other.

    Of several that work, with the newest first: all their streams, each with who runs it, and the
    age of the oldest. A stream that was taken over is the newer one's.
    """
    working = [beat for beat in beats if beat.leads and beat.state == "running"]
    if len(working) < 2:
        others = (beat for beat in beats if beat.state != "standby")
        return next(others, beats[0] if beats else None)
    streams: dict[str, dict[str, Any]] = {}
    for beat in working:
        for stream in beat.streams:
            streams.setdefault(stream["stream"], {**stream, "supervisor": beat.name})
    return Heartbeat(
        supervisor=", ".join(sorted(beat.name for beat in working)),
        state="running",
        age_seconds=max(beat.age_seconds for beat in working),
        pid=working[0].pid,
        streams=list(streams.values()),
        leads=True,
    )
