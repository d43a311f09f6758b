"""The way of a row: from the file that holds it down to the records it was made from.

**Purpose.** Somebody asks where a number comes from. The answer: which file holds the row, which
revision and code wrote it, in which commit, what that commit had read of each input, and so on
down to bronze, whose commits name the offsets.

**How it works.** Only files are read. A live table's file lies in a revision's folder; the
revision's log says which commit brought the row, and that commit's transactions how far it had
read. A row in a file that was rewritten is older than the file: the change feed is followed back
to the commit that brought it. What a commit took in is where rows of ``rows`` tables come from. A
window or a group also has rows from earlier commits, so there the input rows are looked for by key
and time (``scope``) in the version the commit had reached, and where that is impossible everything
up to that version is named. Each step says which of the three it is (``Origin.basis``).

**What it does not do.** Run the transform: an input row with the right key and time that the
transform filtered out is among those named.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.lineage.commits import NOTHING, Commit, History, Span, merged
from penstock.lineage.graph import read_manifest
from penstock.lineage.look import (
    FILE,
    ROW,
    Bounds,
    Found,
    columns_at,
    equal_row,
    rows_where,
    sharing,
    typed,
)
from penstock.lineage.origins import COMMIT, DECIDED, EVERYTHING, ROWS, Origin, RowOrigin, Trace
from penstock.lineage.revisions import Revisions, folders
from penstock.lineage.scope import Match, match, telling
from penstock.location import Location, near, present
from penstock.model.names import TableName
from penstock.runtime.delta.log import Action
from penstock.runtime.delta.swap import files_at
from penstock.runtime.delta.writer import live_path, revision_path
from penstock.serve.catalog import Catalog
from penstock.serve.snapshot import Column, Snapshot, local_path, open_snapshot

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["MOST", "trace", "trace_in"]

MOST = 5  # rows that are followed when several are meant
_MOST_FILES = 20_000  # that are looked through for the rows of an input
_BESIDE = ("quarantine", "late", "outcomes")
_GUESSED = "which revision it was is told by the time: the registry does not know"
_REWRITTEN = "the rows may be older: these commits wrote their files again"


def trace(
    settings: Settings, revisions: Revisions, table: str, wanted: Sequence[tuple[str, str]]
) -> Trace:
    """Follow the rows of a table that have these values; at most ``MOST`` of them.

    Raises:
        UsageError: no such table or column, a value that is none, or a table without data.
    """
    catalog = Catalog.load(settings)
    snapshot = open_snapshot(catalog, catalog.find(table.split(".", 1)))
    return trace_in(settings, revisions, snapshot, wanted)


def trace_in(
    settings: Settings,
    revisions: Revisions,
    snapshot: Snapshot,
    wanted: Sequence[tuple[str, str]],
    most: int = MOST,
) -> Trace:
    """The same in a version of a table that is pinned already."""
    ref = snapshot.ref
    test = typed(snapshot.columns, wanted, f"{ref.layer}.{ref.name}")
    count, rows = rows_where(snapshot.columns, snapshot.here(), test, most)
    tracer = _Tracer(settings, revisions)
    folder = Catalog(settings.warehouse, ()).folder(ref)
    found = [tracer.row(folder, snapshot, rows.slice(n, 1)) for n in range(rows.num_rows)]
    return Trace(ref.label, snapshot.version, count, found)


@dataclass(frozen=True)
class _Maker:
    """Commits of one revision, of which it is asked what they were made from."""

    table: str
    revision: str
    entry: Mapping[str, Any]
    history: History
    spans: list[Span]
    rows: pa.Table | None  # that they made; None: too many to follow, or not known


class _Tracer:
    """One question; remembers the commits it has read."""

    def __init__(self, settings: Settings, revisions: Revisions) -> None:
        self._home = settings.home
        self._warehouse = settings.warehouse
        self._revisions = revisions
        self._entries = read_manifest(settings)
        self._histories: dict[Location, History] = {}

    # --- the row itself -------------------------------------------------------------------
    def row(self, folder: Location, snapshot: Snapshot, found: pa.Table) -> RowOrigin:
        """One row of a table's snapshot, with the file it was found in."""
        ref = snapshot.ref
        table = f"{ref.layer}.{ref.name}"
        file = os.path.relpath(found[FILE][0].as_py(), near(folder))
        row = found.drop_columns([FILE, ROW])
        revision, path, inner = _split(folder, file, ref.revision)
        history = self._history(path)
        added = history.brought_at(inner, found[ROW][0].as_py())
        if added is None:
            add = files_at(folder, snapshot.version).get(file, {})
            added = history.added_in(inner, add.get("modificationTime", 0), history.newest)
        made = _brought(history, snapshot.columns, row, added)
        entry = self._entry(table, revision)
        spans = [(made.version, made.version)] if made else []
        code = str(made.told.get("code", "")) if made else ""
        maker = _Maker(table, revision, entry, history, spans, row)
        return RowOrigin(
            row=row.to_pylist()[0],
            file=self._shown(folder / file),
            revision=revision,
            state=self._revisions.state(str(entry.get("of", table)), revision) if revision else "",
            code=code,
            module=self._module(entry, code),
            version=made.version if made else None,
            time=made.time if made else "",
            operation=made.operation if made else "",
            rows_in=made.told.get("rows_in") if made else None,
            rewritten_in=added if made and added != made.version else None,
            offsets=[] if revision else history.offsets(spans),
            inputs=self._inputs(maker),
        )

    # --- what commits were made from ------------------------------------------------------
    def _inputs(self, maker: _Maker) -> list[Origin]:
        if not maker.revision or not maker.spans:
            return []
        if maker.entry.get("kind") in _BESIDE:
            return self._decided(maker)
        listed = (maker.entry.get("inputs") or {}).items()
        found = (self._origin(maker, str(argument), str(name)) for argument, name in listed)
        return [origin for origin in found if origin is not None]

    def _decided(self, maker: _Maker) -> list[Origin]:
        """A table beside another: commits of that one decided what is in it."""
        main, revision, history = str(maker.entry["of"]), maker.revision, maker.history
        told = (c.txns.get(f"{revision}:from") for c in history.commits(maker.spans))
        spans = [(n, n) for n in told if n is not None]
        spans += history.taken_in(revision, "outcomes", maker.spans)
        if not spans:
            return []
        above = self._history(self._path(main, revision))
        # Whatever kind the table is: what it set apart came in with the commit that says so.
        entry = {**self._entry(main, revision), "kind": "rows"}
        inputs = self._inputs(_Maker(main, revision, entry, above, merged(spans), maker.rows))
        return [_dated(Origin(main, revision, DECIDED, merged(spans), inputs=inputs), above)]

    def _origin(self, maker: _Maker, argument: str, name: str) -> Origin | None:
        until = maker.history.position(maker.revision, name, maker.spans[-1][1])
        if until == NOTHING:
            return None  # not a row of it had been read
        revision, sure = self._pinned(maker, name, until)
        history = self._history(self._path(name, revision))
        if history.newest < 0:
            return Origin(name, revision, EVERYTHING, [(0, until)], note="its files are gone")
        taken = maker.history.taken_in(maker.revision, name, maker.spans)
        narrow = bool(taken) and maker.entry.get("kind") == "rows"
        origin = Origin(
            name,
            revision,
            COMMIT if narrow else EVERYTHING,
            taken if narrow else [(0, until)],
            taken=taken,
            topic=str(self._entries.get(name, {}).get("topic") or ""),
            note="" if sure else _GUESSED,
        )
        return self._followed(maker, argument, origin, history)

    def _pinned(self, maker: _Maker, name: str, until: int) -> tuple[str, bool]:
        """Which revision of an input was read; by the time of its commits if nobody can say.

        A reader commits soon after the version it has read to. So of all revisions that have such
        a version, and had it by then, it is the one that had it last.
        """
        pin = self._revisions.pin(self._warehouse, self._entries, maker.table, maker.revision, name)
        made = maker.history.commit(maker.spans[-1][1])
        if pin.sure or made is None:
            return pin.revision, pin.sure
        reached = {
            revision: commit.stamp
            for revision in folders(self._warehouse, name)
            if (commit := self._history(self._path(name, revision)).commit(until)) is not None
            and commit.stamp <= made.stamp
        }
        return max(reached, key=lambda r: reached[r]) if reached else pin.revision, False

    def _followed(self, maker: _Maker, argument: str, origin: Origin, history: History) -> Origin:
        """Narrowed to the rows that belong together, where they can be told; and so on down."""
        entry = self._entry(origin.table, origin.revision)
        made_by, rows = list(origin.versions), None
        held, bounds = _held(history, origin)
        found = _sharing(maker, argument, history, (held, bounds), telling(entry))
        if found is not None:
            how, hit = found
            told = replace(origin, rows=hit.count, which=how.words, records=hit.places)
            spans, brought = _spans(history, held, hit, origin.versions[-1][1])
            if not hit.count and how.optional:
                return replace(told, basis=ROWS, versions=[])
            if spans:
                made_by = spans if brought else [(0, spans[-1][1])]
                note = origin.note if brought else _joined(origin.note, _REWRITTEN)
                origin = replace(told, basis=ROWS, versions=spans, note=note)
                rows = hit.rows if hit.count == hit.rows.num_rows else None
        if not origin.revision:
            origin = replace(origin, offsets=history.offsets(origin.versions))
        else:
            below = _Maker(origin.table, origin.revision, entry, history, made_by, rows)
            origin = replace(origin, inputs=self._inputs(below))
        return _dated(origin, history)

    # --- small things ---------------------------------------------------------------------
    def _history(self, path: Location) -> History:
        return self._histories.setdefault(path, History(path))

    def _module(self, entry: Mapping[str, Any], code: str) -> str:
        """Where the code is that wrote a row: its own copy, not the working tree."""
        declared = self._entries.get(str(entry.get("of")), entry)
        file = str(declared.get("place", "")).rpartition(":")[0]
        inside = Path("bundles") / code / file
        return str(inside) if code and file and (self._home / inside).is_file() else ""

    def _shown(self, file: Location) -> str:
        return os.path.relpath(file, self._home) if isinstance(file, Path) else str(file)

    def _path(self, table: str, revision: str) -> Location:
        name = TableName.parse(table)
        if not revision:
            return live_path(self._warehouse, name)
        return revision_path(self._warehouse, name, revision)

    def _entry(self, table: str, revision: str) -> dict[str, Any]:
        """What a table declares; of a revision that is not live, what that one does."""
        entry = self._entries.get(table, {})
        if revision and revision != entry.get("revision"):
            return {**entry, **self._revisions.meaning(table, revision)}
        return entry


