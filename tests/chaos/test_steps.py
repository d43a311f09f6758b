"""Killed at every step of stage, adopt, mirror, promote, rollback, backfill, abort and retire.

Each step is one supervisor (or one `penstock stage`) that dies there with its whole process group.
The next one is started, finishes what was begun, and the live table has the very rows it should
have: those of the old or of the new code, as an untouched build of each has them. Nothing is
swapped twice.
"""

from __future__ import annotations

import datetime as dt
import getpass
import hashlib
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from penstock.cli.asking import ask
from penstock.platform.stack import Stack
from penstock.reprocess.comparison import Wishes
from penstock.reprocess.release import Releases
from penstock.reprocess.status import statuses
from penstock.runtime.delta.swap import files_at
from penstock.runtime.registry import Registry
from tests.chaos.doomed import STEPS
from tests.live import PROJECT, Feed, Supervised, wait_for
from tests.readers import swaps

pytestmark = [pytest.mark.platform, pytest.mark.slow, pytest.mark.timeout(7200)]

GOLD = "gold.stock_stats"
PATIENCE = 300.0


class Doomed(Supervised):
    """Supervisors that may be told where to die."""

    def start_doomed(self, step: str) -> subprocess.Popen:
        log = self.settings.logs / f"doomed-{len(self.processes)}.log"
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.doomed", step, "supervise"],
            env=self.environment(),
            cwd=PROJECT,
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def environment(self) -> dict[str, str]:
        return self.settings.environment()

    def command(self, *arguments: str, step: str | None = None) -> subprocess.CompletedProcess:
        module = ["-m", "tests.chaos.doomed", step] if step else ["-m", "penstock.cli"]
        return subprocess.run(
            [sys.executable, *module, *arguments],
            check=False,
            env=self.environment(),
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=600,
            start_new_session=True,
        )


class World:
    def __init__(self, stack: Stack, project: Path) -> None:
        self.settings = replace(stack.settings, project=project)
        self.doomed = Doomed(self.settings)
        self.registry = Registry(self.settings)
        self.registry.create()
        self.live = self.settings.warehouse / "gold" / "stock_stats"
        self.module = project / "spark_jobs" / "gold" / "stock_stats.py"
        self.hashes: dict[str, str] = {}
        self.span = (dt.datetime.now(dt.UTC), dt.datetime.now(dt.UTC))

    @property
    def releases(self) -> Releases:
        def through(table, verb, arguments):
            return ask(self.settings, table, verb, arguments, quiet=True, timeout=PATIENCE)

        return Releases(self.settings, Registry(self.settings), through, getpass.getuser())

    def hash(self, path: Path | None = None) -> str:
        rows = DeltaTable(str(path or self.live)).to_pyarrow_table().to_pylist()
        return hashlib.sha256(repr(sorted(map(repr, rows))).encode()).hexdigest()[:16]

    def live_revision(self) -> str:
        return next(
            r.revision for r in self.registry.revisions(states=("live",)) if r.table == GOLD
        )

    def dies(self, process: subprocess.Popen, what) -> None:
        """Ask for something that the supervisor will not survive."""
        beat = threading.Thread(target=_quietly, args=(what,), daemon=True)
        beat.start()
        process.wait(PATIENCE)
        assert process.returncode == -9, process.returncode


def _quietly(what) -> None:
    try:
        what()
    except Exception as error:
        print("as asked:", error)


@pytest.fixture(scope="module")
def world(base_settings, test_project, tmp_path_factory):
    project = tmp_path_factory.mktemp("steps") / "project"
    shutil.copytree(test_project, project)
    (project / "spark_jobs" / "fragile.py").unlink()
    with tempfile.TemporaryDirectory(prefix="penstock-steps-") as folder:
        settings = replace(base_settings, home=Path(folder).resolve(), port_offset=8800)
        stack = Stack(settings)
        world = None
        try:
            stack.up(only=["postgres", "kafka", "registry"])
            world = World(stack, project)
            yield world
        finally:
            if world is not None:
                world.doomed.kill_all()
            stack.down()


def feed(world: World) -> None:
    """Trades at fixed times, so that every build of the same code has the same rows."""
    sender = Feed(world.settings)
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    start = now - dt.timedelta(minutes=10)
    world.span = (start - dt.timedelta(minutes=1), start + dt.timedelta(minutes=9))
    for number in range(2000):
        at = start + dt.timedelta(milliseconds=250 * number)
        sender.send(f"T{number % 9}", size=13 if number % 11 == 0 else 1 + number % 90, at=at)
    sender.flush()


