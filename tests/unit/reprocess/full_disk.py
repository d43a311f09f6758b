"""Run in a mount namespace of its own: a table on a small disk that fills, and has room again.

unshare --user --map-root-user --mount python -m tests.unit.reprocess.full_disk FOLDER
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from deltalake import DeltaTable

from penstock.settings import Settings
from penstock.spark.session import build_session
from penstock.testing import Kit
from tests.parity.law import check
from tests.unit.reprocess.test_swap import EVENTS, Swapped, events, windows

_SIZE = "6m"


def fill(disk: Path) -> Path:
    """Leave nothing."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for step in (1 << 16, 1 << 9, 1):
            try:
                while True:
                    file.write(b"x" * step)
            except OSError:
                continue
    return ballast


def refused(what, *args) -> bool:
    try:
        what(*args)
    except Exception as error:
        print("as it should:", type(error).__name__, str(error)[:90])
        return True
    return False


def main(disk: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(disk)], check=True)
    session = build_session(Settings.load(), "full-disk", memory="1g", quiet=True)
    world = Swapped(session, disk / "tables", windows(), windows(drop=3, more=True))
    before, version = world.rows(), DeltaTable(str(world.live)).version()

    # A swap that finds no room: nothing happened, and it can be asked for again.
    ballast = fill(disk)
    assert refused(world.promote, 1)
    assert (world.rows(), DeltaTable(str(world.live)).version()) == (before, version)
    ballast.unlink()
    world.promote(1)
    assert world.rows() == world.of(1) != before

    # A batch that finds no room: not taken in, and taken in once there is.
    kit = Kit(session, disk / "other", windows(), EVENTS)
    kit.feed(events(world.dice, 0, 100))
    seen = kit.rows()
    kit.feed(events(world.dice, 10, 200), follow=False)
    ballast = fill(disk)
    assert refused(kit.advance)
    assert kit.rows() == seen
    ballast.unlink()
    kit.restart()  # as the supervisor does after a failure
    kit.advance()
    kit.reconcile()
    check(kit)
    assert len(kit.rows()) > len(seen)
    session.stop()
    print("whole")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
