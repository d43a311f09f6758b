"""`penstock promote`, `rollback`, `backfill`, `abort`, `retire`, `releases`, `hold`, `release`."""

from __future__ import annotations

import getpass
import json
from dataclasses import asdict
from typing import Any

import click

from penstock.cli.announcing import announce_swap
from penstock.cli.asking import (
    ask,
    known_table,
    manifest,
    on_behalf,
    require_supervisor,
    who,
)
from penstock.cli.change import releases_of
from penstock.cli.show import print_rows, size
from penstock.errors import UsageError
from penstock.settings import Settings

__all__ = [
    "abort",
    "backfill",
    "hold",
    "promote",
    "release",
    "releases",
    "repair",
    "retire",
    "rollback",
]

_SHOWN = 100  # swaps that are listed: the newest


_named = click.option(
    "--release", "name", metavar="NAME", help="This release or none; instead of a table."
)


def _one_of(table: str | None, name: str | None) -> None:
    if table is not None and name is not None:
        raise UsageError("give a table or --release, not both.", remedy="See `penstock releases`.")
    if name is not None and not name.strip():  # a variable that was not set: all are not meant
        raise UsageError("--release is empty.", remedy="Name one of `penstock releases`.")


@click.command()
@click.argument("table", required=False)
@click.option("--why", required=True, help="Why it goes live; kept in the commit.")
@click.option("--accept-differences", "accept", metavar="REASON",
              help="Promote although the comparison is not within its thresholds.")  # fmt: skip
@click.option("--accept-quality", metavar="REASON",
              help="Promote although a blocking check of a candidate fails.")  # fmt: skip
@click.option("--keep-warm", default="24 hours", show_default=True,
              help="How long the old revision stays fed; or 'always'.")  # fmt: skip
@_named
@on_behalf
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def promote(  # noqa: PLR0917 - one argument per option
    table: str | None,
    why: str,
    accept: str | None,
    accept_quality: str | None,
    keep_warm: str,
    name: str | None,
    behalf: str | None,
    as_json: bool,
) -> None:
    """Let live tables show their candidates: one commit per table, no data copied.

    Refused unless the candidates are ready, were compared, differ no more than they may and pass
    their blocking checks (exit codes 12 and 13; each needs a reason of its own to go past). The old
    revision stays warm, so `penstock rollback` loses nothing. A release that was interrupted
    half way is finished by the same command.

    \b
    Examples:
      penstock promote --why 'calibration is no measurement'
      penstock promote gold.sensor_5m --why 'p99 asked for' --accept-differences 'known'
      penstock promote --release 20261118-213455-84f1 --why 'approved by the plant'
    """
    from penstock.model.duration import parse_duration

    _one_of(table, name)
    try:
        keep = None if keep_warm == "always" else parse_duration(keep_warm)
    except ValueError as error:
        raise UsageError(f"--keep-warm: {error}") from None
    releases = releases_of(quiet=as_json, behalf=behalf)
    told = releases.promote(
        table, why=why, accept=accept, accept_quality=accept_quality, keep_warm=keep, release=name
    )
    _show_swap(told, as_json)
    if not as_json and "done" not in told:
        click.echo("The old revisions stay warm. To go back: penstock rollback --why '...'")
    announce_swap(Settings.load(), told)


@click.command()
@click.argument("table", required=False)
@click.option("--why", required=True, help="Why; kept in the commit.")
@_named
@on_behalf
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rollback(
    table: str | None, why: str, name: str | None, behalf: str | None, as_json: bool
) -> None:
    """Let live tables show again what they showed before the last release.

    The old revision was fed all the time: nothing that arrived since is lost. To go back further,
    name the release that is to be taken back next.

    \b
    Examples:
      penstock rollback gold.sensor_5m --why 'the plant needs calibration readings after all'
      penstock rollback --release 20261118-213455-84f1 --why 'wrong since then'
    """
    _one_of(table, name)
    releases = releases_of(quiet=as_json, behalf=behalf)
    told = releases.rollback(table, why=why, release=name)
    _show_swap(told, as_json)
    announce_swap(Settings.load(), told)


