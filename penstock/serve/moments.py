"""Tables at another moment, or in another revision: ``gold.x@candidate``, ``gold.x@version:17``.

A name with a suffix is no SQL, so it is spelt as a quoted name before the text is parsed; strings,
quoted names and comments are left alone. What the suffix means is decided by `read`, from a list
of known forms: nothing of it ever becomes part of a path.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from penstock.errors import UsageError

__all__ = ["FORMS", "Moment", "read", "spell"]

FORMS = "@candidate, @warm, @live, @version:17 or @2026-11-01T10:00Z"
_SUFFIXED = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/"
    r"|\b(?P<layer>[a-z]+)\.(?P<name>[a-z][a-z0-9_]*)@(?P<at>[a-z0-9][a-z0-9:+-]*)",
    re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True)
class Moment:
    """Which state of a table is meant: one of a revision's, a version, or a time."""

    state: str = "live"
    version: int | None = None
    time: dt.datetime | None = None


def spell(sql: str) -> str:
    """The text with suffixed names quoted, so that they parse."""

    def quoted(found: re.Match[str]) -> str:
        if found["at"] is None:
            return found[0]
        return f'{found["layer"]}."{found["name"]}@{found["at"]}"'

    return _SUFFIXED.sub(quoted, sql)


def read(at: str) -> Moment:
    """What a suffix means.

    Raises:
        UsageError: it is none of the known forms.
    """
    word, _, number = at.partition(":")
    if at.lower() in ("candidate", "warm", "live"):
        return Moment(at.lower())
    if word.lower() == "version" and re.fullmatch(r"[0-9]{1,18}", number):
        return Moment(version=int(number))
    try:
        time = dt.datetime.fromisoformat(at.upper())
    except ValueError:
        raise UsageError(f"@{at} names no moment.", remedy=f"Write {FORMS}.") from None
    return Moment(time=time if time.tzinfo else time.replace(tzinfo=dt.UTC))
