"""`penstock marts`: dbt over the live tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.show import print_rows
from penstock.errors import UsageError
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.marts.result import Outcome
    from penstock.marts.run import Marts

__all__ = ["marts"]

# dbt reads what follows --select as its own options where it begins with a dash.
_SELECTOR = re.compile(r"[A-Za-z0-9_@+*][A-Za-z0-9_.:+*@/,-]{0,200}")


def _checked(ctx: click.Context, option: click.Parameter, select: Sequence[str]) -> Sequence[str]:
    for word in select:
        if not _SELECTOR.fullmatch(word):
            raise UsageError(
                f"{word!r} does not select anything.",
                remedy="Name a mart, as in --select stock_days; see `penstock marts list`.",
            )
    return select


_select = click.option(
    "--select",
    "-s",
    multiple=True,
    metavar="WHAT",
    callback=_checked,
    help="Only these: a name, +name with what it reads, name+ with what reads it. Repeatable.",
)
_wait = click.option(
    "--wait",
    default=0.0,
    metavar="SECONDS",
    help="How long to wait for another run; by default this one is refused.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def marts() -> None:
    """Tables for analysts, made by dbt from the live tables.

    Needs Postgres (it keeps the names of tables for Spark), no supervisor. What is made is read
    with `penstock query "select * from marts.stock_days"`.

    \b
    Examples:
      penstock marts run
      penstock marts run --select stock_minutes+ --full-refresh
      penstock marts test
      penstock marts docs
    """


@marts.command()
@_select
@click.option("--full-refresh", "full", is_flag=True, help="Compute incremental marts anew.")
@click.option("--docs", "with_docs", is_flag=True, help="Write the docs site afterwards.")
@_wait
@_json
@click.pass_context
def run(
    ctx: click.Context,
    *,
    select: Sequence[str],
    full: bool,
    with_docs: bool,
    wait: float,
    as_json: bool,
) -> None:
    """Build marts and snapshots, and test them.

    Incremental marts compute the hours or days that were touched since they last ran, by the
    change feed of the live table, so corrections of old rows reach them too. Exit code 1 if a
    model or a test failed: what does not need it is built all the same.

    \b
    Examples:
      penstock marts run
      penstock marts run --json | jq '.models[] | {name, rows, seconds}'
      penstock marts run --select +sensor_health
    """
    with _marts(wait) as at_work:
        outcome = at_work.build(select, full=full)
        if with_docs:
            outcome.docs = str(at_work.docs())
    _show(ctx, outcome, as_json)


@marts.command()
@_select
@_wait
@_json
@click.pass_context
def test(ctx: click.Context, select: Sequence[str], wait: float, as_json: bool) -> None:
    """Run the tests of marts that were built, and the unit tests of their SQL.

    \b
    Examples:
      penstock marts test
      penstock marts test --select stock_days
      penstock marts test --select test_type:unit
    """
    with _marts(wait) as at_work:
        outcome = at_work.test(select)
    _show(ctx, outcome, as_json)


@marts.command()
@_wait
@_json
@click.pass_context
def freshness(ctx: click.Context, wait: float, as_json: bool) -> None:
    """How old the newest rows of the live tables are that marts read.

    Example: penstock marts freshness
    """
    with _marts(wait) as at_work:
        outcome = at_work.freshness()
    _show(ctx, outcome, as_json)


@marts.command()
@_wait
@_json
def docs(wait: float, as_json: bool) -> None:
    """Write the docs site: models, columns, tests, lineage, in one page.

    Example: penstock marts docs
    """
    with _marts(wait) as at_work:
        page = str(at_work.docs())
    click.echo(json.dumps({"docs": page}) if as_json else page)


@marts.command(name="list")
@_json
def list_(as_json: bool) -> None:
    """What marts there are, what they are made from, and what they hold. Starts no Spark.

    Example: penstock marts list
    """
    from penstock.marts.dbt import Dbt
    from penstock.marts.places import Places
    from penstock.marts.result import rows_in

    places = Places.of(Settings.load())
    places.make()
    dbt = Dbt(places)
    reads = dbt.following()
    rows: list[dict[str, Any]] = [
        {
            "mart": f"{node.schema}.{node.name}",
            "kind": str(node.config.materialized),
            "rows": rows_in(places.tables / node.name),
            "reads": reads[node.name],
            "doc": " ".join(node.description.split()),
        }
        for node in dbt.nodes()
        if node.config.materialized != "view"
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    shown = [{**row, "reads": ", ".join(row["reads"])} for row in rows]
    print_rows(shown, ("mart", "kind", "rows", "reads"))


@contextmanager
def _marts(wait: float) -> Iterator[Marts]:
    """Progress goes to standard error, also with --json: a DAG's log is read by people."""
    from penstock.marts.run import at_work

    def say(text: str) -> None:
        click.echo(text, err=True)

    with at_work(Settings.load(), wait=wait, report=say) as found:
        yield found


# --- showing ------------------------------------------------------------------------------------
def _show(ctx: click.Context, outcome: Outcome, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(outcome.as_dict(), indent=1))
    else:
        _tables(outcome)
        for test in outcome.tests:
            _failed(test.name, f"{test.status}: {test.message}", test.query)
        for model in outcome.models:
            if model.status == "error":
                _failed(model.name, model.message, "")
    if not outcome.ok:
        ctx.exit(1)


def _tables(outcome: Outcome) -> None:
    models = [vars(m) for m in outcome.models if m.kind != "view"]
    print_rows(models, ("name", "status", "rows", "seconds", "how"))
    print_rows([vars(f) for f in outcome.fresh], ("table", "status", "newest", "age_seconds"))
    failed = sum(1 for test in outcome.tests if test.status != "warn")
    click.echo(f"{outcome.tests_passed} tests passed, {failed} failed; {outcome.seconds} s.")
    if outcome.docs:
        click.echo(f"Docs: {outcome.docs}")


def _failed(name: str, message: str, query: str) -> None:
    click.secho(f"\n{name}", fg="red")
    click.echo(f"  {message}")
    if query:
        click.echo("  The rows it found:")
        click.echo("\n".join(f"    {line}" for line in query.splitlines()))
