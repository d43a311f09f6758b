"""`penstock up`, `down`, `status` and `doctor`: the platform from the command line."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.announcing import announce_new, live_before
from penstock.cli.progress import steps
from penstock.cli.show import console, print_rows
from penstock.settings import MOST_SUPERVISORS, Settings

if TYPE_CHECKING:
    from penstock.platform.stack import Stack

__all__ = ["doctor", "down", "status", "up"]

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
_STATE_COLOURS = {"running": "green", "not ready": "yellow", "dead": "red", "stopped": "dim"}

_FLOW_COLUMNS = ("table", "stream", "state", "behind", "version", "failures", "alarm", "error")


def _names(_: click.Context, __: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


def _stack() -> Stack:
    from penstock.platform.stack import Stack

    return Stack(Settings.load())


@click.command()
@click.option("--only", callback=_names, metavar="A,B", help="Start these and what they need.")
@click.option("--without", callback=_names, metavar="A,B", help="Start all but these.")
@click.option(
    "--rate",
    type=click.FloatRange(0, 1_000_000, min_open=True),
    help="Trades a second of the demo (20); the rest of its traffic keeps proportion.",
)
@click.option(
    "--brokers",
    type=click.Choice(["1", "3"]),
    help="How many Kafka brokers; chosen at the first start, and kept.",
)
@click.option(
    "--supervisors",
    type=click.IntRange(1, MOST_SUPERVISORS),
    help="How many supervisors share the tables; kept for later starts.",
)
@as_json
def up(
    *,
    only: list[str] | None,
    without: list[str] | None,
    brokers: str | None,
    supervisors: int | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Start the embedded platform and the demo traffic; what already runs is left alone.

    \b
    Examples:
      penstock up
      penstock up --without airflow,connect,demo     a lighter stack
      penstock up --only postgres,kafka,registry     what the streams read from
      penstock up --rate 130                         about 500 records a second
      penstock up --brokers 3                        Kafka that survives the loss of a broker
      penstock up --supervisors 2                    two share the tables, each takes over
      PENSTOCK_HOME=/tmp/two PENSTOCK_PORT_OFFSET=1000 penstock up     a second stack beside it
    """
    from penstock.platform.doctor import require_startable
    from penstock.platform.stack import Stack

    settings = Settings.load()
    if brokers is not None:
        settings = replace(settings, brokers=int(brokers))
    if supervisors is not None:
        settings = replace(settings, supervisors=supervisors)
    if rate is not None:
        settings = replace(settings, demo_rate=rate)
    stack = Stack(settings)
    names = stack.select(only, without or [])
    require_startable(stack.settings, names)
    began, before = time.monotonic(), live_before(settings)
    try:
        with steps(quiet=as_json) as (progress, report):
            stack.up(only, report, without=without or [])
    except KeyboardInterrupt:
        _interrupted(
            "What had started is still running. `penstock up` goes on, `penstock down` stops."
        )
    finally:  # the supervisor registers new tables as it starts, even if another service fails
        announce_new(settings, before)
    seconds = round(time.monotonic() - began, 1)
    if as_json:
        click.echo(json.dumps({"seconds": seconds, "services": progress.seconds()}))
    else:
        _welcome(stack, names, seconds)


@click.command()
@as_json
def down(as_json: bool) -> None:
    """Stop the platform, dependents first. Data stays; `penstock up` goes on from it.

    \b
    Example:
      penstock down
    """
    stack = _stack()
    try:
        with steps(quiet=as_json) as (_, report):
            stopped = stack.down(report)
    except KeyboardInterrupt:
        _interrupted("Some services are still stopping. Run `penstock down` again.")
    if as_json:
        click.echo(json.dumps({"stopped": stopped}))
    elif stopped:
        click.echo(f"Stopped. The data is in {stack.settings.home}.")
    else:
        click.echo("Nothing was running.")


@click.command()
@as_json
def status(as_json: bool) -> None:
    """What runs where: state, pid, port, memory, and the lag of every stream.

    Exit code 0 when all that was started runs, 7 when something died or nothing was started.

    \b
    Examples:
      penstock status
      penstock status --json | jq '.services[] | select(.state != "running")'
    """
    from penstock.runtime.heartbeat import streams
    from penstock.spark import cluster

    stack = _stack()
    services = stack.status()
    flows = streams(stack.settings) if _runs(services, "postgres") else []
    pages = _pages(stack.settings, served=_runs(services, "airflow"))
    trouble = cluster.trouble(stack.settings)
    if as_json:
        spark = {"master": stack.settings.spark.master, "trouble": trouble}
        body = {"home": str(stack.settings.home), "services": [asdict(s) for s in services]}
        more = {"spark": spark, "streams": flows, "pages": pages}
        click.echo(json.dumps(body | more, default=str))
    else:
        _show(services, flows)
        click.echo(f"{'spark':<12}{cluster.described(stack.settings)}")
        if trouble:
            click.secho(f"{'':<12}{trouble} See `penstock doctor`.", fg="red")
        for name, address in pages.items():
            click.echo(f"{name:<12}{address}")
    states = {service.state for service in services} - {"stopped"}
    sys.exit(0 if states == {"running"} else 7)


