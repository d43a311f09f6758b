"""Guards: what every batch of a table must keep to, or its live table is held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Guards"]


@dataclass(frozen=True)
class Guards:
    """Checks of the rows a batch adds. One that fails holds the live table; the stream goes on.

    They are not part of what a table means: another limit makes no new revision, and reaches a
    table with its next one.

    Args:
        null_rate: by column, the greatest share of nulls.
        most_rows: how many rows a batch may add.
        unique_keys: no key may come twice in a batch.
        least_rows: batches smaller than this are not looked at for nulls.
    """

    null_rate: Mapping[str, float] = field(default_factory=dict)
    most_rows: int | None = None
    unique_keys: bool = False
    least_rows: int = 1

    def problems(self, keys: tuple[str, ...]) -> list[str]:
        found = [
            f"guards: the null rate of {name} is a share between 0 and 1, not {rate}"
            for name, rate in self.null_rate.items()
            if not 0 <= rate <= 1
        ]
        if self.most_rows is not None and self.most_rows < 1:
            found.append("guards: most_rows is at least 1")
        if self.unique_keys and not keys:
            found.append("guards: unique_keys needs keys")
        return found
