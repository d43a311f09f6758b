"""The law every kind keeps: whatever the batches, the order, the restarts, the losses, in the end
the stream's table is the batch's, and every row is accounted for."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

from penstock.model.windows import Timed
from penstock.testing import Kit
from tests.parity.kinds import START, Case, event


def live(
    spark: Any, folder: Path, case: Case, seed: int, steps: int = 14, *, corrected: bool = False
) -> Kit:
    """A random life of a table; returns the kit at its end, drained and reconciled.

    Small files are merged, logs cleaned up and files removed in between, at random moments of
    their own: the same seed gives the same life with them and without.

    Args:
        corrected: rows are taken back now and then, also from an input that only grows otherwise.
    """
    dice, chores = random.Random(seed), random.Random(seed + 1)
    names = list(case.schemas)
    kit = Kit(spark, folder, case.table, case.schemas, changing=names if case.changing else ())
    make, number = case.make or event, 0
    held: dict[str, list[dict]] = {name: [] for name in names}
    for _ in range(steps):
        name = dice.choice(names)
        odds = 0.3 if case.changing else 0.2 if corrected else 0.0
        if held[name] and dice.random() < odds:
            gone = dice.sample(held[name], dice.randrange(1, min(4, len(held[name])) + 1))
            for row in gone:
                held[name].remove(row)
            kit.remove(gone, name, follow=dice.random() < 0.7)
        else:
            fresh = []
            for _ in range(dice.choice([0, 1, 3, 8])):
                fresh.append(make(dice, number, name))
                number += 1
            held[name] += fresh
            kit.feed(fresh, name, follow=dice.random() < 0.7)
        if dice.random() < 0.2:
            kit.restart()
        if dice.random() < 0.1:
            kit.lose_copies()
        if dice.random() < 0.2:
            kit.follower.settle(now=True)
        if isinstance(case.table.kind, Timed) and dice.random() < 0.2:
            kit.advance()
            kit.reconcile()
        if chores.random() < 0.3:
            kit.maintain()
    kit.advance()
    if isinstance(case.table.kind, Timed):
        kit.reconcile()
    return kit


def walk_edges(spark: Any, folder: Path, case: Case) -> None:
    """Rows exactly a second apart, so that the watermark stands on every edge in turn."""
    kit = Kit(spark, folder, case.table, case.schemas)
    for second in range(12):
        for number, name in enumerate(case.schemas):
            at = START + dt.timedelta(seconds=second)
            kit.feed([{"k": "a", "v": 1, "t": at, "n": 2 * second + number}], name)
        assert kit.rows() == kit.batch_rows(), f"after {second} s"


def check(kit: Kit) -> None:
    """Stream equals batch, and nothing is unaccounted for."""
    assert kit.rows() == kit.batch_rows()
    assert not any(kit.balance().values()), (kit.balance(), kit.outcomes())
    assert all(rows >= 0 for rows in kit.outcomes().values()), kit.outcomes()
