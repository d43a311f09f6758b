"""A look-up as it was asked, and what it comes to on one version of a table: SQL with its values.

Every name in the SQL is a column of the table's own schema; every value is bound. A page ends with
a cursor: the version it was read at and the place of its last row, so that the next page goes on in
the same version, after exactly that row, however the table has moved on.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import UsageError
from penstock.serve.live_log import Bounds, LiveFile, LogState
from penstock.serve.shape import Shape
from penstock.serve.snapshot import Column, identifier
from penstock.serve.values import as_text, parse, require_plain

__all__ = ["MOST_ROWS", "PLACES", "Ask", "Cursor", "Plan", "plan"]

MOST_ROWS = 1000  # a page; more is a report, and reports are `penstock query`
PLACES = 'filename AS "_file", file_row_number AS "_row"'  # tells rows with equal keys apart


@dataclass(frozen=True)
class Ask:
    """What somebody wants to see. ``key`` holds the first keys, in their declared order."""

    table: str
    key: tuple[str, ...] = ()
    start: str | None = None
    end: str | None = None
    on: str | None = None
    columns: tuple[str, ...] = ()
    limit: int = 100
    newest_first: bool = False
    cursor: str | None = None

    @property
    def is_range(self) -> bool:
        return self.start is not None or self.end is not None or self.on is not None

    @property
    def signature(self) -> str:
        """Two asks with the same one see the same rows in the same order."""
        told = (self.table, self.key, self.start, self.end, self.on, self.newest_first)
        return hashlib.sha256(repr(told).encode(errors="replace")).hexdigest()[:16]


@dataclass(frozen=True)
class Cursor:
    """Where the last page ended."""

    version: int
    table_id: str
    signature: str
    after: tuple[str, ...]

    def text(self) -> str:
        body = json.dumps([self.version, self.table_id, self.signature, *self.after])
        return base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, ask: Ask) -> Cursor | None:
        """The cursor of an ask, or None.

        Raises:
            UsageError: it is none, or of another look-up.
        """
        if ask.cursor is None:
            return None
        try:
            padded = ask.cursor + "=" * (-len(ask.cursor) % 4)
            version, table_id, signature, *after = json.loads(
                base64.b64decode(padded.encode("ascii"), b"-_", validate=True)
            )
        except (ValueError, TypeError, RecursionError):
            raise _bad_cursor("this is no cursor.") from None
        texts = [table_id, signature, *after]
        if type(version) is not int or not all(isinstance(text, str) for text in texts):
            raise _bad_cursor("this is no cursor.")
        if signature != ask.signature or not 0 <= version < 10**18:
            raise _bad_cursor("this cursor belongs to another look-up.")
        return cls(version, table_id, signature, tuple(after))


def _bad_cursor(what: str) -> UsageError:
    return UsageError(
        what, remedy="Ask for the first page again, without one; change nothing else on the way."
    )


@dataclass(frozen=True)
class _Condition:
    """``column`` is ``equal`` (None: NULL), or lies in the half-open range."""

    column: Column
    equal: Any = None
    low: Any = None
    high: Any = None
    ranged: bool = False

    def sql(self, bind: _Binding) -> str:
        name = identifier(self.column.name)
        if not self.ranged:
            if self.equal is None:
                return f"{name} IS NULL"
            return f"{name} = {bind(self.column, self.equal)}"
        bounds = (("<=", self.low), (">", self.high))
        told = [f"{bind(self.column, v)} {sign} {name}" for sign, v in bounds if v is not None]
        return " AND ".join(told or [f"{name} IS NOT NULL"])

    def may_hold(self, file: LiveFile) -> bool:
        bounds = file.bounds(self.column)
        if not self.ranged and self.equal is None:
            return bounds.nulls != 0
        if bounds.nulls is not None and bounds.nulls == file.rows:
            return False
        low, high = (self.low, self.high) if self.ranged else (self.equal, self.equal)
        return not self._apart(bounds, low, high)

    def _apart(self, bounds: Bounds, low: Any, high: Any) -> bool:
        above = bounds.high is not None and low is not None and bounds.high < low
        if above or bounds.low is None or high is None:
            return above
        return bool(bounds.low >= high if self.ranged else bounds.low > high)


class _Binding:
    """Values on their way into a statement: each is a numbered parameter of its column's type."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def __call__(self, column: Column, value: Any) -> str:
        self.values.append(value)
        return f"CAST(${len(self.values)} AS {column.type})"


