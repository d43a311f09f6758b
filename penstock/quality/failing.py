"""Rows that failed a check, with what they are made of: from a table's row to records of a topic.

A row of silver keeps its place in the topic; a row of gold is followed down through the commits
that made it (``penstock.lineage``), for the first few rows of a check only, because each costs a
look at files. Where a row cannot be followed, its keys still say which one it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.lineage.origins import Origin
from penstock.lineage.revisions import Revisions
from penstock.lineage.trace import trace_in
from penstock.quality.check import Outcome
from penstock.quality.frames import Frames
from penstock.quality.pinned import Pinned
from penstock.serve.render import plain

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["where_from"]

_FOLLOWED = 2  # rows of each check that are followed down to their records
_MOST_RECORDS = 20


def where_from(
    settings: Settings,
    entries: Mapping[str, Mapping[str, Any]],
    frames: Frames,
    outcome: Outcome,
) -> list[dict[str, Any]]:
    """Each failing row: its keys and place, the values checked, and the records it came from."""
    pinned, found = frames.pinned, []
    for number, named in enumerate(outcome.named):
        row = frames.row(named)
        shown = {name: row[name] for name in (*named, *outcome.check.columns) if name in row}
        records = _own_place(entries, pinned.table, row)
        if not records and named and number < _FOLLOWED:
            records = _followed(settings, entries, pinned, named)
        found.append({"row": plain(shown or named), "records": records})
    return found or [{"row": {"value": plain(value)}, "records": []} for value in outcome.values]


def _own_place(
    entries: Mapping[str, Mapping[str, Any]], table: str, row: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Of a row that keeps the place of its record."""
    if row.get("partition") is None or row.get("offset") is None:
        return []
    topic = row.get("topic") or _topic(entries, table)
    place = {"partition": int(row["partition"]), "first": int(row["offset"])}
    return [{"topic": topic, **place, "last": place["first"]}] if topic else []


def _topic(entries: Mapping[str, Mapping[str, Any]], table: str) -> str:
    """The one topic a table's rows come from, however many tables lie between."""
    entry = entries.get(table, {})
    if entry.get("topic"):
        return str(entry["topic"])
    topics = {_topic(entries, str(name)) for name in (entry.get("inputs") or {}).values()}
    return topics.pop() if len(topics) == 1 else ""


def _followed(
    settings: Settings,
    entries: Mapping[str, Mapping[str, Any]],
    pinned: Pinned,
    named: Mapping[str, Any],
) -> list[dict[str, Any]]:
    wanted = [(name, "NULL" if v is None else str(plain(v))) for name, v in named.items()]
    try:
        revisions = Revisions.load(settings)
        told = trace_in(settings, revisions, pinned.snapshot, wanted, most=1)
    except (PenstockError, OSError, KeyError):
        return []  # files of inputs may be gone: the keys have to do
    found = [record for row in told.rows for origin in row.inputs for record in _records(origin)]
    return [r | {"topic": r["topic"] or _topic(entries, r["table"])} for r in found][:_MOST_RECORDS]


def _records(origin: Origin) -> Iterator[dict[str, Any]]:
    """Places as near to the row as any table on the way keeps them."""
    if origin.records:
        for partition, first, last, rows in origin.records:
            yield {"topic": origin.topic, "table": origin.table, "partition": partition,
                   "first": first, "last": last, "rows": rows}  # fmt: skip
    elif origin.inputs:
        for below in origin.inputs:
            yield from _records(below)
    else:
        for part in origin.offsets:
            if part.start is not None:
                yield {"topic": origin.topic, "table": origin.table, "partition": part.partition,
                       "first": part.start, "last": part.end - 1}  # fmt: skip
