"""The way of a row goes through merged files and logs that were cleaned up."""

from __future__ import annotations

import pytest

from penstock.lineage.commits import History
from penstock.runtime.log_files import files_at
from tests.unit.maintain.upkept import GOLD, SILVER, Upkept


@pytest.fixture
def world(tmp_path) -> Upkept:
    made = Upkept(tmp_path)
    for number in range(12):
        made.feed(2 * number, 2 * number + 1)
        made.follow()
    made.maintain()
    made.feed(24)
    made.follow()
    made.maintain()
    return made


def test_a_row_of_a_merged_file_has_its_commit_and_what_that_read(world):
    history = History(world.gold.path)
    (file,) = [f for f in files_at(world.gold.path, history.newest) if f.startswith("merged-")]
    before = [history.brought_at(file, row) for row in range(24)]
    assert before == sorted(before)
    assert len(set(before)) == 12
    made = history.commit(before[6])  # of row 6: fed by the fourth commit
    assert made is not None
    assert made.gone
    assert made.told["rows_in"] == 2
    read = history.taken_in("r1", SILVER, [(made.version, made.version)])
    silver = History(world.silver.path)
    (below,) = [f for f in files_at(world.silver.path, silver.newest) if f.startswith("merged-")]
    assert read == [(silver.brought_at(below, 6), silver.brought_at(below, 7))]
    assert GOLD
    assert made.time.endswith("Z")