@pytest.fixture(scope="module")
def edited(world):
    """A table as the old code makes it, and an edit of that code."""
    first = world.doomed.start()
    feed(world)
    wait_for("all windows", lambda: DeltaTable(str(world.live)).to_pyarrow_table().num_rows > 4000)
    wait_for("no more windows", lambda: _still(world))
    world.hashes["old"] = world.hash()
    text = world.module.read_text()
    world.module.write_text(
        text.replace("return trades.groupBy(", 'return trades.where("size <> 13").groupBy(')
    )
    world.doomed.stop(first)
    return world


def steps_of(*kinds: str) -> list[str]:
    return [step for step in STEPS if step.partition(".")[0] in kinds]


def test_every_step_of_stage(edited):
    healthy = edited.doomed.start()
    for step in steps_of("stage"):
        _stage(edited, step)
    edited.doomed.stop(healthy)


def test_every_step_of_the_hand_over(edited):
    for step in steps_of("adopt"):
        _adopt(edited, step)


def test_every_step_of_a_swap(edited):
    world = edited
    healthy = world.doomed.start()
    _staged(world)
    (candidate,) = statuses(world.settings, world.registry)
    world.hashes["new"] = world.hash(world.live / "_revisions" / candidate.revision)
    assert world.hashes["new"] != world.hashes["old"]
    world.releases.compare(GOLD, Wishes(threshold=1.0))
    world.doomed.stop(healthy)
    for promote, rollback in zip(steps_of("promote"), steps_of("rollback"), strict=True):
        _swapped(world, promote, "new", lambda: world.releases.promote(
            GOLD, why="a step", accept=None, keep_warm=None))  # fmt: skip
        _swapped(world, rollback, "old", lambda: world.releases.rollback(GOLD, why="a step"))


def test_every_other_step(edited):
    does = {"mirror": _mirrored, "backfill": _backfilled, "abort": _aborted, "retire": _retired}
    for kind, do in does.items():
        for step in steps_of(kind):
            do(edited, step)


def _still(world: World) -> bool:
    before = world.hash()
    beat = world.registry.heartbeat()
    drained = beat is not None and all(s.get("behind") == 0 for s in beat.streams)
    threading.Event().wait(6)
    return drained and world.hash() == before


def _staged(world: World) -> None:
    told = world.doomed.command("stage", GOLD)
    assert told.returncode == 0, told.stderr


def _stage(world: World, step: str) -> None:
    """The builder dies; the same command goes on, and the candidate is as if nothing happened."""
    died = world.doomed.command("stage", GOLD, step=step)
    assert died.returncode == -9, (step, died.stderr)
    _staged(world)
    (candidate,) = statuses(world.settings, world.registry)
    built = world.hash(world.live / "_revisions" / candidate.revision)
    assert world.hashes.setdefault("candidate", built) == built, step
    world.releases.abort(GOLD)
    print(step, "ok")


def _adopt(world: World, step: str) -> None:
    """The writer dies while it takes a history over."""
    assert world.doomed.command("stage", GOLD, "--no-wait").returncode == 0
    process = world.doomed.start_doomed(step)
    world.dies(process, lambda: None)
    healthy = world.doomed.start()
    _staged(world)
    (candidate,) = statuses(world.settings, world.registry)
    built = world.hash(world.live / "_revisions" / candidate.revision)
    assert world.hashes.setdefault("candidate", built) == built, step
    _balanced(world, candidate.revision)
    world.releases.abort(GOLD)
    world.doomed.stop(healthy)
    print(step, "ok")


def _balanced(world: World, revision: str) -> None:
    """Outcomes of a candidate add up to the rows it read, in windows."""
    path = world.settings.warehouse / "outcomes" / "gold_stock_stats" / "_revisions" / revision

    def counted() -> bool:
        rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
        return sum(row["rows"] for row in rows) == 2000 * 5

    wait_for(f"outcomes of {revision} to balance", counted, 60)


