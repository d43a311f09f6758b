"""How candidates are doing: from the registry, and from the supervisor's last sign of life."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.runtime import heartbeat
from penstock.runtime.registry import Registry
from penstock.runtime.staging import Build, Candidate, How, Staging
from penstock.runtime.times import moment
from penstock.settings import Settings

__all__ = ["READY_BEHIND", "Status", "statuses"]

READY_BEHIND = 20  # commits of its input a candidate may be behind and still be ready
_FAILURES = 6  # in a row: then it is not a hiccup


@dataclass(frozen=True)
class Status:
    """How a candidate is doing."""

    table: str
    revision: str
    release: str
    state: str  # building, catching-up, ready, paused, failed
    how: str
    behind: int | None
    since: str | None  # its history begins here: it is partial
    told: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def statuses(settings: Settings, registry: Registry, release: str | None = None) -> list[Status]:
    """Every candidate's state, from the registry and the supervisor's last sign of life."""
    beat = heartbeat.read(settings)
    streams = {s["stream"]: s for s in beat.streams} if beat is not None else {}
    found = []
    for candidate in Staging(registry).candidates(release):
        stream = streams.get(f"{candidate.table}@{candidate.revision}", {})
        state, told = _state(candidate, stream)
        since = None if candidate.since is None else moment(candidate.since).isoformat()
        behind = stream.get("behind")
        found.append(
            Status(candidate.table, candidate.revision, candidate.release, state,
                   candidate.how, behind, since, told)
        )  # fmt: skip
    return found


def _state(candidate: Candidate, stream: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    told = dict(candidate.told)
    if candidate.build == Build.FAILED:
        return "failed", told
    given_up = stream.get("state") == "waiting" and stream.get("failures", 0) >= _FAILURES
    if given_up or stream.get("state") in ("parked", "broken"):
        return "failed", {**told, "error": stream.get("error", "")}
    if candidate.paused:
        return "paused", told
    if candidate.how == How.BATCH and candidate.build != Build.BUILT:
        return "building", told
    behind = stream.get("behind")
    if behind is None or stream.get("state") != "running":
        return "catching-up", told
    return ("ready" if behind <= READY_BEHIND else "catching-up"), told
