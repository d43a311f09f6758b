"""The supervisor's heartbeat, as the platform sees it: the one place that asks the registry for it.

The registry is imported when it is asked, not before: starting Postgres must not depend on it.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any, Protocol

from penstock.settings import Settings

__all__ = ["STALE_AFTER", "Heartbeat", "read", "read_of", "streams"]

STALE_AFTER = 15.0  # seconds; the supervisor beats every second or two


class Heartbeat(Protocol):
    """What the registry tells of the supervisor."""

    @property
    def age_seconds(self) -> float: ...
    @property
    def pid(self) -> int: ...
    @property
    def state(self) -> str: ...
    @property
    def streams(self) -> list[dict[str, Any]]: ...


def read(settings: Settings) -> Heartbeat | None:
    """The newest heartbeat, of several supervisors all in one.

    None when there never was one or the registry does not answer.
    """
    try:
        from penstock.runtime.registry import Registry

        with closing(Registry(settings)) as registry:
            return registry.heartbeat()
    except Exception:
        # Whatever is wrong (database down, tables not made yet) means the same here: no heartbeat.
        return None


def read_of(settings: Settings, pid: int) -> Heartbeat | None:
    """The newest heartbeat of one of several supervisors."""
    try:
        from penstock.runtime.registry import Registry

        with closing(Registry(settings)) as registry:
            return next((beat for beat in registry.heartbeats() if beat.pid == pid), None)
    except Exception:  # as above
        return None


def streams(settings: Settings) -> list[dict[str, Any]]:
    beat = read(settings)
    return beat.streams if beat is not None else []
