"""An answer as programs get it: the same object from `penstock get --json` and from the API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from penstock.serve.catalog import TableRef
from penstock.serve.lag import Lag
from penstock.serve.live_log import LogState
from penstock.serve.lookup import Answer, Reader
from penstock.serve.render import unique
from penstock.serve.shape import Entry, Shape, key_names

__all__ = ["about", "answered", "freshness", "listed"]


def freshness(
    reader: Reader, lag: Lag, ref: TableRef, state: LogState, *, wait_s: float = 0.0
) -> dict[str, Any]:
    """Which version it is, when it was committed, how much of its input it lacks."""
    label = f"{ref.layer}.{ref.name}"
    stamp = state.committed_ms
    behind = None
    if ref.version is None and ref.time is None:
        revision = ref.revision or reader.entry(label).get("revision")
        behind = lag.behind(label, revision, wait_s=wait_s)
    return {
        "table": ref.label,
        "version": state.version,
        "committed_at": None if stamp is None else datetime.fromtimestamp(stamp / 1000, UTC),
        "behind": behind,
    }


def answered(reader: Reader, lag: Lag, answer: Answer, *, wait_s: float = 0.0) -> dict[str, Any]:
    opened, planned = answer.opened, answer.plan
    told = freshness(reader, lag, opened.ref, opened.state, wait_s=wait_s)
    told["keys"] = [key.name for key in planned.shape.keys]
    if planned.range_on is not None:
        ask = opened.ask
        told["range"] = {"on": planned.range_on.name, "from": ask.start, "to": ask.end}
    names = unique(answer.columns)
    told["rows"] = [dict(zip(names, row, strict=True)) for row in answer.rows]
    told["next"] = answer.next
    return told


def listed(reader: Reader) -> list[dict[str, Any]]:
    """Every table there is, in short."""
    catalog = reader.catalog()
    return [_short(ref, reader.entry(ref.label), live=catalog.has_data(ref)) for ref in catalog]


def _short(ref: TableRef, entry: Entry, *, live: bool) -> dict[str, Any]:
    return {
        "table": ref.label,
        "layer": ref.layer,
        "kind": entry.get("kind"),
        "keys": list(key_names(entry)),
        "owner": entry.get("owner"),
        "doc": entry.get("doc"),
        "has_data": live,
    }


def about(reader: Reader, lag: Lag, found: tuple[TableRef, LogState, Shape]) -> dict[str, Any]:
    """One table: what its rows are looked up by, its columns, its size."""
    ref, state, shape = found
    entry = reader.entry(shape.label)
    return {
        **freshness(reader, lag, ref, state),
        "kind": entry.get("kind"),
        "owner": entry.get("owner"),
        "doc": entry.get("doc"),
        "keys": [key.name for key in shape.keys],
        "time": shape.time.name if shape.time else None,
        "columns": [{"name": column.name, "type": column.type} for column in shape.columns],
        "files": len(state.files),
        "bytes": sum(file.size for file in state.files.values()),
    }
