"""Two revisions of a table in either place: swapped, read, exported, compared and maintained.

Without Spark: the rows are written by hand, and a second writer changes some of them.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from penstock.export.run import export_tables
from penstock.export.targets import open_target
from penstock.lineage.ledger import measure
from penstock.lineage.revisions import Revisions
from penstock.location import Location, copy_of, delta_table
from penstock.model.names import TableName
from penstock.reprocess.compare import compare_table
from penstock.reprocess.comparison import Side, Wishes
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.swap import brought_up, difference, shown, swap
from penstock.runtime.delta.writer import RevisionWriter, live_path
from penstock.runtime.registry import Revision, State
from penstock.runtime.supervise.compact import commit_merge
from penstock.runtime.upkeep.maintain import Maintenance, Pace
from penstock.serve.query import run_query
from penstock.serve.tail import Change as Told
from penstock.serve.tail import follow
from penstock.settings import Settings
from tests.s3 import S3Server

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
NAME = TableName("gold", "sums")
AT_ONCE = Pace(retention=0, internal=0, min_age=0, safe_age=-2, share=1.0, least=1)
INFO = {"operation": "PENSTOCK PROMOTE", "who": "somebody", "why": "a test"}


@pytest.fixture(params=["disk", "s3"])
def home(request: pytest.FixtureRequest, settings: Settings) -> Settings:
    if request.param == "disk":
        return settings
    server: S3Server = request.getfixturevalue("s3")
    return replace(settings, bucket=server.bucket(uuid.uuid4().hex, settings.home / "copies/files"))


class Story:
    """An old and a new revision; the new one doubles every third value."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.live = live_path(settings.warehouse, NAME)
        made = [RevisionWriter(settings.warehouse, NAME, r, SCHEMA, token=1, live=r == "old")
                for r in ("old", "new")]  # fmt: skip
        self.old, self.new = made
        self._keys = itertools.count()

    def feed(self, commits: int) -> None:
        for _ in range(commits):
            keys = [next(self._keys) for _ in range(5)]
            for writer in (self.old, self.new):
                doubled = [2 * k if writer is self.new and k % 3 == 0 else k for k in keys]
                rows = pa.table({"k": keys, "v": doubled}, schema=SCHEMA)
                positions = {"silver.x": keys[-1]}
                adds = write_arrow(rows, writer.path)
                writer.commit(adds, positions, change=Change(rows))

    def promote(self, new: RevisionWriter, old: RevisionWriter) -> int:
        at = old.log.version, new.log.version
        known = difference(old, at[0], new, at[1], self.settings.run / "swap")
        self.feed(2)
        version = swap(old.live, new, brought_up(known, old, at[0], new, at[1]), ("k",), INFO)
        new.show(old.hide())
        return version

    def rows(self, version: int | None = None) -> Counter:
        return _bag(delta_table(self.live, version).to_pyarrow_table())

    def of(self, writer: RevisionWriter) -> Counter:
        return _bag(writer.log.snapshot().to_pyarrow_table())

    def asked(self) -> Counter:
        return Counter(
            tuple(r) for r in run_query(self.settings, "select k, v from gold.sums").rows
        )


def _bag(rows: pa.Table) -> Counter:
    return Counter((row["k"], row["v"]) for row in rows.to_pylist())


@pytest.fixture
def story(home: Settings) -> Story:
    told = Story(home)
    told.feed(6)
    return told


def test_promote_and_back_with_rows_between(story: Story):
    assert story.rows() == story.of(story.old)
    version = story.promote(story.new, story.old)
    assert story.rows() == story.of(story.new) != story.of(story.old)
    assert story.rows(version - 1) == story.of(story.old)
    story.feed(1)
    assert story.rows() == story.of(story.new) == story.asked()
    assert shown(delta_table(story.live), ["old", "new"]) == "new"
    story.promote(story.old, story.new)
    assert story.rows() == story.of(story.old) == story.asked()
    held: Counter = Counter()
    for row in pa.table(delta_table(story.live).load_cdf(0).read_all()).to_pylist():
        came = row["_change_type"] in ("insert", "update_postimage")
        held[row["k"], row["v"]] += 1 if came else -1
    assert +held == story.rows(), "whoever followed the change feed has the same"


