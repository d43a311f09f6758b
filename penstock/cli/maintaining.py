"""`penstock maintain`."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import psutil

from penstock.cli.asking import ask
from penstock.cli.show import print_rows, size
from penstock.errors import PenstockError, UsageError
from penstock.model.duration import parse_duration
from penstock.modest import give_way
from penstock.runtime.registry import Registry
from penstock.runtime.upkeep.claims import Claims
from penstock.runtime.upkeep.maintain import DAY, HOUR, Maintained, Maintenance, Pace
from penstock.settings import Settings

__all__ = ["maintain"]

_PATIENCE = 120.0  # seconds for a table's writer to commit a merge
_SHOWN = ("table", "files_before", "files_after", "rewritten", "commits_removed", "files_removed",
          "freed", "oldest_version", "seconds")  # fmt: skip


@click.command()
@click.argument("tables", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Say what would be done and removed; do nothing.")
@click.option(
    "--retention",
    metavar="DURATION",
    help="For this run, keep versions only so long (at least '1 hour'), whatever is declared.",
)
@click.option("--share", default=0.5, show_default=True, help="Of the time it may work.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def maintain(
    tables: tuple[str, ...], dry_run: bool, retention: str | None, share: float, as_json: bool
) -> None:
    """Merge small files, clean logs up, remove files nobody can ask for, let old revisions go.

    Without a table, all of them. Runs at the lowest priority; streams go on meanwhile. Versions
    stay for the retention their table declares (7 days, if it does not), and for as long as any
    table, build or export stands at them. Exits with 1 if a table could not be maintained.

    \b
    Examples:
      penstock maintain
      penstock maintain silver.trades gold.stock_stats --json
      penstock maintain --dry-run
      penstock maintain --retention '6 hours'      # the disk is full
    """
    settings = Settings.load()
    pace = _pace(retention, share, dry_run=dry_run)
    registry = Registry(settings)
    registry.create()

    def asked(table: str, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if table.startswith("bronze."):
            verb, arguments = "compact-bronze", {**arguments, "table": table}
        return ask(settings, table, verb, arguments, timeout=_PATIENCE, quiet=as_json)

    def say(text: str) -> None:
        click.echo(text, err=True)

    with _alone(settings):
        _be_modest()
        work = Maintenance(
            settings.warehouse,
            registry.revisions(),
            asked,
            claims=Claims(settings.home).all(),
            pace=pace,
            say=say,
        )
        done = work.run(_chosen(work, tables))
        revisions = {} if dry_run else _swept(settings, quiet=as_json)
    _show(done, revisions, as_json=as_json)
    if any(one.problems for one in done) or "problem" in revisions:
        raise click.exceptions.Exit(1)


def _pace(retention: str | None, share: float, *, dry_run: bool) -> Pace:
    if not 0.01 <= share <= 1:
        raise UsageError(f"a share of {share} is none.", remedy="Give one from 0.01 to 1.")
    if retention is None:
        return Pace(share=share, dry_run=dry_run)
    try:
        seconds = parse_duration(retention).total_seconds()
    except ValueError as error:
        raise UsageError(f"--retention: {error}") from None
    if seconds < HOUR:
        raise UsageError("--retention is at least an hour.", remedy="Give '1 hour' or more.")
    kept = min(DAY, seconds)
    return Pace(retention=seconds, internal=kept, safe_age=kept, share=share, dry_run=dry_run)


def _chosen(work: Maintenance, tables: tuple[str, ...]) -> list[str] | None:
    known = work.tables()
    unknown = [name for name in tables if name not in known]
    if unknown:
        raise UsageError(
            f"there is no table {unknown[0]} that is fed.", remedy="See `penstock tables`."
        )
    return [name for name in known if name in tables] if tables else None


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Two runs at once would merge the same files."""
    settings.run.mkdir(parents=True, exist_ok=True)
    with (settings.run / "maintain.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                "maintenance is running already.", remedy="Wait until it is done."
            ) from None
        yield


def _be_modest() -> None:
    """Streams go first: lowest priority for processor and disk, one thread."""
    import pyarrow as pa

    give_way(19)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    try:
        psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
    except (AttributeError, OSError, ValueError, psutil.Error):
        return  # not every system knows it


def _swept(settings: Settings, *, quiet: bool) -> dict[str, Any]:
    """Have the supervisor let go of revisions whose time is up."""
    try:
        return ask(settings, "", "sweep", timeout=_PATIENCE, quiet=quiet)
    except PenstockError as error:
        return {"problem": str(error)}


def _show(done: list[Maintained], revisions: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        told = {"tables": [one.as_dict() for one in done], "revisions": revisions}
        click.echo(json.dumps(told, indent=1))
        return
    rows = [
        {**one.as_dict(), "rewritten": size(one.bytes_rewritten), "freed": size(one.bytes_freed)}
        for one in done
    ]
    print_rows(rows, _SHOWN)
    for one in done:
        for problem in one.problems:
            click.echo(f"{one.table}: {problem}", err=True)
        for path in one.removed:
            click.echo(f"would go: {path}")
        if one.waits_for:
            click.echo(f"{one.table}: kept for {', '.join(dict.fromkeys(one.waits_for))}")
    for word in ("retired", "dropped", "kept"):
        for name in revisions.get(word, []):
            click.echo(f"{word}: {name}")
    for warm in revisions.get("warm", []):
        click.echo(f"warm: {warm['table']}@{warm['revision']} until {warm['until'] or 'retired'}")
    if "problem" in revisions:
        click.echo(revisions["problem"], err=True)
