"""Where a declaration stands, and how what is wrong with it is said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from penstock.errors import DefinitionError
from penstock.model.names import TableName

__all__ = ["Place", "caller", "parse_name", "raise_if"]


@dataclass(frozen=True)
class Place:
    """Where in the author's code something is declared."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def caller(frame: FrameType) -> Place:
    path = Path(frame.f_code.co_filename)
    # A path relative to the project reads better than this machine's; keep the last parts.
    return Place("/".join(path.parts[-3:]), frame.f_lineno)


def parse_name(text: str, place: Place) -> TableName:
    try:
        return TableName.parse(text)
    except ValueError as error:
        raise DefinitionError(f"{place}: {error}.") from None


def raise_if(problems: list[str], what: str, place: Place) -> None:
    if problems:
        raise DefinitionError(f"{place}: {what}: {'; '.join(problems)}.")
