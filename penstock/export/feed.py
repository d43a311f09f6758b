"""What changed in a live table between two versions, as a bag: each row, and how many came or went.

**How it works.** The commits in between are read from the log, one small file each; a commit with
change files is told by these alone, a commit that moves files without changing data says nothing
(``serve.changes``). All files of a stretch of commits with one schema are scanned together and
their rows added up with signs, so what came and went in between is not seen. Rows are told apart by
all their columns, which needs no key and counts duplicates.

**A changed schema.** A swap that changes columns tells its changes against the old rows in the new
columns: what was not there is null, numbers are cast. Bags go along with any such mapping, so the
changes from before it are mapped too, and the target has to map the rows it holds (``Net.steps``).

**What it does not do.** Guess. Where the log does not reach back, a file is gone, or a column
changed in a way that has no such mapping, it raises ``Rebuild`` and says which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb

from penstock.export.bench import Workbench, listed, row_hash
from penstock.export.claim import Rebuild, Sum
from penstock.location import Location
from penstock.serve.changes import Commit, read_commit
from penstock.serve.snapshot import Column, Part, identifier

__all__ = ["COUNT", "NET", "Net", "Step", "adapted", "net_change"]

NET = "net_change"  # the temporary table on the workbench: the columns, and COUNT
COUNT = "__penstock_count"
_CHANGE_TYPE = Column("_change_type", "VARCHAR")
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True)
class Step:
    """A change of columns."""

    old: tuple[Column, ...]
    new: tuple[Column, ...]


@dataclass(frozen=True)
class Net:
    """The change; its rows are in ``NET``, in the newest columns."""

    columns: tuple[Column, ...]
    steps: tuple[Step, ...]
    added: int
    gone: int
    sum: Sum

    @property
    def nothing(self) -> bool:
        return not self.steps and not self.added and not self.gone


def net_change(
    bench: Workbench, folder: Location, columns: Sequence[Column], after: int, until: int
) -> Net:
    """The change from version ``after``, which had these columns, to version ``until``.

    Raises:
        Rebuild: it cannot be told.
    """
    held = tuple(columns)
    steps: list[Step] = []
    _start(bench, held)
    for stretch in _stretches(_commits(folder, after, until)):
        brought = stretch[0].columns
        if brought is not None and brought != held:
            exprs = adapted(held, brought)
            bench.run(
                f"CREATE OR REPLACE TEMP TABLE {NET} AS SELECT {', '.join(exprs)}, "  # noqa: S608
                f"{COUNT} FROM {NET}"
            )
            steps.append(Step(held, brought))
            held = brought
        _add(bench, held, stretch)
    return _counted(bench, held, steps)


# --- commits ----------------------------------------------------------------------------------
def _commits(folder: Location, after: int, until: int) -> Iterator[Commit]:
    for version in range(after + 1, until + 1):
        commit = read_commit(folder, version)
        if commit is None:
            raise Rebuild(f"the log no longer reaches back to version {after}")
        yield commit


def _stretches(commits: Iterator[Commit]) -> Iterator[list[Commit]]:
    """Commits in order, cut where one brings a schema."""
    held: list[Commit] = []
    for commit in commits:
        if commit.columns is not None and held:
            yield held
            held = []
        held.append(commit)
    if held:
        yield held


# --- adding up --------------------------------------------------------------------------------
def _start(bench: Workbench, columns: Sequence[Column]) -> None:
    typed = ", ".join(f"{identifier(c.name)} {c.type}" for c in columns)
    bench.run(f"CREATE OR REPLACE TEMP TABLE {NET} ({typed}, {COUNT} BIGINT)")


def _add(bench: Workbench, columns: Sequence[Column], commits: Sequence[Commit]) -> None:
    """Add the rows of a stretch of commits to what is known."""
    names = listed(columns)
    told = _parts(commit.changed for commit in commits)
    came = _parts(commit.inserted for commit in commits)
    went = _parts(commit.deleted for commit in commits)
    sources = [f"SELECT * FROM {NET}"]  # noqa: S608
    if told:
        rows = bench.scan((*columns, _CHANGE_TYPE), told)
        sources.append(f"SELECT {names}, {_SIGN} FROM ({rows})")  # noqa: S608
    for parts, sign in ((came, 1), (went, -1)):
        if parts:
            sources.append(f"SELECT {names}, {sign} FROM ({bench.scan(columns, parts)})")  # noqa: S608
    if len(sources) == 1:
        return
    try:
        bench.run(
            f"CREATE OR REPLACE TEMP TABLE {NET} AS SELECT {names}, "  # noqa: S608
            f"sum({COUNT})::BIGINT AS {COUNT} FROM ({' UNION ALL '.join(sources)}) "
            f"GROUP BY {names} HAVING sum({COUNT}) <> 0"
        )
    except duckdb.IOException as error:
        raise Rebuild(f"a file of the change feed is gone ({_first(error)})") from None


_SIGN = (
    "CASE _change_type WHEN 'insert' THEN 1 WHEN 'update_postimage' THEN 1 WHEN 'delete' THEN -1 "
    "WHEN 'update_preimage' THEN -1 ELSE error('unknown change ' || _change_type) END"
)


def _parts(groups: Iterator[Sequence[Part]]) -> list[Part]:
    """Parts of many commits, those of one partition together: one scan instead of many."""
    found: dict[tuple[tuple[str, str | None], ...], list[str]] = {}
    for group in groups:
        for part in group:
            found.setdefault(tuple(sorted(part.values.items())), []).extend(part.here())
    return [Part(tuple(files), dict(values)) for values, files in found.items()]


def _counted(bench: Workbench, columns: tuple[Column, ...], steps: Sequence[Step]) -> Net:
    ((added, gone, rows, total),) = bench.run(
        f"SELECT coalesce(sum({COUNT}) FILTER ({COUNT} > 0), 0), "  # noqa: S608
        f"coalesce(-sum({COUNT}) FILTER ({COUNT} < 0), 0), coalesce(sum({COUNT}), 0), "
        f"coalesce(sum({COUNT} * {row_hash(columns)}::HUGEINT), 0) FROM {NET}"
    )
    return Net(columns, tuple(steps), int(added), int(gone), Sum(int(rows), int(total)))


def _first(error: Exception) -> str:
    return str(error).splitlines()[0][:200]


# --- columns ----------------------------------------------------------------------------------
def adapted(old: Sequence[Column], new: Sequence[Column]) -> list[str]:
    """Old rows in new columns, as a swap maps them: missing is null, numbers are cast.

    Raises:
        Rebuild: a column changed in another way.
    """
    types = {column.name: column.type for column in old}
    exprs = []
    for column in new:
        name, was = identifier(column.name), types.get(column.name)
        if was is None:
            exprs.append(f"CAST(NULL AS {column.type}) AS {name}")
        elif was == column.type:
            exprs.append(name)
        elif was.startswith(_NUMBERS) and column.type.startswith(_NUMBERS) and "[" not in was:
            exprs.append(f"TRY_CAST({name} AS {column.type}) AS {name}")
        else:
            raise Rebuild(f"{column.name} changed from {was} to {column.type}")
    return exprs
