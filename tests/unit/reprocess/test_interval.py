"""A backfill of an interval: what the job is given, what it says, and when its files may go."""

from __future__ import annotations

import datetime as dt
import os
import time
import types
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import SparkRuntimeException, UnknownException

from penstock.errors import PenstockError, TransformError, UsageError
from penstock.model import table, tumbling
from penstock.model.names import TableName
from penstock.reprocess import backfill
from penstock.reprocess.backfill import Backfill
from penstock.runtime.fates import quarantine
from penstock.runtime.registry import Revision, State
from penstock.runtime.supervise import tasks

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
LIVE = Revision("gold.w", "w1", State.LIVE, "", {"silver.a": "a1"}, {"schema": {"fields": []}})


@table("gold.w", inputs={"i": "silver.a"}, kind=tumbling("5 minutes", on="t"),
       keys=("k", "window_start"))  # fmt: skip
def windowed(i):
    return i


class Job:
    """What computes the interval; remembers what it was given."""

    given: dict
    fails: Exception | None = None

    def __init__(self, session, definition, *, into: Path, **given) -> None:
        Job.given, self.path, self.inputs = given, into, given["inputs"]

    def interval(self, first: int, last: int):
        if Job.fails is not None:
            raise Job.fails
        self.path.mkdir(parents=True)
        (self.path / "part-1.parquet").write_text("rows")
        return types.SimpleNamespace(adds=[{"add": {"path": "part-1.parquet"}}], rows_in=7)


@pytest.fixture
def run(settings, monkeypatch):
    lines = [{"row_id": "bad", "source": "silver.a"}, {"row_id": "other", "source": "silver.b"}]
    beside = pa.Table.from_pylist(lines, quarantine.SCHEMA)
    monkeypatch.setattr(backfill, "HistoryBuilder", Job)
    monkeypatch.setattr(Job, "fails", None)
    monkeypatch.setattr(backfill, "arrow_fields", lambda schema: pa.schema([]))
    for name, answer in (
        ("_live", (LIVE, windowed)), ("_closed", 1 << 62), ("_log", None), ("_pinned", {}),
        ("_beside", beside),
    ):  # fmt: skip
        monkeypatch.setattr(Backfill, name, lambda self, *of, answer=answer, **_: answer)

    def asked(ask=lambda *task: {}) -> dict:
        end = START + dt.timedelta(minutes=5)
        job = Backfill(lambda: None, settings, None, ask)
        return job.interval("gold.w", START, end, who="me", why="x")

    return asked


def test_what_cannot_be_is_told_before_spark_is_started(run, settings):
    def spark():
        raise AssertionError

    job = Backfill(spark, settings, None, lambda *task: {})
    with pytest.raises(UsageError, match="not after it begins"):
        job.interval("gold.w", START, START - dt.timedelta(hours=1), who="me", why="x")


def test_the_job_leaves_out_what_is_in_quarantine(run):
    assert run()["rows_in"] == 7
    assert Job.given["condemned"] == {"bad"}


@pytest.mark.parametrize(
    ("error", "kind", "remedy"),
    [
        (SparkRuntimeException("Division by zero. SQLSTATE: 22012"), TransformError, "--all"),
        (UnknownException("No space left on device"), PenstockError, "run the backfill again"),
    ],
)
def test_an_error_of_spark_is_said_in_words(run, monkeypatch, error, kind, remedy):
    monkeypatch.setattr(Job, "fails", error)
    with pytest.raises(kind) as caught:
        run()
    assert type(caught.value) is kind
    assert str(error)[:12] in caught.value.message
    assert remedy in caught.value.remedy


def files_of(settings) -> list[str]:
    return [file.name for file in settings.run.glob("backfill/*/table/*")]


def test_files_go_once_there_is_an_answer(run, settings):
    seen = []

    def answers(*task) -> dict:
        seen.append(files_of(settings))
        return {"changed": 1}

    def refuses(*task) -> dict:
        raise UsageError("still open")

    assert run(answers)["changed"] == 1
    with pytest.raises(UsageError):
        run(refuses)
    assert seen == [["part-1.parquet"]]
    assert files_of(settings) == []


@pytest.mark.parametrize("end", [PenstockError("not done after 600 s"), KeyboardInterrupt()])
def test_files_stay_while_somebody_may_come_for_them(run, settings, end):
    def goes_away(*task) -> dict:
        raise end

    with pytest.raises(type(end)):
        run(goes_away)
    assert files_of(settings) == ["part-1.parquet"]
    (left,) = (settings.run / "backfill").iterdir()
    run()
    assert left.exists()
    yesterday = time.time() - 25 * 3600
    os.utime(left, (yesterday, yesterday))
    run()
    assert not left.exists()


def test_the_job_is_told_what_the_definitions_declare(settings, monkeypatch, jobs):
    monkeypatch.setattr(Backfill, "_catalog", lambda *_: jobs)
    review = jobs.tables[TableName.parse("gold.fraud_review")]
    job = Backfill(lambda: None, settings, None, lambda *task: {})
    timing = job._correction(LIVE, review, None, {}).timing
    assert timing.of_input("decisions", ["paid_at", "rules_from"]) == "paid_at"
    assert timing.of_input("outcomes", ["reported_at", "told_at"]) == "reported_at"


@pytest.mark.parametrize("word", ["files", "added", "gone"])
def test_a_writer_that_comes_too_late_refuses(tmp_path, word):
    """And goes on: an error of another kind would have its follower made anew."""
    there = tmp_path / "there"
    there.write_text("rows")
    table = types.SimpleNamespace(name="gold.w", writer=types.SimpleNamespace(live=object()))
    with pytest.raises(UsageError, match="1 of 2 files") as caught:
        tasks.VERBS["backfill"](table, {word: [str(there), str(tmp_path / "gone")]})
    assert "Run the backfill again" in caught.value.remedy
