"""`penstock reconcile`, `penstock run` and `penstock outcomes`."""

from __future__ import annotations

import json

import click

from penstock.cli.asking import TIMED, ask, known_table, live_tables
from penstock.cli.show import print_rows
from penstock.runtime import heartbeat
from penstock.settings import Settings

__all__ = ["outcomes", "reconcile", "run"]

_OUTCOMES = ("counted", "filtered", "duplicate", "late", "expired", "quarantined")


@click.command()
@click.argument("table", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reconcile(table: str | None, as_json: bool) -> None:
    """Make late rows count: compute the windows they touch again and write what differs.

    Without a table, every table with windows, each after what it reads. Rows that came later than
    the table's `reconcile_within` are expired: they stay listed in its late table.

    \b
    Examples:
      penstock reconcile
      penstock reconcile gold.sensor_5m
      penstock query "select status, count(*) from late.gold_sensor_5m group by all"
    """
    settings = Settings.load()
    if table is not None:
        known_table(settings, table)
        names = [table]
    else:
        names = [n for n, entry in live_tables(settings).items() if entry["kind"] in TIMED]
    done = []
    for name in names:
        result = ask(settings, name, "reconcile", quiet=as_json)
        done.append({"table": name, **result})
        for revision in _beside(settings, name):  # or a comparison would find the late rows
            ask(settings, name, "reconcile", {"revision": revision}, quiet=as_json)
    if as_json:
        click.echo(json.dumps(done, indent=1))
        return
    print_rows(done, ("table", "late", "results", "changed"))


def _beside(settings: Settings, table: str) -> list[str]:
    """Candidate and warm revisions of a table that run."""
    beat = heartbeat.read(settings)
    live = live_tables(settings)[table]["revision"]
    running = [s for s in (beat.streams if beat is not None else []) if s["state"] == "running"]
    names = [s["stream"].partition("@") for s in running]
    return [revision for name, _, revision in names if name == table and revision != live]


@click.command()
@click.argument("table")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run(table: str, as_json: bool) -> None:
    """Let a table take in everything its inputs have, now. For tables of freshness 'batch'.

    \b
    Example:
      penstock run gold.inventory_by_model
    """
    settings = Settings.load()
    known_table(settings, table)
    result = ask(settings, table, "run", quiet=as_json)
    if as_json:
        click.echo(json.dumps({"table": table, **result}))
    else:
        click.echo(f"{table} is at version {result['version']}, {result['behind']} commits behind")


@click.command()
@click.argument("table", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def outcomes(table: str | None, as_json: bool) -> None:
    """What became of every input row, from the tables alone; exits with 1 if one is missing.

    A row of a hopping window counts once for each window it falls into.

    \b
    Examples:
      penstock outcomes
      penstock outcomes gold.stock_stats --json
      penstock query "select outcome, sum(rows) from outcomes.gold_stock_stats group by all"
    """
    from penstock.runtime.fates.balance import balances

    settings = Settings.load()
    tables = live_tables(settings)
    chosen = [known_table(settings, table)] if table else list(tables.values())
    revisions = {name: entry["revision"] for name, entry in tables.items()}
    found = [b.as_dict() for e in chosen for b in balances(settings.warehouse, e, revisions)]
    if as_json:
        click.echo(json.dumps(found, indent=1))
    else:
        print_rows(found, ("table", "input", "rows", *_OUTCOMES, "missing"))
    if any(row["missing"] for row in found):
        raise click.exceptions.Exit(1)
