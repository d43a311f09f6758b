"""Swapping what a live table shows: one commit, no data copied, net changes in the change feed.

**Purpose.** A live table is a log that points at the files of one revision. To promote another
revision is to commit, once: every file out, every file of the other revision in, and a change file
that holds exactly the rows in which the two differ.

**How it works.** The difference is computed at pinned versions while both revisions go on, and
brought up to date from their change feeds when they stand still (``brought_up``): as bags,
``new2 - old2 = (new1 - old1) + (new2 - new1) - (old2 - old1)``. So the time a live table stands
still does not depend on how big it is. The commit carries ``promoted:<revision>`` with its own
version: the highest of these tells which revision a live log shows, whatever else was written down.

**What it does not do.** Decide whether the swap is wanted, or stop the writers: see ``operate``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from penstock.location import Location, copies, delta_table
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import removal, write_changes
from penstock.runtime.delta.log import Action, DeltaLog, metadata_action
from penstock.runtime.delta.log_files import files_at
from penstock.runtime.delta.relate import matching, minus, quoted
from penstock.runtime.delta.source import new_batches
from penstock.runtime.delta.writer import RevisionWriter

__all__ = ["brought_up", "difference", "files_at", "promoted", "shown", "shown_files_of", "swap"]

_EVER = 1 << 62
_FEATURES_READER, _FEATURES_WRITER = 3, 7  # from these versions on features are listed by name


# --- the difference of two revisions ------------------------------------------------------------
class Rows(Protocol):
    """A Delta table, and the columns it has."""

    @property
    def path(self) -> Location: ...
    @property
    def schema(self) -> pa.Schema: ...


def difference(old: Rows, old_version: int, new: Rows, new_version: int, scratch: Path) -> Change:
    """What turns the rows of one table into those of another, as the new one has columns."""
    olds = copies(old.path / name for name in files_at(old.path, old_version))
    news = copies(new.path / name for name in files_at(new.path, new_version))
    scratch.mkdir(parents=True, exist_ok=True)
    config: dict[str, Any] = {
        "threads": 2,
        "memory_limit": "2GB",
        "temp_directory": str(scratch),
    }
    with duckdb.connect(":memory:", config=config) as duck:
        duck.execute("SET TimeZone = 'UTC'")
        for name, files, schema in (("old", olds, old.schema), ("new", news, new.schema)):
            empty = schema.empty_table()
            duck.register(f"{name}_empty", empty)
            # A stranger's file may lack a column that may be null: Delta reads it as null.
            read = f"read_parquet({_listed(files)}, union_by_name => true)"
            duck.execute(
                f"create view {name}_rows as select * from {name}_empty"  # noqa: S608
                + (f" union all by name select * from {read}" if files else "")  # noqa: S608
            )
        listed = ", ".join(quoted(name) for name in new.schema.names)
        adapted = ", ".join(_adapted(duck, old.schema, new.schema))
        olds_sql = f"select {adapted} from old_rows"  # noqa: S608
        news_sql = f"select {listed} from new_rows"  # noqa: S608
        added = duck.sql(f"{news_sql} except all {olds_sql}").to_arrow_table()
        gone = duck.sql(f"{olds_sql} except all {news_sql}").to_arrow_table()
    return Change(added.cast(new.schema), gone.cast(new.schema))


def _listed(files: Sequence[str]) -> str:
    return "[" + ", ".join("'" + file.replace("'", "''") + "'" for file in files) + "]"


def _adapted(duck: duckdb.DuckDBPyConnection, old: pa.Schema, new: pa.Schema) -> Iterable[str]:
    """Old rows with the new columns: what is not there, or cannot be cast, is null."""
    types = {row[0]: row[1] for row in duck.execute("describe new_empty").fetchall()}
    for field in new:
        name = quoted(field.name)
        if field.name not in old.names:
            yield f"cast(null as {types[field.name]}) as {name}"
        elif old.field(field.name).type == field.type:
            yield name
        elif _castable(duck, old.field(field.name), types[field.name]):
            yield f"try_cast({name} as {types[field.name]}) as {name}"
        else:
            yield f"cast(null as {types[field.name]}) as {name}"


def _castable(duck: duckdb.DuckDBPyConnection, old: pa.Field, wanted: str) -> bool:
    """Whether there is a way from one type to another at all, such as from a struct to a struct."""
    duck.register("one_field", pa.schema([old]).empty_table())
    try:
        duck.execute(f"select try_cast({quoted(old.name)} as {wanted}) from one_field")  # noqa: S608
    except duckdb.Error:
        return False
    finally:
        duck.unregister("one_field")
    return True


def adapted_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of another revision with the columns of this one."""
    if rows.schema.equals(schema):
        return rows
    with duckdb.connect(":memory:", config={"threads": 1}) as duck:
        duck.execute("SET TimeZone = 'UTC'")
        duck.register("new_empty", schema.empty_table())
        duck.register("given", rows)
        listed = ", ".join(_adapted(duck, rows.schema, schema))
        found = duck.sql(f"select {listed} from given").to_arrow_table()  # noqa: S608
    return found.cast(schema)


