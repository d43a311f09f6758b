"""How rows of a live table are laid out in ClickHouse, and read back.

ClickHouse has no null list, struct or map. So a nested column has a hidden companion,
``_null_<column>``, that says where the whole value is null; the column itself then holds the empty
value. *Inside* nested values a null list is an empty one and a null struct one of nulls: that is
the only thing this layout does not keep. Every row also has a hidden ``_row``, the workbench's hash
of it as Delta has it. Hidden columns are MATERIALIZED: ``SELECT *`` does not show them.

Bytes are strings in ClickHouse; times are DateTime64 to the microsecond, in UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from penstock.errors import PenstockError
from penstock.export.bench import row_hash
from penstock.serve.snapshot import Column, identifier, literal

__all__ = ["ROW", "Wire", "laid_out", "quoted", "text"]

ROW = "_row"
_NULL = "_null_"
_NESTED = ("list", "struct", "map")
_SCALARS = {
    "varchar": "String",
    "bigint": "Int64",
    "integer": "Int32",
    "smallint": "Int16",
    "tinyint": "Int8",
    "float": "Float32",
    "double": "Float64",
    "boolean": "Bool",
    "blob": "String",
    "date": "Date32",
    "timestamp with time zone": "DateTime64(6, 'UTC')",
    "timestamp": "DateTime64(6, 'UTC')",
}


@dataclass(frozen=True)
class Wire:
    """One column as ClickHouse has it."""

    name: str
    type: str  # ClickHouse's
    out: str  # DuckDB: from a row of the live table
    duck_type: str
    hidden: bool = False
    binary: bool = False

    @property
    def declared(self) -> str:
        hidden = " MATERIALIZED defaultValueOfTypeName(" + text(self.type) + ")"
        return f"{quoted(self.name)} {self.type}{hidden if self.hidden else ''}"

    @property
    def selected(self) -> str:
        """ClickHouse: read it so that Arrow can carry it."""
        name = quoted(self.name)
        return f"base64Encode({name}) AS {name}" if self.binary else name

    @property
    def back(self) -> str:
        """DuckDB: from what was read, in the type it had."""
        name = identifier(self.name)
        read = f"from_base64({name})" if self.binary else name
        return f"CAST({read} AS {self.duck_type}) AS {name}"


def laid_out(duck: duckdb.DuckDBPyConnection, columns: Sequence[Column]) -> list[Wire]:
    """The columns of a live table in ClickHouse; the hidden ones last, the row's hash the last."""
    shown, hidden = [], []
    for column in columns:
        kind, name = duck.sqltype(column.type), identifier(column.name)
        if column.name.startswith((_NULL, ROW)):
            raise PenstockError(
                f"a column named {column.name} cannot be exported to ClickHouse.",
                remedy=f"Names that begin with {_NULL} or {ROW} are used by the export itself.",
            )
        nested = kind.id in _NESTED
        shown.append(
            Wire(
                column.name,
                _type(kind, column.name) if nested else f"Nullable({_type(kind, column.name)})",
                _filled(name, kind),
                column.type,
                binary=kind.id == "blob",
            )
        )
        if nested:
            hidden.append(
                Wire(f"{_NULL}{column.name}", "Bool", f"{name} IS NULL", "BOOLEAN", hidden=True)
            )
    return [*shown, *hidden, Wire(ROW, "UInt64", row_hash(columns), "UBIGINT", hidden=True)]


def _type(kind: Any, where: str, *, inside: bool = False) -> str:
    """ClickHouse's type for a value that is not null; ``inside`` of a nested one."""
    if kind.id == "decimal":
        settings = dict(kind.children)
        return f"Decimal({settings['precision']}, {settings['scale']})"
    if kind.id == "list":
        return f"Array({_inner(kind.children[0][1], where)})"
    if kind.id == "struct":
        fields = (f"{quoted(name)} {_inner(child, where)}" for name, child in kind.children)
        return f"Tuple({', '.join(fields)})"
    if kind.id == "map":
        key, value = (child for _, child in kind.children)
        return f"Map({_type(key, where, inside=True)}, {_inner(value, where)})"
    if kind.id not in _SCALARS or (inside and kind.id == "blob"):
        raise PenstockError(
            f"{where} is of a type that the export to ClickHouse does not know: {kind}.",
            remedy="Export the table to DuckDB or Parquet, or leave the column out.",
        )
    return _SCALARS[kind.id]


def _inner(kind: Any, where: str) -> str:
    found = _type(kind, where, inside=True)
    return found if kind.id in _NESTED else f"Nullable({found})"


def _filled(value: str, kind: Any, depth: int = 0) -> str:
    """DuckDB: the value with what ClickHouse cannot have null in its place filled."""
    if kind.id == "list":
        child, name = kind.children[0][1], f"x{depth}"
        if child.id in _NESTED:
            value = f"list_transform({value}, lambda {name}: {_filled(name, child, depth + 1)})"
        return f"coalesce({value}, [])"
    if kind.id == "struct":
        fields = []
        for name, child in kind.children:
            found = f"struct_extract({value}, {literal(name)})"
            fields.append(f"{identifier(name)} := {_filled(found, child, depth)}")
        return f"struct_pack({', '.join(fields)})"
    if kind.id == "map":
        return f"coalesce({value}, CAST(map {{}} AS {kind}))"
    return value


# --- ClickHouse's own quoting -------------------------------------------------------------------
def quoted(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