def _split(folder: Location, file: str, revision: str) -> tuple[str, Location, str]:
    """Revision, its folder, and the file below that: the path itself tells."""
    parts = Path(file).parts
    if parts[0] == "_revisions":
        return parts[1], folder / "_revisions" / parts[1], str(Path(*parts[2:]))
    return revision, folder, file


def _brought(
    history: History, columns: Sequence[Column], row: pa.Table, added: int | None
) -> Commit | None:
    """The commit that brought a row into the table, not the one that last rewrote its file."""
    commit = history.commit(added) if added is not None else None
    if added is None or commit is None or not commit.rewrites:
        return commit
    upper, step = added, 1
    while upper >= 0:
        lower = max(0, upper - step + 1)
        came = {
            local_path(history.path, file): one.version
            for one in history.commits([(lower, upper)])
            for file in one.came
        }
        there = [file for file in present(history.path, came) if os.path.exists(file)]
        hits = equal_row(columns, there, row)
        if hits:
            return history.commit(max(came[file] for file in hits))
        upper, step = lower - 1, min(step * 8, 1024)
    return commit  # its change file is gone: the rewrite is the oldest that can be named


Held = tuple[dict[str, Action], Bounds]


def _held(history: History, origin: Origin) -> Held:
    """The files in which rows of an input are to be looked for, and which rows of them."""
    if origin.basis == COMMIT:
        commits = history.commits(origin.versions)
        named = {path: add for commit in commits for path, add in commit.adds.items()}
        there = {path: add for path, add in named.items() if (history.path / path).exists()}
        if len(there) == len(named) and not any(c.gone for c in history.commits(origin.versions)):
            return there, {}
        return _merged(history, origin, there)
    try:
        return files_at(history.path, origin.versions[-1][1]), {}
    except FileNotFoundError:
        return _merged(history, origin, {})  # the log does not go back that far


