"""Plain tables on a terminal: one look for every command, never cut off in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["console", "print_rows", "size"]

_PIPE_WIDTH = 200  # rich would take 80 where there is no terminal, and cut what does not fit


def console() -> Any:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def print_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """The named columns of the rows; a column that is empty everywhere is left out.

    What stands in square brackets is text like any other: people type it, and so do errors.
    """
    from rich.table import Table
    from rich.text import Text

    listed = list(rows)
    shown = [c for c in columns if any(row.get(c) not in (None, "") for row in listed)]
    table = Table(box=None, pad_edge=False)
    for column in shown:
        table.add_column(column.replace("_", " "))
    for row in listed:
        table.add_row(*(Text("" if row.get(c) is None else str(row[c])) for c in shown))
    console().print(table)


def size(number: float) -> str:
    """Bytes as people say them."""
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"