def _show_swap(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(told, indent=1))
        return
    print_rows(
        told["tables"],
        ("table", "from", "to", "version", "changed", "files", "update_seconds", "commit_seconds"),
    )
    for one in told["tables"]:
        if "released" in one:
            click.echo(f"{one['table']} was held ({one['released']}): not any more.")
        if "still_held" in one:
            click.echo(
                f"{one['table']} is still held ({one['still_held']}). To let it go on, and show "
                f"what came meanwhile: penstock release {one['table']}"
            )
    if "done" in told:
        click.echo(f"Live since {told['done']['at']}, by {told['done']['who']}: nothing was done.")
        return
    click.echo(
        f"Live stood still for {told['held_seconds']:.2f} s; the difference was computed before, "
        f"in {told['prepared_seconds']:.2f} s."
    )


@click.command()
@click.argument("table")
@click.option("--from", "start", help="Where the interval begins, such as 2026-11-01T00:00Z.")
@click.option("--to", "end", help="Where it ends; not part of it.")
@click.option("--on", help="Another time column, of a table without windows.")
@click.option("--all", "everything", is_flag=True, help="All of the table, and what reads it.")
@click.option("--why", required=True, help="Why; kept in the commit.")
@click.option("--share", type=click.FloatRange(0.01, 1.0), default=1.0, show_default=True,
              help="With --all: how much of the time the build may work.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def backfill(  # noqa: PLR0917 - one argument per option
    table: str,
    start: str | None,
    end: str | None,
    on: str | None,
    everything: bool,
    why: str,
    share: float,
    as_json: bool,
) -> None:
    """Compute a live table again, with the code it has, and write what differs.

    An interval is computed by a job of its own while the stream goes on, and committed as net
    changes. It means windows that begin in it; of tables without windows, rows whose time lies in
    it; of groups and keys, those with an input row in it. The time is the one the definitions
    declare; --on means another, which every input must have. With --all the table is built anew
    beside itself and swapped in; what reads it is built anew with it.

    \b
    Examples:
      penstock backfill gold.sensor_5m --from 2026-11-01T00:00Z --to 2026-11-02T00:00Z --why 'lost'
      penstock backfill silver.sales --from 2026-11-01T00:00Z --to 2026-11-02T00:00Z \\
          --on sold_at --why 'lost'
      penstock backfill gold.inventory --all --why 'a disk was damaged'
    """
    from penstock.cli.backfilling import backfill_all, backfill_interval

    if everything == (start is not None or end is not None):
        raise UsageError("give either --from and --to, or --all.")
    if everything:
        told = backfill_all(table, why=why, share=share, quiet=as_json)
    elif start is None or end is None:
        raise UsageError("give both --from and --to.")
    else:
        told = backfill_interval(table, start, end, on=on, why=why, quiet=as_json)
    if as_json:
        click.echo(json.dumps(told, indent=1, default=str))
    elif everything:
        _show_swap(told, as_json)
    else:
        click.echo(
            f"{table}: {told['results']:,} results computed from {told['rows_in']:,} rows, "
            f"{told['changed']:,} rows changed"
        )
    if everything:  # else no table shows another revision
        announce_swap(Settings.load(), told)


@click.command()
@click.argument("table", required=False)
@_named
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def abort(table: str | None, name: str | None, as_json: bool) -> None:
    """Give up a candidate, at any stage, and what was staged with it; deletes its bytes.

    \b
    Example:
      penstock abort gold.sensor_5m
    """
    _one_of(table, name)
    told = releases_of(quiet=as_json).abort(table, release=name)
    if as_json:
        click.echo(json.dumps(told, indent=1))
        return
    if not told["dropped"]:
        click.echo(f"Nothing of release {name} is staged: there was nothing to give up.")
    for one in told["dropped"]:
        click.echo(f"{one['table']}@{one['revision']} is gone: {size(one['bytes'])}")


