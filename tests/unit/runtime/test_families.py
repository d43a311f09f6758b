"""Who gets which tables, against a plain walk over who reads whom."""

from __future__ import annotations

import random

from penstock.runtime.beats import Heartbeat, together
from penstock.runtime.registry import Revision
from penstock.runtime.supervise.families import deal, families


def reads(table: str, *inputs: str, revision: str = "r1") -> Revision:
    return Revision(table, revision, "live", "b", dict.fromkeys(inputs, "r1"))


TWO = [
    reads("silver.trades", "bronze.trades"),
    reads("gold.stats", "silver.trades"),
    reads("silver.readings", "bronze.readings"),
]


def test_tables_that_read_one_another_are_a_family_with_their_topics() -> None:
    assert families(TWO) == [
        {"bronze.readings", "silver.readings"},
        {"bronze.trades", "silver.trades", "gold.stats"},
    ]


def test_a_candidate_that_reads_from_both_joins_two_families() -> None:
    joined = reads("gold.stats", "silver.trades", "silver.readings", revision="r2")
    (only,) = families([*TWO, joined])
    assert len(only) == 5


def test_families_are_what_a_walk_finds() -> None:
    dice = random.Random(7)
    for _ in range(300):
        names = [f"silver.t{n}" for n in range(dice.randint(1, 14))]
        revisions = [
            reads(name, *dice.sample(names[:at], min(at, dice.choice([0, 0, 1, 1, 2]))))
            for at, name in enumerate(names)
        ]
        dice.shuffle(revisions)
        walked = {frozenset(_walk(name, revisions)) for name in names}
        assert set(families(revisions)) == walked
        assert sum(map(len, families(revisions))) == len(names)


def _walk(start: str, revisions: list[Revision]) -> set[str]:
    found, todo = set(), [start]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        for revision in revisions:
            ends = [revision.table, *revision.inputs]
            if name in ends:
                todo += ends
    return found


def test_every_family_is_dealt_once_and_evenly() -> None:
    dice = random.Random(8)
    for _ in range(200):
        found = [
            frozenset(f"silver.f{n}_{m}" for m in range(dice.randint(1, 6)))
            for n in range(dice.randint(0, 12))
        ]
        slots = sorted(dice.sample(range(1, 6), dice.randint(1, 4)))
        dealt = deal(found, slots)
        assert sorted(dealt) == slots
        assert sorted(sorted(f) for some in dealt.values() for f in some) == sorted(
            map(sorted, found)
        )
        loads = [sum(map(len, some)) for some in dealt.values()]
        assert max(loads) - min(loads) <= max(map(len, found), default=0)
        dice.shuffle(found)
        assert deal(found, slots[::-1]) == dealt, "whoever knows the same comes to the same"


def test_who_comes_back_gets_the_same_share_again() -> None:
    found = families(TWO)
    before = deal(found, [1, 2])
    assert deal(found, [2])[2] == before[1] + before[2] or len(deal(found, [2])[2]) == 2
    assert deal(found, [1, 2]) == before


def beat(name: str, age: float, *streams: str, state: str = "running", leads: bool = True):
    told = [{"stream": stream, "state": "running"} for stream in streams]
    return Heartbeat(f"{name}@host-1-abc", state, age, 7, told, leads)


def test_one_supervisor_is_shown_as_it_always_was() -> None:
    dead = beat("supervisor", 4.0, "bronze.a", leads=False)
    standby = beat("supervisor", 0.1, state="standby", leads=False)
    now = beat("supervisor", 0.2, "bronze.a")
    assert together([standby, now, dead]) == now
    assert together([standby]) == standby
    assert together([]) is None


def test_several_are_shown_together_with_who_runs_what() -> None:
    told = together([beat("supervisor-2", 0.1, "bronze.a", "bronze.b"),
                     beat("supervisor", 0.9, "bronze.b", "bronze.c")])  # fmt: skip
    assert told is not None
    assert told.age_seconds == 0.9
    assert {s["stream"]: s["supervisor"] for s in told.streams} == {
        "bronze.a": "supervisor-2",
        "bronze.b": "supervisor-2",  # taken over: the newer sign of life is right
        "bronze.c": "supervisor",
    }
