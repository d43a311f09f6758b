"""What the platform needs from the machine, looked at one by one, each with its remedy."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from penstock.errors import EnvironmentProblem, PenstockError
from penstock.platform import jars
from penstock.platform.java import java_executable
from penstock.platform.ports import holder_of, is_free
from penstock.platform.process import PidFile
from penstock.platform.spec import PlatformSpec
from penstock.settings import Settings
from penstock.spark import cluster

__all__ = ["Check", "examine", "require_startable"]

_DISK_NEEDED = 3 * 2**30
_DISK_WANTED = 10 * 2**30
_MEMORY_WANTED = 6 * 2**30
_STAMP = "setup.stamp"


@dataclass(frozen=True)
class Check:
    """One thing looked at. ``outcome`` is ok, warn (works, perhaps badly) or fail."""

    name: str
    outcome: str
    message: str
    remedy: str = ""


def examine(settings: Settings) -> list[Check]:
    """Every check, in the order in which one would mend things."""
    looks: list[Callable[[Settings], Check]] = [
        _python, _setup, _packages, _java, _jars, _disk, _memory, _warehouse, _spark,
    ]  # fmt: skip
    return [look(settings) for look in looks] + list(_ports(settings))


def require_startable(settings: Settings, names: list[str]) -> None:
    """The cheap checks `up` makes before it starts anything; raises the first failure."""
    looks: list[Callable[[Settings], Check]] = [_disk, _warehouse]
    if {"kafka", "registry", "connect", "supervisor"} & set(names):
        looks += [_java, _jars]
    if "supervisor" in names:
        looks += [_spark]
    for look in looks:
        check = look(settings)
        if check.outcome == "fail":
            raise EnvironmentProblem(check.message, remedy=check.remedy)


def _python(settings: Settings) -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] == (3, 11):
        return Check("python", "ok", f"{found} ({sys.executable})")
    return Check(
        "python", "fail", f"Python 3.11 is needed, this is {found}.",
        "Install Python 3.11 and run `make setup`.",
    )  # fmt: skip


def _setup(settings: Settings) -> Check:
    """The stamp that `make setup` writes last, holding the lock it installed."""
    stamp = Path(sys.prefix) / _STAMP
    wanted = hashlib.sha256((settings.project / "requirements.lock").read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text().split()[:1] == [wanted]:
        return Check("set-up", "ok", "finished, and the lock has not changed since")
    what = "is out of date" if stamp.is_file() else "is unfinished"
    return Check(
        "set-up", "fail", f"the set-up of {sys.prefix} {what}.",
        "Run `make setup`; it goes on where it stopped.",
    )  # fmt: skip


def _packages(settings: Settings) -> Check:
    """Installed versions against the lock: somebody may have upgraded one by hand."""
    lock = (settings.project / "requirements.lock").read_text()
    pinned = re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)[^\n]*$", lock, re.MULTILINE)
    wrong = [f"{name} {_installed(name)}, not {want}" for name, want in pinned
             if _installed(name) != want]  # fmt: skip
    if not wrong:
        return Check("packages", "ok", f"{len(pinned)} packages as locked")
    return Check(
        "packages", "fail", f"{len(wrong)} packages differ from the lock, first {wrong[0]}.",
        "Run `make setup`.",
    )  # fmt: skip


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _java(settings: Settings) -> Check:
    try:
        return Check("java", "ok", str(java_executable(settings)))
    except EnvironmentProblem as problem:
        return Check("java", "fail", problem.message, problem.remedy)


def _jars(settings: Settings) -> Check:
    try:
        return Check("jars", "ok", str(jars.require(settings, "kafka").parent))
    except PenstockError as problem:
        return Check("jars", "fail", problem.message, problem.remedy)


def _disk(settings: Settings) -> Check:
    folder = settings.home
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    message = f"{free / 2**30:.1f} GB free for {settings.home}"
    remedy = "Free some space, or set PENSTOCK_HOME to a folder on a larger disk."
    if free < _DISK_NEEDED:
        return Check(
            "disk", "fail", f"{message}; {_DISK_NEEDED / 2**30:.0f} GB are needed.", remedy
        )
    return Check("disk", "ok" if free >= _DISK_WANTED else "warn", message, remedy)


def _warehouse(settings: Settings) -> Check:
    if settings.bucket is None:
        return Check("warehouse", "ok", f"tables are in {settings.warehouse}")
    try:
        settings.bucket.require_creating()
    except EnvironmentProblem as problem:
        return Check("warehouse", "fail", problem.message, problem.remedy)
    return Check("warehouse", "ok", f"tables are in {settings.bucket.uri}")


def _memory(settings: Settings) -> Check:
    total = psutil.virtual_memory().total
    message = f"{total / 2**30:.1f} GB in this machine"
    if total >= _MEMORY_WANTED:
        return Check("memory", "ok", message)
    return Check(
        "memory", "warn", f"{message}; the whole platform takes about 4 GB.",
        "Start less: `penstock up --without airflow,connect`.",
    )  # fmt: skip


def _spark(settings: Settings) -> Check:
    """Where the supervisor and the bounded jobs compute, and whether somebody answers there."""
    spark = settings.spark
    try:
        given = spark.given("supervisor")
        if not spark.is_local:
            cluster.require(settings, given)
    except PenstockError as problem:
        return Check("spark", "fail", problem.message, problem.remedy)
    return Check("spark", "ok", cluster.described(settings))


def _ports(settings: Settings) -> Iterator[Check]:
    """A port must be free, or ours."""
    spec = PlatformSpec.load(settings.project).with_copies(settings.copies)
    for service in spec.services.values():
        recorded = PidFile(settings.run / f"{service.name}.pid").read()
        ours = recorded is not None and recorded.is_running()
        for name in service.ports:
            port = settings.port(name)
            if is_free(port) or ours:
                yield Check("port", "ok", f"{port} {name}: {'ours' if ours else 'free'}")
                continue
            yield Check(
                "port", "fail", f"{port} ({name}) is taken by {holder_of(port)}.",
                "Stop that, or move every port: `PENSTOCK_PORT_OFFSET=1000 penstock up`.",
            )  # fmt: skip
