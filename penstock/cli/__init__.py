"""The `penstock` command: a thin skin; every command's work lives in the package it names."""

from __future__ import annotations

import importlib
import sys

import click

from penstock import __version__
from penstock.errors import PenstockError

__all__ = ["main"]

# command -> module that holds it; imported only when it is typed, so `--help` stays quick.
COMMANDS: dict[str, str] = {
    "up": "penstock.cli.platform",
    "down": "penstock.cli.platform",
    "status": "penstock.cli.platform",
    "doctor": "penstock.cli.platform",
    "query": "penstock.cli.read",
    "tail": "penstock.cli.read",
    "get": "penstock.cli.get",
    "serve": "penstock.cli.get",
    "tables": "penstock.cli.tables",
    "register": "penstock.cli.tables",
    "plan": "penstock.cli.change",
    "stage": "penstock.cli.change",
    "compare": "penstock.cli.change",
    "promote": "penstock.cli.release",
    "rollback": "penstock.cli.release",
    "backfill": "penstock.cli.release",
    "abort": "penstock.cli.release",
    "retire": "penstock.cli.release",
    "releases": "penstock.cli.release",
    "repair": "penstock.cli.release",
    "hold": "penstock.cli.release",
    "release": "penstock.cli.release",
    "export": "penstock.cli.export",
    "publish": "penstock.cli.publish",
    "notify": "penstock.cli.publish",
    "lineage": "penstock.cli.lineage",
    "ledger": "penstock.cli.lineage",
    "reconcile": "penstock.cli.late",
    "run": "penstock.cli.late",
    "outcomes": "penstock.cli.late",
    "audit": "penstock.cli.audit",
    "quality": "penstock.cli.quality",
    "maintain": "penstock.cli.maintaining",
    "quarantine": "penstock.cli.quarantine",
    "void": "penstock.cli.void",
    "marts": "penstock.cli.marts",
    "mirror": "penstock.cli.mirror",
    "streams": "penstock.cli.streams",
    "supervise": "penstock.cli.streams",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[name]), name)
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="penstock")
def cli() -> None:
    """One definition of a table, run continuously and in batch by the same code.

    \b
    Start here:
      penstock up        start the embedded platform and the demo traffic
      penstock status    what runs where
      penstock query "select * from gold.stock_stats order by window_start desc limit 5"
    """


def main() -> None:
    """Entry point: our own errors become one line and an exit code, never a stack trace."""
    try:
        code = cli(standalone_mode=False)
    except PenstockError as error:
        click.secho(f"penstock: {error.message}", fg="red", err=True)
        if error.remedy:
            click.echo(f"  {error.remedy}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)
