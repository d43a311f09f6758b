"""`penstock audit`: is a table of change capture what its source is?"""

from __future__ import annotations

import getpass
import json
import time
from typing import Any

import click

from penstock.cli.asking import ask, known_table
from penstock.cli.show import print_rows
from penstock.errors import NotRunning, ServiceFailed, UsageError
from penstock.runtime import heartbeat
from penstock.settings import Settings

__all__ = ["audit"]

_STOP_WITHIN = 60.0


@click.command()
@click.argument("table")
@click.option("--accept", is_flag=True, help="Close the table's alarm without comparing.")
@click.option(
    "--resnapshot",
    is_flag=True,
    help="Have every table of its connector read anew from the source, then stop.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def audit(table: str, accept: bool, resnapshot: bool, as_json: bool) -> None:
    """Compare a table of change capture with its Postgres table; exits with 1 if they differ.

    Both are compared as of one moment, whatever is being written meanwhile: nothing stops. When
    they are equal, an alarm that changes may have been lost is closed.

    \b
    Examples:
      penstock audit silver.users
      penstock audit silver.users --json
      penstock audit silver.users --resnapshot    after the replication slot was lost
      penstock audit silver.users --accept        the differences are known and may stay
    """
    from penstock.runtime.ingest.slots import Ledger
    from penstock.runtime.mend.audit import Audit

    if accept and resnapshot:
        raise UsageError("--accept and --resnapshot are two different things: say one.")
    settings = Settings.load()
    known_table(settings, table)
    if not accept and not resnapshot:
        _require_supervisor(settings)
    say = (lambda _: None) if as_json else (lambda text: click.echo(f"{text} ...", err=True))
    work = Audit(settings, table, advance=lambda: ask(settings, table, "run", quiet=True), say=say)
    ledger = Ledger(settings)
    ledger.prepare()
    alarms = ledger.open_alarms(work.stream.topic)
    told = [alarm.text for alarm in alarms]
    if resnapshot:
        _resnapshot(settings, work.capture, say)
        _tell({"table": table, "resnapshot": work.capture.connector}, as_json)
        return
    if accept:
        ledger.close_alarms(alarms, f"{getpass.getuser()}: accepted")
        _tell({"table": table, "accepted": told}, as_json)
        return
    report = work.run()
    if report.equal:
        ledger.close_alarms(alarms, f"{getpass.getuser()}: equal at {report.lsn}")
    if as_json:
        body = {**report.as_dict(), "alarms": told, "alarms_closed": report.equal}
        click.echo(json.dumps(body, indent=1, default=str))
    else:
        _show(report, told)
    if not report.equal:
        raise click.exceptions.Exit(1)


def _require_supervisor(settings: Settings) -> None:
    beat = heartbeat.read(settings)
    if beat is None or beat.age_seconds > heartbeat.STALE_AFTER:
        raise NotRunning("no supervisor is running.", remedy="Run `penstock up`.")


def _resnapshot(settings: Settings, capture: Any, say: Any) -> None:
    """Stop the connector, drop a slot that cannot be read any more, forget its position, resume."""
    from penstock.runtime.ingest.connectors import OWNER, Connector, source_database
    from penstock.runtime.ingest.slots import look_at

    connector = Connector(settings, capture.connector)
    say(f"stopping the connector {capture.connector}")
    connector.stop()
    deadline = time.monotonic() + _STOP_WITHIN
    while True:
        with source_database(settings, capture.database, OWNER) as database:
            look = look_at(database, capture.slot)
            if connector.stopped() and not look.active:
                if look.exists and (look.invalid or look.wal_status == "lost"):
                    database.run("select pg_drop_replication_slot(:slot)", slot=capture.slot)
                break
        if time.monotonic() > deadline:
            raise ServiceFailed(
                f"the connector {capture.connector} did not stop within {_STOP_WITHIN:.0f} s.",
                remedy="Look at logs/connect.log; `penstock audit --resnapshot` tries again.",
            )
        time.sleep(0.5)
    connector.forget_position()
    say("resuming: it reads every table of its include list anew")
    connector.resume()


def _tell(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result))
    elif "accepted" in result:
        alarms = result["accepted"]
        click.echo("\n".join(f"accepted: {text}" for text in alarms) or "there is no alarm")
    else:
        click.echo(
            f"{result['resnapshot']} takes a snapshot now. When it is through, see what is left: "
            f"`penstock audit {result['table']}`"
        )


def _show(report: Any, alarms: list[str]) -> None:
    click.echo(
        f"{report.table} and {report.source} at {report.lsn}: {report.rows} rows compared in "
        f"{len(report.columns)} columns, {report.changed_since} keys changed meanwhile"
    )
    for where, names in report.not_compared.items():
        if names:
            click.echo(f"  not compared, {where.replace('_', ' ')}: {', '.join(names)}")
    if report.equal:
        click.secho("equal", fg="green")
        for text in alarms:
            click.echo(f"alarm closed: {text}")
        return
    click.secho(
        f"{report.missing} missing, {report.surplus} surplus, {report.differing} differing, "
        f"{report.doubled} doubled",
        fg="red",
    )
    rows = [
        {
            "key": ", ".join(f"{name}={value}" for name, value in d.key.items()),
            "problem": d.problem,
            "columns": "; ".join(f"{n}: {a!s} | {b!s}" for n, (a, b) in d.columns.items()),
        }
        for d in report.examples
    ]
    print_rows(rows, ("key", "problem", "columns"))
    click.echo(f"source | table. See docs/cdc.md; `penstock quarantine list {report.table}` too.")
