"""Who holds a table, where a check, a guard and a person come one after the other."""

from __future__ import annotations

import re

import duckdb
import pytest

from penstock.runtime.staging import Hold, Staging

QUALITY, GUARD = Hold.QUALITY, Hold.GUARD


class Database:
    """The table of holds, in a database that understands what the registry is asked."""

    def __init__(self) -> None:
        self._duck = duckdb.connect(":memory:")
        self._duck.execute(
            "create table hold (table_name text primary key, reason text, held_by text, "
            "held_at text default 'now')"
        )

    def run(self, sql: str, **given: object) -> list:
        spelt = sql.replace("held_at::text", "held_at")
        asked = re.sub(r"(?<!:):(\w+)", r"$\1", spelt)
        return self._duck.execute(asked, given).fetchall()

    transaction = run


@pytest.mark.parametrize(
    ("came", "held_by"),
    [
        ([QUALITY, QUALITY], "quality"),
        ([GUARD, GUARD], "a guard"),
        ([QUALITY, GUARD], "quality, a guard"),
        ([QUALITY, "alice"], "quality, alice"),
        ([GUARD, "alice"], "a guard, alice"),
        ([QUALITY, GUARD, "alice"], "quality, a guard, alice"),
        ([GUARD, QUALITY], "a guard"),
        ([QUALITY, GUARD, QUALITY, GUARD], "quality, a guard"),
        (["alice", "bob"], "alice"),
        (["alice", GUARD], "alice, a guard"),
        (["alice", QUALITY, GUARD, GUARD], "alice, a guard"),
        ([QUALITY, "alice", GUARD, GUARD, "bob"], "quality, alice, a guard"),
        (["not a guard", GUARD], "not a guard, a guard"),
        ([GUARD, "alice", "bob"], "a guard, alice"),
    ],
)
def test_a_person_joins_whatever_holds_by_itself_and_a_guard_everybody(came, held_by):
    staging = Staging(Database())
    for n, who in enumerate(came):
        staging.hold("gold.x", f"reason {n}", who)
    (hold,) = staging.holds().values()
    assert hold.held_by == held_by
    assert hold.by_itself == (not {"alice", "not a guard"} & set(came))
    assert hold.reason.startswith("reason 0")
    assert hold.reason.count(";") == held_by.count(",")
