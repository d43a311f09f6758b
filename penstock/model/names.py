"""Names of tables, columns and topics: checked once, so that they are safe in paths and SQL."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

__all__ = ["LAYERS", "TableName", "is_identifier"]

LAYERS = ("bronze", "silver", "gold", "quarantine", "late", "outcomes", "quality")
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,62}")


def is_identifier(text: str) -> bool:
    """Lower-case letters, digits and underscores, starting with a letter, at most 63 long."""
    return bool(_IDENTIFIER.fullmatch(text))


@dataclass(frozen=True, order=True)
class TableName:
    """``layer.name``; the only way a table becomes a path is ``layer/name``."""

    layer: str
    name: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        layer, dot, name = text.partition(".")
        if not dot or layer not in LAYERS or not is_identifier(name):
            raise ValueError(
                f"{text!r} is not a table name: write layer.name, with a layer of "
                f"{', '.join(LAYERS)} and a name of lower-case letters, digits and underscores"
            )
        return cls(layer, name)

    @property
    def quarantine(self) -> TableName:
        """Where rows go that break this table's contract or transform."""
        return self._beside("quarantine")

    @property
    def late(self) -> TableName:
        """Where rows are listed that came after their windows were closed."""
        return self._beside("late")

    @property
    def outcomes(self) -> TableName:
        """Where it is counted what became of every input row."""
        return self._beside("outcomes")

    def _beside(self, layer: str) -> TableName:
        name = f"{self.layer}_{self.name}"
        if len(name) > 63:  # two long names must not end in one
            name = f"{name[:54]}_{zlib.crc32(name.encode()):08x}"
        return TableName(layer, name)

    def __str__(self) -> str:
        return f"{self.layer}.{self.name}"
