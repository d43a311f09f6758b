"""Columns for days and hours as people on the spot count them: pure, with the zone said aloud.

Stored times are moments in UTC. Which day a moment belongs to depends on where one stands, and a
day there has 23 or 25 hours twice a year. Every function here takes the zone, an IANA name or a
column that holds one; none of them reads the session's. A zone column must hold known names (a
contract with LocalTime has seen to that): Spark fails on any other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = [
    "day_starts",
    "hours_in_day",
    "local_day",
    "local_hour",
    "local_time",
    "trading_day",
]

_TIME_OF_DAY = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


def local_time(ts: Column | str, zone: Column | str) -> Column:
    """What a clock on the wall of ``zone`` shows at a moment, as a timestamp without zone."""
    return F.from_utc_timestamp(_column(ts), _zone(zone)).cast("timestamp_ntz")


def local_day(ts: Column | str, zone: Column | str) -> Column:
    """The date there."""
    return F.to_date(local_time(ts, zone))


def local_hour(ts: Column | str, zone: Column | str) -> Column:
    """The hour of the clock there, 0 to 23. In autumn one hour comes twice, in spring one never."""
    return F.hour(local_time(ts, zone))


def day_starts(day: Column | str, zone: Column | str) -> Column:
    """The moment at which a date begins there; where midnight is skipped, the first moment after.

    Where midnight comes twice the earlier one counts.
    """
    return F.to_utc_timestamp(_column(day).cast("timestamp_ntz").cast("timestamp"), _zone(zone))


def hours_in_day(day: Column | str, zone: Column | str) -> Column:
    """How long a date lasts there, in hours: 24.0 but for the days on which clocks change."""
    date = _column(day)
    seconds = F.unix_timestamp(day_starts(F.date_add(date, 1), zone)) - F.unix_timestamp(
        day_starts(date, zone)
    )
    return seconds / F.lit(3600.0)


def trading_day(ts: Column | str, zone: Column | str, *, opens: str = "00:00") -> Column:
    """The trading day a moment belongs to, for a market whose day begins at ``opens`` there.

    A day is named by the date on which it ends if it opens after noon (a session that opens at
    18:00 on Sunday is Monday's), and by the date on which it opens otherwise. Counted on the wall
    clock, so that the days on which clocks change are 23 or 25 hours long.

    Example:
        >>> trading_day("event_time", "America/New_York", opens="18:00")
    """
    match = _TIME_OF_DAY.fullmatch(opens)
    if not match:
        raise ValueError(f"opens is {opens!r}: write the time of day as HH:MM, say '18:00'")
    minutes = int(match[1]) * 60 + int(match[2])
    shift = minutes - 24 * 60 if minutes > 12 * 60 else minutes
    moved = local_time(ts, zone) - F.expr(f"interval {shift} minutes")
    return F.to_date(moved)


def _column(value: Column | str) -> Column:
    return F.col(value) if isinstance(value, str) else value


def _zone(zone: Column | str) -> Column:
    if not isinstance(zone, str):
        return zone
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"there is no zone {zone!r}: write an IANA name, say 'UTC'") from None
    return F.lit(zone)
