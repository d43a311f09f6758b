"""What is left of a release that was promoted in part.

Finishing it needs no new decision: it was decided as one, and passed the gates as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.runtime.registry import Revision, State
from penstock.runtime.staging import Candidate, Promotion, Staging

__all__ = ["Rest", "newest_swaps", "rest_of"]


@dataclass(frozen=True)
class Rest:
    """Swaps that finish a release, as it was decided."""

    wanted: dict[str, str]  # each table after those it reads, and the revision it is to show
    expected: dict[str, str]
    why: str
    report: str


def newest_swaps(staging: Staging, release: str) -> dict[str, Promotion]:
    """The newest swap of each table that a release has moved, the latest first."""
    found: dict[str, Promotion] = {}
    for one in staging.promotions(release=release):
        if one.verb != "repair":
            found.setdefault(one.table, one)
    return found


def rest_of(
    left: Sequence[Candidate],
    swaps: Mapping[str, Promotion],
    verdict: Mapping[str, Any],
    fed: Sequence[Revision],
) -> Rest | None:
    """None if nothing of it is live yet, or nothing is left.

    Nor if a part was taken back or replaced since, or if the rest was compared anew: then the gates
    decide about the rest.

    Args:
        left: candidates of the release that no live table shows yet.
        swaps: the newest swap of each table it has moved, the latest first.
        verdict: what comparing the release came to.
    """
    if not left or not swaps:
        return None
    live = {r.table: r.revision for r in fed if r.state == State.LIVE}
    stands = all(p.verb == "promote" and live.get(p.table) == p.revision for p in swaps.values())
    rest = {c.table for c in left}
    if not stands or not verdict.get("candidates", {}).keys() >= rest | swaps.keys():
        return None
    known = {(r.table, r.revision) for r in fed}
    wanted = {
        name: verdict["candidates"][name]
        for name in verdict["order"]
        if name in rest or (name, verdict["live"][name]) in known  # else nothing is left of it
    }
    last = next(iter(swaps.values()))
    return Rest(wanted, verdict["live"], last.why, last.report)