def test_an_export_follows_a_swap(story: Story):
    for _ in range(2):
        report = export_tables(story.settings, ["gold.sums"], open_target(story.settings, "duckdb"))
        assert report.done
        with duckdb.connect(str(story.settings.home / "export/duckdb/live.duckdb")) as duck:
            assert Counter(duck.execute("select k, v from gold.sums").fetchall()) == story.rows()
        if story.new.live is None:
            story.promote(story.new, story.old)


def test_a_tail_shows_what_a_swap_changed(story: Story):
    first = delta_table(story.live).version() + 1
    last = story.promote(story.new, story.old)
    told: list[Told] = []
    for one in follow(story.settings, "gold.sums", from_version=first):
        assert isinstance(one, Told)
        told.append(one)
        if one.version == last and len([t for t in told if t.version == last]) == 13:
            break
    assert {t.kind for t in told if t.version < last} == {"insert"}
    swapped = {t.row["k"] for t in told if t.version == last}
    assert swapped == {k for k in range(1, 40) if k % 3 == 0}


def test_two_revisions_are_compared(story: Story):
    sides = [Side(w.revision, w.log.version, w.path, {"k": "long", "v": "long"})
             for w in (story.old, story.new)]  # fmt: skip
    report = compare_table("gold.sums", *sides, keys=("k",), same_rows=True, point=None,
                           wishes=Wishes(), scratch=story.settings.run / "c")  # fmt: skip
    assert (report.counts["equal"], report.counts["differs"]) == (21, 9)


def test_maintenance_merges_cleans_up_and_removes(story: Story):
    story.feed(6)
    writers = {"old": story.old, "new": story.new}
    kinds = {"meaning": {"kind": "rows"}}
    revisions = [Revision(str(NAME), "old", State.LIVE, "", {}, kinds),
                 Revision(str(NAME), "new", State.CANDIDATE, "", {}, kinds)]  # fmt: skip

    def ask(table: str, verb: str, told: dict) -> dict:
        return commit_merge(writers[told["revision"]], told["note"]) if verb == "compact" else {}

    before, data = story.rows(), _parquets(story)
    dry = Maintenance(story.settings.warehouse, revisions, ask, pace=replace(AT_ONCE, dry_run=True))
    assert dry.run()[0].merges == 2
    (done,) = Maintenance(story.settings.warehouse, revisions, ask, pace=AT_ONCE).run()
    assert done.problems == []
    assert (done.files_before, done.files_after) == (24, 2)
    assert (done.files_removed, done.commits_removed) == (24, 42)
    assert _parquets(story) < data
    assert story.rows() == before == story.asked()
    story.feed(1)
    assert story.rows() == story.of(story.old)


def _parquets(story: Story) -> int:
    ledger = measure(story.settings, Revisions(), str(NAME))
    return sum(line.data + line.unneeded for line in ledger.lines)


# --- killed -------------------------------------------------------------------------------------
def _dies_before_showing(warehouse: Location) -> None:
    """Commits to the revision, and is gone before live shows it."""
    writer = RevisionWriter(warehouse, NAME, "old", SCHEMA, token=2, live=True)
    rows = pa.table({"k": [1000], "v": [1]}, schema=SCHEMA)
    writer._show = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
    writer.commit(write_arrow(rows, writer.path), {"silver.x": 1000})


def test_a_writer_killed_between_two_commits_is_finished_by_the_next(story: Story):
    before = story.rows()
    spawned = multiprocessing.get_context("spawn")
    process = spawned.Process(target=_dies_before_showing, args=(story.settings.warehouse,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert story.rows() == before, "live does not show it yet"
    after = RevisionWriter(story.settings.warehouse, NAME, "old", SCHEMA, token=3, live=True)
    assert after.position("silver.x") == 1000
    assert story.rows() == before + Counter([(1000, 1)])
    assert after.catch_up_mirror() == 0


def test_files_of_a_table_are_where_they_are_said_to_be(story: Story):
    add = pa.table(story.new.log.snapshot().get_add_actions())["path"][0].as_py()
    assert isinstance(copy_of(story.new.path / add), Path)
