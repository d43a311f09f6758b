"""kill -9 between any two steps of an export: the old one or the new one is there, whole."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from export_world import World

from penstock.export.bench import Workbench
from penstock.export.run import export_tables
from penstock.export.targets import TARGETS, open_target, status
from penstock.settings import Settings

STEPS = ("begin", "apply", "measured", "keep", "publish", "close")
STRIDE = {"clickhouse": 3, "parquet": 3}  # their processes take longer to start, or have more steps
FILES = ("rename", "replace", "symlink_to", "unlink", "write_text")  # of pathlib.Path


def killed_at(home: Path, target_name: str, number: int) -> None:
    """In a process of its own: export, and die at the numbered step."""
    settings, left = Settings(project=home, home=home), [number]

    def stepping(call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return call(*arguments, **options)

        return step

    target = open_target(settings, target_name)
    for name in STEPS:
        setattr(target, name, stepping(getattr(target, name)))
    for name in FILES:
        setattr(Path, name, stepping(getattr(Path, name)))
    export_tables(settings, ["gold.sums", "gold.others"], target)


@pytest.fixture(scope="module")
def processes():
    """Processes that begin with the packages loaded, and nothing else."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["penstock.export.run"])  # not chdb: it must not be forked
    return context


@pytest.mark.parametrize("target", TARGETS)
def test_killed_between_any_two_steps(settings, processes, target):
    home = settings.home
    settings = Settings(project=home, home=home)
    worlds = [
        World(settings, "gold.sums", rows=12),
        World(settings, "gold.others", rows=12, seed=2),
    ]
    export_tables(settings, ["gold.sums", "gold.others"], open_target(settings, target))
    deaths = 0
    for number in range(0, 100, STRIDE.get(target, 1)):
        for world in worlds:
            world.append(3) if number % 2 else world.update()
        before = {held.table: held.delta_version for held in status(settings, [target])[0]}
        child = processes.Process(target=killed_at, args=(home, target, number))
        child.start()
        child.join(120)
        whole(settings, target, before, {str(w.name): w.version for w in worlds})
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
        deaths += 1
    assert deaths >= 5
    again = export_tables(
        settings, ["gold.sums", "gold.others"], open_target(settings, target), verify=True
    )
    assert [outcome.mode for outcome in again.tables] == ["unchanged", "unchanged"]
    left = [p.name for p in (home / "export" / target).rglob(".*") if not p.name.startswith(".l")]
    assert left == [], "what the dead left behind is gone"


def whole(settings: Settings, target: str, before: dict[str, int], newest: dict[str, int]) -> None:
    """What is published is what its claims say, of the version before or of the newest."""
    held = {one.table: one for one in status(settings, [target])[0]}
    assert held.keys() == before.keys()
    versions = {name: one.delta_version for name, one in held.items()}
    if target != "parquet":  # there each table is published by itself
        assert versions in (before, newest)
    for name, one in held.items():
        assert versions[name] in (before[name], newest[name])
        assert contents(settings, target, name) == (one.rows, one.checksum)


def contents(settings: Settings, target: str, table: str) -> tuple[int, str]:
    """Rows and checksum of what a reader finds now."""
    folder = settings.home / "export" / target
    claim = open_target(settings, target).claims()[table]
    with Workbench(settings.home / "looking") as bench:
        if target == "duckdb":
            bench.run(f"ATTACH '{folder / 'live.duckdb'}' AS published (READ_ONLY)")
            found = bench.sum_of(f"published.{table}", claim.columns)
        elif target == "parquet":
            files = str(folder / table / "latest" / "part-*.parquet")
            found = bench.sum_of(f"read_parquet('{files}')", claim.columns)
        else:
            return rows_in_clickhouse(settings, table)
    return found.rows, found.checksum


def rows_in_clickhouse(settings: Settings, table: str) -> tuple[int, str]:
    from penstock.export.clickhouse_places import session

    with session(settings) as reader:
        told = str(reader.query(f"SELECT count(), sum(toUInt128(_row)) FROM {table}", "TSV"))
    rows, total = told.split()
    return int(rows), f"{int(total):x}"
