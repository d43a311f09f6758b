"""`penstock plan`, `penstock stage` and `penstock compare`: a changed table on its way to live."""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.asking import ask, on_behalf, who
from penstock.cli.show import print_rows, size
from penstock.errors import QualityFailed, UsageError
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.reprocess.history import Progress
    from penstock.reprocess.plan import TableChange
    from penstock.reprocess.request import Request
    from penstock.reprocess.status import Status

__all__ = ["Shown", "compare", "plan", "releases_of", "stage"]


# --- plan ---------------------------------------------------------------------------------------
@click.command()
@click.argument("table", required=False)
@click.option("--diff/--no-diff", default=True, help="Show the lines that changed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(table: str | None, diff: bool, as_json: bool) -> None:
    """What would change if the working tree went live. Writes nothing.

    For every table whose meaning changed, and every table that reads one: what changed, what it
    means to readers, what has to be read, how long that may take and who follows the live table:
    topics, notifications, marts and exports. A changed comment or a renamed variable is no change.

    \b
    Examples:
      penstock plan
      penstock plan gold.sensor_5m --json
    """
    from penstock.marts.declared import marts_by_table
    from penstock.reprocess.plan import build_plan
    from penstock.runtime.registry import Registry
    from penstock.spark.session import build_session

    settings = Settings.load()
    registry = Registry(settings)
    registry.create()
    session = build_session(settings, "penstock-plan", memory="1g", quiet=True, plans_only=True)
    try:
        marts = marts_by_table(settings.project / "dbt_project")
        found = build_plan(session, settings, registry, table, marts)
    finally:
        session.stop()
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=1))
        return
    for reason in found.broken:
        click.secho(f"broken, left out: {reason}", fg="red", err=True)
    if not found.changes:
        click.echo("No change: the working tree means what is live.")
        return
    for change in found.changes:
        _show_change(change, diff=diff)
    click.echo("\nNothing was written.")
    for line in _next_steps(found.changes):
        click.echo(line)


def _next_steps(changes: Sequence[TableChange]) -> list[str]:
    """What to type: a table that was never live has nothing to be staged beside."""
    new = [c.table for c in changes if c.live is None]
    changed = [c.table for c in changes if c.live is not None]
    lines = []
    if changed:
        lines.append(f"Next: penstock stage {changed[0]}")
    if len(changed) > 1:
        lines.append(f"That stages {' and '.join(changed)} as one release.")
    if new:
        first = ", after what they read" if changed else ""
        lines.append(f"New: {', '.join(new)}. To let them go live{first}: penstock register")
    return lines


def _show_change(change: TableChange, *, diff: bool) -> None:
    from penstock.reprocess.followers import in_words

    was = change.live or "nothing"
    click.secho(f"\n{change.table}: {was} -> {change.declared}", bold=True)
    columns = "; ".join(f"{word} {', '.join(c)}" for word, c in change.columns.items() if c)
    lines = [
        ("why", change.because),
        ("for readers", f"{change.category}{': ' + columns if columns else ''}"),
        ("declared", "; ".join(change.meaning)),
        ("state", change.state),
        ("comparison", change.comparison),
    ]
    for reading in change.reads:
        told = f"{reading.rows:,} rows, {size(reading.bytes)}"
        lines.append(("reads", f"{reading.name} version {reading.version}: {told}"))
    lines.append(("adds", _adds(change)))
    lines.append(("takes", f"about {_time(change.seconds)}"))
    lines.append(("followed by", in_words(change.followed_by)))
    for word, told in lines:
        if told:
            click.echo(f"  {word:<12} {told}")
    if diff:
        for line in change.code:
            colour = {"+": "green", "-": "red"}.get(line[:1])
            click.secho(f"    {line}", fg=colour)


def _adds(change: TableChange) -> str:
    if change.live is None:
        return "not known: no revision of it is live"
    rows = "" if change.adds_rows is None else f"{change.adds_rows:,} rows, "
    return f"about {rows}{size(change.adds_bytes)}, as the live revision has now"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


# --- stage --------------------------------------------------------------------------------------
@click.command()
@click.argument("table", required=False)
@click.option("--from", "since", default="BEGINNING", show_default=True,
              help="Begin at BEGINNING, a moment, or a length of time ago.")  # fmt: skip
@click.option("--partial", is_flag=True, help="Accept that less history is held than asked for.")
@click.option("--share", type=click.FloatRange(0.01, 1.0), default=1.0, show_default=True,
              help="How much of the time the build may work; else it rests.")  # fmt: skip
