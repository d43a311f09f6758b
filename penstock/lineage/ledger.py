"""The ledger: which bytes there are, whose they are, and how many times the same data exists.

**Purpose.** One definition run as stream and batch must not mean a pile of copies. The ledger
counts what lies on disk: per table and revision the files its newest version needs, everything
else in its folder (older versions, change files, orphans), its log and its stores; and beside the
tables what the services keep.

**How it works.** Sizes are those of the files; what a version needs is what its log says. Every
file under the folders named is counted once. A live table has no data files: its log points at a
revision's, so it is counted by its log and by the change files its swaps wrote.

**What it does not do.** Ask for the platform: without the registry, states are ``unknown``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from penstock.lineage.revisions import Revisions, folders
from penstock.location import Location, Remote, below, delta_table, walk
from penstock.model.names import TableName
from penstock.model.publication import TOPIC_PREFIX
from penstock.runtime.delta.writer import live_path, revision_path
from penstock.serve.catalog import Catalog, TableRef

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["Copies", "Ledger", "Line", "Place", "Usage", "measure", "usage"]

_PLACES = {  # beside tables and stores: what it is called -> its folder, below home
    "kafka": "data/kafka",
    "postgres": "data/postgres",
    "checkpoints and scratch": "run",
    "exports: duckdb": "export/duckdb",
    "exports: clickhouse": "export/clickhouse",
    "exports: parquet": "export/parquet",
    "comparison reports": "reports",
    "code bundles": "bundles",
    "service logs": "logs",
    "lineage events": "lineage",
    "docs sites": "sites",
}


@dataclass(frozen=True)
class Usage:
    """Files and bytes of a folder; ``whole`` is False where something could not be looked at."""

    files: int = 0
    bytes: int = 0
    blocks: int = 0  # what the disk gives for it: small files take whole blocks
    whole: bool = True

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.files + other.files,
            self.bytes + other.bytes,
            self.blocks + other.blocks,
            self.whole and other.whole,
        )

    def __sub__(self, other: Usage) -> Usage:
        return self + Usage(-other.files, -other.bytes, -other.blocks, other.whole)


@dataclass(frozen=True)
class Line:
    """One revision of one table, or a bronze table; all numbers but files and rows are bytes."""

    table: str
    revision: str
    state: str
    files: int  # that the newest version needs
    rows: int
    data: int  # of these files
    disk: int  # of the folder without the log
    log: int
    store: int = 0
    live_log: int = 0  # the table's live log and its swaps' change files, on the line that is shown

    @property
    def unneeded(self) -> int:
        """Older versions, change files and orphans."""
        return max(0, self.disk - self.data)

    @property
    def bytes(self) -> int:
        return self.disk + self.log + self.store + self.live_log

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "unneeded": self.unneeded, "bytes": self.bytes}


@dataclass(frozen=True)
class Place:
    """Something beside the tables that takes room."""

    what: str
    folder: str
    usage: Usage


@dataclass(frozen=True)
class Copies:
    """How many times a table's data exists, and what that takes."""

    table: str
    copies: int  # revisions that hold rows
    live: int | None  # of the revision that is shown; None: not known
    data: int  # of all of them
    store: int


