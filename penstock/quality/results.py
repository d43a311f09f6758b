"""``quality.results``: what every check ever came to, as a Delta table anybody can query.

One row per table, version and expectation. It has no holder: quality runs in processes of its own,
several at a time, and each adds its rows (``append_shared``). Many small files are put together
now and then, by a commit that says no row changed; whoever finds the log moved on meanwhile leaves
that to the next run.
"""

from __future__ import annotations

import datetime as dt
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import ForeignCommit, LeaseLost
from penstock.location import Location, copies, copy_of
from penstock.model.names import TableName
from penstock.quality.check import Outcome
from penstock.quality.pinned import Pinned
from penstock.runtime.delta.files import conform, removal, write_arrow
from penstock.runtime.delta.log import DeltaLog, append_shared
from penstock.runtime.delta.swap import files_at
from penstock.runtime.delta.upkeep import checkpoint
from penstock.runtime.delta.writer import live_path
from penstock.serve.render import plain

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["RESULTS", "SCHEMA", "Occasion", "history", "keep", "newest", "records"]

RESULTS = TableName("quality", "results")
SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        ("checked_at", pa.timestamp("us", tz="UTC")),  # of the run: all its rows have the same
        ("boundary", pa.string()),
        ("table_name", pa.string()),
        ("state", pa.string()),  # live, held, candidate: whose version it is
        ("revision", pa.string()),
        ("version", pa.int64()),
        ("suite", pa.string()),  # the address of its text
        ("check_name", pa.string()),
        ("expectation", pa.string()),
        ("arguments", pa.string()),
        ("why", pa.string()),
        ("severity", pa.string()),
        ("scope", pa.string()),
        ("exact", pa.bool_()),
        ("success", pa.bool_()),
        ("element_count", pa.int64()),
        ("unexpected_count", pa.int64()),
        ("unexpected_percent", pa.float64()),
        ("observed", pa.string()),
        ("failing", pa.string()),  # some rows, with their coordinates
        ("error", pa.string()),
        ("seconds", pa.float64()),
    ]
)
_MANY_FILES = 200
_UNUSED_SECONDS = 2 * 24 * 3600.0  # a day longer than readers may go back
_LONGEST_LOG = 100


@dataclass(frozen=True)
class Occasion:
    """One run: its name, when it was, and at which boundary."""

    run: str
    at: dt.datetime
    boundary: str

    @classmethod
    def now(cls, boundary: str) -> Occasion:
        at = dt.datetime.now(dt.UTC)
        return cls(f"{at:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}", at, boundary)


def records(
    occasion: Occasion, pinned: Pinned, suite: str, made: Sequence[Outcome]
) -> list[dict[str, Any]]:
    """The rows of one table's checks."""
    return [
        {
            "run_id": occasion.run,
            "checked_at": occasion.at,
            "boundary": occasion.boundary,
            "table_name": pinned.table,
            "state": pinned.state,
            "revision": pinned.revision,
            "version": pinned.version,
            "suite": suite,
            "check_name": one.check.name,
            "expectation": one.check.type,
            "arguments": _json(one.check.arguments),
            "why": one.check.why,
            "severity": one.check.severity,
            "scope": one.scope,
            "exact": one.check.exact,
            "success": one.success,
            "element_count": one.element_count,
            "unexpected_count": one.unexpected_count,
            "unexpected_percent": one.unexpected_percent,
            "observed": None if one.observed is None else _json(one.observed),
            "failing": _json(one.failing),
            "error": one.error,
            "seconds": one.seconds,
        }
        for one in made
    ]


def _json(value: Any) -> str:
    return json.dumps(plain(value), separators=(",", ":"), allow_nan=False)


# --- writing ------------------------------------------------------------------------------
def keep(settings: Settings, rows: Sequence[Mapping[str, Any]], run_id: str) -> int:
    """Add rows to the history; returns the version that has them."""
    path = live_path(settings.warehouse, RESULTS)
    DeltaLog.create(path, SCHEMA, description=f"{RESULTS}: what every check came to")
    data = pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA)
    version = append_shared(path, write_arrow(data, path), {"run": run_id})
    if version % _LONGEST_LOG == 0:
        checkpoint(path)
    _put_together(path)
    return version


def _put_together(path: Location) -> None:
    """Many small files as one. Nobody waits for this, and nobody misses it."""
    log = DeltaLog(path, token=0)
    held = files_at(path, log.version)
    if len(held) < _MANY_FILES:
        return
    rows = pa.concat_tables([conform(pq.read_table(copy_of(path / name)), SCHEMA) for name in held])
    (add,) = write_arrow(rows, path)
    add["add"]["dataChange"] = False
    gone = [removal(name, told["size"], changed=False) for name, told in held.items()]
    try:
        log.commit([*gone, add], {}, {"operation": "OPTIMIZE"})
    except (ForeignCommit, LeaseLost):  # somebody added rows meanwhile
        (path / add["add"]["path"]).unlink(missing_ok=True)
        return
    checkpoint(path)
    _sweep(path, {*held, add["add"]["path"]})


def _sweep(path: Location, recent: set[str]) -> None:
    """Files of earlier rounds, which no version that readers were promised needs."""
    old = time.time() - _UNUSED_SECONDS
    for file in path.glob("part-*.parquet"):
        if file.name not in recent and file.stat().st_mtime < old:
            file.unlink(missing_ok=True)


# --- reading ------------------------------------------------------------------------------
def history(settings: Settings, table: str | None = None, most: int = 50) -> list[dict[str, Any]]:
    """Runs, the newest first: of which table and version, and how many checks failed."""
    return _read(
        settings,
        """select run_id, checked_at, boundary, table_name, state, revision, version,
                  count(*) as checks,
                  count(*) filter (not success and severity = 'blocking') as blocking,
                  count(*) filter (not success and severity = 'warning') as warnings,
                  list(check_name order by check_name) filter (not success) as failed,
                  sum(seconds) as seconds
           from results where $1 is null or table_name = $1
           group by all order by checked_at desc, table_name limit $2""",
        [table, most],
    )


def newest(settings: Settings, table: str, revision: str) -> list[dict[str, Any]]:
    """The rows of the last run that looked at a revision; none if nobody did."""
    return _read(
        settings,
        """select * from results where table_name = $1 and revision = $2
           qualify checked_at = max(checked_at) over () order by check_name""",
        [table, revision],
    )


def _read(settings: Settings, sql: str, values: Sequence[Any]) -> list[dict[str, Any]]:
    path = live_path(settings.warehouse, RESULTS)
    if not (path / "_delta_log").is_dir():
        return []
    files = copies(path / name for name in files_at(path, DeltaLog(path, token=0).version))
    if not files:
        return []
    with duckdb.connect(":memory:", config={"threads": 1}) as duck:
        duck.execute("SET TimeZone = 'UTC'")
        duck.execute("SET VARIABLE files = $1", [files])
        duck.execute("create view results as from read_parquet(getvariable('files'))")
        found: list[dict[str, Any]] = (
            duck.sql(sql, params=list(values)).to_arrow_table().to_pylist()
        )
    return found
