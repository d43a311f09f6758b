"""What somebody who stages asks for, and where a history is to begin."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.model.duration import parse_duration
from penstock.runtime.times import EPOCH

__all__ = ["Request", "begin_at", "begins_as_asked", "is_length"]

_TYPED_TWICE = 600_000_000  # microseconds between two who type the same and register in turn


def begin_at(told: str, now: dt.datetime) -> int | None:
    """Where a history is to begin, in microseconds: BEGINNING, a moment, or a length of time."""
    if told.upper() == "BEGINNING":
        return None
    at = _moment(told)
    if at is None:
        try:
            at = now - parse_duration(told)
        except ValueError as error:
            raise UsageError(
                f"{told!r} is neither BEGINNING, nor a moment, nor a length of time: {error}.",
                remedy="Write --from BEGINNING, 2026-11-01T00:00Z or '7 days'.",
            ) from None
    at = at if at.tzinfo else at.replace(tzinfo=dt.UTC)
    if at > now:
        raise UsageError(f"{told} has not come yet.", remedy="Begin in the past.")
    return (at - EPOCH) // dt.timedelta(microseconds=1)


def is_length(told: str) -> bool:
    """Whether a beginning is told as a length of time: another moment each time it is typed."""
    return told.upper() != "BEGINNING" and _moment(told) is None


def _moment(told: str) -> dt.datetime | None:
    with suppress(ValueError):
        return dt.datetime.fromisoformat(told.replace("Z", "+00:00"))
    return None


@dataclass(frozen=True)
class Request:
    """What somebody who stages asks for."""

    table: str | None = None  # None: all that changed
    since: int | None = None  # where histories begin, in microseconds; None: at the beginning
    ago: bool = False  # since was told as a length of time
    partial: bool = False  # less history than asked for will do
    share: float = 1.0
    who: str = ""
    why: str = ""


def begins_as_asked(staged: int | None, request: Request) -> bool:
    """Whether what is staged begins where it should: a length of time ago was earlier then."""
    if request.since is None or staged is None or not request.ago:
        return staged == request.since
    return staged <= request.since + _TYPED_TWICE
