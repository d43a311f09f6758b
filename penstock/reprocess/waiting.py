"""Waiting until what was staged has caught up with what is live."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.errors import NotRunning, PenstockError
from penstock.reprocess.status import Status, statuses
from penstock.runtime import heartbeat
from penstock.runtime.registry import Registry
from penstock.settings import Settings

__all__ = ["wait_ready"]

_LOOK = 1.0


def wait_ready(
    settings: Settings,
    registry: Registry,
    release: str,
    *,
    only: str | None = None,
    seconds: float = 3600.0,
    tell: Callable[[list[Status]], None] | None = None,
) -> list[Status]:
    """Wait until the candidates of a release, or only one table's, are ready."""
    deadline = time.monotonic() + seconds
    while True:
        found = statuses(settings, registry, release)
        mine = [s for s in found if only is None or s.table == only]
        if tell is not None:
            tell(mine)
        failed = [s for s in mine if s.state == "failed"]
        if failed:
            raise PenstockError(
                f"{failed[0].table}@{failed[0].revision}: {failed[0].told.get('error')}",
                remedy=f"Mend it, then `penstock abort {failed[0].table}` and stage again.",
            )
        if mine and all(s.state == "ready" for s in mine):
            return mine
        beat = heartbeat.read(settings)
        if beat is None or beat.age_seconds > heartbeat.STALE_AFTER:
            raise NotRunning(
                "no supervisor runs, so the candidates do not catch up.",
                remedy="Run `penstock up`, then stage again: it goes on where it was.",
            )
        if time.monotonic() > deadline:
            raise PenstockError(
                f"not ready after {seconds:.0f} s.",
                remedy="It goes on by itself: `penstock stage --status`.",
            )
        time.sleep(_LOOK)
