"""`penstock export`: live tables to where analysts work."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from penstock.cli.show import print_rows
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.export.run import Report

__all__ = ["export"]

_TARGETS = ("duckdb", "clickhouse", "parquet")


@click.command()
@click.argument("tables", nargs=-1)
@click.option(
    "--to",
    "targets",
    type=click.Choice(_TARGETS),
    multiple=True,
    help="Where to; may be given several times.  [default: duckdb]",
)
@click.option("--full", is_flag=True, help="Take the tables whole, not by what changed.")
@click.option("--verify", is_flag=True, help="Compare every row with Delta, changed or not.")
@click.option("--status", "only_status", is_flag=True, help="What is exported, and how far behind.")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for another export to the same target.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def export(
    *,
    tables: Sequence[str],
    targets: Sequence[str],
    full: bool,
    verify: bool,
    only_status: bool,
    wait: float,
    as_json: bool,
) -> None:
    """Copy live tables to a DuckDB file, to ClickHouse, or to Parquet files with a manifest.

    Without TABLES, the live tables that [tool.penstock.export] names: all of gold. What changed
    since the last export is read from the change feed and applied; readers see one whole version or
    the next. Exits with 1 when a table is blocked by its quality checks or could not be exported;
    the others are exported all the same.

    \b
    Examples:
      penstock export
      penstock export gold.sensor_5m --to clickhouse --to parquet
      penstock export --full --verify
      penstock export --status
    """
    settings = Settings.load()
    if only_status:
        _status(settings, targets or _TARGETS, as_json)
        return
    reports = [
        _run(settings, tables, target, full=full, verify=verify, wait=wait)
        for target in targets or ("duckdb",)
    ]
    if as_json:
        click.echo(json.dumps({"targets": [report.as_dict() for report in reports]}, indent=1))
    else:
        for report in reports:
            _show(report)
    if not all(report.done for report in reports):
        raise click.exceptions.Exit(1)


def _run(
    settings: Settings, tables: Sequence[str], target: str, *, full: bool, verify: bool, wait: float
) -> Report:
    from penstock.export.run import export_tables
    from penstock.export.targets import open_target, quality_holds, selected

    def report(text: str) -> None:
        click.echo(text, err=True)

    return export_tables(
        settings,
        selected(settings, tables),
        open_target(settings, target),
        full=full,
        verify=verify,
        blocked=quality_holds(settings, report),
        report=report,
        patience=wait,
    )


_COLUMNS = (
    "table", "mode", "delta_version", "rows", "rows_written", "verified", "seconds", "reason",
)  # fmt: skip


def _show(report: Report) -> None:
    rows = [
        {
            **outcome.as_dict(),
            "rows": None if outcome.rows is None else f"{outcome.rows:,}",
            "rows_written": f"{outcome.rows_written:,}",
            "reason": ", ".join(filter(None, (outcome.reason, *outcome.altered))),
        }
        for outcome in report.tables
    ]
    print_rows(rows, _COLUMNS)
    click.echo(f"{report.target}: {report.place}, {report.seconds:.2f} s")


def _status(settings: Settings, targets: Sequence[str], as_json: bool) -> None:
    from penstock.export.targets import status

    found, problems = status(settings, targets)
    if as_json:
        told = {"exports": [held.as_dict() for held in found], "problems": problems}
        click.echo(json.dumps(told, indent=1))
    else:
        print_rows(
            [{**held.as_dict(), "rows": f"{held.rows:,}"} for held in found],
            ("target", "table", "delta_version", "live_version", "behind", "rows", "exported_at",
             "mode", "verified"),
        )  # fmt: skip
        for problem in problems:
            click.secho(problem, fg="yellow", err=True)
        if not found:
            click.echo("Nothing is exported yet: `penstock export`.", err=True)
    if problems:
        raise click.exceptions.Exit(1)
