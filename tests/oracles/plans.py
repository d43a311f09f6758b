"""How rows reach a table under test: in which batches, to which input, with restarts between.

Hypothesis makes every choice, so that what fails is cut down to what matters.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.oracles import Row, in_order

__all__ = [
    "STEPS",
    "TRIES",
    "Plan",
    "agree",
    "become",
    "evolve",
    "few",
    "lives",
    "plans",
    "tried",
]


def lives(number: int) -> int:
    """So many random lives; ten times as many with ``--hypothesis-profile=long``."""
    return number * settings.default.max_examples // 100


# Every example runs a stream on disk: few of them, and always the same. `make parity` takes more.
few = settings(
    max_examples=lives(6),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


# How often a table is tried: few lives in `make test`, more when the slow tests are run.
TRIES = (3, pytest.param(25, marks=pytest.mark.slow))
# How much more is there at each step of an input's life, and whether all is restarted before.
STEPS = st.lists(st.tuples(st.integers(1, 8), st.booleans()), min_size=2, max_size=3)


def tried(times: int) -> settings:
    """As few, so many times."""
    return settings(few, max_examples=times)


class Tried(Protocol):
    """What a plan needs of the kit."""

    def feed(self, rows: list[Row], to: str) -> None: ...
    def remove(self, rows: list[Row], to: str) -> None: ...
    def restart(self) -> None: ...
    def rows(self) -> list[Row]: ...
    def batch_rows(self) -> list[Row]: ...
    def balance(self) -> dict[str, int]: ...


@dataclass(frozen=True)
class Plan:
    """Batches in the order in which they come; before some of them everything is restarted."""

    batches: list[tuple[str, list[Row]]]
    restarts: frozenset[int]

    def carry_out(self, kit: Tried) -> None:
        for number, (to, rows) in enumerate(self.batches):
            if number in self.restarts:
                kit.restart()
            kit.feed(rows, to)

    def fed(self, to: str) -> list[Row]:
        """All rows of one input."""
        return [row for name, rows in self.batches if name == to for row in rows]


Make = Callable[[random.Random, int], list[Row]]


@st.composite
def plans(draw: Any, inputs: Mapping[str, Make], most: int = 24) -> Plan:
    """Rows of each input, cut into batches that take turns."""
    waiting: dict[str, list[list[Row]]] = {}
    for name, make in inputs.items():
        dice = draw(st.randoms(use_true_random=False))
        rows = make(dice, draw(st.integers(most // 3, most)))
        cuts = draw(st.lists(st.integers(1, most), min_size=1, max_size=2))
        edges = sorted({0, *(cut % (len(rows) + 1) for cut in cuts), len(rows)})
        waiting[name] = [rows[a:b] for a, b in pairwise(edges)]
    batches = []
    while any(waiting.values()):
        name = draw(st.sampled_from(sorted(name for name, left in waiting.items() if left)))
        batches.append((name, waiting[name].pop(0)))
    restarts = frozenset(n for n in range(1, len(batches)) if draw(st.booleans()))
    return Plan(batches, restarts)


def become(kit: Tried, to: str, before: list[Row], after: list[Row]) -> None:
    """Let an input that changes go from one state to the next, as an upserting table would."""
    gone = [row for row in before if row not in after]
    new = [row for row in after if row not in before]
    if gone:
        kit.remove(gone, to)
    if new:
        kit.feed(new, to)


def evolve(kit: Tried, states: Iterable[tuple[Mapping[str, list[Row]], bool]]) -> None:
    """Let inputs that change go through states, one after the other; restarted before some."""
    held: Mapping[str, list[Row]] = {}
    for state, restart in states:
        if restart:
            kit.restart()
        for to, rows in state.items():
            become(kit, to, held.get(to, []), rows)
        held = state


def agree(kit: Tried, expected: list[Row]) -> None:
    """The stream's rows are the batch's, both are the oracle's, and every row is accounted for."""
    streamed = in_order(kit.rows())
    assert streamed == in_order(kit.batch_rows())
    assert streamed == in_order(expected)
    assert not any(kit.balance().values()), kit.balance()
