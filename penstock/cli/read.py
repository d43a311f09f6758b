"""`penstock query` and `penstock tail`: reading live tables from a terminal or a pipe.

Every import that costs time is inside the function that needs it: the whole of a small query
should be over before it is noticed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, NoReturn, TextIO

import click

from penstock.errors import QueryRefused
from penstock.modest import give_way

if TYPE_CHECKING:
    from penstock.serve.query import OpenQuery
    from penstock.serve.tail import Change

__all__ = ["query", "tail"]

_TERMINAL_ROWS = 1000
_NICENESS = 5


# --- query --------------------------------------------------------------------------------
@click.command()
@click.argument("sql", required=False)
@click.option("--file", "file", type=click.File("r"), help="Read the query from a file.")
@click.option("--json", "style", flag_value="json", help="Print one JSON array of objects.")
@click.option("--csv", "style", flag_value="csv", help="Print CSV with a header line.")
@click.option(
    "--limit-rows",
    type=click.IntRange(min=0),
    help=f"Print at most N rows, 0 for all.  [default: {_TERMINAL_ROWS} for a table or on a "
    "terminal, else all]",
    metavar="N",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop the query after so much work.",
)
@click.option(
    "--memory",
    default="1GB",
    show_default=True,
    metavar="SIZE",
    help="Memory the query may take; nothing spills to disk.",
)
def query(
    *,
    sql: str | None,
    file: TextIO | None,
    style: str | None,
    limit_rows: int | None,
    timeout: float,
    memory: str,
) -> None:
    """Run one SQL query over the live tables, read-only.

    Tables are named layer.table. The SQL dialect is DuckDB's. SQL may be `-` to read it from
    standard input.

    \b
    Examples:
      penstock query "SHOW TABLES"
      penstock query "DESCRIBE gold.stock_stats"
      penstock query "SELECT * FROM gold.stock_stats ORDER BY window_start DESC LIMIT 5"
      penstock query --json "SELECT ticker, count(*) AS n FROM silver.trades GROUP BY 1" | jq .
      penstock query --csv --file report.sql > report.csv
      echo "SUMMARIZE silver.trades" | penstock query -
    """
    from penstock.serve.query import open_query
    from penstock.settings import Settings

    text = _query_text(sql, file)
    settings = Settings.load()
    give_way(_NICENESS)
    with (
        _quiet_pipe(),
        open_query(
            settings, text, timeout_s=timeout, memory_limit=memory, last_resort=_give_up
        ) as running,
    ):
        printed = _PRINTERS[style or "table"](running, _row_limit(style, limit_rows))
        sys.stdout.flush()
        _footer(running, printed, style)


def _query_text(sql: str | None, file: TextIO | None) -> str:
    if (sql is None) == (file is None):
        raise click.UsageError("Give the query once: as SQL, as - for standard input, or --file.")
    if file is not None:
        return file.read()
    return sys.stdin.read() if sql == "-" else str(sql)


def _row_limit(style: str | None, asked: int | None) -> int | None:
    if asked is not None:
        return asked or None
    return _TERMINAL_ROWS if style is None or sys.stdout.isatty() else None


def _print_json(running: OpenQuery, limit: int | None) -> int:
    from penstock.serve.render import json_array

    count = _Counter(running, limit)
    for piece in json_array(running.columns, count):
        sys.stdout.write(piece)
    return count.rows


def _print_csv(running: OpenQuery, limit: int | None) -> int:
    from penstock.serve.render import csv_line

    count = _Counter(running, limit)
    for line in chain([running.columns], count):
        sys.stdout.write(csv_line(line))
    return count.rows


def _print_table(running: OpenQuery, limit: int | None) -> int:
    if running.kind == "explain":
        return _print_plan(running)
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from penstock.serve.render import cell

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name, kind in zip(running.columns, running.types, strict=True):
        number = _NUMERIC.fullmatch(kind)
        table.add_column(Text(cell(name)), justify="right" if number else "left", overflow="fold")
    count = _Counter(running, limit)
    for row in count:
        table.add_row(*(Text(cell(v), style="dim" if v is None else "") for v in row))
    # A pipe has no width of its own: let every column be as wide as its content.
    width = None if sys.stdout.isatty() else 100_000
    Console(width=width, highlight=False, soft_wrap=False).print(table)
    return count.rows


def _print_plan(running: OpenQuery) -> int:
    rows = [row for batch in running.batches() for row in batch]
    for row in rows:
        click.echo(str(row[-1]).rstrip())
    return len(rows)


_NUMERIC = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)"
)
_PRINTERS: dict[str, Callable[[OpenQuery, int | None], int]] = {
    "json": _print_json,
    "csv": _print_csv,
    "table": _print_table,
}


class _Counter:
    """The rows of a query, counted as they go by."""

    def __init__(self, running: OpenQuery, limit: int | None) -> None:
        self._running = running
        self._limit = limit
        self.rows = 0

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        for batch in self._running.batches(self._limit):
            self.rows += len(batch)
            yield from batch


def _footer(running: OpenQuery, printed: int, style: str | None) -> None:
    if style is None:
        read = "".join(f" · {name} version {v}" for name, v in running.versions.items())
        rows = "1 row" if printed == 1 else f"{printed:,} rows"
        click.secho(f"{rows} · {running.elapsed_s:.2f} s{read}", dim=True, err=True)
    if running.truncated:
        click.secho(
            f"cut after {printed:,} rows: there are more (--limit-rows 0 prints all).",
            fg="yellow",
            err=True,
        )


def _give_up(refusal: QueryRefused) -> NoReturn:
    """The engine ignores interrupts: this process exists for one query, so end it."""
    click.secho(f"penstock: {refusal.message}", fg="red", err=True)
    click.echo(f"  {refusal.remedy}", err=True)
    os._exit(refusal.exit_code)


@contextmanager
def _quiet_pipe() -> Iterator[None]:
    """`penstock query ... | head` ends without a word when head has seen enough."""
    try:
        yield
    except BrokenPipeError:
        # Python flushes stdout once more at exit: give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# --- tail ---------------------------------------------------------------------------------
@click.command()
@click.argument("table")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per changed row.")
@click.option("--rows", type=click.IntRange(min=1), metavar="N", help="Stop after N rows.")
@click.option(
    "--from-version",
    type=click.IntRange(min=0),
    metavar="V",
    help="Start with the changes of commit V instead of the next one.",
)
def tail(table: str, as_json: bool, rows: int | None, from_version: int | None) -> None:
    """Follow the changes of a live table as they are committed; Ctrl-C ends it.

    New rows show as insert, changed ones as update with their new values, removed ones as delete.
    A promote shows only the rows that differ; a compaction shows nothing.

    \b
    Examples:
      penstock tail gold.stock_stats
      penstock tail silver.trades --json | jq .price
      penstock tail silver.trades --rows 1            wait for the next row
      penstock tail gold.stock_stats --from-version 0
    """
    from penstock.serve.tail import Notice, follow
    from penstock.settings import Settings

    show: Callable[[Change], None] = _json_change if as_json else _text_change
    left = rows
    with _quiet_pipe(), _until_interrupted():
        for event in follow(Settings.load(), table, from_version=from_version):
            if isinstance(event, Notice):
                click.secho(event.text, fg="yellow", err=True)
                continue
            show(event)
            left = None if left is None else left - 1
            if left == 0:
                return


def _json_change(change: Change) -> None:
    from penstock.serve.render import to_json

    about = {
        "_change_type": change.kind,
        "_commit_version": change.version,
        "_commit_timestamp": _when(change),
    }
    sys.stdout.write(to_json({**change.row, **about}) + "\n")
    sys.stdout.flush()


_MARKS = {"insert": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}


def _text_change(change: Change) -> None:
    from penstock.serve.render import cell

    mark, colour = _MARKS[change.kind]
    values = "  ".join(f"{name}={cell(value)}" for name, value in change.row.items())
    click.secho(f"{mark} {change.version}  ", fg=colour, nl=False)
    click.echo(values)


def _when(change: Change) -> datetime | None:
    if change.timestamp_ms is None:
        return None
    return datetime.fromtimestamp(change.timestamp_ms / 1000, UTC)


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Ctrl-C is how one stops following, not an error."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(err=True)
