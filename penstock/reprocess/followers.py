"""Who follows a live table outside the streams: topics, notifications, marts and exports.

They learn of a promote as its net changes. Tables that read a table are not among them: those are
pinned to its revision, so they change with it and are in the plan themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from penstock.publish.declared import CHANGELOG, EVENTS, NOTIFICATION, declared
from penstock.settings import Settings

__all__ = ["Followers", "in_words"]

_EXPORTS = ["duckdb", "clickhouse"]  # where the DAGs export to, unless they are told otherwise


class Followers:
    """What the stack and the working tree declare over the live tables."""

    def __init__(
        self,
        settings: Settings,
        published: Iterable[Mapping[str, Any]],
        marts: Mapping[str, Sequence[str]],
    ) -> None:
        """Read what is registered, which is what is published now.

        Args:
            published: what the working tree declares, as the manifest would have it.
            marts: by the table they are made from.
        """
        self._exported = settings.export_tables
        self._marts = marts
        self._published = {(one.table, one.kind, one.target) for one in declared(settings)} | {
            (told["table"], told["kind"], told.get("topic") or told["name"]) for told in published
        }

    def of(self, table: str) -> dict[str, list[str]]:
        """Names by what they are; what there is none of is left out."""
        exported = any(fnmatchcase(table, pattern) for pattern in self._exported)
        found = {
            **{kind: self._targets(table, kind) for kind in (CHANGELOG, EVENTS, NOTIFICATION)},
            "marts": self._marts.get(table, []),
            "exports": _EXPORTS if exported else [],
        }
        return {word: list(names) for word, names in found.items() if names}

    def _targets(self, table: str, kind: str) -> list[str]:
        return sorted(target for of, what, target in self._published if (of, what) == (table, kind))


def in_words(followed: Mapping[str, Iterable[str]]) -> str:
    """On one line."""
    told = [f"{word} {', '.join(names)}" for word, names in followed.items()]
    return "; ".join(told) or "nothing outside the streams"
