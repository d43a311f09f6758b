"""A disk that fills in the middle of a swap or of a batch: refused, whole, and done later."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.live import PROJECT

pytestmark = pytest.mark.spark


def test_nothing_is_half_done_on_a_full_disk(tmp_path):
    """On a real file system of six megabytes, mounted where nobody else sees it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    run = subprocess.run(
        [*alone, sys.executable, "-m", "tests.unit.reprocess.full_disk", str(disk)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert run.stdout.splitlines()[-1:] == ["whole"], run.stdout[-2000:] + run.stderr[-3000:]
    assert run.stdout.count("as it should") == 2
