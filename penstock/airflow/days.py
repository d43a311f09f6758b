"""Which days of a table can be computed again: asked before a JVM is started for it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.errors import UsageError

__all__ = ["day_of", "interval_of", "no_days", "why_not"]


def day_of(partition: str | None, asked: str, now: dt.datetime) -> dt.date:
    """The day a run is about: what the form says, else the run's partition, else yesterday."""
    text = asked or (partition or "")[:10]
    if not text:
        return (now - dt.timedelta(days=1)).date()
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a day.", remedy="Write it as 2026-11-01.") from None


def interval_of(day: dt.date) -> tuple[str, str]:
    """A day as the half-open interval that `penstock backfill` takes."""
    return f"{day}T00:00Z", f"{day + dt.timedelta(days=1)}T00:00Z"


def no_days(table: str) -> str:
    """Why a table without times has no days that could be computed again, and what to do.

    All of it is not computed instead: that is a build, a comparison and a swap of the table and all
    that reads it, which a run per day would do once for every day.
    """
    return (
        f"a day says nothing of {table}: there is no time column in what it is computed from. "
        "It follows by itself when what it reads is corrected; to compute all of it again: "
        f"`penstock backfill {table} --all --why '...'`"
    )


def why_not(
    table: str,
    revision: str,
    day: dt.date,
    streams: Iterable[Mapping[str, Any]],
    now: dt.datetime,
) -> str | None:
    """Why a day of a table cannot be computed again yet; None if nothing is known against it."""
    end = dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), dt.UTC)
    if end > now:
        return f"{day} is not over"
    stream = next((s for s in streams if s["stream"] == f"{table}@{revision}"), None)
    told = stream.get("watermark") if stream is not None else None
    if told is None:
        return None
    watermark = dt.datetime.fromisoformat(str(told))
    if watermark < end:
        return f"{table} has results of {day} that are still open (watermark {watermark:%FT%TZ})"
    return None
