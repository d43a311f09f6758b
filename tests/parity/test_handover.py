"""From batch to stream: a history built as a batch and then followed is the table itself.

Every kind, with late rows about: a random life, then a candidate whose history is computed at the
inputs' versions of that moment, in several pieces; then life goes on, and in the end the candidate
is what the batch over everything is, and every row is accounted for, once.
"""

from __future__ import annotations

import random

import pytest

from penstock.model.windows import Timed
from penstock.reprocess.history import how_built
from penstock.runtime.staging import How
from tests.oracles.plans import lives
from tests.parity.kinds import CASES, event
from tests.parity.law import check, live

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", range(1, 1 + lives(1)))
@pytest.mark.parametrize("name", CASES)
def test_handover_is_exact(spark, tmp_path, name, seed):
    case = CASES[name]
    old = live(spark, tmp_path, case, seed, steps=8)
    old.maintain()  # the candidate begins where the logs do, and that is not at the first commit
    build = how_built(case.table, decodes=False) == How.BATCH
    new = old.candidate(case.table, build=build, piece_rows=5)
    if build:
        assert new.follower.behind == 0, "its history is the pinned version, and no more is read"
    dice, chores, number = random.Random(seed + 100), random.Random(seed), 10_000
    make = case.make or event
    for _ in range(6):
        source = dice.choice(list(case.schemas))
        fresh = [make(dice, number + n, source) for n in range(dice.choice([1, 3, 8]))]
        number += 10
        old.feed(fresh, source, follow=False)
        if dice.random() < 0.7:
            new.advance()
        if dice.random() < 0.3:
            new.restart()
        if dice.random() < 0.2:
            new.lose_copies()
        if chores.random() < 0.3:
            old.maintain()
    new.advance()
    if isinstance(case.table.kind, Timed):
        new.reconcile()
    check(new)
