"""Declaring tables above bronze: ``table`` on a pure function, ``sql_table`` on one query.

A declaration remembers the file and line it stands on; everything that is wrong with it is said
at once, with that place and with what to write instead.
"""

from __future__ import annotations

import string
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from penstock.model.duration import micros, parse_duration
from penstock.model.guards import Guards
from penstock.model.kinds import Kind, Latest, Rows, Totals
from penstock.model.names import TableName, is_identifier
from penstock.model.place import Place, caller, parse_name, raise_if
from penstock.model.stream import Stream

__all__ = [
    "BATCH",
    "CONTINUOUS",
    "RETENTION",
    "Dedupe",
    "Table",
    "sql_table",
    "table",
    "waiting_time",
]

# A transform takes one DataFrame per input and returns one. Typed loosely on purpose: the model
# knows no Spark.
Transform = Callable[..., Any]

CONTINUOUS = "continuous"
BATCH = "batch"
RETENTION = "7 days"
_LEAST_RETENTION = timedelta(hours=1)  # comparisons and long queries need the version they began at


@dataclass(frozen=True)
class Dedupe:
    """Of rows with the same key, only the first one counts.

    A row is a duplicate when a row with the same key was taken in at most ``within`` before it, by
    ingest time: what is remembered is bounded, and a replay decides the same.
    """

    key: tuple[str, ...]
    within: str = "1 hour"

    def problems(self) -> list[str]:
        try:
            parse_duration(self.within)
        except ValueError as error:
            return [f"dedupe within: {error}"]
        return [] if self.key else ["dedupe needs a key: the columns that name a row"]

    @property
    def within_us(self) -> int:
        return micros(parse_duration(self.within))


@dataclass(frozen=True)
class Table:
    """One definition: a pure function and what it means. Calling it calls the function."""

    name: TableName
    inputs: Mapping[str, TableName]
    kind: Kind
    transform: Transform
    keys: tuple[str, ...]
    owner: str
    doc: str
    place: Place
    dedupe: Dedupe | None = None
    freshness: str = CONTINUOUS
    query: str | None = None
    quarantine_for: str = "90 days"
    retention: str = RETENTION
    guards: Guards | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.transform(*args, **kwargs)

    @property
    def every(self) -> timedelta | None:
        """How long the table may wait for what is new; None: it does not run by itself."""
        return waiting_time(self.freshness)

    def describe(self) -> dict[str, Any]:
        """The declared meaning, without the code: part of fingerprint and manifest.

        How fresh a table is kept, and for how long its versions, is not part of what it means.
        """
        told = {
            "name": str(self.name),
            "inputs": {argument: str(name) for argument, name in self.inputs.items()},
            "keys": list(self.keys),
            **self.kind.describe(),
        }
        if self.dedupe is not None:
            told["dedupe"] = {"key": list(self.dedupe.key), "within_us": self.dedupe.within_us}
        return told


def waiting_time(freshness: str) -> timedelta | None:
    """A declared freshness as a length of time; None: the table runs when it is told to."""
    if freshness == BATCH:
        return None
    return timedelta(0) if freshness == CONTINUOUS else parse_duration(freshness)


def table(
    name: str,
    *,
    inputs: Mapping[str, Stream | Table | str],
    kind: Kind,
    keys: tuple[str, ...] = (),
    dedupe: Dedupe | None = None,
    freshness: str = CONTINUOUS,
    quarantine_for: str = "90 days",
    retention: str = RETENTION,
    guards: Guards | None = None,
    owner: str = "",
) -> Callable[[Transform], Table]:
    """Declare a table on a pure function of DataFrames.

    Args:
        name: ``silver.<name>`` or ``gold.<name>``.
        inputs: argument of the function -> what it reads (a stream, a table, or its name).
        kind: what the table is; see docs/definitions.md.
        keys: the columns that identify a row.
        dedupe: for a table that decodes a stream: which rows are the same row sent again.
        freshness: ``continuous``, ``batch`` (it runs when told to) or a length of time, such as
            ``5 minutes``: how long the table may wait for what is new.
        quarantine_for: how long bytes that broke the contract of a stream are kept for a replay.
        retention: how long old versions of the live table can be travelled to.
        guards: what every batch must keep to, or the live table is held.

    The function never sees mode, clock, path or session: the same object runs as a stream and in
    batch.
    """
    place = caller(sys._getframe(1))

    def declare(transform: Transform) -> Table:
        return _declared(
            name,
            inputs,
            kind,
            transform,
            place,
            keys=keys,
            dedupe=dedupe,
            freshness=freshness,
            quarantine_for=quarantine_for,
            retention=retention,
            guards=guards,
            owner=owner,
            query=None,
        )

    return declare


