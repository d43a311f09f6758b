"""`penstock quarantine`: look at rows that were set apart, and try them again."""

from __future__ import annotations

import json
from typing import Any

import click

from penstock.cli.asking import TIMED, ask, known_table, live_tables
from penstock.cli.show import print_rows
from penstock.errors import UsageError
from penstock.location import delta_table
from penstock.model.names import TableName
from penstock.runtime.delta.writer import live_path
from penstock.settings import Settings

__all__ = ["quarantine"]


@click.group()
def quarantine() -> None:
    """Rows that broke a contract or a transform: list them, show one, replay them.

    \b
    Examples:
      penstock quarantine list
      penstock quarantine list silver.trades --limit 20
      penstock quarantine show silver.trades trades/2a.../0/17
      penstock quarantine replay silver.trades --with-tree
    """


@quarantine.command("list")
@click.argument("table", required=False)
@click.option("--limit", default=20, show_default=True, help="Newest rows shown of a table.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(table: str | None, limit: int, as_json: bool) -> None:
    """Without a table: how many rows each has, by reason. With one: its newest rows."""
    settings = Settings.load()
    if table is None:
        found = [
            {"table": name, **group}
            for name in live_tables(settings)
            for group in _reasons(_rows(settings, name))
        ]
        columns: tuple[str, ...] = ("table", "error_class", "error", "rows")
    else:
        known_table(settings, table)
        rows = _rows(settings, table)
        rows.sort(key=lambda row: str(row["ingested_at"]), reverse=True)
        found = [_shown(row) for row in rows[:limit]]
        columns = ("row_id", "error_class", "error", "event_time", "ingested_at")
    if as_json:
        click.echo(json.dumps(found, indent=1, default=str))
    elif found:
        print_rows(found, columns)
    else:
        click.echo("nothing is in quarantine")


@quarantine.command()
@click.argument("table")
@click.argument("row_id")
def show(table: str, row_id: str) -> None:
    """One row, with its bytes, as JSON."""
    settings = Settings.load()
    known_table(settings, table)
    for row in _rows(settings, table):
        if row["row_id"] == row_id:
            click.echo(json.dumps(_shown(row, whole=True), indent=1, default=str))
            return
    raise UsageError(
        f"{row_id} is not in the quarantine of {table}.",
        remedy=f"See `penstock quarantine list {table}`.",
    )


@quarantine.command()
@click.argument("table")
@click.argument("row_ids", nargs=-1)
@click.option(
    "--with-tree",
    is_flag=True,
    help="Use the working tree's definition and contract, not the live revision's own.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def replay(table: str, row_ids: tuple[str, ...], with_tree: bool, as_json: bool) -> None:
    """Try rows again: those that are good now move into the table, once; the others stay.

    Without row ids, all rows of the table. Afterwards the windows that the rows belong to are
    reconciled. To mend a rule, a decoder or a transform, edit it and say --with-tree: the rows are
    made by the edited code, the table's running revision stays as it is.
    """
    settings = Settings.load()
    known_table(settings, table)
    arguments: dict[str, Any] = {"ids": list(row_ids) or None}
    if with_tree:
        from penstock.runtime.code.bundle import store_bundle

        address = store_bundle(settings.project, settings.jobs, settings.bundles)
        arguments |= {"bundle": str(settings.bundles / address), "jobs": settings.jobs}
    result = ask(settings, table, "replay", arguments, quiet=as_json)
    result["reconciled"] = _reconcile_readers(settings, table) if result["replayed"] else []
    if as_json:
        click.echo(json.dumps({"table": table, **result}))
        return
    click.echo(
        f"{result['replayed']} of {result['asked']} rows replayed into {table}, "
        f"{result['still_bad']} are still bad"
    )
    for done in result["reconciled"]:
        click.echo(f"reconciled {done['table']}: {done['changed']} rows changed")


@quarantine.command("expire")
@click.argument("table")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def expire_(table: str, as_json: bool) -> None:
    """Drop bytes that are older than the table's `quarantine_for`, now; it happens every hour."""
    settings = Settings.load()
    known_table(settings, table)
    result = ask(settings, table, "expire", quiet=as_json)
    if as_json:
        click.echo(json.dumps({"table": table, **result}))
    else:
        click.echo(f"{result['expired']} rows dropped from the quarantine of {table}")


def _reconcile_readers(settings: Settings, table: str) -> list[dict[str, Any]]:
    """Reconcile what reads the table, near or far, in order."""
    tables, touched, done = live_tables(settings), {table}, []
    for name, entry in tables.items():
        if touched & set(entry["inputs"].values()):
            touched.add(name)
            verb = "reconcile" if entry["kind"] in TIMED else "run"
            result = ask(settings, name, verb, quiet=True)
            if verb == "reconcile":
                done.append({"table": name, **result})
    return done


def _rows(settings: Settings, table: str) -> list[dict[str, Any]]:
    from deltalake.exceptions import TableNotFoundError

    path = live_path(settings.warehouse, TableName.parse(table).quarantine)
    try:
        rows: list[dict[str, Any]] = delta_table(path).to_pyarrow_table().to_pylist()
    except TableNotFoundError:
        return []
    return rows


def _reasons(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        reason = (row["error_class"], (row["error"] or "")[:100])
        counts[reason] = counts.get(reason, 0) + 1
    return [
        {"error_class": kind, "error": error, "rows": number}
        for (kind, error), number in sorted(counts.items(), key=lambda item: -item[1])
    ]


def _shown(row: dict[str, Any], *, whole: bool = False) -> dict[str, Any]:
    told = {name: value for name, value in row.items() if whole or name not in ("key", "value")}
    if whole:
        for name in ("key", "value"):
            raw = row[name]
            told[name] = None if raw is None else raw.decode("utf-8", "backslashreplace")
            told[f"{name}_hex"] = None if raw is None else raw.hex()
    return told
