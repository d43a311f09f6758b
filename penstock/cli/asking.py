"""Asking the supervisor for something only the writer of a table can do, and waiting for it."""

from __future__ import annotations

import getpass
import json
import time
from typing import Any

import click

from penstock.errors import NotRunning, PenstockError, UsageError
from penstock.runtime import heartbeat
from penstock.runtime.registry import Registry, Task
from penstock.settings import Settings

__all__ = [
    "TIMED",
    "ask",
    "known_table",
    "live_tables",
    "manifest",
    "on_behalf",
    "require_supervisor",
    "who",
]

TIMED = ("window", "session", "sliding", "interval_join")  # kinds that have late rows
_LOOK = 0.3
_LONGEST_NAME = 100

on_behalf = click.option(
    "--as", "behalf", metavar="NAME", help="On whose behalf; kept beside the account that types."
)


def who(behalf: str | None = None) -> str:
    """In whose name something is done: the account's, and before it the one it is done for."""
    account = getpass.getuser()
    if behalf is None:
        return account
    name = behalf.strip()
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise UsageError("--as is no name.", remedy=f"Give up to {_LONGEST_NAME} letters.")
    return f"{name} (through {account})"


def manifest(settings: Settings) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads(settings.manifest.read_text())
    except FileNotFoundError:
        raise NotRunning("nothing is registered yet.", remedy="Run `penstock up`.") from None
    return read


def live_tables(settings: Settings) -> dict[str, dict[str, Any]]:
    """Manifest entries of tables with a live revision, each after what it reads."""
    return {e["name"]: e for e in manifest(settings)["tables"] if e.get("revision")}


def known_table(settings: Settings, name: str) -> dict[str, Any]:
    tables = live_tables(settings)
    if name not in tables:
        raise UsageError(f"there is no live table {name}.", remedy="See `penstock tables`.")
    return tables[name]


def ask(
    settings: Settings,
    table: str,
    verb: str,
    arguments: dict[str, Any] | None = None,
    *,
    timeout: float = 600.0,
    quiet: bool = False,
) -> dict[str, Any]:
    """Leave a task and wait for its result; says what it waits for."""
    registry = Registry(settings)
    registry.create()
    number = registry.ask(table, verb, arguments or {}, getpass.getuser())
    started, told = time.monotonic(), False
    while True:
        (task,) = registry.tasks([number])
        if task.state != "asked":
            return _result(task)
        waited = time.monotonic() - started
        if waited > 3 and not told:
            told = True
            require_supervisor(settings, f"task {number} waits for one.")
            if not quiet:
                click.echo(f"waiting for {verb} of {table} (task {number}) ...", err=True)
        if waited > timeout:
            raise PenstockError(
                f"{verb} of {table} is not done after {timeout:.0f} s; it goes on by itself.",
                remedy=f"Look at `penstock streams`; it is task {number}.",
            )
        time.sleep(_LOOK)


def require_supervisor(settings: Settings, consequence: str) -> None:
    beat = heartbeat.read(settings)
    if beat is None or beat.age_seconds > heartbeat.STALE_AFTER:
        raise NotRunning(f"no supervisor is running; {consequence}", remedy="Run `penstock up`.")


def _result(task: Task) -> dict[str, Any]:
    result = task.result or {}
    if task.state == "failed":
        if result.get("usage"):
            raise UsageError(result["error"])
        raise PenstockError(f"{task.verb} of {task.table}: {result.get('error', 'it failed')}")
    return result
