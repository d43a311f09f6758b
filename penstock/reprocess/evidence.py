"""Which records a row was made from: from a key of a table back to places in a topic."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import duckdb

from penstock.location import Location, copies
from penstock.model.definition import Table
from penstock.model.windows import Timed
from penstock.runtime.delta.relate import quoted
from penstock.runtime.delta.swap import files_at
from penstock.runtime.delta.writer import live_path, revision_path
from penstock.runtime.registry import Revision

__all__ = ["made_from"]

_SHOWN = 5
_PLACE = ("partition", "offset")  # what tables call the place of a record in its topic


def made_from(
    warehouse: Location,
    definition: Table,
    revision: Revision,
    pin: Mapping[str, Any],
    row: Mapping[str, Any],
) -> str:
    """In words: the records behind a row, or at least how much of the input it is made from."""
    known = row["key"] or row["new"] or row["old"] or {}
    said = []
    for source in definition.inputs.values():
        version = pin["inputs"].get(str(source), -1)
        pinned = revision.inputs.get(str(source), "")
        path = revision_path(warehouse, source, pinned) if pinned else live_path(warehouse, source)
        places = _places(path, version, definition, known)
        if places is None:
            said.append(f"{source} up to version {version}")
        elif places:
            listed = ", ".join(f"{p}/{o}" for p, o in places[:_SHOWN])
            more = "…" if len(places) > _SHOWN else ""
            said.append(f"{source} partition/offset {listed}{more}")
    return "; ".join(said)


def _places(
    path: Location, version: int, definition: Table, known: Mapping[str, Any]
) -> list[tuple[int, int]] | None:
    """Places of the input rows that share the row's keys and lie in its window."""
    if version < 0:
        return None
    files = copies(path / name for name in files_at(path, version))
    if not files:
        return []
    with duckdb.connect(":memory:", config={"threads": 1}) as duck:
        duck.execute("SET TimeZone = 'UTC'")
        described = duck.execute("describe select * from read_parquet($1)", [files[:1]])
        columns = {r[0] for r in described.fetchall()}
        if not columns.issuperset(_PLACE):
            return None
        kind, tests, values = definition.kind, [], []
        for name in definition.keys:
            if name in columns and name in known:
                values.append(known[name])
                tests.append(f"{quoted(name)} is not distinct from ${len(values) + 1}")
        if isinstance(kind, Timed) and kind.on in columns:
            for column, sign in (("window_start", ">="), ("window_end", "<")):
                at = known.get(column) or _beside(definition, known, column)
                if at is not None:
                    values.append(at)
                    tests.append(f"{quoted(kind.on)} {sign} ${len(values) + 1}")
        if not tests:
            return None
        found = duck.execute(
            f"""select partition, "offset" from read_parquet($1)
                where {" and ".join(tests)} order by 1, 2 limit {_SHOWN + 1}""",  # noqa: S608
            [files, *values],
        ).fetchall()
    return [(int(p), int(o)) for p, o in found]


def _beside(definition: Table, known: Mapping[str, Any], column: str) -> Any:
    """The end of a window whose start is known."""
    kind = definition.kind
    start = known.get("window_start")
    if column != "window_end" or start is None or not hasattr(kind, "size"):
        return None
    return start + dt.timedelta(microseconds=kind.us("size"))  # type: ignore[attr-defined]
