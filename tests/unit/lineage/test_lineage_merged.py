"""The way of a row goes through merged files and logs that were cleaned up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lineage_world import World, at

from penstock.lineage.commits import History
from penstock.lineage.revisions import Revisions
from penstock.lineage.trace import trace
from penstock.runtime.delta.log_files import LogFiles, files_at
from penstock.runtime.registry import Revision, State
from penstock.runtime.supervise.compact import commit_merge
from penstock.runtime.upkeep.maintain import Maintenance, Pace
from tests.unit.maintain.upkept import SILVER, Upkept

AT_ONCE = Pace(retention=0, internal=0, min_age=0, safe_age=0, share=1.0, least=1)


def maintain(world: World) -> None:
    """Everything is merged and nothing is left that nobody needs."""
    writers = {
        "bronze.events": world.bronze,
        "silver.events": world.silver,
        "gold.sums": world.gold,
    }
    revisions = [
        Revision("silver.events", "s1", State.LIVE, "", {"bronze.events": ""}, {}),
        Revision("gold.sums", "g1", State.LIVE, "", {"silver.events": "s1"}, {}),
    ]

    def ask(table, verb, arguments):
        return commit_merge(writers[table], arguments["note"])

    for _ in range(2):
        done = Maintenance(world.folder, revisions, ask, pace=AT_ONCE).run()
        assert not [problem for one in done for problem in one.problems]
        world.follow([])  # both stand behind the merges now
        world.sum_up([])


def filled(world: World) -> None:
    for minute in range(8):
        world.follow(world.send(("a", minute, 60 * minute), ("b", 100 + minute, 60 * minute + 1)))
        world.follow(world.send(("c", 200 + minute, 60 * minute + 2), partition=1))
        world.sum_up([{"k": "a", "window_start": at(60 * minute), "total": minute}])


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        ("silver.events", ("v", "3")),
        ("silver.events", ("v", "204")),
        ("gold.sums", ("total", "5")),
        ("bronze.events", ("timestamp", str(at(60 * 4)))),
    ],
)
def test_the_way_of_a_row_is_the_same_after_maintenance(world, table, wanted):
    filled(world)
    before = trace(world.settings, Revisions(), table, [wanted])
    maintain(world)
    for log in (world.bronze, world.silver, world.gold):
        assert LogFiles.listed(log.path).start > 5
        assert any(f.startswith("merged-") for f in files_at(log.path, log.log.version))
    after = trace(world.settings, Revisions(), table, [wanted])
    assert after.count == before.count == 1
    (old,), (new,) = before.rows, after.rows
    assert "merged-" in new.file
    assert replace(new, file="") == replace(old, file="")


def test_a_row_of_a_merged_file_has_its_commit_and_what_that_read(tmp_path):
    small = Upkept(tmp_path)
    for number in range(12):
        small.feed(2 * number, 2 * number + 1)
        small.follow()
    small.maintain()
    small.feed(24)
    small.follow()
    small.maintain()
    history = History(small.gold.path)
    (file,) = [f for f in files_at(small.gold.path, history.newest) if f.startswith("merged-")]
    before = [history.brought_at(file, row) for row in range(24)]
    assert before == sorted(before)
    assert len(set(before)) == 12
    made = history.commit(before[6])
    assert made is not None
    assert made.gone
    assert made.told["rows_in"] == 2
    read = history.taken_in("r1", SILVER, [(made.version, made.version)])
    silver = History(small.silver.path)
    (below,) = [f for f in files_at(small.silver.path, silver.newest) if f.startswith("merged-")]
    assert read == [(silver.brought_at(below, 6), silver.brought_at(below, 7))]
