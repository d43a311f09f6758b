"""Event times that are written as wall time: local time plus a zone, made one moment.

In autumn a local time happens twice: the earlier moment counts, unless a ``fold`` column says 1.
In spring some do not happen at all: they count as later by as much as the clocks went forward
(02:30 becomes 03:30). Java's and Python's zone rules agree on both, and tests hold them to it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

__all__ = ["ZONE_NAME", "LocalTime", "instant", "known_zone"]

# IANA names only: an offset is not a zone, and three letters mean several places.
ZONE_NAME = r"UTC|[A-Z][A-Za-z_]+(/[A-Za-z0-9_+-]+)+"


@dataclass(frozen=True)
class LocalTime:
    """The event time is wall time in ``column``, of a ``zone``.

    Args:
        column: a ``local-timestamp`` field.
        zone: an IANA name such as ``Europe/Berlin``, or the text field that holds one.
        fold: an integer or boolean field; 1 or true means the second of two equal wall times.
    """

    column: str
    zone: str
    fold: str | None = None

    @property
    def zone_is_column(self) -> bool:
        return re.fullmatch(ZONE_NAME, self.zone) is None

    def problems(self, kinds: Mapping[str, str]) -> list[str]:
        found = []
        if kinds.get(self.column) != "local_timestamp":
            found.append(
                f"LocalTime needs a local-timestamp-micros or -millis field; {self.column!r} is "
                f"{kinds.get(self.column, 'no field')}"
            )
        if not self.zone_is_column:
            if not known_zone(self.zone):
                found.append(f"there is no zone {self.zone!r}")
        elif kinds.get(self.zone) not in ("string", "enum"):
            found.append(
                f"zone {self.zone!r} is neither an IANA name, such as Europe/Berlin, nor a text "
                "field that holds one"
            )
        if self.fold is not None and kinds.get(self.fold) not in ("int", "long", "boolean"):
            found.append(f"fold {self.fold!r} is no integer or boolean field")
        return found

    def of(self, row: Mapping[str, Any]) -> dt.datetime | None:
        """The moment of a row of canonical values; None where it has none."""
        local = row[self.column]
        zone = row[self.zone] if self.zone_is_column else self.zone
        if local is None or zone is None or not known_zone(zone):
            return None
        later = self.fold is not None and row[self.fold] is not None and int(row[self.fold]) == 1
        try:
            return instant(local, zone, later=later)
        except OverflowError:
            return None

    def describe(self) -> dict[str, Any]:
        return {"local": self.column, "zone": self.zone, "fold": self.fold}


def known_zone(name: str) -> bool:
    """Whether this machine's zone rules have it."""
    if re.fullmatch(ZONE_NAME, name) is None:
        return False
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def instant(local: dt.datetime, zone: str, *, later: bool = False) -> dt.datetime:
    """The moment, in UTC, at which a clock on the wall there shows ``local``."""
    rules = ZoneInfo(zone)
    first = local.replace(tzinfo=rules, fold=0).astimezone(dt.UTC)
    if not later:
        return first
    second = local.replace(tzinfo=rules, fold=1).astimezone(dt.UTC)
    happens_twice = second.astimezone(rules).replace(tzinfo=None) == local.replace(fold=0)
    return second if happens_twice else first
