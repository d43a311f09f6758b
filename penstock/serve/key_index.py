"""Which files may hold a key: a sorted array of hashes per file, made when first needed.

Purpose: bounds leave out files by range. A table whose files all span all keys (upserts by a random
id) would still be read whole for one row: on a busy 2-core machine DuckDB took 0.1 to 0.5 s for 400
files of 2,500 rows, and 2 ms for one. The hashes of a file's keys cost 8 bytes a row; to search
those of 400 files took 2.3 ms there.

How it works: files never change, so their hashes are made once, by the engine that will compare the
key. A hash says "perhaps here" or "certainly not here"; the file has the last word.

What it does not do: grow without bound. A table that does not fit the budget is not indexed; others
make room for it, the one unused for longest first; and when the machine runs short of memory all of
it goes, and look-ups read more files.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.serve.live_log import LiveFile

if TYPE_CHECKING:  # brought in by the first table that is indexed: many stacks have none
    import numpy as np

__all__ = ["Hashes", "KeyIndex"]

Hashes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"
HashFiles: TypeAlias = "Callable[[Sequence[LiveFile]], list[Hashes]]"

_BYTES_A_ROW = 8
_SHORT = 256 << 20  # left on the machine: below it the memory is needed elsewhere
_LOOK_EVERY_S = 2.0
_MEMINFO = Path("/proc/meminfo")


def _available_memory() -> int:
    """Bytes the machine could still give; plenty where it does not say."""
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return 1 << 62
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), "")
    return int(found) * 1024 if found else 1 << 62


@dataclass
class _Table:
    hashes: dict[str, Hashes] = field(default_factory=dict)
    used_at: float = 0.0

    @property
    def bytes(self) -> int:
        return sum(hashes.nbytes for hashes in self.hashes.values())


class KeyIndex:
    """Hashes of the keys of several tables, within one budget."""

    def __init__(self, budget: int, available: Callable[[], int] = _available_memory) -> None:
        self._budget = budget
        self._available = available
        self._tables: dict[object, _Table] = {}
        self._lock = threading.Lock()
        self._looked_at, self._short = 0.0, False

    @property
    def bytes(self) -> int:
        return sum(table.bytes for table in self._tables.values())

    def holding(
        self, table: object, wanted: int, files: Sequence[LiveFile], hash_files: HashFiles
    ) -> Sequence[LiveFile]:
        """Those of ``files`` that may hold the key whose hash is ``wanted``.

        Args:
            table: what the hashes are of: the same for the same table and keys.
            hash_files: makes the hashes of files that have none yet.
        """
        with self._lock:
            found = self._indexed(table, files, hash_files)
        if found is None:
            return files
        import numpy as np

        needle = np.uint64(wanted)
        return [file for file in files if _holds(found[file.path], needle)]

    def _indexed(
        self, table: object, files: Sequence[LiveFile], hash_files: HashFiles
    ) -> dict[str, Hashes] | None:
        need = _bytes(files)
        if need is None or need > self._budget or self._is_short():
            return None
        entry = self._tables.setdefault(table, _Table())
        entry.used_at = time.monotonic()
        fresh = [file for file in files if file.path not in entry.hashes]
        if fresh:
            self._drop_gone(entry, files, len(fresh))
            for file, hashes in zip(fresh, hash_files(fresh), strict=True):
                entry.hashes[file.path] = hashes
            self._make_room(entry, files)
        return entry.hashes

    def _drop_gone(self, entry: _Table, files: Sequence[LiveFile], coming: int) -> None:
        """Files that a commit removed; looked for when as many again have come."""
        if len(entry.hashes) + coming > 2 * len(files):
            kept = {file.path for file in files}
            entry.hashes = {path: h for path, h in entry.hashes.items() if path in kept}

    def _make_room(self, entry: _Table, files: Sequence[LiveFile]) -> None:
        while self.bytes > self._budget and len(self._tables) > 1:
            oldest = min(
                (name for name, other in self._tables.items() if other is not entry),
                key=lambda name: self._tables[name].used_at,
            )
            del self._tables[oldest]
        if self.bytes > self._budget:
            self._drop_gone(entry, files, len(files) + len(entry.hashes))

    def _is_short(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at > _LOOK_EVERY_S:
            self._looked_at, self._short = now, self._available() < _SHORT
            if self._short:
                self._tables.clear()
        return self._short


def _bytes(files: Sequence[LiveFile]) -> int | None:
    """What the hashes of these files will take; None where the log does not tell their rows."""
    rows = 0
    for file in files:
        if file.rows is None:
            return None
        rows += file.rows
    return rows * _BYTES_A_ROW


def _holds(hashes: Hashes, needle: np.uint64) -> bool:
    at = int(hashes.searchsorted(needle))
    return at < hashes.size and bool(hashes[at] == needle)
