"""`penstock quality`: check tables by their suites, and what they came to before."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.show import print_rows
from penstock.errors import DefinitionError, QualityFailed
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.quality.check import Outcome
    from penstock.quality.gate import Checked, Run
    from penstock.quality.suite import Check

__all__ = ["quality"]

_BOUNDARIES = ("silver", "gold", "promote", "export")


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--boundary", type=click.Choice(_BOUNDARIES),
              help="Into which layer, or before what; chooses tables if none is named")  # fmt: skip
@click.option("--at", metavar="candidate|version:N",
              help="Which state of the table; live at its newest version if left out.")  # fmt: skip
@click.option("--no-hold", is_flag=True, help="Only look: hold nothing and let nothing go.")
@click.option("--history", "past", is_flag=True, help="Show what earlier runs came to.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True,
              help="With --history: how many runs.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def quality(  # noqa: PLR0917 - one argument per option
    tables: tuple[str, ...],
    boundary: str | None,
    at: str | None,
    no_hold: bool,
    past: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Check whole tables by the suites in expectations/, each at one pinned version.

    Results are kept in quality.results and shown as pages. When a blocking check fails the live
    table is held (its stream goes on) and the command exits with 13; a later run that passes lets
    it go again, unless somebody else holds it too. A suite that cannot be loaded exits with 3.

    \b
    Examples:
      penstock quality gold.sensor_5m
      penstock quality --boundary silver
      penstock quality gold.sensor_5m --at candidate --boundary promote
      penstock quality gold.sensor_5m --at version:17 --no-hold --json
      penstock quality --history gold.sensor_5m
    """
    settings = Settings.load()
    if past:
        _show_history(settings, tables, limit, as_json)
        return
    from penstock.quality.gate import Gate

    gate = Gate(settings, hold=not no_hold, tell=_progress(as_json))
    run = gate.run(tables, boundary or _boundary(tables, at), at)
    if as_json:
        click.echo(json.dumps(run.as_dict(), indent=1, default=str))
    else:
        _show(run)
    _judge(run)


def _boundary(tables: tuple[str, ...], at: str | None) -> str:
    """Where a table named by itself is checked: where its layer is."""
    if at == "candidate":
        return "promote"
    gold = bool(tables) and all(table.startswith("gold.") for table in tables)
    return "gold" if gold else "silver"


def _judge(run: Run) -> None:
    failures = run.failures
    if failures:
        listed = "; ".join(f"{table}: {', '.join(names)}" for table, names in failures.items())
        held = sorted({name for one in run.tables for name in one.held})
        remedy = f"Held: {', '.join(held)}. " if held else ""
        raise QualityFailed(
            f"blocking checks failed: {listed}.",
            remedy=f"{remedy}Look at {run.site}; mend the data or the suite, then check again.",
        )
    if run.broken:
        listed = "; ".join(one.reason for one in run.broken)
        raise DefinitionError(
            f"{len(run.broken)} suites cannot be loaded: {listed}",
            remedy="Their tables were not checked. Mend the modules.",
        )


def _progress(as_json: bool) -> Callable[[str, Check], None]:
    if as_json or not sys.stderr.isatty():
        return lambda table, check: None

    def tell(table: str, check: Check) -> None:
        click.echo(f"\r\033[K{table}: {check.name}", err=True, nl=False)

    return tell


# --- showing ------------------------------------------------------------------------------
def _show(run: Run) -> None:
    if sys.stderr.isatty():
        click.echo("\r\033[K", err=True, nl=False)
    for told in run.tables:
        _show_table(told)
    for table, why in run.skipped.items():
        click.echo(f"{table}: not checked, {why}")
    for one in run.broken:
        click.secho(f"{one.table}: its suite is broken: {one.reason}", fg="red")
    if not run.tables and not run.skipped and not run.broken:
        click.echo("No table has a suite that is meant here. Suites are in expectations/.")
    click.echo(f"Pages: {run.site}")