@click.command()
@as_json
def doctor(as_json: bool) -> None:
    """Look at everything the platform needs from this machine, and say how to mend what lacks.

    Exit code 0 when nothing stands in the way, 5 otherwise.

    \b
    Example:
      penstock doctor
    """
    from penstock.platform.doctor import examine

    checks = examine(Settings.load())
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks]))
    else:
        for check in checks:
            colour = {"ok": "green", "warn": "yellow", "fail": "red"}[check.outcome]
            click.secho(f"{check.outcome:<5}", fg=colour, nl=False)
            click.echo(f"{check.name:<10} {check.message}")
            if check.outcome != "ok":
                click.echo(f"{'':16}{check.remedy}")
    sys.exit(5 if any(check.outcome == "fail" for check in checks) else 0)


def _interrupted(text: str) -> None:
    click.echo(f"\nInterrupted. {text}", err=True)
    sys.exit(130)


def _pages(settings: Settings, *, served: bool) -> dict[str, str]:
    """What was made for people to look at, and where; pages beside the Airflow UI, with its login.

    Args:
        served: Airflow runs, so that pages have addresses.
    """
    found: dict[str, str] = {}
    if served:
        base = f"{settings.airflow_url}/penstock"
        titles = {"quality": "Data Docs", "dbt": "dbt docs"}
        for page in sorted(settings.sites.glob("*/index.html")):
            site = page.parent.name
            found[titles.get(site, site)] = f"{base}/sites/{site}/"
        if settings.reports.is_dir():
            found["reports"] = f"{base}/"
    for title, path in {
        "marts": settings.warehouse / "marts",
        "DuckDB": settings.home / "export" / "duckdb" / "live.duckdb",
        "ClickHouse": settings.home / "export" / "clickhouse",
    }.items():
        if path.exists():
            found[title] = str(path)
    return found


def _runs(services: Sequence[Any], name: str) -> bool:
    return any(service.name == name and service.state == "running" for service in services)


def _show(services: Sequence[Any], flows: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("service", "state", "pid", "port", "memory", ""):
        table.add_column(title, justify="right" if title in ("pid", "port", "memory") else "left")
    for service in services:
        ports = ", ".join(str(port) for port in service.ports.values())
        memory = f"{service.memory_bytes / 2**20:.0f} MB" if service.memory_bytes else ""
        state = Text(service.state, style=_STATE_COLOURS[service.state])
        detail = Text(service.detail)  # of a log, as it stands there
        table.add_row(service.name, state, str(service.pid or ""), ports, memory, detail)
    total = sum(service.memory_bytes for service in services)
    table.add_row("", "", "", "", f"{total / 2**20:.0f} MB", "")
    console().print(table)
    if flows:
        several = any("supervisor" in flow for flow in flows)
        print_rows(flows, ("supervisor", *_FLOW_COLUMNS) if several else _FLOW_COLUMNS)


def _welcome(stack: Stack, names: list[str], seconds: float) -> None:
    """What runs where, how to log in, what to try."""
    settings = stack.settings
    places = {
        "airflow": f"{settings.airflow_url}  (user admin, password: "
        f"cat {settings.secrets_folder / 'airflow-admin'})",
        "kafka": f"{settings.kafka_bootstrap}  (SASL SCRAM-SHA-512, passwords in "
        f"{settings.secrets_folder})",
        "registry": settings.registry_url,
        "postgres": f"127.0.0.1:{settings.port('postgres')}",
        "connect": f"http://127.0.0.1:{settings.port('connect')}",
        "api": f"{settings.api_url}/docs  (token: cat {settings.home / 'secrets' / 'api-bearer'})",
    }
    click.echo(f"\nUp in {seconds} s.")
    for name, place in places.items():
        if name in names:
            click.echo(f"  {stack.spec.services[name].title:<28} {place}")
    click.echo(f"  {'Tables':<28} {settings.warehouse}")
    if "airflow" in names:
        click.echo(f"  {'Data Docs, dbt docs, reports':<28} {settings.airflow_url}/penstock/")
        click.echo("\nQuality, exports and marts run by themselves; `status` lists what they made.")
    click.echo("\nTry:")
    me = _typed_as()
    newest = "select * from gold.stock_stats order by window_start desc limit 5"
    for rest in (f'query "{newest}"', "tail silver.trades", "status"):
        click.echo(f"  {me} {rest}")


def _typed_as() -> str:
    """How this command is reached from here: by name if on PATH, else by its place."""
    here = Path(sys.prefix) / "bin" / "penstock"
    found = shutil.which("penstock")
    if found and Path(found).resolve() == here.resolve():
        return "penstock"
    return str(here.relative_to(Path.cwd())) if here.is_relative_to(Path.cwd()) else str(here)
