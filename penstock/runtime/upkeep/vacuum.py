"""Vacuum: data files that no version refers to which anybody may still ask for.

**How it works.** Mark and sweep over one table's folder. A file of a revision can be referred to by
two logs, its own and live's; each is kept from some version on. Files of these versions, and
whatever their commits and later ones name (data and change files), stay. Of the rest, files older
than ``safe_age`` go: what a merge or an update replaced, and what a crash left behind before its
commit. Younger ones may be about to be committed.

**What it does not do.** Look at revisions that nobody feeds (they go whole, see ``sweep``), or at
one whose history is being built: its files are named by notes, not by a log yet.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.location import Found, Location, Remote, below, remove_files, walk
from penstock.runtime.delta.log_files import LogFiles, commit_file, files_at

__all__ = ["Kept", "Vacuumed", "vacuum"]

_NOT_DATA = ("_delta_log", "_revisions", "_build", "_merges", "_commits", "_drafts")


@dataclass(frozen=True)
class Kept:
    """A log whose versions from ``version`` on have to stay readable."""

    log: Location
    version: int


@dataclass(frozen=True)
class Vacuumed:
    """What went, or would go."""

    files: list[Location]
    bytes: int = 0


def vacuum(
    folders: Iterable[Location], kept: Iterable[Kept], *, safe_age: float, dry_run: bool = False
) -> Vacuumed:
    """Remove what is not referred to in these folders.

    Args:
        folders: of bronze, a live table, its revisions.
        kept: every log that can refer to files in them.
    """
    logs = list(kept)
    before = time.time() - safe_age
    old: dict[str, int] = {}
    places: dict[str, Location] = {}  # of an object store, where a text is no place
    for folder in folders:
        if isinstance(folder, Remote):
            for found in _far_files_before(folder, before):
                old[str(found.location)] = found.st_size
                places[str(found.location)] = found.location
        else:
            old.update(_files_before(folder, before))
    for one in logs:
        for path in files_at(one.log, one.version):
            old.pop(f"{one.log}/{path}", None)
    for one in logs:
        if not old:
            break
        for path in _named_since(one):
            old.pop(path, None)
    gone = [places.get(path) or Path(path) for path in sorted(old)]
    if not dry_run:
        remove_files(gone)
        _remove_empty({file.parent for file in gone if isinstance(file, Path)})
    return Vacuumed(gone, sum(old.values()))


def _files_before(folder: Path, moment: float) -> Iterator[tuple[str, int]]:
    """Data files and change files that were written before a moment."""
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _NOT_DATA:
                yield from _files_before(Path(entry.path), moment)
        elif entry.name.endswith(".parquet"):
            told = entry.stat()
            if told.st_mtime < moment:
                yield entry.path, told.st_size


def _far_files_before(folder: Remote, moment: float) -> Iterator[Found]:
    """The same in an object store, by one listing of everything below."""
    for found in walk(folder):
        inner = below(found.location, folder).split("/")
        data = inner[-1].endswith(".parquet") and not set(inner[:-1]) & set(_NOT_DATA)
        if data and found.st_mtime < moment:
            yield found


def _named_since(one: Kept) -> Iterator[str]:
    """Every file that the version's commit, if it is there, and later ones name."""
    found = LogFiles.listed(one.log)
    first = one.version if one.version in found.commits else one.version + 1
    for version in range(first, found.newest + 1):
        for line in commit_file(one.log, version).read_text().splitlines():
            if line.startswith(('{"add"', '{"cdc"')):
                (body,) = json.loads(line).values()
                yield f"{one.log}/{body['path']}"


def _remove_empty(folders: Iterable[Path]) -> None:
    """Folders that Spark wrote a batch to, once no data is left in them."""
    for folder in folders:
        if not folder.name.startswith("batch-") or any(folder.glob("*.parquet")):
            continue
        for rest in folder.iterdir():
            rest.unlink()
        folder.rmdir()
