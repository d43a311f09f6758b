"""What would happen if the working tree went live: a plan is data, and nothing is written.

``build_plan`` compares what the tree declares with what is live. ``classify`` says what a change
means to readers, as a pure function of the two declarations.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake.exceptions import TableNotFoundError

from penstock.errors import UsageError
from penstock.location import delta_table
from penstock.model.catalog import Catalog
from penstock.model.names import TableName
from penstock.reprocess.comparison import column_diff
from penstock.reprocess.followers import Followers
from penstock.reprocess.history import how_built
from penstock.runtime.code.bundle import Bundle, tree_address
from penstock.runtime.declared.analysis import Analysed, analyse, analysed_bundle
from penstock.runtime.declared.register import fingerprint_of
from penstock.runtime.delta.writer import live_path, revision_path
from penstock.runtime.registry import Registry, Revision, State
from penstock.runtime.staging import How
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Plan",
    "Reading",
    "TableChange",
    "build_plan",
    "classify",
    "meaning_of",
    "same_rows",
    "selection",
]

# Rows a second that a build was seen to take in on two cores; only to say how long it may take.
_RATES = {How.BATCH: 400_000, How.FOLLOW: 60_000}


@dataclass(frozen=True)
class Reading:
    """One input of a table that is to be built."""

    name: str
    revision: str
    version: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class TableChange:
    """One table whose declared revision is not the live one."""

    table: str
    live: str | None
    declared: str
    because: str  # edited, or reads what is
    category: str  # new, same columns, additive, breaking
    columns: dict[str, list[str]]  # added, dropped, retyped
    meaning: list[str]  # what was declared, and what is now
    code: list[str]  # a diff of the module
    comparison: str  # what comparing will mean
    state: str  # what becomes of positions and copies
    how: str
    reads: list[Reading] = field(default_factory=list)
    adds_bytes: int = 0
    adds_rows: int | None = None  # None: the log does not say
    seconds: float = 0.0
    followed_by: dict[str, list[str]] = field(default_factory=dict)  # outside the streams

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """All changes, each after those it reads; empty: the tree means what is live."""

    changes: list[TableChange]
    unchanged: list[str]
    broken: list[str]
    found: Analysed

    def as_dict(self) -> dict[str, Any]:
        return {
            "changes": [change.as_dict() for change in self.changes],
            "unchanged": self.unchanged,
            "broken": self.broken,
        }


def classify(
    old_schema: Mapping[str, str] | None,
    new_schema: Mapping[str, str],
    old_meaning: Mapping[str, Any],
    new_meaning: Mapping[str, Any],
) -> tuple[str, dict[str, list[str]]]:
    """What a change means to those who read the table."""
    if old_schema is None:
        return "new", {"added": list(new_schema), "dropped": [], "retyped": []}
    columns = column_diff(old_schema, new_schema)
    keyed = _keys(old_meaning) == _keys(new_meaning)
    if columns["dropped"] or columns["retyped"] or not keyed:
        return "breaking", columns
    return ("additive" if columns["added"] else "same columns"), columns


def _keys(meaning: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a row is: another window length is another row, even under the same key columns."""
    grid = ("kind", "size_us", "every_us", "offset_us", "gap_us")
    return (tuple(meaning.get("keys", ())), *(meaning.get(name) for name in grid))


def same_rows(old_meaning: Mapping[str, Any], new_meaning: Mapping[str, Any]) -> bool:
    """Whether a row of the one is the same thing as a row of the other."""
    return _keys(old_meaning) == _keys(new_meaning)


def selection(catalog: Catalog, changed: Iterable[TableName], table: str | None) -> list[TableName]:
    """The changed tables that have to go live together with one of them, or all."""
    among = set(changed)
    if table is not None:
        wanted = TableName.parse(table)
        if wanted not in catalog.tables:
            raise UsageError(f"no table {table} is declared.", remedy="See `penstock tables`.")
        chosen, edge = set(), [wanted]
        while edge:
            name = edge.pop()
            if name in chosen or name not in among:
                continue
            chosen.add(name)
            edge += [n for n in catalog.tables[name].inputs.values() if n in among]
            edge += [n for n in among if name in catalog.tables[n].inputs.values()]
        among = chosen
    return [name for name in catalog.order() if name in among]


