"""An object store that holds the warehouse, and copies of its data files on this machine's disk.

**Purpose.** DuckDB, Spark and pyarrow read files from a disk; tables may lie in S3.

**How it works.** One client per address. A data file never changes under its name, so whoever reads
one reads a copy: fetched once, or left there when it was written here. Copies that nobody used for
an hour go when there are more than ``COPIES_BYTES`` of them.

**What it does not do.** Keep copies of logs and notes, whose names may come again with something
else in them: those are asked for every time.
"""

from __future__ import annotations

import ipaddress
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock.errors import EnvironmentProblem

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["SCHEMES", "Bucket", "storage_options"]

SCHEMES = ("s3", "gs", "az")
COPIES_BYTES = 8 << 30
_IN_USE = 3600.0  # seconds: a long job opens a file some time after it asked for its copy
_AT_ONCE = 8  # files fetched side by side
_ACCESS, _SECRET = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
_PASSED_ON = ("AWS_SESSION_TOKEN", "AWS_REGION")


@dataclass(frozen=True)
class Bucket:
    """A prefix of an object store.

    Args:
        options: address, region and keys, in the words of delta-rs; not shown, not compared.
        copies: the folder for copies of data files.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    copies: Path = field(default=Path(), repr=False, compare=False)

    @cached_property
    def store(self) -> ObjectStore:
        from obstore.store import from_url

        plain = self.options.get("AWS_ALLOW_HTTP") == "true"
        config = {k.lower(): v for k, v in self.options.items() if k != "AWS_ALLOW_HTTP"}
        options: dict[str, Any] = {"client_options": {"allow_http": True}} if plain else {}
        return from_url(self.uri, config=config, **options)  # type: ignore[call-overload,no-any-return]

    # --- bytes ----------------------------------------------------------------------------
    def read(self, key: str) -> bytes:
        import obstore

        return bytes(obstore.get(self.store, key).bytes())

    def write(self, key: str, body: bytes | Path) -> None:
        import obstore

        obstore.put(self.store, key, body)

    def create(self, key: str, body: bytes) -> None:
        """Write, if nothing is there.

        The answer to a write can get lost. Then what is there decides: bodies name their writer,
        so one that equals ours is ours.

        Raises:
            obstore.exceptions.AlreadyExistsError: somebody else's is there.
        """
        import obstore

        try:
            obstore.put(self.store, key, body, mode="create")
        except Exception:
            if not self._holds(key, body):
                raise

    def require_creating(self) -> None:
        """Make sure that it is there, may be written, and that only one can create an object.

        Commits rest on that. Some servers that speak S3 take the condition and ignore it: two
        writers would then overwrite each other's commits, and nobody would be told.

        Raises:
            EnvironmentProblem: it cannot be used.
        """
        from obstore.exceptions import AlreadyExistsError, BaseError

        key = f"_probe/{uuid.uuid4().hex}"
        try:
            self.create(key, b"one")
            try:
                self.create(key, b"another")
            except AlreadyExistsError:
                return
            finally:
                self.delete([key])
        except (BaseError, OSError) as error:
            first = str(error).splitlines()[0]
            raise EnvironmentProblem(
                f"the warehouse {self.uri} cannot be written: {first}",
                remedy="Check the bucket, the keys and AWS_ENDPOINT_URL: docs/object-store.md.",
            ) from None
        raise EnvironmentProblem(
            f"the server of {self.uri} lets an object be created twice (it ignores If-None-Match): "
            "two writers would overwrite each other's commits.",
            remedy="Use a store with conditional writes: docs/object-store.md.",
        )

    def _holds(self, key: str, body: bytes) -> bool:
        try:
            return self.read(key) == body
        except FileNotFoundError:
            return False

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, and the copies of them here; one that is not there is as good."""
        import obstore

        gone = list(keys)
        if gone:
            obstore.delete(self.store, gone)
        for key in gone:
            self._copy(key).unlink(missing_ok=True)

    # --- copies ---------------------------------------------------------------------------
    def _copy(self, key: str) -> Path:
        return self.copies / key

    def copied(self, keys: Iterable[str]) -> list[Path]:
        """Copies of data files, fetched where they are not here yet."""
        wanted = list(keys)
        if len(wanted) < 2:
            return [self._fetched(key) for key in wanted]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(self._fetched, wanted))

    def present(self, files: Iterable[str]) -> list[str]:
        """See to it that these copies are there; of a file that is gone there is none."""

        def fetch(file: str) -> str:
            with suppress(FileNotFoundError):
                self._fetched(os.path.relpath(file, self.copies))
            return file

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(fetch, files))

    def _fetched(self, key: str) -> Path:
        copy = self._copy(key)
        try:
            os.utime(copy)  # used now: it stays
        except FileNotFoundError:
            with self._draft(copy) as draft:
                self._download(key, draft)
            self._tidy(copy.stat().st_size)
        return copy

    def _download(self, key: str, target: Path) -> None:
        import obstore

        with target.open("wb") as out:
            for part in obstore.get(self.store, key).stream():
                out.write(bytes(part))

    @contextmanager
    def _draft(self, copy: Path) -> Iterator[Path]:
        """A file that becomes the copy when it is whole."""
        copy.parent.mkdir(parents=True, exist_ok=True)
        draft = copy.with_name(f".{uuid.uuid4().hex}.draft")
        try:
            yield draft
            draft.replace(copy)
        finally:
            draft.unlink(missing_ok=True)

    @contextmanager
    def writing(self, key: str) -> Iterator[Path]:
        """A file on disk to be written, which is then put into the store under ``key``."""
        copy = self._copy(key)
        with self._draft(copy) as draft:
            yield draft
            self.write(key, draft)
        self._tidy(copy.stat().st_size)

    def put_folder(self, key: str) -> list[str]:
        """Put the data files into the store that somebody wrote into the copy of a folder."""
        files = sorted(self._copy(key).glob("*.parquet"))
        keys = [f"{key}/{file.name}" for file in files]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self.write, keys, files))
        self._tidy(sum(file.stat().st_size for file in files))
        return keys

    @cached_property
    def _since_tidied(self) -> list[int]:
        return [0]

    def _tidy(self, fresh: int) -> None:
        """Drop what was used longest ago, once in a while."""
        self._since_tidied[0] += fresh
        if self._since_tidied[0] > COPIES_BYTES // 8:
            self._since_tidied[0] = 0
            drop_unused(self.copies, COPIES_BYTES)