def sql_table(
    name: str,
    *,
    inputs: Mapping[str, Stream | Table | str],
    kind: Kind,
    query: str,
    keys: tuple[str, ...] = (),
    dedupe: Dedupe | None = None,
    freshness: str = CONTINUOUS,
    quarantine_for: str = "90 days",
    retention: str = RETENTION,
    guards: Guards | None = None,
    owner: str = "",
    doc: str = "",
) -> Table:
    """Declare a table on one SQL query; ``{argument}`` stands where the query reads an input.

    Example:
        >>> RETURNS = sql_table("gold.returns_by_reason", inputs={"returns": "silver.returns"},
        ...     kind=Group(by=("reason",)), keys=("reason",),
        ...     query="select reason, count(*) as returns from {returns} group by reason")
    """
    place = caller(sys._getframe(1))

    arguments = kind.arguments(list(inputs))

    def run(*given: Any, **named: Any) -> Any:
        frames = {**dict(zip(arguments, given, strict=False)), **named}
        session = next(iter(frames.values())).sparkSession
        return session.sql(query, **frames)

    run.__doc__ = doc
    return _declared(
        name,
        inputs,
        kind,
        run,
        place,
        keys=keys,
        dedupe=dedupe,
        freshness=freshness,
        quarantine_for=quarantine_for,
        retention=retention,
        guards=guards,
        owner=owner,
        query=query,
    )


def _declared(
    name: str,
    inputs: Mapping[str, Stream | Table | str],
    kind: Kind,
    transform: Transform,
    place: Place,
    *,
    keys: tuple[str, ...],
    **said: Any,
) -> Table:
    names = {
        argument: parse_name(given, place) if isinstance(given, str) else given.name
        for argument, given in inputs.items()
    }
    declared = Table(
        name=parse_name(name, place),
        inputs=names,
        kind=kind,
        transform=transform,
        keys=tuple(keys) or getattr(kind, "output_keys", ()),
        doc=(transform.__doc__ or "").strip(),
        place=place,
        **said,
    )
    raise_if(_problems(declared), f"table {name}", place)
    return declared


def _problems(declared: Table) -> list[str]:
    kind = declared.kind
    found = [*kind.problems(), *kind.key_problems(declared.keys)]
    if declared.name.layer not in ("silver", "gold"):
        found.append(f"tables live in silver or gold, not in {declared.name.layer}")
    found.extend(_input_problems(declared))
    found.extend(
        f"key {key!r} is not a column name" for key in declared.keys if not is_identifier(key)
    )
    if declared.dedupe is not None:
        found.extend(declared.dedupe.problems())
        if not isinstance(kind, Rows | Totals | Latest):
            found.append(f"dedupe is for tables that decode a stream, not for {kind.word} tables")
    if declared.guards is not None:
        found.extend(declared.guards.problems(declared.keys))
    try:
        parse_duration(declared.quarantine_for)
    except ValueError as error:
        found.append(f"quarantine_for: {error}")
    try:
        if parse_duration(declared.retention) < _LEAST_RETENTION:
            found.append("retention is at least an hour")
    except ValueError as error:
        found.append(f"retention: {error}")
    try:
        waits = declared.every
    except ValueError as error:
        found.append(f"freshness is 'continuous', 'batch' or a length of time: {error}")
    else:
        if declared.freshness not in (BATCH, CONTINUOUS) and waits == timedelta(0):
            found.append("freshness of no time at all: write 'continuous'")
    return found


def _input_problems(declared: Table) -> list[str]:
    if not declared.inputs:
        return ["it reads nothing: give inputs={'argument': what it reads}"]
    found = []
    least, most = declared.kind.arity
    count = len(declared.inputs)
    if not least <= count <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        noun = "input" if most == 1 else "inputs"
        found.append(f"a {declared.kind.word} table reads {wanted} {noun}, not {count}")
    if len(set(declared.inputs.values())) < count:
        found.append(
            "two arguments name the same input: read it once, the function may use it twice"
        )
    expected = declared.kind.arguments(list(declared.inputs))
    if declared.query is not None:
        return [*found, *_query_problems(declared.query, expected)]
    code = getattr(declared.transform, "__code__", None)
    taken = list(code.co_varnames[: code.co_argcount]) if code else expected
    if taken != expected:
        found.append(
            f"the function takes ({', '.join(taken)}) but should take ({', '.join(expected)}): "
            "its inputs, by the same names and in the same order"
        )
    return found


def _query_problems(query: str, expected: list[str]) -> list[str]:
    try:
        used = {field for _, field, _, _ in string.Formatter().parse(query) if field is not None}
    except ValueError as error:
        return [f"the query's braces do not match: {error}"]
    if used == set(expected):
        return []
    wanted = ", ".join(f"{{{name}}}" for name in expected)
    return [f"the query reads {sorted(used) or 'nothing'}, but its inputs are {wanted}"]
