"""The polite wall: is this text one read of live tables, and which tables does it name?

Purpose: refuse with a sentence that says what to do instead, before anything is opened.

How it works: DuckDB's own parser turns the text into a syntax tree (``json_serialize_sql``, which
takes reads only), and the tree is walked whole: every query node, table reference and table
function must be on a list of known harmless kinds, every function must not be on the list of
harmful ones. A tree has no comments, no case and no quoting, so there is nothing to hide behind.
In DuckDB 2.0 a COPY or an INSERT can sit inside a WITH: that is why the kinds are an allow-list.

What it does not do: hold against a bug in itself. The real walls are in ``sandbox``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penstock.errors import PenstockError, QueryRefused, UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["Checked", "check"]

# Kinds of query nodes, table references and modifiers that only read.
_QUERY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_TABLE_NODES = {"BASE_TABLE", "SUBQUERY", "JOIN", "EXPRESSION_LIST", "EMPTY", "PIVOT"}
_TABLE_NODES |= {"TABLE_FUNCTION", "SHOW_REF"}  # these two are looked at more closely
_MODIFIERS = {"ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER"}
_MODIFIERS |= {"ORDER_DEFAULT", "ASCENDING", "DESCENDING"}
_NODES = _QUERY_NODES | _TABLE_NODES | _MODIFIERS
# Table functions that make rows from their arguments and touch nothing else.
_TABLE_FUNCTIONS = {"range", "generate_series", "unnest", "repeat", "repeat_row"}
_TABLE_FUNCTIONS |= {"json_each", "json_tree", "pg_timezone_names"}
# Functions that look outside the query, leave a mark, run text as SQL, or trust raw bytes as the
# engine's own state.
_LOOK_OUTSIDE = {"getenv", "current_setting", "getvariable", "which_secret"}
_LEAVE_A_MARK = {"write_log", "setseed", "nextval", "currval", "setval"}
_RUN_TEXT = {"json_execute_serialized_sql", "json_serialize_plan", "query", "query_table"}
_TRUST_BYTES = {"to_aggregate_state", "combine", "combine_aggr", "finalize"}
_TRUST_BYTES |= {"variant_bytes_to_variant"}
_FUNCTIONS = _LOOK_OUTSIDE | _LEAVE_A_MARK | _RUN_TEXT | _TRUST_BYTES
_READS_FILES = re.compile(r"read_|glob$|sniff_|parquet_|.*_scan$|scan_|.*_scan_|duckdb_secrets")
_EXPLAIN = re.compile(
    r"explain\b\s*(?P<analyze>analyze\b)?\s*(?:\(\s*(?P<options>(?:analyze|format|verbose)\b[\w\s,]*)\))?",
    re.IGNORECASE,
)
_LEADING = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_MAY = (
    "A query may be one SELECT, WITH, VALUES, DESCRIBE, SUMMARIZE, SHOW TABLES or EXPLAIN "
    "over live tables."
)

Kind = Literal["select", "explain", "show tables"]


@dataclass(frozen=True)
class Checked:
    """A query found harmless.

    ``sql`` is what to run, ``body`` the read inside it (they differ for EXPLAIN only), ``tables``
    the names it reads, as typed, without the names its own WITH clauses make.
    """

    kind: Kind
    sql: str
    body: str
    tables: tuple[tuple[str, ...], ...]


def check(parser: DuckDBPyConnection, sql: str) -> Checked:
    """Parse ``sql`` and decide; ``parser`` is used to parse only.

    Raises:
        QueryRefused: the query does something other than read live tables.
        UsageError: it is not SQL, or empty.
    """
    prefix, body = _split_explain(sql)
    statement = _parse(parser, body)
    if _lists_tables(statement):
        return Checked("show tables", sql, body, ())
    tables = _inspect(statement)
    if prefix:
        return Checked("explain", f"{prefix} {body}", body, tables)
    return Checked("select", body, body, tables)


# --- parsing ------------------------------------------------------------------------------
def _split_explain(sql: str) -> tuple[str, str]:
    """EXPLAIN is rebuilt from known words around a body that is checked by itself."""
    start = _LEADING.match(sql)
    rest = sql[start.end() :] if start else sql
    found = _EXPLAIN.match(rest)
    if not found:
        return "", sql
    options = f"({found['options']})" if found["options"] else ""
    prefix = " ".join(filter(None, ("EXPLAIN", found["analyze"], options)))
    return prefix, rest[found.end() :]


def _parse(parser: DuckDBPyConnection, body: str) -> dict[str, Any]:
    row = parser.execute("SELECT json_serialize_sql($1::VARCHAR)", [body]).fetchone()
    try:
        tree = json.loads(row[0]) if row else {}
    except RecursionError:
        raise QueryRefused(
            "the query nests expressions too deeply.",
            remedy="Split it with WITH, or use IN (...) for long lists.",
        ) from None
    if tree.get("error"):
        raise _parse_error(tree, body)
    statements = tree.get("statements", [])
    if not statements:
        raise UsageError("the query is empty.", remedy=_MAY)
    if len(statements) > 1:
        raise QueryRefused(
            f"{len(statements)} statements were given; one is allowed.",
            remedy="Run them one at a time.",
        )
    return dict(statements[0])


def _parse_error(tree: dict[str, Any], body: str) -> PenstockError:
    message = str(tree.get("error_message", "it cannot be parsed"))
    if tree.get("error_type") != "not implemented":
        return UsageError(f"SQL error: {message}{_pointer(tree, body)}", remedy="Correct it there.")
    start = _LEADING.match(body)
    word = re.match(r"\w*", body[start.end() :] if start else body)
    verb = word.group().upper() if word else ""
    if re.search(r"\bpivot\b", body, re.IGNORECASE) and verb in ("PIVOT", "SELECT", "WITH", "FROM"):
        return QueryRefused(
            "a PIVOT must name its values here.",
            remedy="Write PIVOT ... ON column IN ('a', 'b').",
        )
    named = f"{verb} is not allowed: queries only read." if verb else "only reads are allowed."
    return QueryRefused(named, remedy=_MAY)


def _pointer(tree: dict[str, Any], body: str) -> str:
    """The line the parser stopped at, with a mark under the place."""
    try:
        position = int(tree["position"])
    except (KeyError, ValueError):
        return ""
    start = body.rfind("\n", 0, position) + 1
    line = body[start:].split("\n", 1)[0]
    return f"\n  {line}\n  {' ' * (position - start)}^\n "


# --- the tree -----------------------------------------------------------------------------
def _objects(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of the tree, without recursion: depth is the user's choice."""
    pending = [tree]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield item
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


