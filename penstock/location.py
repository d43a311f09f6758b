"""Where tables lie: a folder on a disk, or a prefix of an object store.

A ``Location`` is one or the other. On a disk it is plain ``pathlib``, with nothing in between: that
is where latency matters. In an object store it is a ``Remote``, which has the part of pathlib's
manners that the engine needs (joining, names, reading, removing); it is no ``os.PathLike``, so what
would only work on a disk does not pass for working here. What differs in kind is below: opening a
Delta table, creating a file if it is not there, listing, and having a data file on this disk.

Folders do not exist in an object store: making one does nothing, one without files is not there.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from penstock.bucket import Bucket

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = [
    "Found",
    "Location",
    "Remote",
    "below",
    "bucket_of",
    "bytes_below",
    "copies",
    "copy_of",
    "creator",
    "dataset",
    "delta_table",
    "lock_file",
    "near",
    "options_of",
    "present",
    "readable",
    "remove_files",
    "remove_tree",
    "scan",
    "walk",
    "write_whole",
    "written",
]


@dataclass(frozen=True)
class Remote:
    """A place in an object store; ``key`` is its name below the bucket's own prefix."""

    bucket: Bucket
    key: str = ""

    def __truediv__(self, name: str) -> Remote:
        return Remote(self.bucket, f"{self.key}/{name}".strip("/"))

    def __str__(self) -> str:
        return f"{self.bucket.uri}/{self.key}".rstrip("/")

    def __lt__(self, other: Remote) -> bool:
        return str(self) < str(other)

    @property
    def name(self) -> str:
        return str(self).rpartition("/")[2]

    @property
    def parent(self) -> Remote:
        return Remote(self.bucket, self.key.rpartition("/")[0])

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.key.split("/")) if self.key else ()

    # --- what is there --------------------------------------------------------------------
    def exists(self) -> bool:
        import obstore

        try:
            obstore.head(self.bucket.store, self.key)
        except FileNotFoundError:
            return self.is_dir()
        return True

    def is_dir(self) -> bool:
        import obstore

        pages = obstore.list(self.bucket.store, self.key or None, chunk_size=1)
        return any(True for _ in pages)

    def stat(self) -> Found:
        import obstore

        return _found(self.bucket, obstore.head(self.bucket.store, self.key))

    def glob(self, pattern: str) -> Iterator[Remote]:
        """Files right in this place whose names fit."""
        with scan(self) as entries:
            found = [e.name for e in entries if not e.is_dir()]
        return (self / name for name in fnmatch.filter(found, pattern))

    # --- bytes ----------------------------------------------------------------------------
    def read_bytes(self) -> bytes:
        return self.bucket.read(self.key)

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing to do."""

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove; what is not there cannot be told from what was."""
        self.bucket.delete([self.key])


Location: TypeAlias = Path | Remote


def below(file: Location, folder: Location) -> str:
    """The path of a file from a folder it is in."""
    inner = str(file).removeprefix(f"{folder}/")
    if inner == str(file):
        raise ValueError(f"{file} is not below {folder}")
    return inner


def dataset(table: Location) -> tuple[str, str]:
    """Namespace and name of a table, as OpenLineage has them."""
    if isinstance(table, Path):
        return "file", str(table)
    scheme, _, rest = str(table).partition("://")
    root, _, name = rest.partition("/")
    return f"{scheme}://{root}", name


# --- Delta ------------------------------------------------------------------------------------
def options_of(table: Location) -> dict[str, str] | None:
    """The storage options delta-rs needs; None on a disk."""
    return dict(table.bucket.options) if isinstance(table, Remote) else None


def delta_table(table: Location, version: int | None = None) -> DeltaTable:
    """A Delta table as its readers see it."""
    from deltalake import DeltaTable

    if isinstance(table, Path):
        return DeltaTable(str(table), version=version)
    return DeltaTable(str(table), version=version, storage_options=options_of(table))


# --- writing ----------------------------------------------------------------------------------
def creator(folder: Location) -> Callable[[str, bytes], None]:
    """What creates files below a folder, each only if it is not there.

    It raises ``obstore.exceptions.AlreadyExistsError`` where one is.
    """
    if isinstance(folder, Remote):
        return lambda name, body: folder.bucket.create((folder / name).key, body)
    import obstore
    from obstore.store import LocalStore

    store = LocalStore(prefix=str(folder))

    def create(name: str, body: bytes) -> None:
        obstore.put(store, name, body, mode="create")

    return create


def write_whole(file: Location, body: bytes) -> None:
    """Write a file that is there whole or not at all; one that was there is replaced."""
    if isinstance(file, Remote):
        file.bucket.write(file.key, body)
        return
    draft = file.with_name(f"{file.name}.{uuid.uuid4().hex}.draft")
    draft.write_bytes(body)
    draft.replace(file)


