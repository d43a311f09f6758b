"""Replay: rows in quarantine tried again, after the rule, the decoder or the transform is mended.

A row that is good now moves: it is written to the table and leaves quarantine in one commit, once.
A row that fails again stays where it is, without a copy. Whoever reads the table sees the rows come
as any others do; for windows they are late, and reconciled like late rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import UsageError
from penstock.model.duration import parse_duration
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.source import adds_at, read_files, rows_at
from penstock.runtime.fates import quarantine
from penstock.runtime.fates.outcomes import Outcome
from penstock.runtime.fates.quarantined import held_in, taken_out
from penstock.runtime.kinds.compute import sliced
from penstock.runtime.kinds.follow import Follower, Input
from penstock.runtime.kinds.keyed import KeyedFollower
from penstock.runtime.kinds.mapping import Mapped, Mapper
from penstock.runtime.kinds.rows import RowsFollower

__all__ = ["expire", "replay"]


def replay(
    table: Follower, mapper: Mapper | None = None, ids: Iterable[str] | None = None
) -> dict[str, Any]:
    """Try rows of a table's quarantine again.

    Args:
        mapper: the mended way to make rows of the table from rows of its input; by default its own.
        ids: which rows; by default all.
    """
    if not isinstance(table, RowsFollower | KeyedFollower) or len(table.inputs) > 1:
        raise UsageError(
            f"{table.name} is a {table.context.definition.kind.word} table: what it set apart "
            "counts when a mended definition of it goes live.",
            remedy="Replay the rows or keyed table it reads, or stage the mended definition.",
        )
    table.settle(now=True)
    given = table.first
    wanted = None if ids is None else set(ids)
    held = held_in(table.broken)
    chosen = [i for i in held["row_id"].to_pylist() if wanted is None or i in wanted]
    rows, names = _originals(given, held, set(chosen), table.positions[given.name])
    moved, done = [], set()
    by = mapper or _own(table)
    by.begin()
    for some, some_names in _paired(rows, names):
        mapped = by.replayed(some, held)
        failed = set(mapped.bad["row_id"].to_pylist())
        good = [name for name in some_names if name not in failed]
        done.update(good)
        moved.append(mapped.rows)
        _count(table, given, len(good), mapped)
    if done:
        out = pa.concat_tables(moved)
        table.apart.setdefault("quarantine", []).extend(taken_out(table.broken, done))
        table.forgive(done)
        _write(table, out)
    by.done(table.positions[given.name])
    return {"replayed": len(done), "still_bad": len(names) - len(done), "asked": len(chosen)}


def _own(table: RowsFollower | KeyedFollower) -> Mapper:
    if isinstance(table, RowsFollower):
        return table.mapper
    (mapper,) = table.mappers.values()
    return mapper


def _write(table: RowsFollower | KeyedFollower, out: pa.Table) -> None:
    info = {"operation": "PENSTOCK REPLAY"}
    if isinstance(table, RowsFollower):
        table.commit(write_arrow(out, table.writer.path), Change(out), info=info)
    else:
        table.merge(out, info)
    table.outcomes.flush(now=True)


def _count(table: Follower, given: Input, good: int, mapped: Mapped) -> None:
    table.tally.add(given.name, Outcome.QUARANTINED, -good)
    counted = min(good - mapped.duplicates, mapped.rows.num_rows)
    table.tally.add(given.name, Outcome.COUNTED, counted)
    table.tally.add(given.name, Outcome.DUPLICATE, mapped.duplicates)
    table.tally.add(given.name, Outcome.FILTERED, good - mapped.duplicates - counted)


def _originals(
    given: Input, held: pa.Table, ids: set[str], position: int
) -> tuple[pa.Table, list[str]]:
    """The input rows that these quarantined rows were, and their ids."""
    parts, names = [given.source.schema.empty_table()], []
    bronze = quarantine.is_bronze(given.source.schema)
    found = _bronze(given, held, ids, position) if bronze else rows_at(given.source, position)
    for rows in found:
        row_names = quarantine.ids_of(rows)
        keep = [name in ids for name in row_names]
        if any(keep):
            parts.append(rows.filter(pa.array(keep, pa.bool_())))
            names += [name for name in row_names if name in ids]
    return pa.concat_tables(parts), names


def _bronze(given: Input, held: pa.Table, ids: set[str], position: int) -> Iterable[pa.Table]:
    """Files of bronze that may hold the rows, by their offsets."""
    wanted = held.filter(pa.array([i in ids for i in held["row_id"].to_pylist()], pa.bool_()))
    offsets = sorted(o for o in wanted["offset"].to_pylist() if o is not None)
    for add in adds_at(given.source.path, position):
        low, high = add.get("min.offset"), add.get("max.offset")
        if low is None or high is None or any(low <= offset <= high for offset in offsets):
            yield from read_files([given.source.path / add["path"]], given.source.schema)


def _paired(rows: pa.Table, names: list[str]) -> Iterable[tuple[pa.Table, list[str]]]:
    at = 0
    for some in sliced(rows):
        if some.num_rows:
            yield some, names[at : at + some.num_rows]
        at += some.num_rows


def expire(table: Follower, now: dt.datetime) -> int:
    """Drop bytes from quarantine that were taken in longer ago than the table keeps them.

    Only of streams: a typed row that is set apart is one its table must go on leaving out.
    """
    keep = parse_duration(table.context.definition.quarantine_for)
    table.settle(now=True)
    held = held_in(table.broken)
    old = held.filter(pc.and_(pc.is_valid(held["topic"]), pc.less(held["ingested_at"], now - keep)))
    if old.num_rows:
        ids = set(old["row_id"].to_pylist())
        table.apart.setdefault("quarantine", []).extend(taken_out(table.broken, ids))
        table.commit([], info={"operation": "PENSTOCK EXPIRE"})
    return int(old.num_rows)
