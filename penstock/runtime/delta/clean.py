"""Log cleanup: commits that are older than promised, and that nobody needs, are removed.

**How it works.** A checkpoint of the version from which on everything has to stay is there, or is
made; what lineage and new readers need of the commits before it is put into the archive; then
older checkpoints go, then the commits, the oldest first. Whenever it is interrupted, what is left
is a log that begins later: the next run goes on. Readers of what stays notice nothing.

Few commits are left until there are more, and a checkpoint that is near is as good as one that
would have to be made: but only where no file waits for them to go, because ``vacuum`` keeps
whatever the commits that are left name.

A checkpoint of an old version is made in a folder of its own, from links to the commits (of an
object store: from copies of them): the log's own pointer to its newest checkpoint must not go back.

**What it does not do.** Remove data files: see ``vacuum``. Commit anything: it needs no lease.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.location import (
    Location,
    Remote,
    delta_table,
    lock_file,
    remove_files,
    walk,
    write_whole,
)
from penstock.runtime.delta.archive import Archive, archived
from penstock.runtime.delta.log import read_commit
from penstock.runtime.delta.log_files import LogFiles, checkpoint_file, commit_file, files_at

__all__ = ["Cleaned", "clean", "only_one"]

NEAR = 1_000  # commits: an existing checkpoint is as good if it is at most so far behind


@dataclass(frozen=True)
class Cleaned:
    """What a cleanup did, or would do."""

    start: int  # the oldest version that can be read afterwards
    commits: int = 0
    bytes: int = 0


def clean(
    path: Location, keep: int, *, archive: bool, least: int = 1, dry_run: bool = False
) -> Cleaned:
    """Let a log begin at a version that is not after ``keep``.

    Args:
        archive: also keep the commits in little: for tables that are read commit by commit.
        least: do nothing for fewer commits than that, unless files could go with them.
    """
    with only_one(path) as alone:
        if not alone:
            return Cleaned(LogFiles.listed(path).start)
        files = LogFiles.listed(path)
        if keep - files.start < least and not _hold_files(files, files.start, keep):
            return _swept(files, files.start, dry_run=dry_run)
        base = _base(files, keep)
        if dry_run:
            return _swept(files, base, dry_run=True)
        if base not in files.checkpoints:
            _checkpoint(files, base)
        if archive:
            _put_away(path, files.start, base)
        return _swept(files, base, dry_run=False)


def _base(files: LogFiles, keep: int) -> int:
    """Where the log should begin: at a checkpoint there is, if that costs no disk."""
    near = [v for v in files.checkpoints if max(files.start, keep - NEAR) < v <= keep]
    return near[-1] if near and not _hold_files(files, near[-1], keep) else keep


def _hold_files(files: LogFiles, start: int, keep: int) -> bool:
    """Whether a log that begins at ``start`` keeps files that one from ``keep`` on would not."""
    for version in range(start, keep + 1):
        if version not in files.commits:
            continue
        for line in commit_file(files.path, version).read_text().splitlines():
            if line.startswith('{"cdc"') and version < keep:
                return True
            if line.startswith('{"remove"') and version > start:
                return True
    return False


@contextmanager
def only_one(path: Location) -> Iterator[bool]:
    """Whether nobody else removes files of this log just now, in whatever process."""
    with open(lock_file(path), "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def _checkpoint(files: LogFiles, version: int) -> None:
    """A checkpoint of an older version."""
    near = files.path if isinstance(files.path, Path) else lock_file(files.path).parent
    folder = near / "_drafts" / uuid.uuid4().hex
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    try:
        earlier = [v for v in files.checkpoints if v <= version]
        begin = earlier[-1] if earlier else -1
        if earlier:
            _take(checkpoint_file(files.path, begin), log)
        for number in range(max(begin, 0), version + 1):
            if number in files.commits:
                _take(commit_file(files.path, number), log)
        delta_table(folder, version).create_checkpoint()
        made, target = checkpoint_file(folder, version), checkpoint_file(files.path, version)
        if isinstance(made, Path) and isinstance(target, Path):
            made.replace(target)
        else:
            write_whole(target, made.read_bytes())
    finally:
        shutil.rmtree(folder if near is not files.path else folder.parent, ignore_errors=True)


def _take(file: Location, folder: Path) -> None:
    """A file of a log, also in a folder of this disk."""
    if isinstance(file, Path):
        os.link(file, folder / file.name)
    else:
        (folder / file.name).write_bytes(file.read_bytes())


def _put_away(path: Location, start: int, base: int) -> None:
    """Keep commits in little, once: what the archive has already it keeps."""
    store = Archive(path)
    first = max(start, store.newest + 1)
    if first > base:
        return
    still = files_at(path, base).keys()
    store.put([archived(v, read_commit(path, v), still) for v in range(first, base + 1)])


def _swept(files: LogFiles, base: int, *, dry_run: bool) -> Cleaned:
    """Remove what lies before the base; the base's own commit stays.

    A log that has its oldest commit, or an older checkpoint, is taken to have all that follows: so
    these go first.
    """
    gone = sorted(v for v in files.commits if v < base)
    commits = [commit_file(files.path, v) for v in gone]
    older = [checkpoint_file(files.path, v) for v in files.checkpoints if v < base]
    steps = [older, commits[:1], commits[1:]]
    if isinstance(files.path, Remote):
        return Cleaned(base, len(gone), _far_removed(files.path, steps, dry_run=dry_run))
    return Cleaned(base, len(gone), _removed([*older, *commits], dry_run=dry_run))


def _removed(files: list[Location], *, dry_run: bool) -> int:
    """Remove files one after the other; returns their bytes."""
    freed = 0
    for file in files:
        try:
            freed += file.stat().st_size
            if not dry_run:
                file.unlink()
        except FileNotFoundError:
            continue
    return freed


def _far_removed(path: Remote, steps: list[list[Location]], *, dry_run: bool) -> int:
    """The same in an object store, many with one request: in no order within a step."""
    sizes = {str(found.location): found.st_size for found in walk(path / "_delta_log")}
    for files in steps if not dry_run else []:
        remove_files(files)
    return sum(sizes.get(str(file), 0) for files in steps for file in files)
