"""`penstock lineage` and `penstock ledger`: where rows come from, and where bytes are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.show import print_rows, size
from penstock.errors import EnvironmentProblem, UsageError
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.lineage.graph import Graph
    from penstock.lineage.ledger import Ledger

__all__ = ["ledger", "lineage"]


# --- lineage ------------------------------------------------------------------------------------
@click.command()
@click.argument("table", required=False)
@click.argument("row", nargs=-1, metavar="[COLUMN=VALUE]...")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the graph of tables as a picture.")  # fmt: skip
@click.option("--emit", "emitting", is_flag=True, help="Send an OpenLineage event per table.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def lineage(
    table: str | None, row: tuple[str, ...], svg: Path | None, emitting: bool, as_json: bool
) -> None:
    """Where tables and rows come from.

    With a table: what it is made from and who reads it; without one, all tables. With columns and
    values too: the way of that row, from the file that holds it over the revision, the code and
    the commit that wrote it down to versions of its inputs and offsets of topics. Works without
    the platform running.

    NULL as a value means a row without one. Where several rows are meant, the first five are
    followed. Times are UTC.

    \b
    Examples:
      penstock lineage
      penstock lineage gold.inventory
      penstock lineage --svg tables.svg
      penstock lineage gold.sensor_5m sensor_id=boiler-1 window_start=2026-01-31T12:00:00Z
      penstock lineage silver.trades partition=0 offset=90 --json
      penstock lineage gold.inventory --emit
    """
    settings = Settings.load()
    if table is not None and "=" in table:
        raise UsageError(
            f"{table} is a value; the table it is looked for in comes first.",
            remedy=f"penstock lineage TABLE {table}",
        )
    if row and (svg or emitting):
        raise UsageError(
            "a row has no picture and no event, only a table has.",
            remedy=f"Leave out {' '.join(row)}, or --svg and --emit.",
        )
    if row:
        assert table is not None  # noqa: S101 - click fills the first argument first
        _show_row(settings, table, row, as_json)
        return
    graph, name = _graph(settings, table)
    if svg:
        _draw(svg, graph, name)
    if emitting:
        _emit(settings, name)
    if as_json:
        click.echo(json.dumps(graph.as_dict(), indent=1))
    elif not svg and not emitting:
        _show_graph(graph, name)


def _graph(settings: Settings, table: str | None) -> tuple[Graph, str | None]:
    """All tables, or one and those around it; and how that one is really spelled."""
    from penstock.lineage.graph import Graph, read_manifest
    from penstock.serve.catalog import Catalog

    whole = Graph.of(read_manifest(settings))
    if table is None:
        return whole.part(whole.tables()), None
    ref = Catalog.load(settings).find(table.split(".", 1))  # knows what was meant by a typing error
    name = whole[f"{ref.layer}.{ref.name}"].name
    return whole.part(whole.around(name)), name


def _show_graph(graph: Graph, name: str | None) -> None:
    from penstock.lineage.graph import tree

    for line in tree(graph, name):
        click.echo(line)


def _draw(file: Path, graph: Graph, name: str | None) -> None:
    from penstock.lineage.picture import svg

    try:
        file.write_text(svg(graph, name), encoding="utf-8")
    except OSError as error:
        raise EnvironmentProblem(
            f"{file} cannot be written: {error.strerror or error}.",
            remedy="Name a file in a folder that is there.",
        ) from None
    click.echo(f"{len(graph.nodes)} tables drawn in {file}", err=True)


def _emit(settings: Settings, name: str | None) -> None:
    from penstock.lineage.announce import emit_live
    from penstock.lineage.graph import live_of, read_manifest

    count, where = emit_live(settings, [name] if name else live_of(read_manifest(settings)))
    if not count:
        raise UsageError(
            f"{name or 'nothing'} is not live, so there is nothing to tell.",
            remedy="See `penstock tables`.",
        )
    click.echo(f"{count} event{'' if count == 1 else 's'} to {where}", err=True)


def _show_row(settings: Settings, table: str, row: Sequence[str], as_json: bool) -> None:
    from penstock.lineage.revisions import Revisions
    from penstock.lineage.tell import told
    from penstock.lineage.trace import MOST, trace

    wanted = [_pair(text) for text in row]
    found = trace(settings, Revisions.load(settings), table, wanted)
    if not found.count:
        raise UsageError(
            f"{found.table} has no row with {' and '.join(row)} in version {found.version}.",
            remedy=f'Look at its rows: penstock query "from {table} limit 5"',
        )
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=1))
        return
    if found.count > 1:
        shown = f"; the first {MOST} follow" if found.count > MOST else ""
        click.echo(f"{found.count:,} rows are meant{shown}.\n")
    for line in told(found):
        click.echo(line)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(
            f"{text!r} does not say which column has which value.",
            remedy="Write column=value, with quotes around it if it has spaces.",
        )
    return name, value


# --- ledger -------------------------------------------------------------------------------------
@click.command()
@click.argument("table", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ledger(table: str | None, as_json: bool) -> None:
    """Who wrote which bytes, and how many times the same data exists.

    A line per table and revision. files, rows and data are what its newest version holds; unneeded
    is what else lies in its folder: older versions, change files, orphans. A live table has no data
    of its own, only a log that points at a revision's files. Works without the platform running;
    then the states of revisions are unknown.

    \b
    Examples:
      penstock ledger
      penstock ledger gold.sensor_5m
      penstock ledger --json | jq .totals
    """
    from penstock.lineage.ledger import measure
    from penstock.lineage.revisions import Revisions

    settings = Settings.load()
    found = measure(settings, Revisions.load(settings), table)
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=1))
        return
    _show_lines(found)
    _show_places(found)
    _show_totals(found)


_SIZES = ("data", "unneeded", "log", "store", "live_log")


def _show_lines(found: Ledger) -> None:
    rows = [
        {
            **line.as_dict(),
            "rows": f"{line.rows:,}",
            **{name: size(number) for name in _SIZES if (number := getattr(line, name))},
            **{name: None for name in _SIZES if not getattr(line, name)},
        }
        for line in found.lines
    ]
    print_rows(rows, ("table", "revision", "state", "files", "rows", *_SIZES))
    if not found.answered:
        click.echo("The registry does not answer: states are unknown.", err=True)


def _show_places(found: Ledger) -> None:
    if not found.places:
        return
    click.echo()
    rows = [
        {
            "beside_the_tables": place.what,
            "folder": place.folder,
            "files": f"{place.usage.files:,}",
            "bytes": size(place.usage.bytes) + ("" if place.usage.whole else " at least"),
        }
        for place in found.places
    ]
    print_rows(rows, ("beside_the_tables", "folder", "files", "bytes"))


def _show_totals(found: Ledger) -> None:
    raw, derived = found.raw, found.derived
    click.echo()
    if raw.rows:
        click.echo(f"Raw data is kept once, in bronze: {size(raw.data)}, {raw.rows:,} rows.")
        for place in found.places:
            if place.what == "kafka":
                told = size(place.usage.bytes)
                click.echo(f"Kafka has the newest of it too, until its retention ends: {told}.")
    if derived.files:
        click.echo(
            f"Computed: {size(derived.data)} that is needed, {size(derived.unneeded)} that no "
            f"newest version needs, {size(derived.store)} in stores."
        )
    logs = raw.log + derived.log + derived.live_log
    click.echo(f"Logs: {size(logs)}; {size(derived.live_log)} of it is all that live tables add.")
    _show_copies(found)
    if found.home:
        click.echo(
            f"In all {size(found.home.bytes)} in {found.home.files:,} files, "
            f"for which the disk gives {size(found.home.blocks)}."
        )


def _show_copies(found: Ledger) -> None:
    again = [copy for copy in found.copies() if copy.copies > 1]
    for copy in again:
        live = "" if copy.live is None else f", {size(copy.live)} of it live"
        click.echo(f"{copy.table} exists {copy.copies} times: {size(copy.data)} in all{live}.")
    if found.copies() and not again:
        click.echo("No table exists more than once.")
    elif found.home:
        click.echo("Every other table exists once.")