def _lists_tables(statement: dict[str, Any]) -> bool:
    source = statement["node"].get("from_table") or {}
    return source.get("type") == "SHOW_REF" and str(source.get("table_name")).strip('"') in (
        "tables",
        "__show_tables_expanded",
    )


def _inspect(statement: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Refuse anything not known to be harmless; return the tables left to resolve."""
    made_here: set[str] = set()
    named: dict[tuple[str, ...], None] = {}
    for item in _objects(statement):
        _refuse_unknown_node(item)
        _refuse_function(item)
        for entry in (item.get("cte_map") or {}).get("map", []):
            made_here.add(str(entry["key"]).lower())
        if item.get("type") == "BASE_TABLE":
            named[_name_of(item)] = None
    return tuple(name for name in named if not (len(name) == 1 and name[0].lower() in made_here))


def _refuse_unknown_node(item: dict[str, Any]) -> None:
    kind = item.get("type")
    if item.get("class") == "PARAMETER":
        raise UsageError("the query has a parameter.", remedy="Write the value into the query.")
    if not isinstance(kind, str) or "class" in item:
        return
    if kind == "SHOW_REF" and not item.get("query"):
        raise QueryRefused("only SHOW TABLES can be shown.", remedy="Or use DESCRIBE layer.table.")
    if kind not in _NODES:
        verb = kind.split("_", maxsplit=1)[0]
        raise QueryRefused(f"{verb} inside a query is not allowed: queries only read.", remedy=_MAY)
    if kind == "TABLE_FUNCTION":
        _refuse_table_function(_function_name(item["function"]))


def _refuse_table_function(name: str) -> None:
    if name in _TABLE_FUNCTIONS:
        return
    if _READS_FILES.match(name):
        raise QueryRefused(
            f"{name}() reads outside the live tables.",
            remedy="Name a table instead: FROM layer.table.",
        )
    raise QueryRefused(
        f"the table function {name}() is not allowed.",
        remedy="For what exists use SHOW TABLES or DESCRIBE layer.table.",
    )


def _refuse_function(item: dict[str, Any]) -> None:
    if "function_name" not in item:
        return
    name = _function_name(item)
    if name in _FUNCTIONS or name.startswith("__internal") or _READS_FILES.match(name):
        raise QueryRefused(
            f"{name}() looks or acts outside the query and is not allowed.", remedy=_MAY
        )


def _function_name(function: dict[str, Any]) -> str:
    return str(function.get("function_name", "")).lower()


def _name_of(table: dict[str, Any]) -> tuple[str, ...]:
    if table.get("at_clause"):
        raise QueryRefused(
            "AT (VERSION ...) is not supported yet.",
            remedy="Open an older version by path (docs/reading.md).",
        )
    path = tuple(str(part) for part in table["qualified_name"]["path"])
    if len(path) == 1 and re.search(r"[/\\.:*?]", path[0]):
        raise QueryRefused(
            f"{path[0]!r} looks like a file: only live tables can be read.",
            remedy="Name a table instead: FROM layer.table.",
        )
    return path
