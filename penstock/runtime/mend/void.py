"""Void: a record of a topic that does not count, and why.

Bronze keeps every byte that came and never loses one. A record that should not have been sent is
marked instead: its file is rewritten with a reason in the column ``void``, and the change feed says
so. What decodes the topic sees a row go and a row come, so whatever the record had come to is taken
back, here and further down; the record itself is in quarantine, with the reason. Taking the mark
away is the same the other way. A batch over bronze reads the mark like everybody else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.runtime.decode.expression import VOID
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import removal, write_arrow, write_changes
from penstock.runtime.delta.log import Action
from penstock.runtime.delta.source import read_files
from penstock.runtime.ingest.bronze import BronzeWriter

__all__ = ["Ranges", "mark"]

Ranges = Mapping[int, Sequence[tuple[int, int]]]  # partition -> first and last offset

_KEY = ("topic_id", "partition", "offset")


def mark(
    bronze: BronzeWriter, ranges: Ranges, reason: str | None, info: Mapping[str, Any]
) -> dict[str, int]:
    """Mark records as void, or as not void where there is no reason; one commit.

    Returns how many records there are in the ranges and how many were not marked so already. Of a
    topic that was made again, only the newest is meant: offsets of the old one are others.
    """
    with bronze.log.lock:
        table = bronze.log.snapshot()
        actions: list[Action] = []
        old, new = [bronze.schema.empty_table()], [bronze.schema.empty_table()]
        found = 0
        for add in pa.table(table.get_add_actions(flatten=True)).to_pylist():
            if not _may_hold(add, ranges):
                continue
            (rows,) = read_files([bronze.path / add["path"]], bronze.schema)
            meant = _meant(rows, ranges, bronze.topic_id)
            found += pc.sum(meant).as_py() or 0
            hit = pc.and_(meant, _differs(rows[VOID], reason))
            if not pc.any(hit).as_py():
                continue
            marked = _marked(rows, hit, reason)
            old.append(rows.filter(hit))
            new.append(marked.filter(hit))
            actions.append(removal(add["path"], add["size_bytes"]))
            actions += write_arrow(marked, bronze.path)
        change = Change(pa.concat_tables(new), pa.concat_tables(old))
        if actions:
            actions += write_changes(change, _KEY, bronze.path)
            version = bronze.log.commit(actions, {}, {"operation": "PENSTOCK VOID", **info})
            bronze.recent.note(version, None)
            bronze.recent.put(version, change)
        return {"records": int(found), "marked": change.added.num_rows}


def _may_hold(add: Mapping[str, Any], ranges: Ranges) -> bool:
    low, high = add.get("min.offset"), add.get("max.offset")
    if low is None or high is None:
        return True
    return any(first <= high and last >= low for some in ranges.values() for first, last in some)


def _meant(rows: pa.Table, ranges: Ranges, topic_id: str) -> pa.ChunkedArray:
    here = pc.equal(rows["topic_id"], topic_id)
    chosen = pa.chunked_array([pa.array([False] * rows.num_rows, pa.bool_())])
    for partition, some in ranges.items():
        for first, last in some:
            offsets = pc.and_(
                pc.greater_equal(rows["offset"], first), pc.less_equal(rows["offset"], last)
            )
            chosen = pc.or_(chosen, pc.and_(pc.equal(rows["partition"], partition), offsets))
    return pc.and_(here, chosen)


def _differs(said: pa.ChunkedArray, reason: str | None) -> pa.ChunkedArray:
    """A second reason does not replace the first."""
    return pc.is_valid(said) if reason is None else pc.is_null(said)


def _marked(rows: pa.Table, hit: pa.ChunkedArray, reason: str | None) -> pa.Table:
    said = pc.if_else(hit, pa.scalar(reason, pa.string()), rows[VOID])
    return rows.set_column(rows.schema.get_field_index(VOID), rows.schema.field(VOID), said)