def _swapped(world: World, step: str, want: str, operation) -> None:
    """The supervisor dies within a swap; the next one finishes it, once."""
    process = world.doomed.start_doomed(step)
    world.doomed.wait_running(process, PATIENCE)
    before = len(swaps(world.live))
    world.dies(process, operation)
    healthy = world.doomed.start()
    wait_for(f"{step} to be finished", lambda: world.hash() == world.hashes[want], PATIENCE)
    wait_for("no task to wait", lambda: not world.registry.tasks(), PATIENCE)
    assert len(swaps(world.live)) == before + 1, "swapped once, not twice"
    shown = world.live_revision()
    for beside in ("quarantine", "late", "outcomes"):
        path = world.settings.warehouse / beside / "gold_stock_stats"
        files = files_at(path, DeltaTable(str(path)).version())
        assert all(shown in name for name in files), (step, beside)
    world.doomed.stop(healthy)
    print(step, "ok")


def _mirrored(world: World, step: str) -> None:
    process = world.doomed.start_doomed(step)
    world.doomed.wait_running(process, PATIENCE)
    sender = Feed(world.settings)

    def send() -> None:
        at = dt.datetime.now(dt.UTC)
        sender.send("T1", at=at)
        sender.flush()

    world.dies(process, send)
    healthy = world.doomed.start()
    revision = world.live / "_revisions" / world.live_revision()
    wait_for("live to show all", lambda: world.hash() == world.hash(revision), PATIENCE)
    wait_for("no more windows", lambda: _still(world))
    assert world.hash() == world.hash(revision)
    world.hashes["old"] = world.hash()
    world.doomed.stop(healthy)
    print(step, "ok")


def _backfilled(world: World, step: str) -> None:
    """Nothing is wrong with the rows, so one is taken out first."""
    from penstock.runtime.delta.files import removal
    from penstock.runtime.delta.log import DeltaLog

    path = world.live / "_revisions" / world.live_revision()
    held = files_at(path, DeltaTable(str(path)).version())
    name, add = max(held.items(), key=lambda item: item[1]["size"])
    token = DeltaTable(str(path)).transaction_version("penstock:lease")
    log = DeltaLog(path, token)
    log.commit([removal(name, add["size"])], {}, {"operation": "DAMAGE"})
    rows = DeltaTable(str(path)).to_pyarrow_table(columns=["window_start"])
    assert rows.num_rows
    process = world.doomed.start_doomed(step)
    world.doomed.wait_running(process, PATIENCE)
    assert world.hash() != world.hashes["old"]
    start, end = (at.isoformat() for at in world.span)
    asked = ("backfill", GOLD, "--from", start, "--to", end, "--why", "lost")

    def fill() -> None:
        print(world.doomed.command(*asked).stderr[-300:])

    world.dies(process, fill)
    healthy = world.doomed.start()
    fill()
    wait_for("the rows to be back", lambda: world.hash() == world.hashes["old"], PATIENCE)
    world.doomed.stop(healthy)
    print(step, "ok")


def _aborted(world: World, step: str) -> None:
    text = world.module.read_text()
    world.module.write_text(text.replace("size <> 13", f"size <> {20 + len(step)}"))
    process = world.doomed.start_doomed(step)
    world.doomed.wait_running(process, PATIENCE)
    _staged(world)
    (candidate,) = statuses(world.settings, world.registry)
    world.dies(process, lambda: world.releases.abort(GOLD))
    healthy = world.doomed.start()
    wait_for("no task to wait", lambda: not world.registry.tasks(), PATIENCE)
    assert not (world.live / "_revisions" / candidate.revision).exists()
    assert statuses(world.settings, world.registry) == []
    assert world.hash() == world.hashes["old"]
    world.doomed.stop(healthy)
    print(step, "ok")


def _retired(world: World, step: str) -> None:
    healthy = world.doomed.start()
    warm = [r for r in world.registry.revisions(states=("warm",)) if r.table == GOLD]
    if not warm:
        text = world.module.read_text()
        world.module.write_text(text.replace("size <> ", "size <> 1"))
        _staged(world)
        world.releases.compare(GOLD, Wishes(threshold=1.0))
        world.releases.promote(GOLD, why="x", accept=None, keep_warm=None)
        world.hashes["old"] = world.hash()
        warm = [r for r in world.registry.revisions(states=("warm",)) if r.table == GOLD]
    world.doomed.stop(healthy)
    process = world.doomed.start_doomed(step)
    world.doomed.wait_running(process, PATIENCE)
    world.dies(process, lambda: world.releases.retire(GOLD))
    after = world.doomed.start_doomed("retire.never")
    folder = world.live / "_revisions" / warm[0].revision
    wait_for("its bytes to go", lambda: not folder.exists(), PATIENCE)
    wait_for("live to be itself", lambda: world.hash() == world.hashes["old"], PATIENCE)
    world.doomed.stop(after)
    print(step, "ok")
