"""Which time column an interval of a table without windows is about.

Asked for by name (``--on``), that column or none. Else the one that the definition of the rows
declares: where a window begins, what facts are joined on, since when a version holds, the event
time of a stream. Else the only one, not counting those that say how far a row reaches. Two inputs
of a table each have their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import UsageError
from penstock.model.definition import Table
from penstock.model.kinds import Enrich
from penstock.model.windows import Session

__all__ = ["Timing"]

# They say from when or until when a row holds. Where a definition means one of them, it says so.
_REACHES = {"window_end", "valid_from", "valid_to"}


@dataclass(frozen=True)
class Timing:
    """The choice for one table.

    Args:
        declared: by name, the column that the definition of the table or of an input declares
            (``Catalog.time_of``).
    """

    table: Table
    declared: Mapping[str, str | None] = field(default_factory=dict)

    def of_rows(self, times: Sequence[str], on: str | None = None) -> str:
        """The column of the table's own rows."""
        kind = self.table.kind
        if isinstance(kind, Session):
            return kind.point
        if isinstance(kind, Enrich) and on is None:
            on = kind.on
        name = str(self.table.name)
        return self._chosen(on, times, self.declared.get(name), name)

    def of_input(self, argument: str, times: Sequence[str], on: str | None = None) -> str:
        """The column of the rows of one input."""
        declared = self.declared.get(str(self.table.inputs[argument]))
        return self._chosen(on, times, declared, f"{self.table.name}: {argument}")

    def _chosen(
        self, on: str | None, times: Sequence[str], declared: str | None, where: str
    ) -> str:
        if on is not None:
            if on in times:
                return on
            raise UsageError(
                f"{where} has no time column {on!r}.",
                remedy=f"Its times: {', '.join(times) or 'none'}.",
            )
        if declared in times:
            return str(declared)
        points = [name for name in times if name not in _REACHES]
        for few in (times, points):
            if len(few) == 1:
                return few[0]
        raise self._unclear(times, where)

    def _unclear(self, times: Sequence[str], where: str) -> UsageError:
        if not times:
            return UsageError(
                f"{where} has no time column, so an interval says nothing of it.",
                remedy="Compute all of it again: "
                f"`penstock backfill {self.table.name} --all --why '...'`.",
            )
        return UsageError(
            f"{where} has several time columns: {', '.join(times)}.",
            remedy="Say which one the interval is about: --on COLUMN.",
        )
