"""Waiting until what was staged has caught up with what is live.

What cannot come any more is not waited for: a candidate that failed, one that is none any more, a
supervisor that is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from penstock.errors import NotRunning, PenstockError, UsageError
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
    seconds: float | None = 3600.0,
    tell: Callable[[list[Status]], None] | None = None,
) -> list[Status]:
    """Wait until the candidates of a release, or only one table's, are ready.

    Args:
        seconds: how long at most; None: for as long as it takes, because the wait is a part of
            something that does not go on by itself.
    """
    began = time.monotonic()
    while True:
        found = statuses(settings, registry, release)
        mine = [s for s in found if only is None or s.table == only]
        if tell is not None:
            tell(mine)
        _require_hope(settings, release, mine)
        if all(s.state == "ready" for s in mine):
            return mine
        if seconds is not None and time.monotonic() > began + seconds:
            raise PenstockError(
                f"not ready after {seconds:.0f} s.",
                remedy="It goes on by itself: `penstock stage --status`.",
            )
        time.sleep(_LOOK)


def _require_hope(settings: Settings, release: str, mine: Sequence[Status]) -> None:
    """Raise where waiting would be in vain."""
    if not mine:
        raise UsageError(
            f"nothing of release {release} is staged any more: it was promoted or given up "
            "meanwhile.",
            remedy="See `penstock releases`; to stage it anew, type the command again.",
        )
    failed = [s for s in mine if s.state == "failed"]
    if failed:
        raise PenstockError(
            f"{failed[0].table}@{failed[0].revision}: {failed[0].told.get('error')}",
            remedy=f"Mend it, then `penstock abort {failed[0].table}` and stage again.",
        )
    beat = heartbeat.read(settings)
    ready = all(s.state == "ready" for s in mine)
    if not ready and (beat is None or beat.age_seconds > heartbeat.STALE_AFTER):
        raise NotRunning(
            "no supervisor runs, so the candidates do not catch up.",
            remedy="Run `penstock up`, then type the command again: it goes on where it was.",
        )
