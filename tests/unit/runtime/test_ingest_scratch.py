"""Scratch folders: a killed process's are swept by the next one, a living one's are left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.spark.session import claim_scratch

CLAIM = """
import sys, time
from pathlib import Path
from penstock.spark.session import claim_scratch
print(claim_scratch(Path(sys.argv[1])), flush=True)
time.sleep(600)
"""


def claimed_elsewhere(root: Path) -> tuple[subprocess.Popen, Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(root)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_folders_of_the_dead_go_and_those_of_the_living_stay(tmp_path):
    process, other = claimed_elsewhere(tmp_path)
    try:
        (other / "blockmgr-1").mkdir()
        mine = claim_scratch(tmp_path)
        assert mine.is_dir()
        assert other.is_dir(), "its owner is alive"
    finally:
        process.kill()
        process.wait()
    again = claim_scratch(tmp_path)
    assert not other.exists()
    assert mine.is_dir(), "this process holds it"
    assert again != mine


def test_what_is_not_a_session_is_left_alone(tmp_path):
    (tmp_path / "blockmgr-old").mkdir()
    (tmp_path / "session-half-made").mkdir()
    claim_scratch(tmp_path)
    assert (tmp_path / "blockmgr-old").is_dir()
    assert not (tmp_path / "session-half-made").exists()
