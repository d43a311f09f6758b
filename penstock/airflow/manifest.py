"""The manifest as DAGs see it: which tables there are and who reads whom. No Spark, no database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError, UsageError
from penstock.settings import Settings

__all__ = ["Known", "known"]

Entry = dict[str, Any]


@dataclass(frozen=True)
class Known:
    """The registered tables, each after what it reads."""

    project: Path
    streams: tuple[str, ...] = ()  # bronze
    tables: tuple[str, ...] = ()  # silver and gold with a live revision
    inputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)
    captured: tuple[str, ...] = ()  # copies of Postgres tables, which can be audited
    owners: dict[str, str] = field(default_factory=dict)
    timeless: tuple[str, ...] = ()  # tables of which a day says nothing

    def layer(self, layer: str) -> tuple[str, ...]:
        return tuple(t for t in (*self.streams, *self.tables) if t.startswith(f"{layer}."))

    def require(self, names: Sequence[str]) -> list[str]:
        """Names that are live tables, in the order they depend on each other; else a reason why
        not. The form's own check may be older than the manifest."""
        unknown = sorted(set(names) - set(self.tables))
        if unknown:
            raise UsageError(
                f"there is no live table {', '.join(unknown)}.", remedy="See `penstock tables`."
            )
        return [name for name in self.tables if name in set(names)]


def known(settings: Settings | None = None) -> Known:
    """What is registered; nothing when there is no stack yet, so that DAGs can be read anyway."""
    try:
        settings = settings or Settings.load()
    except PenstockError:
        return Known(Path())
    try:
        entries = json.loads(settings.manifest.read_text())["tables"]
    except (FileNotFoundError, ValueError, KeyError):
        return Known(settings.project)
    streams = {e["name"]: e for e in entries if e.get("kind") == "stream"}
    tables = {e["name"]: e for e in entries if e.get("revision")}
    inputs = {name: tuple((e.get("inputs") or {}).values()) for name, e in tables.items()}
    return Known(
        settings.project,
        tuple(streams),
        tuple(tables),
        inputs,
        {name: e["revision"] for name, e in tables.items()},
        tuple(n for n, e in tables.items() if _captured(e, inputs[n], streams)),
        {name: e.get("owner") or "" for name, e in tables.items()},
        tuple(n for n, e in tables.items() if _timeless(e, [tables.get(i) for i in inputs[n]])),
    )


def _captured(entry: Entry, inputs: tuple[str, ...], streams: dict[str, Entry]) -> bool:
    """A table by key over a stream of change capture: what `penstock audit` can compare."""
    formats = [(streams[i].get("contract") or {}).get("format") for i in inputs if i in streams]
    return entry.get("kind") in ("latest", "history") and "debezium" in formats


def _timeless(entry: Entry, inputs: Sequence[Entry | None]) -> bool:
    """No time column where an interval is looked for: in what a group or key is computed from, or
    in the rows themselves. ``reprocess/timing.py`` refuses these tables."""
    if entry.get("kind") in ("group", "totals", "latest", "history"):
        return any(one is not None and _no_times(one) for one in inputs)  # None: a stream has one
    return entry.get("kind") in ("rows", "enrich") and _no_times(entry)


def _no_times(entry: Entry) -> bool:
    fields = (entry.get("schema") or {}).get("fields") or []
    return bool(fields) and all(one["type"] != "timestamp" for one in fields)
