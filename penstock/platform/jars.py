"""Fetching the jars once, at set-up, with the Ivy that pyspark carries.

**Purpose.** Turn ``infra/jars/ivy.xml`` into four folders: ``spark`` (what Spark lacks on its
classpath), ``kafka`` (broker and Connect), ``debezium`` and ``apicurio`` (unpacked). No Maven, no
repository address of ours, nothing fetched at start.

**How it works.** Ivy retrieves into ``.part``; every file is compared with ``jars.lock``; archives
are unpacked; then each folder is moved into place and, last, a stamp is written that holds the
hash of what was asked for. Without the right stamp a fetch is unfinished or out of date and is run
again; Ivy's cache keeps what had already arrived, so an interrupted fetch goes on.

What only some need (``OPTIONAL``) is not part of set-up: ``fetch_optional`` brings one such folder
in the same way, when it is first asked for. Of several processes that ask at once one fetches, and
the others wait for it.

**Known limitation.** The cache is dropped after success (it doubles the disk space), so a changed
ivy.xml fetches everything anew: about a minute.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import click

from penstock.errors import EnvironmentProblem
from penstock.platform.java import java_executable
from penstock.settings import Settings

__all__ = ["FOLDERS", "OPTIONAL", "fetch", "fetch_optional", "is_complete", "require", "write_lock"]

FOLDERS = ("spark", "kafka", "debezium", "apicurio")
OPTIONAL = ("s3a", "s3proxy")
_PATTERN = "[conf]/[artifact]-[revision](-[classifier]).[ext]"
_DONE = "[SUCCESSFUL ]"
Report = Callable[[str], None]


def is_complete(settings: Settings) -> bool:
    """True when the jars that ivy.xml and jars.lock ask for are all in place."""
    stamp = settings.jars / "stamp"
    if not stamp.is_file() or stamp.read_text().strip() != _wanted(settings):
        return False
    return all(any((settings.jars / folder).glob("*")) for folder in FOLDERS)


def require(settings: Settings, folder: str) -> Path:
    """A folder of jars that a service needs, or one sentence saying how to get it."""
    if not is_complete(settings):
        raise EnvironmentProblem(
            f"the jars in {settings.jars} are missing, half fetched or out of date.",
            remedy="Run `make setup`; it goes on where it stopped.",
        )
    return settings.jars / folder


def fetch(settings: Settings, report: Report = lambda _: None, *, check: bool = True) -> bool:
    """Bring the jars to what ivy.xml asks for; False when nothing had to be done."""
    if check and is_complete(settings):
        return False
    with _one_at_a_time(settings):
        if check and is_complete(settings):
            return False  # somebody else brought them meanwhile
        _bring(settings, report, check=check)
    return True


def _bring(settings: Settings, report: Report, *, check: bool) -> None:
    part = _emptied(settings.jars / ".part")
    (settings.jars / "stamp").unlink(missing_ok=True)
    _retrieve(settings, part, FOLDERS if check else (*FOLDERS, *OPTIONAL), report)
    if check:
        _verify(settings, part, FOLDERS)
    else:
        _lock_file(settings).write_text("".join(f"{line}\n" for line in _digests(part)))
    _unpack(part, report)
    for folder in FOLDERS:
        _move(part / folder, settings.jars / folder)
    _finish(settings, part, settings.jars / "stamp")


def fetch_optional(settings: Settings, folder: str, report: Report = lambda _: None) -> Path:
    """A folder of jars that set-up does not bring; fetched the first time."""
    target, stamp = settings.jars / folder, settings.jars / f"{folder}.stamp"

    def is_there() -> bool:
        known = stamp.read_text().strip() if stamp.is_file() else ""
        return target.is_dir() and known == _wanted(settings)

    if is_there():
        return target
    with _one_at_a_time(settings):
        if not is_there():
            part = _emptied(settings.jars / f".part-{folder}")
            _retrieve(settings, part, (folder,), report)
            _verify(settings, part, (folder,))
            _move(part / folder, target)
            _finish(settings, part, stamp)
    return target


@contextmanager
def _one_at_a_time(settings: Settings) -> Iterator[None]:
    """Who comes second waits: both would write to the same folders. The kernel takes it back."""
    settings.jars.mkdir(parents=True, exist_ok=True)
    with (settings.jars / ".door").open("w") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        yield


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _move(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    source.rename(target)


def _finish(settings: Settings, part: Path, stamp: Path) -> None:
    stamp.write_text(_wanted(settings) + "\n")
    shutil.rmtree(part)
    shutil.rmtree(settings.jars / ".ivy", ignore_errors=True)


def write_lock(settings: Settings, report: Report = lambda _: None) -> Path:
    """Fetch what ivy.xml says and pin it: run after changing a version, review, commit."""
    fetch(settings, report, check=False)
    return _lock_file(settings)


def _sources(settings: Settings) -> Path:
    return settings.project / "infra" / "jars"


def _lock_file(settings: Settings) -> Path:
    return _sources(settings) / "jars.lock"


def _wanted(settings: Settings) -> str:
    digest = hashlib.sha256()
    for name in ("ivy.xml", "ivysettings.xml", "jars.lock"):
        file = _sources(settings) / name
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")  # located, not imported: importing it costs a second
    if spec is None or spec.origin is None:
        raise EnvironmentProblem("pyspark is not installed.", remedy="Run `make setup`.")
    jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise EnvironmentProblem(
            "this pyspark carries no Ivy jar.", remedy="Remove .venv and run `make setup`."
        )
    return jars[-1]


def _retrieve(settings: Settings, part: Path, folders: tuple[str, ...], report: Report) -> None:
    """Run Ivy. A clean user.home keeps a half-filled local Maven cache out of the picture."""
    cache = settings.jars / ".ivy"
    source = _sources(settings)
    command = [str(java_executable(settings)), f"-Duser.home={cache}", "-jar", str(_ivy_jar())]
    command += ["-settings", str(source / "ivysettings.xml"), "-cache", str(cache / "cache")]
    command += ["-ivy", str(source / "ivy.xml"), "-confs", *folders]
    # `jar` alone silently drops the jars that Maven calls bundles, five of Kafka's among them.
    command += ["-types", "jar", "bundle", "tar.gz", "-retrieve", str(part / _PATTERN)]
    log = settings.jars / "ivy.log"
    fetched = 0
    with (
        log.open("w") as out,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process,
    ):
        for line in process.stdout or ():
            out.write(line)
            if _DONE in line:
                fetched += 1
                report(f"{fetched} fetched: {line.split('!')[-1].split('(')[0].strip()}")
            elif "\tfound " in line:
                report(f"resolving {line.split()[1]}")
    if process.returncode != 0:
        raise EnvironmentProblem(
            f"the jars could not be fetched: {_gist(log)} (whole story: {log}).",
            remedy="Check the network and run `make setup` again; it goes on where it stopped.",
        )


def _gist(log: Path) -> str:
    lines = [line.strip() for line in log.read_text().splitlines()]
    for line in lines:
        if line.startswith("::") and line.endswith("not found"):
            return line.strip(": ")
    wrong = [line for line in lines if "Exception" in line or "FAILED" in line]
    return (wrong or [line for line in lines if line] or ["Ivy said nothing"])[-1]


def _digests(part: Path) -> Iterator[str]:
    for file in sorted(part.rglob("*")):
        if file.is_file():
            yield f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(part)}"


def _verify(settings: Settings, part: Path, folders: tuple[str, ...]) -> None:
    """Refuse a jar that is not byte for byte the one that was reviewed and locked."""
    lock = _lock_file(settings)
    lines = lock.read_text().split("\n") if lock.is_file() else []
    wanted = {line for line in lines if line and line.split("  ")[1].split("/")[0] in folders}
    found = set(_digests(part))
    if wanted == found:
        return
    names = sorted({line.split("  ")[1] for line in wanted ^ found})
    raise EnvironmentProblem(
        f"{len(names)} of the fetched jars differ from {lock.name}, first {names[0]}.",
        remedy="If ivy.xml was changed on purpose, run `make lock`; otherwise do not trust them.",
    )


def _unpack(part: Path, report: Report) -> None:
    """Open the two archives where they lie; the archives themselves are not kept."""
    for folder in ("debezium", "apicurio"):
        for archive in (part / folder).glob("*.tar.gz"):
            report(f"unpacking {archive.name}")
            with tarfile.open(archive) as opened:
                opened.extractall(part / folder, filter="data")
            archive.unlink()


@click.command()
@click.option("--lock", is_flag=True, help="Pin what ivy.xml asks for now in jars.lock.")
def main(lock: bool) -> None:
    """Fetch the jars; part of `make setup`."""
    settings = Settings.load()
    report = _reporter()
    try:
        if lock:
            click.echo(f"\r{write_lock(settings, report)} written; review and commit it", err=True)
        elif fetch(settings, report):
            click.echo(f"\rset-up: jars are in {settings.jars}".ljust(80), err=True)
    except EnvironmentProblem as problem:
        click.echo(f"\nset-up: {problem.message}\n        {problem.remedy}", err=True)
        sys.exit(problem.exit_code)


def _reporter() -> Report:
    """One line that changes on a terminal; every twentieth step elsewhere, as a sign of life."""
    live = sys.stderr.isatty()
    seen = itertools.count()

    def report(text: str) -> None:
        if live:
            click.echo(f"\rset-up: jars: {text}"[:79].ljust(80), nl=False, err=True)
        elif next(seen) % 20 == 0:
            click.echo(f"set-up: jars: {text}", err=True)

    return report


if __name__ == "__main__":
    main()