def drop_unused(folder: Path, most: int, in_use: float = _IN_USE) -> int:
    """Remove files, those first that were used longest ago, until ``most`` bytes are left.

    Files used within ``in_use`` seconds stay. Returns how many went.
    """
    found = []
    for path in folder.rglob("*"):
        try:
            told = path.stat()
        except FileNotFoundError:
            continue
        if path.is_file():
            found.append((told.st_mtime, told.st_size, path))
    total, gone = sum(size for _, size, _ in found), 0
    for used, size, path in sorted(found):
        if total <= most or used > time.time() - in_use:
            break
        path.unlink(missing_ok=True)
        total -= size
        gone += 1
    return gone


def storage_options(
    uri: str, environment: Mapping[str, str], secrets: Path | None = None, endpoint: str = ""
) -> dict[str, str]:
    """How to get at a bucket: from the usual AWS variables, or from two secret files.

    Args:
        secrets: the folder with ``warehouse-access`` and ``warehouse-secret``.
        endpoint: of an S3 that is not Amazon's, where no variable says so.

    Where nothing is named the clients look for themselves: the role of a machine or a pod, and for
    Google and Azure their own variables.

    Raises:
        EnvironmentProblem: an address nobody should send keys to in the clear, or half a key.
    """
    if urlsplit(uri).scheme != "s3":
        return {}
    found = {name: environment[name] for name in _PASSED_ON if environment.get(name)}
    found.setdefault("AWS_REGION", environment.get("AWS_DEFAULT_REGION") or "us-east-1")
    found |= _keys(environment, secrets)
    asked = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    endpoint = asked or endpoint
    if endpoint:
        found["AWS_ENDPOINT_URL"] = endpoint
        if urlsplit(endpoint).scheme == "http":
            _require_loopback(endpoint)
            found["AWS_ALLOW_HTTP"] = "true"
    return found


def _keys(environment: Mapping[str, str], secrets: Path | None) -> dict[str, str]:
    found = {name: environment[name] for name in (_ACCESS, _SECRET) if environment.get(name)}
    files = {} if secrets is None else {_ACCESS: "warehouse-access", _SECRET: "warehouse-secret"}
    for name, file in files.items():
        path = (secrets or Path()) / file
        if not found.get(name) and path.is_file():
            _require_private(path)
            found[name] = path.read_text().strip()
    if len(found) == 1:
        raise EnvironmentProblem(
            f"of the keys of the warehouse only {next(iter(found))} is set.",
            remedy=f"Set {_ACCESS} and {_SECRET}, or neither: docs/object-store.md.",
        )
    return found


def _require_private(path: Path) -> None:
    if path.stat().st_mode & 0o077:
        raise EnvironmentProblem(
            f"others may read {path}, which holds a key.", remedy=f"Run: chmod 600 {path}"
        )


def _require_loopback(endpoint: str) -> None:
    host = urlsplit(endpoint).hostname or ""
    try:
        near = ipaddress.ip_address(host).is_loopback
    except ValueError:
        near = host == "localhost"
    if not near:
        raise EnvironmentProblem(
            f"the warehouse's address {endpoint} is not encrypted and not on this machine.",
            remedy="Use https, or a server on 127.0.0.1.",
        )