def build_plan(
    session: SparkSession,
    settings: Settings,
    registry: Registry,
    table: str | None = None,
    marts: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Plan:
    """Compare the working tree with what is live.

    Args:
        marts: by the table they are made from; they follow what goes live.
    """
    found = _tree(session, settings)
    live = {r.table: r for r in registry.revisions(states=(State.LIVE,))}
    changed = [
        name
        for name, revision in found.revisions.items()
        if str(name) not in live or fingerprint_of(live[str(name)].revision) != revision
    ]
    chosen = selection(found.catalog, changed, table)
    followers = Followers(settings, found.published, marts)
    changes = [
        replace(
            _change(settings, found, name, live, set(chosen)), followed_by=followers.of(str(name))
        )
        for name in chosen
    ]
    rest = [str(n) for n in found.catalog.order() if n not in changed and n in found.revisions]
    broken = [f"{b.what}: {b.reason}" for b in found.broken]
    return Plan(changes, rest, broken, found)


def _tree(session: SparkSession, settings: Settings) -> Analysed:
    """What the working tree declares; if it was stored as it is, that was worked out already."""
    address = tree_address(settings.project, settings.jobs)
    if (settings.bundles / address).is_dir():
        return analysed_bundle(session, settings, address)
    return analyse(session, Bundle(settings.project, settings.jobs).catalog())


def _change(
    settings: Settings,
    found: Analysed,
    name: TableName,
    live: Mapping[str, Revision],
    chosen: set[TableName],
) -> TableChange:
    table, running = found.catalog.tables[name], live.get(str(name))
    old_schema = _columns(running.declared["schema"]) if running else None
    new_schema = _columns(json.loads(found.schemas[name].json()))
    before = meaning_of(settings, running) if running else {}
    category, columns = classify(old_schema, new_schema, before, table.describe())
    upstream = [n for n in table.inputs.values() if n in chosen]
    code = _code_diff(settings, name, found, running)
    meaning = _meaning_diff(before, table.describe()) if running else []
    edited = bool(code or meaning or not upstream)
    because = "edited" if edited else f"reads {', '.join(map(str, upstream))}"
    how = how_built(table, decodes=found.catalog.stream_of(table) is not None)
    reads = [_reading(settings, n, live) for n in table.inputs.values()]
    rows = sum(reading.rows for reading in reads)
    adds_rows, adds_bytes = _held(settings, name, running)
    return TableChange(
        table=str(name),
        live=running.revision if running else None,
        declared=found.revisions[name],
        because=because,
        category=category,
        columns=columns,
        meaning=meaning,
        code=code,
        comparison=_comparison(before, table.describe(), table.keys) if running else "nothing yet",
        state=_STATE[how],
        how=how,
        reads=reads,
        adds_bytes=adds_bytes,
        adds_rows=adds_rows,
        seconds=round(5 + rows / _RATES[how], 1),
    )


_STATE = {
    How.BATCH: "its own: history computed as a batch at a pinned input version, then it follows",
    How.FOLLOW: "its own: it follows its input from the beginning",
}


def meaning_of(settings: Settings, revision: Revision) -> dict[str, Any]:
    """What a revision's definition declares, without its code."""
    known: dict[str, Any] | None = revision.declared.get("meaning")
    if known is not None:
        return known
    catalog = Bundle(settings.bundles / revision.bundle, settings.jobs).catalog()
    return catalog.tables[TableName.parse(revision.table)].describe()


def _comparison(before: Mapping[str, Any], after: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    if _keys(before) != _keys(after):
        return (
            "rows are not the same things any more (keys or windows changed): nothing matches by "
            "key. Compare a roll-up (`penstock compare --rollup`), or promote with a reason"
        )
    if not keys:
        return "as bags: rows count with multiplicity"
    return f"row by row, by {', '.join(keys)}"


def _columns(schema: Mapping[str, Any]) -> dict[str, str]:
    return {
        f["name"]: f["type"] if isinstance(f["type"], str) else json.dumps(f["type"])
        for f in schema["fields"]
    }


def _meaning_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    names = [*old, *(name for name in new if name not in old)]
    return [
        f"{name}: {old.get(name)} -> {new.get(name)}"
        for name in names
        if old.get(name) != new.get(name)
    ]


def _code_diff(
    settings: Settings, name: TableName, found: Analysed, running: Revision | None
) -> list[str]:
    """The lines that changed in the module of a table."""
    place = found.catalog.tables[name].place.file
    tree = settings.project / place
    if running is None or not tree.is_file():
        return []
    before = settings.bundles / running.bundle / place
    old = before.read_text().splitlines() if before.exists() else []
    new = tree.read_text().splitlines()
    return list(difflib.unified_diff(old, new, f"live {place}", place, n=2, lineterm=""))


def _reading(settings: Settings, name: TableName, live: Mapping[str, Revision]) -> Reading:
    running = live.get(str(name))
    revision = running.revision if running else ""
    path = live_path(settings.warehouse, name)
    if revision:
        path = revision_path(settings.warehouse, name, revision)
    try:
        table = delta_table(path)
    except TableNotFoundError:
        return Reading(str(name), revision, -1, 0, 0)
    adds = pa.table(table.get_add_actions(flatten=True))
    rows = sum(adds["num_records"].to_pylist())
    return Reading(str(name), revision, table.version(), rows, sum(adds["size_bytes"].to_pylist()))


def _held(settings: Settings, name: TableName, running: Revision | None) -> tuple[int | None, int]:
    """Rows and bytes of the live revision, as the statistics in its log tell them."""
    if running is None:
        return None, 0
    try:
        table = delta_table(revision_path(settings.warehouse, name, running.revision))
    except TableNotFoundError:
        return 0, 0
    adds = pa.table(table.get_add_actions(flatten=True))
    rows = adds["num_records"].to_pylist() if "num_records" in adds.column_names else [None]
    return None if None in rows else sum(rows), int(sum(adds["size_bytes"].to_pylist()))