@dataclass(frozen=True)
class Ledger:
    """All lines; totals are sums of them."""

    lines: list[Line]
    places: list[Place]
    answered: bool  # the registry did: states are known
    home: Usage | None = None  # everything, what is on no line included; None: one table was asked

    @property
    def raw(self) -> Line:
        """The bronze tables together: what raw data is kept."""
        bronze = [line for line in self.lines if line.table.startswith("bronze.")]
        return _sum(bronze, "bronze")

    @property
    def derived(self) -> Line:
        """Everything that could be computed again from bronze."""
        return _sum([li for li in self.lines if not li.table.startswith("bronze.")], "derived")

    def copies(self) -> list[Copies]:
        """Per table, without those that lie beside one."""
        found = []
        for table in dict.fromkeys(line.table for line in self.lines):
            if table.partition(".")[0] not in ("bronze", "silver", "gold"):
                continue
            mine = [line for line in self.lines if line.table == table]
            shown = [line.data for line in mine if line.state in ("live", "")]
            found.append(
                Copies(
                    table,
                    copies=sum(1 for line in mine if line.rows),
                    live=shown[0] if shown else None,
                    data=sum(line.data for line in mine),
                    store=sum(line.store for line in mine),
                )
            )
        return found

    def as_dict(self) -> dict[str, Any]:
        totals = {
            "raw_bytes": self.raw.data,
            "raw_rows": self.raw.rows,
            "derived_bytes": self.derived.data,
            "tables_bytes": self.raw.bytes + self.derived.bytes,
            "places_bytes": sum(place.usage.bytes for place in self.places),
            "home": asdict(self.home) if self.home else None,
        }
        return {
            "lines": [line.as_dict() for line in self.lines],
            "places": [
                {"what": p.what, "folder": p.folder, **asdict(p.usage)} for p in self.places
            ],
            "copies": [asdict(copy) for copy in self.copies()],
            "states_known": self.answered,
            "totals": totals,
        }


def _sum(lines: list[Line], name: str) -> Line:
    numbers = ("files", "rows", "data", "disk", "log", "store", "live_log")
    return Line(name, "", "", *(sum(getattr(li, field) for li in lines) for field in numbers))


# --- measuring --------------------------------------------------------------------------------
def measure(settings: Settings, revisions: Revisions, table: str | None = None) -> Ledger:
    """Count everything, or one table and those that lie beside it.

    Raises:
        UsageError: there is no such table.
    """
    catalog = Catalog.load(settings)
    asked = catalog.find(table.split(".", 1)) if table is not None else None
    refs = _beside(catalog, asked) if asked else list(catalog)
    bearings = _Bearings(settings, revisions, _mains(catalog), _shown(settings.manifest))
    lines = [line for ref in refs for line in _lines(bearings, ref)]
    if asked:
        return Ledger(lines, [], revisions.answered)
    places = list(_places(settings.home, {ref.label for ref in refs}))
    return Ledger(lines, places, revisions.answered, usage(settings.home))


@dataclass(frozen=True)
class _Bearings:
    """What is needed to tell whose bytes are whose."""

    settings: Settings
    revisions: Revisions
    mains: dict[str, str]
    shown: dict[str, str]

    def live(self, table: str, states: dict[str, str]) -> str | None:
        """The revision a table shows: by the registry, else by the manifest, else the first."""
        known = next((r for r, state in states.items() if state == "live"), None)
        said = self.shown.get(self.mains.get(table, table))
        return known or (said if said in states else next(iter(states), None))


def _beside(catalog: Catalog, ref: TableRef) -> list[TableRef]:
    name = TableName(ref.layer, ref.name)
    if ref.layer not in ("silver", "gold"):
        return [ref]
    wanted = {str(one) for one in (name, name.quarantine, name.late, name.outcomes)}
    return sorted(
        (other for other in catalog if other.label in wanted), key=lambda r: r.label != ref.label
    )


def _mains(catalog: Catalog) -> dict[str, str]:
    """Tables that lie beside another -> that other, whose name the registry has."""
    found: dict[str, str] = {}
    for ref in catalog:
        if ref.layer in ("silver", "gold"):
            name = TableName(ref.layer, ref.name)
            found |= {str(n): str(name) for n in (name.quarantine, name.late, name.outcomes)}
    return found


def _shown(manifest: Path) -> dict[str, str]:
    """The live revision of each table, as the manifest has it."""
    try:
        listed = json.loads(manifest.read_text())["tables"]
        return {str(entry["name"]): str(entry.get("revision") or "") for entry in listed}
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # then there is no telling; the bytes are counted all the same


