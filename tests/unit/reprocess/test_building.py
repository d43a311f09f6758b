"""One process builds a release; the next one waits for it and takes over when it dies."""

from __future__ import annotations

import subprocess
import sys

from penstock.reprocess.building import building, progress_of
from penstock.settings import Settings
from tests.live import wait_for

HOLDER = """
import sys, time
from dataclasses import replace
from pathlib import Path
from penstock.reprocess.building import building
from penstock.settings import Settings
mine = building(replace(Settings.load(), home=Path(sys.argv[1])), "r1")
print(mine.taken(), flush=True)
time.sleep(600)
"""


def test_a_second_process_waits_until_the_first_is_gone(settings: Settings) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(settings.home)],
        cwd=settings.project,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "True"
        mine, other = building(settings, "r1"), building(settings, "r2")
        assert not mine.taken()
        assert other.taken(), "another release is another matter"
    finally:
        holder.kill()
        holder.wait(30)
    wait_for("the lock", mine.taken, 20)
    with mine:
        assert not building(settings, "r1").taken()
    assert building(settings, "r1").taken()


def test_progress_is_read_back_as_it_was_told() -> None:
    told = {"done": 1, "pieces": 2, "rows": 3, "of_rows": 4, "rows_per_second": 5.0,
            "seconds_left": 6.0}  # fmt: skip
    progress = progress_of({**told, "error": ""})
    assert progress is not None
    assert progress.as_dict() == told
    assert progress_of({"error": "x"}) is None