@dataclass(frozen=True)
class Plan:
    """What to read of one version."""

    shape: Shape
    shown: tuple[Column, ...]
    conditions: tuple[_Condition, ...]
    order: tuple[Column, ...]
    after: tuple[Any, ...]
    newest_first: bool
    limit: int
    range_on: Column | None

    @property
    def is_point(self) -> bool:
        """One row is meant, by all of its keys."""
        return bool(self.shape.keys) and len(self.point) == len(self.shape.keys)

    @property
    def point(self) -> tuple[Any, ...]:
        keys = {key.name for key in self.shape.keys}
        return tuple(c.equal for c in self.conditions if not c.ranged and c.column.name in keys)

    def files(self, state: LogState) -> list[LiveFile]:
        """The files whose statistics do not rule out a row."""
        found = list(state.files.values())
        for condition in self.conditions:
            found = [file for file in found if condition.may_hold(file)]
        return found

    def statement(self, scan: str, folder: str) -> tuple[str, list[Any]]:
        """The SQL over the rows of ``scan`` and its values; one row more than the limit, to know
        whether there are more."""
        bind = _Binding()
        wanted = [condition.sql(bind) for condition in self.conditions]
        if self.after:
            wanted.append(f"({' OR '.join(self._beyond(bind, folder))})")
        shown = ", ".join(
            [*(identifier(c.name) for c in (*self.shown, *self.order)), '"_file"', '"_row"']
        )
        where = f" WHERE {' AND '.join(wanted)}" if wanted else ""
        way = " DESC" if self.newest_first else ""
        by = [f"{identifier(c.name)}{way} NULLS LAST" for c in self.order]
        order = ", ".join([*by, '"_file"', '"_row"'])
        sql = f"SELECT {shown} FROM ({scan}){where} ORDER BY {order} LIMIT {self.limit + 1:d}"  # noqa: S608
        return sql, bind.values

    def _beyond(self, bind: _Binding, folder: str) -> Iterator[str]:
        """Rows after the last one, in the order of `statement`: later in one column, the same in
        those before it."""
        *values, file, row = self.after
        same: list[str] = []
        for column, value in zip(self.order, values, strict=True):
            name = identifier(column.name)
            if value is not None:
                sign = "<" if self.newest_first else ">"
                later = f"({name} {sign} {bind(column, value)} OR {name} IS NULL)"
                yield " AND ".join([*same, later])
                same.append(f"{name} = {bind(column, value)}")
            else:
                same.append(f"{name} IS NULL")
        path = bind(Column("_file", "VARCHAR"), os.path.join(folder, file))
        yield " AND ".join([*same, f'"_file" > {path}'])
        place = bind(Column("_row", "BIGINT"), row)
        yield " AND ".join([*same, f'"_file" = {path}', f'"_row" > {place}'])

    def place(self, row: Sequence[Any], folder: str) -> tuple[str, ...]:
        """Where a row of `statement` lies, for a cursor."""
        *values, file, number = row[len(self.shown) :]
        return (*map(as_text, values), os.path.relpath(file, folder), str(number))


def plan(ask: Ask, shape: Shape, cursor: Cursor | None) -> Plan:
    """What an ask comes to.

    Raises:
        UsageError: too many keys, a value of another type, an unknown column, no key and no range.
    """
    if not 1 <= ask.limit <= MOST_ROWS:
        raise UsageError(
            f"a page has 1 to {MOST_ROWS} rows.",
            remedy="Ask for fewer and go on with the cursor, or use `penstock query`.",
        )
    conditions = list(_keys(ask, shape))
    range_on = shape.range_column(len(ask.key), ask.on) if ask.is_range else None
    if range_on is not None:
        conditions.append(_range(ask, range_on))
    if not conditions:
        raise _nothing_said(shape)
    given = {c.column.name for c in conditions if not c.ranged}
    first = [range_on] if range_on is not None and range_on.name not in given else []
    rest = [key for key in shape.keys if key.name not in given and key not in first]
    order = (*first, *rest)
    return Plan(
        shape=shape,
        shown=tuple(map(shape.column, dict.fromkeys(ask.columns))) or shape.columns,
        conditions=tuple(conditions),
        order=order,
        after=_after(cursor, order),
        newest_first=ask.newest_first,
        limit=ask.limit,
        range_on=range_on,
    )


def _keys(ask: Ask, shape: Shape) -> Iterable[_Condition]:
    if len(ask.key) > len(shape.keys):
        raise UsageError(
            f"{shape.label} has {_listed(shape)}; {len(ask.key)} values were given.",
            remedy=f"Give at most {len(shape.keys)}, in that order."
            if shape.keys
            else "Take a range of a column (--on, --from, --to), or use `penstock query`.",
        )
    for column, text in zip(shape.keys, ask.key, strict=False):
        yield _Condition(column, equal=parse(column, text))


def _range(ask: Ask, column: Column) -> _Condition:
    require_plain(column)  # also where no bound is said: the next page's cursor would say one
    low, high = (None if t is None else parse(column, t) for t in (ask.start, ask.end))
    if low is not None and high is not None and not low < high:
        raise UsageError(
            f"the range of {column.name} is empty: it begins at its end or after it.",
            remedy="Give the earlier bound as from; the later one, as to, is not part of it.",
        )
    return _Condition(column, low=low, high=high, ranged=True)


def _nothing_said(shape: Shape) -> UsageError:
    if not shape.keys:
        return UsageError(
            f"{shape.label} has no keys to look rows up by.",
            remedy="Take a range: --from and --to, of a column with --on; or `penstock query`.",
        )
    return UsageError(
        f"which rows of {shape.label}? It has {_listed(shape)}.",
        remedy="Give the first of them, or more; or a range with --from and --to.",
    )


def _listed(shape: Shape) -> str:
    names = ", ".join(key.name for key in shape.keys)
    return f"the keys {names}" if shape.keys else "no keys"


def _after(cursor: Cursor | None, order: Sequence[Column]) -> tuple[Any, ...]:
    if cursor is None:
        return ()
    if len(cursor.after) != len(order) + 2:
        raise _bad_cursor("this cursor belongs to another look-up.")
    *values, file, number = cursor.after
    place = parse(Column("cursor", "VARCHAR"), file), parse(Column("cursor", "BIGINT"), number)
    if None in place:
        raise _bad_cursor("this is no cursor.")
    return (*(parse(c, text) for c, text in zip(order, values, strict=True)), *place)
