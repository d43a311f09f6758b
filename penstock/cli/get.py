"""`penstock get`: rows of a live table by key or by range; and the process that answers for it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from penstock.serve.lookup import Answer

__all__ = ["get", "serve"]

_NOTHING = 1  # exit code: what was asked for makes sense, and there is none
_WAIT_S = 0.5  # for the registry to say how far behind a table is; it may not be running
_INDEX_BYTES = 64 << 20  # 8 million rows


@click.command()
@click.argument("table")
@click.argument("key", nargs=-1)
@click.option("--from", "start", metavar="VALUE", help="The range begins here, included.")
@click.option("--to", "end", metavar="VALUE", help="The range ends before this.")
@click.option(
    "--on", metavar="COLUMN", help="The range is of this column.  [default: the time, or last key]"
)
@click.option("--columns", default="", metavar="A,B", help="Only these columns.")
@click.option(
    "--limit", type=int, default=100, show_default=True, metavar="N", help="Rows at most, to 1000."
)
@click.option("--newest", is_flag=True, help="The latest first.")
@click.option("--cursor", metavar="TEXT", help="Go on where the page before ended.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def get(
    *,
    table: str,
    key: tuple[str, ...],
    start: str | None,
    end: str | None,
    on: str | None,
    columns: str,
    limit: int,
    newest: bool,
    cursor: str | None,
    as_json: bool,
) -> None:
    """Look rows of a live table up by their keys.

    KEY is one value per key, in the order of `penstock tables`. With all of them it is one row,
    with the first ones all rows that begin so. NULL is \\N; before a value that begins with a dash
    put --. Exit code 1: there is no such row.

    \b
    Examples:
      penstock get gold.inventory_by_model runner-3
      penstock get gold.sensor_5m sensor-07 2026-11-01T10:05:00Z
      penstock get gold.sensor_5m sensor-07 --newest --limit 3
      penstock get gold.sensor_5m sensor-07 --from 2026-11-01T10:00Z --to 2026-11-01T11:00Z
      penstock get silver.trades --on traded_at --from 2026-11-01T10:00Z --limit 10
      penstock get gold.inventory_by_model@version:17 runner-3 --json
      penstock get gold.inventory_by_model@candidate runner-3
    """
    from penstock.serve.answers import answered
    from penstock.serve.asked import Ask
    from penstock.serve.lag import Lag
    from penstock.serve.lookup import Reader
    from penstock.serve.render import to_json
    from penstock.settings import Settings

    settings = Settings.load()
    named = tuple(name.strip() for name in columns.split(",") if name.strip())
    lag = Lag(settings)
    began = time.monotonic()
    with Reader(settings) as reader:
        answer = reader.look(Ask(table, key, start, end, on, named, limit, newest, cursor))
        told = answered(reader, lag, answer, wait_s=_WAIT_S)
    if as_json:
        click.echo(to_json(told))
    else:
        _show(answer, told, time.monotonic() - began)
    sys.exit(0 if told["rows"] else _NOTHING)


def _show(answer: Answer, told: dict[str, Any], seconds: float) -> None:
    if len(answer.rows) == 1 and answer.plan.is_point:
        _print_row(answer.columns, answer.rows[0])
    elif answer.rows:
        _print_rows(answer.columns, answer.rows)
    count = len(answer.rows)
    rows = {0: "no such row", 1: "1 row"}.get(count, f"{count:,} rows")
    behind = "" if told["behind"] is None else f" · {told['behind']} behind"
    click.secho(
        f"{rows} · {told['table']} version {told['version']}{_age(told['committed_at'])}{behind}"
        f" · {seconds:.2f} s",
        dim=True,
        err=True,
    )
    if answer.next:
        click.secho(
            "there are more: give a higher --limit, or the same command with\n"
            f"  --cursor {answer.next}",
            fg="yellow",
            err=True,
        )


def _age(committed_at: datetime | None) -> str:
    if committed_at is None:
        return ""
    seconds = max(0.0, (datetime.now(UTC) - committed_at).total_seconds())
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f", committed {seconds / size:.0f} {unit} ago"
    return f", committed {seconds:.0f} s ago"


def _print_row(columns: Sequence[str], row: Sequence[Any]) -> None:
    """One row reads better downwards."""
    from penstock.serve.render import cell

    width = max(map(len, columns))
    for name, value in zip(columns, row, strict=True):
        click.echo(f"{name:<{width}}  {cell(value)}")


def _print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from penstock.serve.render import cell

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for number, name in enumerate(columns):
        numeric = isinstance(rows[0][number], int | float) and rows[0][number] is not None
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value), style="dim" if value is None else "") for value in row))
    # A pipe has no width of its own: let every column be as wide as its content.
    width = None if sys.stdout.isatty() else 100_000
    Console(width=width, highlight=False, soft_wrap=False).print(table)


@click.command(hidden=True)
def serve() -> None:
    """Run the read API in the foreground; `penstock up` starts it in the background."""
    import uvicorn

    from penstock.serve.api import create_app
    from penstock.serve.key_index import KeyIndex
    from penstock.serve.lag import Lag
    from penstock.serve.lookup import Reader
    from penstock.settings import HOST, Settings

    settings = Settings.load()
    logging.basicConfig(
        level=logging.WARNING,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    with Reader(settings, KeyIndex(_INDEX_BYTES)) as reader:
        app = create_app(reader, Lag(settings), settings.secret("api-bearer"))
        uvicorn.run(
            app,
            # A container's loopback is its own: what is published of it is said in compose.
            host="0.0.0.0" if settings.containers else HOST,  # noqa: S104
            port=settings.port("api"),
            log_level="warning",
            access_log=False,  # keys are data, and data is not for logs
            server_header=False,
            loop="asyncio",
            http="h11",
            ws="none",
            limit_concurrency=128,
            timeout_graceful_shutdown=5,
        )