@click.option("--why", default="", help="Why it changes; kept with the release.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it has caught up.")
@click.option("--status", is_flag=True, help="Only show how candidates are doing.")
@click.option("--pause", "pace", flag_value="pause", help="Let the table's candidate rest.")
@click.option("--resume", "pace", flag_value="resume", help="Let it go on.")
@on_behalf
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stage(  # noqa: PLR0917 - one argument per option
    table: str | None,
    since: str,
    partial: bool,
    share: float,
    why: str,
    no_wait: bool,
    status: bool,
    pace: str | None,
    behalf: str | None,
    as_json: bool,
) -> None:
    """Build a candidate beside what is live, and let it catch up.

    Everything that has to go live together is staged together. The history is computed at a
    pinned version of the input, piece by piece; run the command again after an interruption and it
    goes on where it was; run it again meanwhile and it waits for the one that builds. Then the
    candidate follows its input like any other table. Nobody who reads live tables notices.

    States: building, catching-up, ready, paused, failed.

    \b
    Examples:
      penstock stage gold.sensor_5m
      penstock stage gold.sensor_5m --from '7 days' --share 0.5
      penstock stage --status
      penstock stage gold.sensor_5m --pause
    """
    from penstock.reprocess.request import Request, begin_at, is_length
    from penstock.reprocess.status import statuses
    from penstock.runtime.registry import Registry
    from penstock.runtime.staging import Staging

    settings = Settings.load()
    registry = Registry(settings)
    registry.create()
    if pace is not None:
        if table is None or not Staging(registry).pace(table, paused=pace == "pause"):
            raise UsageError("name a table that has a candidate.", remedy="penstock stage --status")
    elif not status:
        begin = begin_at(since, dt.datetime.now(dt.UTC))
        request = Request(table, begin, is_length(since), partial, share, who=who(behalf), why=why)
        _staged(settings, registry, request, wait=not no_wait, quiet=as_json)
    found = statuses(settings, registry)
    if as_json:
        click.echo(json.dumps([s.as_dict() for s in found], indent=1))
        return
    _show_statuses(found)
    if found and all(s.state == "ready" for s in found):
        click.echo("Ready. Next: penstock compare")


def _staged(
    settings: Settings, registry: Any, request: Request, *, wait: bool, quiet: bool
) -> None:
    from penstock.reprocess.stage import Stager
    from penstock.spark.session import build_session

    session = build_session(settings, "penstock-stage", memory="2g", quiet=True, modest=True)
    try:
        stager = Stager(session, settings, registry)
        release = stager.register(request)
        shown = Shown(quiet)
        stager.build(release, shown.built)
        if wait:
            stager.wait_ready(release, tell=shown.waiting)
        shown.end()
    finally:
        session.stop()


