"""Looking at a batch before readers do."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow.compute as pc

from penstock.model.guards import Guards
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.log import Action

__all__ = ["GUARD", "breach"]

GUARD = "guard"  # the position that says a guard holds live: 1, until it is released: 0


def breach(
    guards: Guards, keys: Sequence[str], change: Change | None, actions: Sequence[Action]
) -> str:
    """What a batch breaks, in words; empty when it breaks nothing.

    Args:
        change: the rows that came and went; None where Spark wrote them and only their files'
            statistics are known (keys are not looked at then).
    """
    rows, nulls = _counted(guards, change, actions)
    if guards.most_rows is not None and rows > guards.most_rows:
        return f"a batch added {rows} rows, more than {guards.most_rows}"
    if rows >= max(1, guards.least_rows):
        for name, most in guards.null_rate.items():
            if nulls.get(name, 0) / rows > most:
                share = nulls[name] / rows
                return f"{share:.1%} of a batch's {name} is null, more than {most:.1%}"
    if guards.unique_keys and change is not None and rows:
        different = change.added.select(list(keys)).group_by(list(keys)).aggregate([]).num_rows
        if different < rows:
            return f"{rows - different} keys of a batch came more than once"
    return ""


def _counted(
    guards: Guards, change: Change | None, actions: Sequence[Action]
) -> tuple[int, dict[str, int]]:
    if change is not None:
        nulls = {
            name: int(pc.sum(pc.is_null(change.added[name])).as_py() or 0)
            for name in guards.null_rate
            if name in change.added.column_names
        }
        return change.added.num_rows, nulls
    stats = [json.loads(a["add"]["stats"]) for a in actions if "add" in a]
    rows = sum(s["numRecords"] for s in stats)
    return rows, {n: sum(s["nullCount"].get(n, 0) for s in stats) for n in guards.null_rate}
