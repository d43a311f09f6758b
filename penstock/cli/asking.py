"""Asking the supervisor for something only the writer of a table can do, and waiting for it."""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from penstock.errors import NotRunning, PenstockError, UsageError
from penstock.runtime import heartbeat
from penstock.runtime.registry import Registry, Task
from penstock.runtime.supervise.shares import alive_slots, spread
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
_SOON = 3.0  # seconds: what takes longer has somebody told what it waits for
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
    """Leave a task and wait for its result; says what it waits for.

    What concerns tables of several supervisors is asked of each, for its own tables, one after the
    other: such tables do not read one another, so it makes no difference which comes first.

    Raises:
        NotRunning: there is no supervisor; nothing is left for the next one to do.
    """
    if verb == "swap":  # its gates were passed just now: they say nothing about later
        require_supervisor(settings, "nothing was swapped.")
    registry = Registry(settings)
    registry.create()
    told: dict[str, Any] = {}
    for name, part in _parts(registry, table, verb, arguments or {}):
        answer = _asked(registry, (name, verb, part), timeout=timeout, quiet=quiet)
        told = _joined(told, answer)
    return told


def _parts(
    registry: Registry, table: str, verb: str, arguments: dict[str, Any]
) -> list[tuple[str, dict[str, Any]]]:
    """One task, or one for each supervisor that has some of the tables."""
    if verb == "sweep":
        slots = alive_slots(registry)
        if len(slots) > 1:
            return [(table, {**arguments, "slot": slot}) for slot in slots]
    listed = next((word for word in ("to", "revisions") if arguments.get(word)), None)
    if listed is None:
        return [(table, arguments)]
    groups = spread(registry, list(dict.fromkeys(name for name, _ in arguments[listed])))
    if len(groups) < 2:
        return [(table, arguments)]
    return [
        (group[0], {**arguments, listed: [one for one in arguments[listed] if one[0] in group]})
        for group in groups
    ]


def _joined(told: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Answers of several, as one would have given them."""
    joined = dict(told)
    for name, value in more.items():
        known = joined.get(name)
        if isinstance(known, dict):
            joined[name] = {**known, **value}
        elif isinstance(known, int | float):
            joined[name] = round(known + value, 3)
        else:
            joined[name] = value if known is None else known + value
    return joined


def _asked(
    registry: Registry,
    task: tuple[str, str, dict[str, Any]],
    *,
    timeout: float,
    quiet: bool,
) -> dict[str, Any]:
    table, verb, arguments = task
    number = registry.ask(table, verb, arguments, getpass.getuser())
    started, told = time.monotonic(), False
    while True:
        with _known_to_wait(number):
            (found,) = registry.tasks([number])
        if found.state != "asked":
            return _result(found)
        waited = time.monotonic() - started
        if waited > _SOON and not told:
            told = True
            _require_taken(registry, number)
            if not quiet:
                click.echo(f"waiting for {verb} of {table} (task {number}) ...", err=True)
        if waited > timeout:
            _require_taken(registry, number)
            raise PenstockError(
                f"{verb} of {table} is not done after {timeout:.0f} s; it goes on by itself.",
                remedy=f"Look at `penstock streams`; it is task {number}.",
            )
        time.sleep(_LOOK)


@contextmanager
def _known_to_wait(number: int) -> Iterator[None]:
    """A registry that cannot be asked does not say that a task is not done."""
    try:
        yield
    except NotRunning as error:
        raise NotRunning(
            f"{error.message} Task {number} may be done by now, or be done later.",
            remedy="Look at `penstock status` and `penstock streams` before you ask again.",
        ) from error


def _require_taken(registry: Registry, number: int) -> None:
    """Take a task back that there is nobody for: whoever asked is told that it was not done, and
    must not find it done hours later. One that was begun may be done this moment, by a supervisor
    that only cannot say so: it is left."""
    with _known_to_wait(number):
        if not _is_stale(registry.heartbeat()):
            return
        if registry.take_back(number, "it was taken back: no supervisor ran"):
            raise NotRunning(
                f"no supervisor is running; task {number} is taken back.",
                remedy="Run `penstock up`.",
            )
        (found,) = registry.tasks([number])
    if found.state == "asked":  # else it was done at the last moment
        raise NotRunning(
            f"the supervisor that began task {number} gives no sign of life: it may have done it, "
            "or the next one does.",
            remedy="Run `penstock up`; then look at `penstock streams`.",
        )


def require_supervisor(settings: Settings, consequence: str) -> None:
    if _is_stale(heartbeat.read(settings)):
        raise NotRunning(f"no supervisor is running; {consequence}", remedy="Run `penstock up`.")


def _is_stale(beat: heartbeat.Heartbeat | None) -> bool:
    return beat is None or beat.age_seconds > heartbeat.STALE_AFTER


def _result(task: Task) -> dict[str, Any]:
    result = task.result or {}
    if task.state == "failed":
        if result.get("usage"):
            raise UsageError(result["error"])
        raise PenstockError(f"{task.verb} of {task.table}: {result.get('error', 'it failed')}")
    return result