def _show_table(told: Checked) -> None:
    revision = f" {told.revision}" if told.revision else ""
    click.secho(
        f"{told.table}: {told.state}{revision} version {told.version}, {told.rows:,} rows, "
        f"{told.seconds:.1f} s",
        bold=True,
    )
    print_rows(
        [_line(outcome) for outcome in told.outcomes],
        ("verdict", "check", "rows", "unexpected", "observed", "looks_at"),
    )
    for outcome in told.outcomes:
        if not outcome.success:
            _show_failure(told, outcome)
    for note in told.notes:
        click.secho(note, fg="red")
    for name in told.held:
        click.echo(f"{name} is held; its stream goes on. By hand: penstock release {name}")
    for name in told.released:
        click.echo(f"{name} passes again: let go.")


def _line(outcome: Outcome) -> dict[str, Any]:
    failed = "BLOCKING" if outcome.stops else "warning"
    percent = outcome.unexpected_percent
    unexpected = outcome.unexpected_count
    return {
        "verdict": "ok" if outcome.success else failed,
        "check": outcome.check.name,
        "rows": None if outcome.element_count is None else f"{outcome.element_count:,}",
        "unexpected": f"{unexpected:,} ({percent:.4g} %)" if unexpected and percent else None,
        "observed": outcome.observed,
        "looks_at": outcome.scope if outcome.scope != "all rows" else None,
    }


def _show_failure(told: Checked, outcome: Outcome) -> None:
    from penstock.quality.site import harmless

    click.secho(f"  {outcome.check.name}", fg="red" if outcome.stops else "yellow")
    if outcome.check.why:
        click.echo(f"    why it matters: {outcome.check.why}")
    if outcome.error:
        click.echo(f"    could not be made: {harmless(outcome.error)}")
    for one in outcome.failing:
        row = ", ".join(f"{name}={harmless(value)}" for name, value in one["row"].items())
        from_ = "; ".join(
            harmless(f"{r['topic']} partition {r['partition']} offset {r['first']}")
            + (f" to {r['last']}" if r["last"] != r["first"] else "")
            for r in one["records"][:3]
        )
        click.echo(f"    {row}{'  made from ' + from_ if from_ else ''}")
    click.echo(f"    look: {_query(told, outcome)}")


def _query(told: Checked, outcome: Outcome) -> str:
    """What to type to see the first failing row in the table as it was checked."""
    at = "@candidate" if told.state == "candidate" else f"@version:{told.version}"
    shown = told.table if told.state == "held" else f"{told.table}{at}"
    tests = [test for n, v in _first(outcome.named).items() if (test := _equals(n, v))]
    where = f" where {' and '.join(tests)}" if tests else " limit 20"
    return f'penstock query "select * from {shown}{where}"'  # noqa: S608


def _first(named: list[dict[str, Any]]) -> dict[str, Any]:
    return named[0] if named else {}


def _equals(name: str, value: Any) -> str:
    """As one can paste it into a shell; nothing for a value that had to be escaped there."""
    column = '\\"offset\\"' if name == "offset" else name  # the one name here that is a keyword
    if value is None:
        return f"{column} is null"
    if isinstance(value, int):
        return f"{column} = {value}"
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return f"{column} = '{text}'" if re.fullmatch(r"[A-Za-z0-9 _.:+/-]+", text) else ""


def _show_history(settings: Settings, tables: tuple[str, ...], limit: int, as_json: bool) -> None:
    from penstock.quality.results import history

    names: tuple[str | None, ...] = tables or (None,)
    found = [row for name in names for row in history(settings, name, limit)]
    if as_json:
        click.echo(json.dumps(found, indent=1, default=str))
        return
    if not found:
        click.echo("Nothing was checked yet.")
        return
    rows = [
        {**row, "at": f"{row['checked_at']:%Y-%m-%d %H:%M:%S}Z", "table": row["table_name"],
         "seconds": f"{row['seconds']:.1f}", "failed": ", ".join(row["failed"] or ())}
        for row in found
    ]  # fmt: skip
    print_rows(
        rows,
        ("at", "table", "boundary", "state", "revision", "version", "checks", "blocking",
         "warnings", "failed", "seconds"),
    )  # fmt: skip
    click.echo('Every check and its rows: penstock query "select * from quality.results"')
