"""Backfill of tables without windows: a difference computed elsewhere becomes one commit.

A job computed what an interval of the table should hold from the inputs as of some versions, and
how that differs from what the table held then. By the time the writer takes it over, the stream
has gone on. Rows tables do not mind: what came since adds to the difference, whatever it was. Of
the others, a scope (a group, a key, a fact) that the inputs touched since was computed anew by the
stream already, from all its rows; the job's answer is older, so it is left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import UsageError
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.log import read_commit
from penstock.runtime.delta.relate import matching
from penstock.runtime.delta.source import read_files

if TYPE_CHECKING:
    from penstock.runtime.kinds.follow import Follower

__all__ = ["backfill_net"]

_CORRECTIONS = ("PENSTOCK BACKFILL", "PENSTOCK RECONCILE", "PENSTOCK REPLAY")


def backfill_net(table: Follower, arguments: dict[str, Any]) -> dict[str, Any]:
    """Apply a difference; returns what was done, for the operator."""
    done = _done_already(table, arguments["version"], arguments["info"].get("job"))
    if done is not None:
        return done
    added, gone = (_rows(table, arguments[word]) for word in ("added", "gone"))
    scopes = table.touched_since(arguments["inputs"], arguments["version"])
    left_out = 0
    if scopes is not None and scopes.num_rows:
        before = added.num_rows + gone.num_rows
        added, gone = (matching(rows, scopes, within=False) for rows in (added, gone))
        left_out = before - added.num_rows - gone.num_rows
    net = Change(added, gone)
    if net.rows:
        info = {"operation": "PENSTOCK BACKFILL", **arguments["info"]}
        table.commit(table.layout().rewrite(net), net, info=info)
        table.outcomes.flush(now=True)
    return {"changed": net.rows, "left_out": left_out, "version": table.writer.log.version}


def _done_already(table: Follower, version: int, job: str | None) -> dict[str, Any] | None:
    """What came of this very job, if a crash had it asked for again; refused after any other.

    What the stream did since the job looked is understood; what somebody else did is not.
    """
    for number in range(version + 1, table.writer.log.version + 1):
        for action in read_commit(table.writer.path, number):
            told = action.get("commitInfo", {})
            if told.get("operation") not in _CORRECTIONS:
                continue
            if job and json.loads(told.get("userMetadata") or "{}").get("job") == job:
                return {"changed": 0, "left_out": 0, "version": number}
            raise UsageError(
                f"{table.name} was corrected by another operation while the job ran "
                f"({told['operation']}, version {number}).",
                remedy="Run the backfill again.",
            )
    return None


def _rows(table: Follower, files: list[str]) -> pa.Table:
    schema = table.writer.schema
    return pa.concat_tables([schema.empty_table(), *read_files([Path(f) for f in files], schema)])