class Shown:
    """One line that is written over on a terminal, a line now and then elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self._terminal = sys.stderr.isatty()
        self._quiet = quiet and self._terminal  # whoever keeps a log wants to see how far it is
        self._last = ""

    def built(self, table: str, progress: Progress) -> None:
        done = progress.rows / max(1, progress.of_rows)
        bar = "#" * round(24 * done)
        self._say(
            f"{table} building [{bar:<24}] {progress.done}/{progress.pieces} pieces, "
            f"{progress.rows:,} of {progress.of_rows:,} rows, {progress.rows_per_second:,.0f} "
            f"rows/s, {_time(progress.seconds_left)} left"
        )

    def waiting(self, found: list[Status]) -> None:
        said = [
            f"{s.table} {s.state}" + (f" ({s.behind} behind)" if s.behind else "") for s in found
        ]
        self._say(", ".join(said))

    def end(self) -> None:
        if self._terminal and self._last and not self._quiet:
            click.echo(err=True)

    def _say(self, line: str) -> None:
        if self._quiet or line == self._last:
            return
        self._last = line
        click.echo(f"\r\033[K{line}" if self._terminal else line, err=True, nl=not self._terminal)


def _show_statuses(found: list[Status]) -> None:
    if not found:
        click.echo("Nothing is staged.")
        return
    rows = [
        {
            "table": s.table,
            "candidate": s.revision,
            "state": s.state,
            "behind": s.behind,
            "history": f"from {s.since} (partial)" if s.since else "all",
            "built": s.how,
            "release": s.release,
            "note": s.told.get("error") or s.told.get("note", ""),
        }
        for s in found
    ]
    columns = ("table", "candidate", "state", "behind", "history", "built", "release", "note")
    print_rows(rows, columns)


# --- compare ------------------------------------------------------------------------------------
@click.command()
@click.argument("table", required=False)
@click.option("--threshold", type=click.FloatRange(0, 1), default=0.0, show_default=True,
              help="The share of rows that may differ unexpectedly.")  # fmt: skip
@click.option("--tolerance", "tolerances", multiple=True, metavar="COLUMN=NUMBER",
              help="How far two numbers may be apart and be called equal.")  # fmt: skip
@click.option("--expect", "expected", multiple=True, metavar="'[TABLE:] CONDITION => REASON'",
              help="Differences that are meant, by old.<column> and new.<column>.")  # fmt: skip
@click.option("--rollup", metavar="'BY => AGGREGATES'",
              help="What to compare when keys or windows changed.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(  # noqa: PLR0917 - one argument per option
    table: str | None,
    threshold: float,
    tolerances: tuple[str, ...],
    expected: tuple[str, ...],
    rollup: str | None,
    as_json: bool,
) -> None:
    """Compare a candidate with what is live, both as of the same input.

    Writes a report to look at (HTML) and one to process (JSON). The candidates' suites are run at
    the versions compared. Exits with 12 when more rows differ than the threshold allows, with 13
    when a blocking check fails.

    \b
    Examples:
      penstock compare
      penstock compare gold.sensor_5m --tolerance mean_value=0.01
      penstock compare --expect 'new.readings < old.readings => calibration is left out'
      penstock compare --expect 'gold.inventory: new.pairs <> old.pairs => returns count now'
      penstock compare --rollup 'sensor_id => sum(readings) as readings'
    """
    from penstock.reprocess.comparison import Rollup, Wishes
    from penstock.reprocess.release import not_within

    pair = _pair(rollup, "--rollup") if rollup else None
    wishes = Wishes(
        threshold,
        dict(_tolerance(text) for text in tolerances),
        [_expectation(text) for text in expected],
        Rollup(*pair) if pair else None,
    )
    told = releases_of(quiet=as_json).compare(table, wishes)
    if as_json:
        click.echo(json.dumps(told, indent=1, default=str))
    else:
        _show_comparison(told)
    if not all(table["alike"] for table in told["tables"]):
        raise not_within(
            "the comparison is not within its thresholds.",
            "Look at the report; declare what is meant with --expect, or abort.",
            [table["table"] for table in told["tables"] if table["undecided"]],
        )
    failed = [table for table in told["tables"] if table["quality"].get("failures")]
    if failed:
        listed = "; ".join(f"{t['table']}: {', '.join(t['quality']['failures'])}" for t in failed)
        raise QualityFailed(
            f"the candidate fails blocking checks. {listed}.",
            remedy="Look at the report; mend it and stage anew, or abort.",
        )


def _pair(text: str, option: str) -> tuple[str, str]:
    left, arrow, right = text.partition("=>")
    if not arrow or not left.strip() or not right.strip():
        raise UsageError(f"{option} {text!r} has no '=>' with something on both sides.")
    return left.strip(), right.strip()


def _expectation(text: str) -> Any:
    """``CONDITION => REASON``, or ``TABLE: CONDITION => REASON``."""
    from penstock.reprocess.comparison import Expected

    condition, reason = _pair(text, "--expect")
    named = re.match(r"((?:silver|gold)\.[a-z][a-z0-9_]*):\s*(.+)", condition, re.DOTALL)
    if named:
        return Expected(named[2], reason, named[1])
    return Expected(condition, reason)


def _tolerance(text: str) -> tuple[str, float]:
    column, _, number = text.partition("=")
    try:
        return column.strip(), float(number)
    except ValueError:
        raise UsageError(f"--tolerance {text!r} is not COLUMN=NUMBER.") from None


def _show_comparison(told: dict[str, Any]) -> None:
    rows = [
        {"table": t["table"], "compared": t["method"], **t["counts"],
         "verdict": "within" if t["within"] else "not within"}
        for t in told["tables"]
    ]  # fmt: skip
    print_rows(
        rows,
        ("table", "compared", "rows", "equal", "differs", "only_old", "only_new", "set_apart",
         "expected", "unexpected", "verdict"),
    )  # fmt: skip
    for table in told["tables"]:
        for note in table["notes"]:
            click.echo(f"{table['table']}: {note}")
        for row in table["worst"][:3]:
            key = ", ".join(f"{k}={v}" for k, v in row["key"].items())
            click.echo(f"  {row['verdict']}: {key}  {row['source']}")
    click.echo(f"Report: {told['page']}")
    if told["within"]:
        click.echo("Next: penstock promote --why '...'")


def releases_of(*, quiet: bool, behalf: str | None = None) -> Any:
    """Releases of this stack, in the name of whoever types, or of whom that is done for."""
    from penstock.reprocess.release import Releases
    from penstock.runtime.registry import Registry

    settings = Settings.load()
    registry = Registry(settings)
    registry.create()

    def through_supervisor(table: str, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return ask(settings, table, verb, arguments, quiet=quiet)

    return Releases(settings, registry, through_supervisor, who(behalf))