def brought_up(
    known: Change,
    old: RevisionWriter,
    old_version: int,
    new: RevisionWriter,
    new_version: int,
) -> Change:
    """The difference as of now, from one of earlier versions and what both did since."""
    since_new = _since(new, new_version)
    since_old = _since(old, old_version)
    went = since_old.gone if since_old.gone is not None else since_old.added.slice(0, 0)
    undone = Change(adapted_rows(went, new.schema), adapted_rows(since_old.added, new.schema))
    since = Change.joined(new.schema, [since_new, undone])
    assert known.gone is not None  # noqa: S101
    gone = since.gone if since.gone is not None else new.schema.empty_table()
    return Change(
        pa.concat_tables([_less(known.added, gone), _less(since.added, known.gone)]),
        pa.concat_tables([_less(known.gone, since.added), _less(gone, known.added)]),
    )


def _less(rows: pa.Table, few: pa.Table) -> pa.Table:
    """``minus``, cheap where one side is small and little of it is in the other."""
    if not rows.num_rows or not few.num_rows:
        return rows
    small, big = (rows, few) if rows.num_rows <= few.num_rows else (few, rows)
    met = matching(big, small)
    if not met.num_rows:
        return rows
    if rows is small:
        return minus(rows, met)
    rest = matching(rows, small, within=False)
    return pa.concat_tables([rest, minus(met, few)])


def _since(writer: RevisionWriter, version: int) -> Change:
    parts = [b.change(writer.schema) for b in new_batches(writer, version, _EVER)]
    return Change.joined(writer.schema, parts)


# --- the commit -----------------------------------------------------------------------------
def promoted(revision: str) -> str:
    """The transaction that says when a live log came to show a revision."""
    return f"promoted:{revision}"


def shown(live: DeltaTable, revisions: Iterable[str]) -> str | None:
    """Which of these revisions a live log was last swapped to; None: it never was."""
    at = {r: live.transaction_version(promoted(r)) for r in revisions}
    known = {r: version for r, version in at.items() if version is not None}
    return max(known, key=lambda r: known[r]) if known else None


def shown_files_of(live: DeltaTable) -> set[str]:
    """The revisions whose files a live log shows: one, or none while it is empty."""
    paths = pa.table(live.get_add_actions())["path"].to_pylist()
    return {path.split("/")[1] for path in paths if path.startswith("_revisions/")}


def swap(
    live: DeltaLog,
    new: RevisionWriter,
    change: Change,
    keys: Sequence[str],
    info: Mapping[str, Any],
) -> int:
    """Let a live log show a revision, as it stands; returns the version that does.

    Args:
        change: what differs from the rows it shows now, in the columns of ``new``.
        keys: by which readers of the change feed are told of updates.
    """
    with new.log.lock, live.lock:  # one version of each, whatever else is asked of them
        reached = new.log.version
        prefix = f"_revisions/{new.revision}/"
        current = files_at(live.path, live.version)
        wanted = {prefix + path: add for path, add in files_at(new.path, reached).items()}
        told = write_changes(change, keys, live.path)
        # Without a change file readers of the feed would take every file for new rows: then no
        # file changed any data, and that is what its action says.
        changed = bool(told)
        removes = [
            removal(path, add["size"], changed=changed)
            for path, add in current.items()
            if path not in wanted  # a commit must not name a file twice
        ]
        adds = [
            {"add": {**add, "path": path, "dataChange": changed}}
            for path, add in wanted.items()
            if path not in current
        ]
        return live.commit(
            [*_new_schema(live.path, new), *removes, *adds, *told],
            {new.marker: reached, promoted(new.revision): live.version + 1},
            {**info, "revision": new.revision, "revision_version": reached},
        )


def _protocol(live: DeltaTable, new: DeltaTable) -> list[Action]:
    """What readers and writers have to know of the new columns, where live does not say it yet.

    Both tables were made with the same properties, so what a revision's log asks for is enough.
    """
    old, wanted = live.protocol(), new.protocol()
    readers = set(old.reader_features or ()) | set(wanted.reader_features or ())
    writers = set(old.writer_features or ()) | set(wanted.writer_features or ())
    least = max(old.min_reader_version, wanted.min_reader_version)
    most = max(old.min_writer_version, wanted.min_writer_version)
    same = (
        (least, most) == (old.min_reader_version, old.min_writer_version)
        and readers == set(old.reader_features or ())
        and writers == set(old.writer_features or ())
    )
    if same:
        return []
    told: Action = {"minReaderVersion": least, "minWriterVersion": most}
    if least >= _FEATURES_READER:
        told["readerFeatures"] = sorted(readers)
    if most >= _FEATURES_WRITER:
        told["writerFeatures"] = sorted(writers)
    return [{"protocol": told}]


def _new_schema(live: Location, new: RevisionWriter) -> list[Action]:
    """The action that gives the live table the columns of a revision, where they differ."""
    table, other = delta_table(live), delta_table(new.path)
    schema = other.schema().to_json()
    if json.loads(table.schema().to_json()) == json.loads(schema):
        return []
    return [*_protocol(table, other), metadata_action(table, schema)]
