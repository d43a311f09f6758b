"""The workbench: one DuckDB in memory that reads Delta's files, counts changes and hashes rows.

Every hash of every export is computed here, over rows in the types of the live table, so that two
sums can be compared wherever the rows lie. DuckDB may hash otherwise in another release: a claim
names the one it was made by (``SCHEME``), and another makes the table be exported anew.

What it does not tell apart: 0.0 and -0.0, which are equal in SQL.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb

from penstock.export.claim import Sum
from penstock.serve.snapshot import Column, Part, file_lists, identifier, literal, scan_sql

__all__ = ["SCHEME", "Workbench", "listed", "row_hash"]

SCHEME = f"duckdb-{duckdb.__version__}"
_MEMORY = "2GB"  # beside the streams; what does not fit goes to disk


def listed(columns: Iterable[Column], prefix: str = "") -> str:
    return ", ".join(prefix + identifier(column.name) for column in columns)


def row_hash(columns: Sequence[Column]) -> str:
    """The hash of a row over all its columns, in the order the table has them."""
    return f"hash({listed(columns)})"


class Workbench:
    """Reads for one run; a context manager, because it spills into a folder of its own."""

    def __init__(self, scratch: Path, *, memory: str = _MEMORY, threads: int | None = None) -> None:
        self.scratch = scratch
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        config: dict[str, Any] = {
            "memory_limit": memory,
            "temp_directory": str(scratch / "spill"),
            "python_enable_replacements": False,
        }
        if threads is not None:
            config["threads"] = threads
        self.duck = duckdb.connect(":memory:", config=config)
        self.duck.execute("SET TimeZone = 'UTC'")
        self._scans = 0

    def __enter__(self) -> Workbench:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.duck.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def run(self, sql: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        return self.duck.execute(sql, values).fetchall()

    def scan(self, columns: Sequence[Column], parts: Sequence[Part]) -> str:
        """A SELECT over files of a table; its file list stays set for as long as the bench does."""
        self._scans += 1
        name = f"files_{self._scans}"
        self.duck.execute(f"SET VARIABLE {name} = $1", [file_lists(parts)])
        return scan_sql(columns, parts, name)

    def count(self, columns: Sequence[Column], parts: Sequence[Part]) -> int:
        """Rows of files, from their footers."""
        ((found,),) = self.run(f"SELECT count(*) FROM ({self.scan(columns, parts)})")  # noqa: S608
        return int(found)

    def sum_of(self, source: str, columns: Sequence[Column]) -> Sum:
        """Rows and checksum of a query or table."""
        ((rows, total),) = self.run(
            f"SELECT count(*), coalesce(sum({row_hash(columns)}), 0) FROM {source}"  # noqa: S608
        )
        return Sum(int(rows), int(total))

    def write_parquet(self, query: str, folder: Path, *, most_bytes: str = "256MB") -> list[Path]:
        """The rows of a query as Parquet files of a manageable size, in order."""
        shutil.rmtree(folder, ignore_errors=True)
        self.run(
            f"COPY ({query}) TO {literal(str(folder))} (FORMAT parquet, COMPRESSION zstd, "
            f"FILE_SIZE_BYTES {literal(most_bytes)}, FILENAME_PATTERN 'part-{{i}}')"
        )
        return sorted(folder.glob("*.parquet"), key=lambda p: int(p.stem.removeprefix("part-")))
