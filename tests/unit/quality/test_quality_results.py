"""The history of checks: exact, and written by several processes at once without losing a row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.errors import LeaseLost
from penstock.quality import results
from penstock.quality.results import SCHEMA, Occasion, history, keep, newest
from penstock.runtime.delta.files import removal, write_arrow
from penstock.runtime.delta.log import DeltaLog, append_shared

PROJECT = Path(__file__).resolve().parents[3]


def row(occasion: Occasion, check: str, *, success: bool = True, revision: str = "r1") -> dict:
    return {
        **dict.fromkeys(SCHEMA.names), "run_id": occasion.run, "checked_at": occasion.at,
        "boundary": occasion.boundary, "table_name": "gold.x", "state": "live",
        "revision": revision, "version": 7, "check_name": check, "severity": "blocking",
        "success": success, "seconds": 0.5,
    }  # fmt: skip


def stored(settings) -> list[dict]:
    path = settings.warehouse / "quality" / "results"
    return DeltaTable(str(path)).to_pyarrow_table().to_pylist()


def test_every_row_is_kept_as_it_was(settings):
    one, two = Occasion.now("silver"), Occasion.now("gold")
    first = [row(one, "a"), row(one, "b", success=False)]
    keep(settings, first, one.run)
    keep(settings, [row(two, "a", revision="r2")], two.run)
    kept = stored(settings)
    assert sorted(kept, key=lambda r: (r["run_id"], r["check_name"])) == sorted(
        [*first, row(two, "a", revision="r2")], key=lambda r: (r["run_id"], r["check_name"])
    )
    latest, before = history(settings, "gold.x")
    assert (latest["run_id"], latest["blocking"], latest["failed"]) == (two.run, 0, None)
    assert (before["checks"], before["blocking"], before["failed"]) == (2, 1, ["b"])
    assert [r["check_name"] for r in newest(settings, "gold.x", "r1")] == ["a", "b"]
    assert newest(settings, "gold.x", "nobody") == []
    assert history(settings, "gold.nobody") == []


_WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from penstock.settings import Settings
from penstock.quality.results import SCHEMA, Occasion, keep
settings = replace(Settings.load(), home=Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    occasion = Occasion.now("silver")
    keep(settings, [{**dict.fromkeys(SCHEMA.names), "run_id": f"{sys.argv[2]}-{number}",
                     "checked_at": occasion.at, "table_name": "gold.x"}], occasion.run)
"""


def test_processes_that_write_at_once_lose_nothing(settings):
    """From the very first commit: the table is not there when they begin."""
    many, each = 4, 55  # more files than are put together: that happens meanwhile too
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(settings.home), str(n), str(each)],
            cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for n in range(many)
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=300)
        assert writer.returncode == 0
    kept = [r["run_id"] for r in stored(settings)]
    assert len(kept) == many * each
    assert set(kept) == {f"{n}-{number}" for n in range(many) for number in range(each)}
    path = settings.warehouse / "quality" / "results"
    assert len(DeltaTable(str(path)).file_uris()) < many * each, "put together on the way"


def test_files_are_put_together_and_no_row_changes(settings, monkeypatch):
    monkeypatch.setattr(results, "_MANY_FILES", 5)
    for number in range(5):
        occasion = Occasion.now("silver")
        keep(settings, [row(occasion, f"c{number}")], occasion.run)
    path = settings.warehouse / "quality" / "results"
    table = DeltaTable(str(path))
    assert len(table.file_uris()) == 1
    assert {r["check_name"] for r in stored(settings)} == {f"c{n}" for n in range(5)}
    changes = table.load_cdf(starting_version=1).read_all()
    assert sorted(pa.table(changes)["check_name"].to_pylist()) == [f"c{n}" for n in range(5)]


def test_somebody_elses_commit_keeps_files_apart_until_the_next_run(settings, monkeypatch):
    occasion = Occasion.now("silver")
    keep(settings, [row(occasion, "a")], occasion.run)
    path = settings.warehouse / "quality" / "results"
    monkeypatch.setattr(results, "_MANY_FILES", 2)
    real = results.write_arrow

    def slow(rows, folder):
        files = real(rows, folder)
        if rows.num_rows > 1:  # while files are put together
            append_shared(path, real(rows.slice(0, 1), folder), {})
        return files

    monkeypatch.setattr(results, "write_arrow", slow)
    keep(settings, [row(occasion, "b")], occasion.run)
    assert sorted(r["check_name"] for r in stored(settings)) in (["a", "a", "b"], ["a", "b", "b"])


def test_only_rows_can_be_added_and_only_where_nobody_holds_the_table(tmp_path):
    schema = pa.schema([("v", pa.int64())])
    DeltaLog.create(tmp_path / "t", schema)
    files = write_arrow(pa.table({"v": [1]}, schema), tmp_path / "t")
    with pytest.raises(ValueError, match="only new files"):
        append_shared(tmp_path / "t", [removal("x", 1)], {})
    DeltaLog.take(tmp_path / "t", 3)
    with pytest.raises(LeaseLost):
        append_shared(tmp_path / "t", files, {})
