"""Readers that poll a live table all the time, and what each of their answers should have been.

A read is judged afterwards: the live log says which version of which revision it showed at every
version, and that revision's own table says which rows these are. So a read that is neither exactly
the old nor exactly the new is found, whatever happened meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from penstock.runtime.delta.log import commit_metadata, read_commit

Print = tuple[int, int]  # of a bag of rows: how many, and the sum of their hashes
Read = tuple[int, int, Print]  # the newest version before and after, and what was read


def bag(rows: pa.Table | list[dict]) -> Counter:
    listed = rows.to_pylist() if isinstance(rows, pa.Table) else rows
    return Counter(tuple(sorted((k, str(v)) for k, v in row.items())) for row in listed)


def fingerprint(rows: pa.Table) -> Print:
    """Of a bag of rows, whatever the order of rows and columns and the engine they came by.

    Counted by DuckDB: a bag of fifty thousand rows ten times a second leaves Python no time to
    read, and two cores none for anybody else.
    """
    columns = ", ".join(f'"{name}"::varchar' for name in sorted(rows.column_names))
    with duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        counted = duck.sql(f"select count(*), sum(hash([{columns}])) from rows").fetchall()
    ((count, total),) = counted
    return int(count), int(total or 0)


class Poller:
    """One reader, at a steady pace, in a thread of its own."""

    def __init__(self, name: str, live: Path, read: Callable[[], pa.Table], hz: float = 10) -> None:
        self.name = name
        self.reads: list[Read] = []
        self.failed: list[str] = []
        self._live = live
        self._read = read
        self._pause = 1 / hz
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Poller:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join(120)

    def _run(self) -> None:
        while not self._stopping.wait(self._pause):
            try:
                before = newest(self._live)
                rows = fingerprint(self._read())
                self.reads.append((before, newest(self._live), rows))
            except Exception as error:
                self.failed.append(f"{time.time():.3f} {error!r}")


def newest(live: Path) -> int:
    return max(int(p.stem) for p in (live / "_delta_log").glob("*.json"))


def by_delta_rs(live: Path) -> Callable[[], pa.Table]:
    return lambda: DeltaTable(str(live)).to_pyarrow_table()


class Expected:
    """The rows a live table should show at a version, from the revision it shows there."""

    def __init__(self, live: Path) -> None:
        self._live = live
        self._known: dict[tuple[str, int], Print] = {}

    def at(self, version: int) -> Print:
        while version >= 0:
            told = commit_metadata(self._live, version)
            if "revision_version" in told:
                break
            version -= 1  # a change of the lease shows nothing
        else:
            return 0, 0
        key = (told["revision"], told["revision_version"])
        if key not in self._known:
            path = self._live / "_revisions" / key[0]
            shown = DeltaTable(str(path), version=key[1]).to_pyarrow_table()
            self._known[key] = fingerprint(shown)
        return self._known[key]


def judge(poller: Poller, live: Path) -> Counter:
    """Fails on a read that is not one version, whole; returns how often which revision was read."""
    expected, seen = Expected(live), Counter()
    assert not poller.failed, (poller.name, poller.failed[:3])
    for before, after, rows in poller.reads:
        for version in range(before, after + 1):
            if rows == expected.at(version):
                seen[_revision(live, version)] += 1
                break
        else:
            raise AssertionError(f"{poller.name} between versions {before} and {after}: mixed")
    return seen


def _revision(live: Path, version: int) -> str:
    while version >= 0:
        told = commit_metadata(live, version)
        if "revision" in told:
            return str(told["revision"])
        version -= 1
    return ""


def rebuilt(live: Path, keys: tuple[str, ...], until: int) -> Counter:
    """What somebody has who applied the change feed by key, from the first version on."""
    held: dict[tuple, dict] = {}
    feed = pa.table(DeltaTable(str(live)).load_cdf(0, until).read_all())
    names = [field.name for field in DeltaTable(str(live), version=until).schema().fields]
    came = ("insert", "update_postimage")
    order = sorted(
        feed.to_pylist(), key=lambda r: (r["_commit_version"], r["_change_type"] in came)
    )
    for row in order:
        key = tuple(row[name] for name in keys)
        if row["_change_type"] in came:
            held[key] = {name: row[name] for name in names}
        else:
            assert key in held, f"{row['_change_type']} of no row: {key}"
            del held[key]
    return bag(list(held.values()))


def swaps(live: Path) -> list[int]:
    """The versions that swapped what a live table shows."""
    return [
        version
        for version in range(newest(live) + 1)
        if any("metaData" in a or "PENSTOCK" in str(a.get("commitInfo", {}).get("operation"))
               for a in read_commit(live, version))
        and "replaced" in commit_metadata(live, version)
    ]  # fmt: skip
