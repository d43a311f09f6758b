"""`penstock streams` and the supervisor's own command."""

from __future__ import annotations

import getpass
import json
import logging
import sys

import click

from penstock.cli.show import print_rows
from penstock.errors import UsageError
from penstock.settings import Settings

__all__ = ["streams", "supervise"]

_COLUMNS = (
    "stream",
    "state",
    "behind",
    "version",
    "idle_seconds",
    "watermark",
    "open_rows",
    "late",
    "quarantined",
    "failures",
    "alarm",
    "error",
)


@click.command(hidden=True)
@click.option("--name", default="supervisor", help="What it is shown as.")
def supervise(name: str) -> None:
    """Run a stream supervisor in the foreground; `penstock up` starts it in the background.

    Start one more than share the tables (PENSTOCK_SUPERVISORS, 1 by default) and it waits as a
    standby until one is gone.
    """
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    from penstock.runtime.supervise.supervisor import Supervisor

    Supervisor(Settings.load(), name).run()


@click.command()
@click.argument("verb", type=click.Choice(["list", "stop", "start", "restart"]), default="list")
@click.argument("stream", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def streams(verb: str, stream: str | None, as_json: bool) -> None:
    """List the streams, or stop, start or restart one.

    \b
    Examples:
      penstock streams
      penstock streams restart bronze.trades
      penstock streams stop gold.stock_stats@3cefe636826f
    """
    from penstock.runtime.registry import Registry

    registry = Registry(Settings.load())
    beat = registry.heartbeat()
    known = {str(s["stream"]): s for s in (beat.streams if beat else [])}
    if verb == "list":
        _show(list(known.values()), as_json)
        return
    if stream is None:
        raise UsageError(
            f"`penstock streams {verb}` needs a stream.", remedy="See `penstock streams`."
        )
    if stream not in known and stream not in registry.wishes():
        raise UsageError(
            f"there is no stream {stream}.",
            remedy=f"Streams: {', '.join(sorted(known)) or 'none'}.",
        )
    registry.wish(
        stream, running=verb != "stop", restart=verb == "restart", said_by=getpass.getuser()
    )
    if as_json:
        click.echo(json.dumps({"stream": stream, "asked": verb}))
    else:
        click.echo(f"asked for {verb} of {stream}; the supervisor follows within a second or two")


def _show(found: list[dict[str, object]], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    several = any("supervisor" in stream for stream in found)
    print_rows(found, ("supervisor", *_COLUMNS) if several else _COLUMNS)