def _merged(history: History, origin: Origin, known: dict[str, Action]) -> Held:
    """Files of now that hold rows of commits whose own files are gone."""
    held, bounds = dict(known), {}
    for path, add in files_at(history.path, history.newest).items():
        rows = [
            (start, end)
            for version, start, end in history.merged_rows(path)
            if any(first <= version <= last for first, last in origin.versions)
        ]
        if rows:
            held[path], bounds[local_path(history.path, path)] = add, [(rows[0][0], rows[-1][1])]
    return held, bounds


def _sharing(
    maker: _Maker,
    argument: str,
    history: History,
    among: Held,
    keep: Sequence[str],
) -> tuple[Match, Found] | None:
    """The rows of an input that belong to the rows of its reader, and by what they were told."""
    held, bounds = among
    if maker.rows is None or maker.rows.num_rows == 0 or not 0 < len(held) <= _MOST_FILES:
        return None
    columns = columns_at(history.path)
    how = match(maker.entry, argument, maker.rows.column_names, [c.name for c in columns])
    if how is None:
        return None
    files = present(history.path, [local_path(history.path, file) for file in held])
    found = sharing(columns, files, maker.rows, how.tests, keep, bounds=bounds)
    return None if found is None else (how, found)


def _spans(
    history: History, held: Mapping[str, Action], found: Found, until: int
) -> tuple[list[Span], bool]:
    """The commits whose files hold the rows, and whether these also brought them."""
    brought, versions = True, []
    for file in found.files:
        inner = os.path.relpath(file, near(history.path))
        merged_here = _of_merged(history, inner, found.numbers.get(file))
        if merged_here:
            versions += merged_here
            brought = brought and not any(_rewrote(history, v) for v in merged_here)
            continue
        at = history.added_in(inner, held[inner]["modificationTime"], until)
        commit = history.commit(at) if at is not None else None
        if commit is None:
            return [], False
        brought = brought and not commit.rewrites
        versions.append(commit.version)
    return merged((version, version) for version in versions), brought


def _of_merged(history: History, file: str, numbers: Sequence[int] | None) -> list[int]:
    """The commits that rows of a merged file came with; of all its rows, if they are too many."""
    rows = history.merged_rows(file)
    if numbers is None:
        return [version for version, _, _ in rows]
    starts = [start for _, start, _ in rows]
    return sorted({rows[bisect_right(starts, number) - 1][0] for number in numbers})


def _rewrote(history: History, version: int) -> bool:
    commit = history.commit(version)
    return commit is None or commit.rewrites


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _dated(origin: Origin, history: History) -> Origin:
    first, last = history.commit(origin.versions[0][0]), history.commit(origin.versions[-1][1])
    return replace(origin, since=first.time if first else "", until=last.time if last else "")
