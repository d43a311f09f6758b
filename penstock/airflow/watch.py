"""Judging the streams once a minute: what to alert about, what to restart, which tables moved.

The judgement is a pure function of what the supervisor reports, what is registered and what was
remembered from the last look; doing something about it is `watch`.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.airflow.command import CommandFailed, CommandRefused, penstock
from penstock.airflow.manifest import Known, known
from penstock.airflow.notify import alert
from penstock.airflow.streams import StreamsStale, describe, require_fresh
from penstock.runtime.heartbeat import read
from penstock.settings import Settings

__all__ = ["Limits", "Seen", "breaches", "judge", "watch"]

_log = logging.getLogger(__name__)
_ANOTHER_ALERT = 1800.0  # seconds until the same thing is said again
_ANOTHER_RESTART = 600.0
_SUPERVISOR = "supervisor"
# Seconds until tables that moved are told again, all at once: each time quality, exports and marts
# run, which is minutes of work. A fresh stack is told of soon, then again when it has windows.
_ANOTHER_EVENT = (0.0, 300.0, 900.0)
_ANOTHER_BALANCE = 600.0  # reading every outcomes table takes seconds


@dataclass(frozen=True)
class Limits:
    """Beyond these, somebody is told."""

    rows_behind: int = 20_000  # of a topic, not in bronze yet
    commits_behind: int = 500  # of a table's inputs, not taken in yet
    stuck_seconds: float = 180.0  # something to do and nothing done
    watermark_seconds: float = 900.0  # rows come, but the clock in them stands
    quarantined: int = 1_000  # rows set apart between two looks
    failures: int = 6  # in a row


@dataclass
class Seen:
    """What is remembered from one look to the next."""

    alerted: dict[str, float] = field(default_factory=dict)
    restarted: dict[str, float] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)  # table -> what was told
    told_at: float = 0.0
    told_times: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    balanced: float = 0.0

    @classmethod
    def load(cls, file: Path) -> Seen:
        try:
            return cls(**json.loads(file.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return cls()

    def save(self, file: Path) -> None:
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(self.__dict__))
        os.replace(fresh, file)


@dataclass(frozen=True)
class Judgement:
    """What one look came to."""

    problems: dict[str, str]  # what:stream -> a sentence; new ones only
    restarts: list[str]
    moved: dict[str, int]  # table -> version, for those that have something new to tell
    every: dict[str, str]  # all problems, old and new


def judge(
    streams: Iterable[Mapping[str, Any]],
    known: Known,
    seen: Seen,
    now: float,
    limits: Limits | None = None,
) -> Judgement:
    """Hold streams against the limits; changes `seen`."""
    limits = limits or Limits()
    streams = list(streams)
    every = {}
    for stream in streams:
        every.update(_problems(stream, seen, now, limits))
    fresh = {k: v for k, v in every.items() if now - seen.alerted.get(k, 0.0) > _ANOTHER_ALERT}
    seen.alerted = {k: (now if k in fresh else seen.alerted[k]) for k in every}
    stuck = [k.partition(":")[2] for k in every if k.startswith("stuck:")]
    restarts = [s for s in stuck if now - seen.restarted.get(s, 0.0) > _ANOTHER_RESTART]
    seen.restarted.update(dict.fromkeys(restarts, now))
    return Judgement(fresh, restarts, _moved(streams, known, seen, now), every)


def _problems(stream: Mapping[str, Any], seen: Seen, now: float, limits: Limits) -> dict[str, str]:
    name, state = str(stream["stream"]), stream.get("state")
    found: dict[str, str] = {}
    behind, idle = stream.get("behind") or 0, stream.get("idle_seconds") or 0.0
    if state in ("parked", "broken"):
        found[f"{state}:{name}"] = f"{name} is {state}: {stream.get('error') or 'no reason given'}"
    elif state == "waiting" and (stream.get("failures") or 0) >= limits.failures:
        found[f"failing:{name}"] = f"{name} fails again and again: {stream.get('error')}"
    elif state == "running":
        unit, most = (
            ("rows", limits.rows_behind) if name.startswith("bronze.")
            else ("commits", limits.commits_behind)
        )  # fmt: skip
        if behind > most:
            found[f"lag:{name}"] = f"{name} is {behind:,} {unit} behind"
        if behind and idle > limits.stuck_seconds:
            found[f"stuck:{name}"] = (
                f"{name} has {behind:,} {unit} to do, none done for {idle:.0f} s"
            )
        if stream.get("watermark") and idle < 60 and not name.startswith("bronze."):
            age = now - dt.datetime.fromisoformat(str(stream["watermark"])).timestamp()
            if age > limits.watermark_seconds:
                found[f"watermark:{name}"] = f"{name}: its watermark is {age:.0f} s old"
    if stream.get("alarm"):
        found[f"alarm:{name}"] = f"{name}: {stream['alarm']}"
    count = int(stream.get("quarantined") or 0)
    before = seen.quarantined.get(name, count)
    seen.quarantined[name] = count
    if count - before > limits.quarantined:  # a restart starts at 0 and is no news
        found[f"quarantine:{name}"] = f"{name}: {count - before:,} rows were set apart in a minute"
    return found


def _moved(
    streams: Iterable[Mapping[str, Any]], known: Known, seen: Seen, now: float
) -> dict[str, int]:
    """Tables at a new version, when the last news is old enough; bronze counts as a table."""
    if now - seen.told_at < _ANOTHER_EVENT[min(seen.told_times, len(_ANOTHER_EVENT) - 1)]:
        return {}
    names = {f"{t}@{r}": t for t, r in known.revisions.items()} | {s: s for s in known.streams}
    moved = {}
    for stream in streams:
        table, version = names.get(str(stream["stream"])), stream.get("version")
        mark = f"{stream['stream']} {version}"
        if table is None or version is None or mark == seen.told.get(table):
            continue
        moved[table] = int(version)
        seen.told[table] = mark
    if moved:
        seen.told_at, seen.told_times = now, seen.told_times + 1
    return moved


def watch(settings: Settings | None = None) -> Judgement:
    """Look, tell, restart what is stuck; fails when nobody moves the streams."""
    settings = settings or Settings.load()
    settings.run.mkdir(parents=True, exist_ok=True)
    file = settings.run / "stream_watch.json"
    seen, now = Seen.load(file), time.time()
    try:
        beat = require_fresh(read(settings))
    except StreamsStale as error:
        if now - seen.alerted.get(_SUPERVISOR, 0.0) > _ANOTHER_ALERT:
            seen.alerted[_SUPERVISOR] = now
            seen.save(file)
            alert(settings, _SUPERVISOR, str(error))
        raise
    for line in describe(beat):
        _log.info("%s", line)
    found = judge(beat.streams, known(settings), seen, now)
    if now - seen.balanced > _ANOTHER_BALANCE:
        seen.balanced = now
        found.problems.update(_unbalanced(settings))
    for key, text in found.problems.items():
        what, _, stream = key.partition(":")
        alert(settings, f"stream_{what}", text, stream=stream)
    for stream in found.restarts:
        penstock("streams", "restart", stream, settings=settings)
        alert(settings, "stream_restart", f"{stream} was restarted", stream=stream)
    seen.save(file)
    return found


def _unbalanced(settings: Settings) -> dict[str, str]:
    """Tables in which an input row is not accounted for."""
    try:
        rows = penstock("outcomes", accept=(0, 1), settings=settings).result or []
    except (CommandFailed, CommandRefused) as error:
        return {"outcomes:all": f"outcomes could not be read: {error}"}
    return {
        f"outcomes:{row['table']}": f"{row['table']}: {row['missing']:,} rows of {row['input']} "
        "have no outcome"
        for row in rows
        if row["missing"]
    }


def breaches(
    streams: Iterable[Mapping[str, Any]],
    tables: Mapping[str, str],
    held: Mapping[str, str],
    most_behind: int,
) -> list[str]:
    """What speaks against tables that were just promoted.

    Args:
        tables: table -> its live revision.
        held: tables that stand still -> why.
    """
    by_name = {str(s["stream"]): s for s in streams}
    found = [f"{t} is held: {held[t]}" for t in tables if t in held]
    for table, revision in tables.items():
        stream = by_name.get(f"{table}@{revision}")
        if stream is None:
            found.append(f"{table}@{revision} is not run by the supervisor")
        elif stream.get("state") in ("parked", "broken", "waiting"):
            found.append(f"{table} is {stream['state']}: {stream.get('error') or ''}".strip())
        elif (stream.get("behind") or 0) > most_behind:
            found.append(f"{table} is {stream['behind']} commits behind, {most_behind} are allowed")
    return found
