"""Tables of Postgres as change capture tells of them, and the versions their rows had."""

from __future__ import annotations

import datetime as dt
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tests.oracles import Row
from tests.oracles.samples import START

__all__ = ["SOURCES", "as_of", "changes", "versions"]

BEGINNING = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# table -> its key, some values of it, what else a row may say
SOURCES: dict[str, tuple[str, tuple[Any, ...], Callable[[random.Random], Row]]] = {
    "regions": (
        "region",
        ("north", "south"),
        lambda dice: {"title": "Somewhere", "manager": dice.choice(("Ines", "Jonas"))},
    ),
    "fraud_rules": (
        "card_kind",
        ("debit", "credit"),
        lambda dice: {
            "max_payments": dice.choice((1, 2, 3)),
            "max_kmh": dice.choice((100, 900)),
            "max_amount": dice.choice((20, 100)),
        },
    ),
    "loyalty": (
        "guest_id",
        (1, 2, 3),
        lambda dice: {
            "name": dice.choice(("Niels", "Olga")),
            "level": dice.choice(("bronze", "gold")),
            "points": dice.randrange(2000),
        },
    ),
}


def changes(table: str) -> Callable[[random.Random, int], list[Row]]:
    """Makes what change capture may say of a table: a snapshot, then changes, a few at one time."""
    key, names, content = SOURCES[table]

    def make(dice: random.Random, count: int) -> list[Row]:
        alive = [name for name in names if dice.random() < 0.6]
        told = [_change({key: name} | content(dice), "r", 10, START) for name in alive]
        at, lsn = START, 10
        while len(told) < count:
            at += dt.timedelta(seconds=dice.choice((0, 1, 90)))
            lsn += dice.randrange(1, 5)
            name = dice.choice(names)
            op = dice.choice(("u", "u", "u", "d")) if name in alive else "c"
            alive = [other for other in alive if other != name] + ([] if op == "d" else [name])
            told.append(_change({key: name} | content(dice), op, lsn, at))
        return told

    return make


def _change(row: Row, op: str, lsn: int, at: dt.datetime) -> Row:
    return {
        **row,
        "updated_at": at,
        "_op": op,
        "_deleted": op == "d",
        "_truncated": False,
        "_snapshot": op == "r",
        "_lsn": lsn,
        "_committed_at": at,
    }


def versions(table: str, told: list[Row]) -> list[Row]:
    """Each row of the source as it was from one commit to the next; of one moment the last."""
    key = SOURCES[table][0]
    rows: dict[Any, list[Row]] = defaultdict(list)
    for row in sorted(told, key=lambda r: (r["_committed_at"], r["_lsn"], r["_offset"])):
        rows[row[key]].append(row)
    found = []
    for steps in rows.values():
        ends = [step["_committed_at"] for step in steps[1:]] + [None]
        for number, (row, end) in enumerate(zip(steps, ends, strict=True)):
            start = BEGINNING if number == 0 and row["_snapshot"] else row["_committed_at"]
            if row["_deleted"] or (end is not None and start >= end):
                continue
            content = {name: value for name, value in row.items() if name in _columns(row)}
            place = {"lsn": row["_lsn"], "offset": row["_offset"]}
            found.append({**content, **place, "valid_from": start, "valid_to": end})
    return found


def _columns(row: Row) -> list[str]:
    return [name for name in row if not name.startswith("_") and name != "event_time"]


def as_of(history: list[Row], key: str, name: Any, at: dt.datetime) -> Row:
    """The version that held at a moment, or nothing."""
    for row in history:
        begun = row["valid_from"] <= at
        if row[key] == name and begun and (row["valid_to"] is None or at < row["valid_to"]):
            return row
    return {}
