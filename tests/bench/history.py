"""Does a table get slower as its history gets longer? Commits, rounds of a follower, opening it.

One table is committed to, ten rows at a time, and mirrored into its live log; a second one follows
it from files, commit by commit. Maintenance runs every thousand commits, checkpoints as in the
supervisor. Nothing else: no Spark, no broker. Medians over 200 commits, after 100 and in the end.

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

from penstock.runtime.maintain import Pace
from penstock.runtime.upkeep import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.unit.maintain.upkept import GOLD, SILVER, Upkept

WINDOW = 200
PACE = Pace(retention=0, internal=0, min_age=0, safe_age=0, share=1.0, least=100)


def window(world: Upkept) -> dict[str, float]:
    """Median milliseconds of a commit, of a follower's round, and of opening and reading live."""
    commits, rounds = [], []
    for number in range(WINDOW):
        began = time.perf_counter()
        world.feed(*range(number, number + 10))
        fed = time.perf_counter()
        world.follow()
        commits.append(fed - began)
        rounds.append(time.perf_counter() - fed)
    return {"commit": _median(commits), "round": _median(rounds), **opened(world)}


def opened(world: Upkept) -> dict[str, float]:
    opens, starts = [], []
    for _ in range(7):
        began = time.perf_counter()
        DeltaTable(str(world.live(GOLD))).file_uris()
        opens.append(time.perf_counter() - began)
        began = time.perf_counter()
        DeltaTable(str(world.gold.path)).transaction_version(f"r1:{SILVER}")
        starts.append(time.perf_counter() - began)
    return {"open": _median(opens), "position": _median(starts)}


def _median(seconds: list[float]) -> float:
    return round(1000 * statistics.median(seconds), 3)


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
        world = Upkept(Path(folder))
        life(world, 100, maintain=False)
        early = window(world)
        spent = life(world, options.commits, maintain=not options.without)
        if not options.without:
            world.maintain(PACE)
        late = window(world)
        files = sum(1 for file in Path(folder).rglob("*") if file.is_file())
    ratio = {name: round(late[name] / early[name], 2) for name in early}
    told = {
        "commits": options.commits,
        "maintained": not options.without,
        "after_100_ms": early,
        "after_all_ms": late,
        "ratio": ratio,
        "files_on_disk": files,
        "maintenance_seconds": round(spent, 1),
    }
    print(json.dumps(told, indent=1))
    return 0 if options.without or max(ratio["commit"], ratio["round"]) <= 1.15 else 1


if __name__ == "__main__":
    sys.exit(main())
