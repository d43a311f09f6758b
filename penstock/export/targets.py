"""The targets by name, which tables go there, and how far behind live they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from penstock.errors import NotRunning, PenstockError, UsageError, in_a_line
from penstock.export.place import export_folder
from penstock.export.target import Target
from penstock.serve.catalog import Catalog
from penstock.serve.changes import newest_version

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["TARGETS", "Held", "open_target", "quality_holds", "selected", "status"]

TARGETS = ("duckdb", "clickhouse", "parquet")
LAYERS = ("silver", "gold")


def open_target(settings: Settings, name: str) -> Target:
    """The target of that name, as the settings have it."""
    folder = export_folder(settings) / name
    folder.mkdir(exist_ok=True)
    if name == "duckdb":
        from penstock.export.duckdb_file import DuckdbFile

        return DuckdbFile(folder)
    if name == "parquet":
        from penstock.export.parquet_files import ParquetFiles

        return ParquetFiles(folder)
    from penstock.export.clickhouse import ClickHouse
    from penstock.export.clickhouse_places import Embedded, Server

    if settings.clickhouse_url is None:
        return ClickHouse(Embedded(folder))
    user = settings.clickhouse_user
    return ClickHouse(Server(settings.clickhouse_url, user, settings.secret(f"clickhouse-{user}")))


# --- which tables -------------------------------------------------------------------------------
def selected(settings: Settings, asked: Sequence[str]) -> list[str]:
    """The tables asked for; if none are, the live ones that the settings name.

    Raises:
        UsageError: a name is not that of a live silver or gold table.
        NotRunning: nothing is registered.
    """
    if asked:
        catalog = Catalog.load(settings)
        return list(dict.fromkeys(_asked(catalog, name) for name in asked))
    try:
        entries = json.loads(settings.manifest.read_text())["tables"]
    except FileNotFoundError:
        raise NotRunning("nothing is registered yet.", remedy="Run `penstock up`.") from None
    live = [str(entry["name"]) for entry in entries if entry.get("revision")]
    return [
        name
        for name in live
        if name.startswith(tuple(f"{layer}." for layer in LAYERS))
        and any(fnmatchcase(name, pattern) for pattern in settings.export_tables)
    ]


def _asked(catalog: Catalog, name: str) -> str:
    ref = catalog.find(name.partition("@")[0].split("."))
    if "@" in name or ref.layer not in LAYERS:
        raise UsageError(
            f"{name} cannot be exported: only what silver and gold tables show now can.",
            remedy="Read it with `penstock query`.",
        )
    return ref.label


def quality_holds(
    settings: Settings, warn: Callable[[str], None] = lambda text: None
) -> Callable[[str], str | None]:
    """Tells why a table must not be exported: it is held, and by its quality checks.

    A table somebody holds for another reason stands still and is exported as it stands. Without the
    registry nothing is known to be held; ``warn`` is told.
    """
    from penstock.runtime.registry import Registry
    from penstock.runtime.staging import Hold, Staging

    try:
        registry = Registry(settings)
        try:
            holds = Staging(registry).holds()
        finally:
            registry.close()
    except Exception as error:  # whatever the driver raises: exporting needs no platform
        warn(f"the registry does not answer, so holds are not known: {in_a_line(error, 120)}")
        return lambda table: None

    def blocked(table: str) -> str | None:
        hold = holds.get(table)
        if hold is None or Hold.QUALITY not in hold.holders:  # others may have joined it
            return None
        return f"held by {hold.held_by}: {hold.reason}"

    return blocked


# --- how far they are ---------------------------------------------------------------------------
@dataclass(frozen=True)
class Held:
    """One exported table against the live one."""

    target: str
    table: str
    delta_version: int
    live_version: int | None  # None: there is no such table any more
    behind: int | None  # commits
    revision: str
    rows: int
    checksum: str
    exported_at: str
    mode: str
    rows_written: int
    verified: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def status(settings: Settings, names: Sequence[str] = TARGETS) -> tuple[list[Held], list[str]]:
    """What each target holds; and what could not be looked at."""
    found: list[Held] = []
    problems: list[str] = []
    for name in names:
        try:
            target = open_target(settings, name)
            claims = target.claims()
        except PenstockError as error:
            problems.append(f"{name}: {error}")
            continue
        for claim in claims.values():
            layer, _, table = claim.table.partition(".")
            newest = newest_version(settings.warehouse / layer / table / "_delta_log")
            found.append(
                Held(
                    name,
                    claim.table,
                    claim.delta_version,
                    newest,
                    None if newest is None else newest - claim.delta_version,
                    claim.revision,
                    claim.rows,
                    claim.checksum,
                    claim.exported_at,
                    claim.mode,
                    claim.rows_written,
                    claim.verified,
                )
            )
    return found, problems
