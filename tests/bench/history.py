"""Does a table get slower as its history gets longer? Commits, rounds of a follower, opening it.

One table is committed to, ten rows at a time, and mirrored into its live log; a second one follows
it from files, commit by commit. Maintenance runs every thousand commits, checkpoints as in the
supervisor. Nothing else: no Spark, no broker. In the end it is measured against a table that has
only 100 commits, in turns, so that both are measured on the same machine at the same time.

    .venv/bin/python tests/bench/history.py --commits 10000
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from deltalake import DeltaTable

from penstock.runtime.delta.upkeep import checkpoint
from penstock.runtime.upkeep.maintain import Pace

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.unit.maintain.upkept import GOLD, Upkept

TURNS, PER_TURN = 20, 20
PACE = Pace(retention=0, internal=0, min_age=0, safe_age=0, share=1.0, least=100)


def measured(worlds: dict[str, Upkept]) -> dict[str, dict[str, float]]:
    """Median milliseconds, per world, of a commit, a follower's round, and of opening live."""
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in worlds}
    for _ in range(TURNS):
        for name, world in worlds.items():
            for number in range(PER_TURN):
                began = time.perf_counter()
                world.feed(*range(number, number + 10))
                fed = time.perf_counter()
                world.follow()
                _note(taken[name], "commit", fed - began)
                _note(taken[name], "round", time.perf_counter() - fed)
            began = time.perf_counter()
            DeltaTable(str(world.live(GOLD))).file_uris()
            _note(taken[name], "open", time.perf_counter() - began)
    return {
        name: {what: round(1000 * statistics.median(some), 3) for what, some in found.items()}
        for name, found in taken.items()
    }


def _note(taken: dict[str, list[float]], what: str, seconds: float) -> None:
    taken.setdefault(what, []).append(seconds)


def life(world: Upkept, commits: int, *, maintain: bool) -> float:
    """Commit until there are so many; returns how many seconds maintenance took."""
    spent = 0.0
    logs = [world.silver.log, world.gold.log, world.counts.log]
    logs += [w.live for w in (world.silver, world.gold, world.counts) if w.live is not None]
    while world.silver.log.version < commits:
        world.feed(*range(10))
        world.follow()
        version = world.silver.log.version
        if version % 100 == 0:
            for log in logs:
                checkpoint(log.path)
        if maintain and version % 1000 == 0:
            began = time.perf_counter()
            world.maintain(PACE)
            spent += time.perf_counter() - began
    return spent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--without", action="store_true", help="without maintenance, to compare")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-history-") as folder:
        old, young = Upkept(Path(folder) / "old"), Upkept(Path(folder) / "young")
        spent = life(old, options.commits, maintain=not options.without)
        life(young, 100, maintain=False)
        found = measured({"old": old, "young": young})
        files = sum(1 for file in (Path(folder) / "old").rglob("*") if file.is_file())
    ratio = {name: round(took / found["young"][name], 2) for name, took in found["old"].items()}
    told = {
        "commits": options.commits,
        "maintained": not options.without,
        "median_ms": found,
        "ratio": ratio,
        "files_on_disk": files,
        "maintenance_seconds": round(spent, 1),
    }
    print(json.dumps(told, indent=1))
    return 0 if options.without or max(ratio["commit"], ratio["round"]) <= 1.15 else 1


if __name__ == "__main__":
    sys.exit(main())