def _lines(bearings: _Bearings, ref: TableRef) -> Iterator[Line]:
    settings, table, name = bearings.settings, ref.label, TableName(ref.layer, ref.name)
    live, main = live_path(settings.warehouse, name), bearings.mains.get(table, table)
    if ref.layer in ("bronze", "marts"):  # tables as they are, without revisions
        if live.exists():
            yield _line(live, table, "", "")
        return
    stores = settings.home / "stores" / table
    held = set(folders(settings.warehouse, table))
    named = sorted(held | {entry.name for entry in _folders_in(stores)})
    states = {revision: bearings.revisions.state(main, revision) for revision in named}
    own = usage(live, without="_revisions")
    shown = bearings.live(table, states)
    if shown is None and own.files:
        yield Line(table, "", "no revision", 0, 0, 0, 0, 0, live_log=own.bytes)
    for revision in named:
        yield _line(
            revision_path(settings.warehouse, name, revision),
            table,
            revision,
            states[revision],
            store=usage(stores / revision).bytes,
            live_log=own.bytes if revision == shown else 0,
        )


def _line(
    path: Location, table: str, revision: str, state: str, *, store: int = 0, live_log: int = 0
) -> Line:
    files, rows, data = _needed(path)
    log = usage(path / "_delta_log").bytes
    # Read after the version: a commit in between can only make the folder bigger than its data.
    disk = usage(path, without="_delta_log").bytes
    return Line(table, revision, state, files, rows, data, disk, log, store, live_log)


def _needed(path: Location) -> tuple[int, int, int]:
    """Files, rows and bytes of the newest version."""
    try:
        adds = pa.table(delta_table(path).get_add_actions(flatten=True))
    except (DeltaError, OSError):
        return 0, 0, 0  # not a table yet, or one that was given up half way
    rows = sum(n or 0 for n in adds["num_records"].to_pylist())
    return adds.num_rows, rows, sum(adds["size_bytes"].to_pylist())


def _places(home: Path, tables: set[str]) -> Iterator[Place]:
    for what, folder in _PLACES.items():
        if (home / folder).exists():
            yield from _apart(what, folder, home / folder)
    for entry in sorted(_folders_in(home / "stores"), key=lambda e: e.name):
        if entry.name not in tables:
            yield Place("store of no table", f"stores/{entry.name}", usage(Path(entry.path)))


def _apart(what: str, folder: str, path: Path) -> Iterator[Place]:
    """A place; of Kafka's, what is published is told apart: it is a copy of live tables."""
    whole = usage(path)
    if what == "kafka":
        topics = (Path(e.path) for e in _folders_in(path) if e.name.startswith(TOPIC_PREFIX))
        published = sum((usage(topic) for topic in topics), Usage())
        whole -= published
        if published.files:
            yield Place("kafka: published topics", f"{folder}/{TOPIC_PREFIX}*", published)
    yield Place(what, folder, whole)


def usage(folder: Location, without: str = "", seen: set[int] | None = None) -> Usage:
    """What a folder holds, all levels, without the one entry named; nothing if it is not there.

    A file with several names (exports share files between generations) is counted once.
    """
    total, seen = Usage(), set() if seen is None else seen
    if isinstance(folder, Remote):
        return _far_usage(folder, without)
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return total
    except PermissionError:
        return Usage(whole=False)
    for entry in entries:
        if entry.name == without:
            continue
        if entry.is_dir(follow_symlinks=False):
            total += usage(Path(entry.path), seen=seen)
            continue
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # deleted while we looked: streams and services go on
        if found.st_nlink > 1 and found.st_ino in seen:
            continue
        seen.add(found.st_ino)
        total += Usage(1, found.st_size, found.st_blocks * 512)
    return total


def _far_usage(folder: Remote, without: str) -> Usage:
    """The same of an object store, where what is stored is what is paid for."""
    sizes = [
        found.st_size
        for found in walk(folder)
        if not without or below(found.location, folder).split("/")[0] != without
    ]
    return Usage(len(sizes), sum(sizes), sum(sizes))


def _folders_in(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return [entry for entry in os.scandir(folder) if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