def written(file: Location) -> AbstractContextManager[Path]:
    """Where on disk to write a data file, which is in its place at the end."""
    return file.bucket.writing(file.key) if isinstance(file, Remote) else nullcontext(file)


# --- reading ----------------------------------------------------------------------------------
def copies(files: Iterable[Location]) -> list[str]:
    """Data files as paths on this disk, for whoever can read nothing else.

    Only files whose names never come again: not those of a log.
    """
    given = list(files)
    if given and isinstance(given[0], Remote):
        keys = [file.key for file in given if isinstance(file, Remote)]
        return [str(path) for path in given[0].bucket.copied(keys)]
    return [str(file) for file in given]


def copy_of(file: Location) -> Path:
    return file if isinstance(file, Path) else Path(copies([file])[0])


def bucket_of(folder: Location) -> Bucket | None:
    return folder.bucket if isinstance(folder, Remote) else None


def near(folder: Location) -> Path:
    """Where the files of a folder are on this disk, or copies of them once they are fetched."""
    return folder if isinstance(folder, Path) else folder.bucket.copies / folder.key


def present(folder: Location, files: Iterable[str]) -> list[str]:
    """Paths below ``near(folder)``, whose files are there now if they are anywhere."""
    return folder.bucket.present(files) if isinstance(folder, Remote) else list(files)


def readable(file: Location) -> Any:
    """What pyarrow reads a file from that may be replaced by another of its name."""
    if isinstance(file, Path):
        return file
    import pyarrow as pa

    return pa.BufferReader(file.read_bytes())


# --- listing ----------------------------------------------------------------------------------
class _Stat(Protocol):
    @property
    def st_size(self) -> int: ...
    @property
    def st_mtime(self) -> float: ...


class Entry(Protocol):
    """The part of ``os.DirEntry`` that both have."""

    @property
    def name(self) -> str: ...
    def is_dir(self, *, follow_symlinks: bool = ...) -> bool: ...
    def stat(self, *, follow_symlinks: bool = ...) -> _Stat: ...


@dataclass(frozen=True)
class Found:
    """A file, or a folder, of an object store."""

    location: Remote
    st_size: int = 0
    st_mtime: float = 0.0
    folder: bool = False

    @property
    def name(self) -> str:
        return self.location.name

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self.folder

    def stat(self, *, follow_symlinks: bool = True) -> Found:
        return self


def _found(bucket: Bucket, told: Any) -> Found:
    return Found(Remote(bucket, told["path"]), told["size"], told["last_modified"].timestamp())


def scan(folder: Location) -> AbstractContextManager[Iterable[Entry]]:
    """``os.scandir``; of an object store, where nothing is there, no entry and no error."""
    if isinstance(folder, Path):
        return os.scandir(folder)
    import obstore

    told = obstore.list_with_delimiter(folder.bucket.store, folder.key or None)
    files = [_found(folder.bucket, each) for each in told["objects"]]
    inner = [Found(Remote(folder.bucket, key), folder=True) for key in told["common_prefixes"]]
    return nullcontext([*files, *inner])


def walk(folder: Remote) -> Iterator[Found]:
    """Every file below a place of an object store."""
    import obstore

    for page in obstore.list(folder.bucket.store, folder.key or None):
        yield from (_found(folder.bucket, each) for each in page)


def bytes_below(folder: Location) -> int:
    """What the files of a folder weigh, all levels."""
    if isinstance(folder, Remote):
        return sum(found.st_size for found in walk(folder))
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


# --- removing ---------------------------------------------------------------------------------
def remove_files(files: Iterable[Location]) -> None:
    """Remove files; those that are gone already are as good."""
    far: dict[Bucket, list[str]] = {}
    for file in files:
        if isinstance(file, Path):
            file.unlink(missing_ok=True)
        else:
            far.setdefault(file.bucket, []).append(file.key)
    for bucket, keys in far.items():
        bucket.delete(keys)


def remove_tree(folder: Location) -> None:
    """Remove a folder with everything in it, if it is there."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
        return
    remove_files([found.location for found in walk(folder)])
    shutil.rmtree(folder.bucket.copies / folder.key, ignore_errors=True)


# --- this machine -----------------------------------------------------------------------------
def lock_file(folder: Location) -> Path:
    """The file that processes of this stack lock while they remove files of a table.

    Of an object store it lies on this disk, like everything else of a stack but its tables.
    """
    if isinstance(folder, Path):
        return folder / "_upkeep.lock"
    locks = folder.bucket.copies.parent / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    return locks / hashlib.sha256(str(folder).encode()).hexdigest()[:32]