@click.command()
@click.argument("table")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def retire(table: str, as_json: bool) -> None:
    """Stop feeding a table's warm revision. There is no way back to it then.

    Its bytes are deleted once no version of the live table that is still promised to readers needs
    them.

    \b
    Example:
      penstock retire gold.sensor_5m
    """
    told = releases_of(quiet=as_json).retire(table)
    if as_json:
        click.echo(json.dumps(told, indent=1))
        return
    for one in told:
        click.echo(f"{one['table']}@{one['revision']} is retired; its bytes go in due time")


@click.command()
@click.argument("table", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def releases(table: str | None, as_json: bool) -> None:
    """What was promoted and rolled back, by whom and why; and which revisions there are.

    \b
    Examples:
      penstock releases
      penstock releases gold.sensor_5m --json
    """
    from penstock.runtime.registry import Registry, State
    from penstock.runtime.staging import Staging

    registry = Registry(Settings.load())
    registry.create()
    done = [asdict(p) for p in Staging(registry).promotions(table, _SHOWN)]
    states = (*State.FED, State.RETIRED)
    known = [
        {"table": r.table, "revision": r.revision, "state": r.state, "code": r.bundle[:12]}
        for r in registry.revisions(states=states)
        if table is None or r.table == table
    ]
    if as_json:
        click.echo(json.dumps({"promotions": done, "revisions": known}, indent=1))
        return
    columns = ("at", "verb", "table", "revision", "replaced", "live_version", "release")
    print_rows(done, (*columns, "who", "why"))
    click.echo()
    print_rows(known, ("table", "revision", "state", "code"))


@click.command()
@click.argument("table")
@click.option("--why", default="a foreign commit", show_default=True, help="Kept in the commit.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def repair(table: str, why: str, as_json: bool) -> None:
    """Put a live table right that somebody else wrote to, and let it go on.

    One commit shows the revision's rows again; readers of the change feed get the difference. Stop
    the program that wrote there first.

    \b
    Example:
      penstock repair gold.sensor_5m --why 'somebody ran OPTIMIZE'
    """
    settings = Settings.load()
    beside = {e["name"]: e for e in manifest(settings)["tables"] if "of" in e}
    main = beside[table]["of"] if table in beside else table
    known_table(settings, main)
    part = beside[table]["kind"] if table in beside else "table"
    asked = {"table": main, "part": part, "who": getpass.getuser(), "why": why}
    told = ask(settings, main, "repair", asked, quiet=as_json)
    if as_json:
        click.echo(json.dumps(told))
    else:
        click.echo(f"{table} is itself again: version {told['version']}, {told['changed']} rows")


@click.command()
@click.argument("table")
@click.option("--why", required=True, help="The reason; shown to whoever asks.")
@on_behalf
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def hold(table: str, why: str, behalf: str | None, as_json: bool) -> None:
    """Let a live table stand still while its revision goes on.

    \b
    Example:
      penstock hold gold.sensor_5m --why 'a sensor sends nonsense'
    """
    from penstock.runtime.registry import Registry
    from penstock.runtime.staging import Staging

    settings = Settings.load()
    known_table(settings, table)
    registry = Registry(settings)
    registry.create()
    Staging(registry).hold(table, why, who(behalf))
    if as_json:
        click.echo(json.dumps({"table": table, "held": True}))
    else:
        click.echo(f"{table} is held. To let it go on: penstock release {table}")


@click.command()
@click.argument("table")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def release(table: str, as_json: bool) -> None:
    """Let a held live table go on; it shows everything that came meanwhile.

    \b
    Example:
      penstock release gold.sensor_5m
    """
    from penstock.runtime.registry import Registry
    from penstock.runtime.staging import Staging

    settings = Settings.load()
    known_table(settings, table)
    registry = Registry(settings)
    registry.create()
    require_supervisor(settings, f"{table} stays held.")  # a guard would hold it again at start
    if not Staging(registry).release(table):
        raise UsageError(f"{table} is not held.", remedy="See `penstock status`.")
    click.echo(json.dumps({"table": table, "held": False}) if as_json else f"{table} goes on.")
