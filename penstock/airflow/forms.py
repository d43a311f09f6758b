"""Fields of the forms operators fill in, each with the JSON schema Airflow holds input against.

Names of tables come from the manifest. Texts are data, but a text no reasonable person writes is
refused all the same: letters, digits, spaces and a few signs; no quotes, no brackets that mean
something to a shell, a query or a page. Conditions have a grammar of their own, much smaller than
SQL.

What may be left empty is nullable: Airflow's page takes anything else for required, and does not
let a form go while a required text is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Param

__all__ = [
    "TARGETS",
    "choice",
    "condition_list",
    "day_or_none",
    "flag",
    "moment",
    "number",
    "reason",
    "rollup",
    "row_ids",
    "some",
    "table",
    "tables",
    "targets",
    "tolerance_list",
    "whole",
]

# `$` lets a trailing newline pass in Python; the look-ahead does not.
_END = r"$(?!\n)"
# Two words at least, the first begins with a letter or a digit; no path, no comment of a language.
_WORD = r"[\w.,:()/#%+?!-]{0,60}"
_WORDS = rf"(?![^\n]*(?:\.\.|//|--|\(\)))[^\W_]{_WORD}(?: [\w(#+]{_WORD}){{1,60}}"
_NAME = r"[a-z_][a-z0-9_]{0,62}"
_SIDE = rf"(?:old|new)\.{_NAME}"
_NUMBER = r"-?\d{1,15}(?:\.\d{1,9})?"
_TERM = rf"(?:{_SIDE}|{_NUMBER}|'[\w .:+-]{{0,60}}')"
_TEST = rf"{_SIDE} (?:(?:=|<>|<=|>=|<|>) {_TERM}|is null|is not null)"
_CONDITION = rf"{_TEST}(?: (?:and|or) {_TEST}){{0,7}}"
_AGGREGATE = rf"(?:sum|min|max|avg|count)\({_NAME}\) as {_NAME}"
_MOMENT = r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?Z)?"
_LENGTH = r"\d{1,4} (?:minute|hour|day|week)s?"
TARGETS = ("duckdb", "clickhouse", "parquet")
SIGNS = "letters, digits, spaces and . , : ( ) / # % + - _ ? !"


def _names(names: Sequence[str]) -> dict[str, Any]:
    """One of these names; nothing at all while nothing is registered."""
    return {"type": "string", "enum": list(names)} if names else {"type": "string", "not": {}}


def tables(names: Sequence[str], description: str, *, least: int = 1) -> Param:
    """Some of the tables; none means all where `least` is 0."""
    return some(names, "Tables", description, least=least)


def some(names: Sequence[str], title: str, description: str, *, least: int = 0) -> Param:
    """Some of these names."""
    kind: dict[str, Any] = {
        "items": _names(names),
        "uniqueItems": True,
        "minItems": least,
        "title": title,
        "description_md": description,
        "examples": list(names),
    }
    return Param(type="array", **kind) if least else Param([], type=["null", "array"], **kind)


def table(names: Sequence[str], description: str, title: str = "Table") -> Param:
    return Param(title=title, description_md=description, **_names(names))


def reason(
    description: str = "Why; kept with the change.",
    *,
    title: str = "Reason",
    needed: bool = True,
    **more: Any,
) -> Param:
    told = f"{description} ({SIGNS})"
    if needed:
        pattern = f"^{_WORDS}{_END}"
        return Param(type="string", pattern=pattern, title=title, description_md=told, **more)
    return _optional(_WORDS, title, told, **more)


def moment(default: str, description: str, title: str, **more: Any) -> Param:
    """BEGINNING, a moment, or a length of time ago."""
    pattern = f"^(?:BEGINNING|{_MOMENT}|{_LENGTH}){_END}"
    return Param(
        default, type="string", pattern=pattern, title=title, description_md=description, **more
    )


def day_or_none(description: str, title: str = "Day") -> Param:
    return _optional(r"\d{4}-\d{2}-\d{2}", title, description)


def number(
    default: float, low: float, high: float, title: str, description: str, **more: Any
) -> Param:
    return Param(
        default, type="number", minimum=low, maximum=high, title=title, description_md=description,
        **more,
    )  # fmt: skip


def whole(default: int, low: int, high: int, title: str, description: str, **more: Any) -> Param:
    return Param(
        default, type="integer", minimum=low, maximum=high, title=title, description_md=description,
        **more,
    )  # fmt: skip


def flag(default: bool, title: str, description: str, **more: Any) -> Param:
    return Param(default, type="boolean", title=title, description_md=description, **more)


def choice(default: str, values: Sequence[str], title: str, description: str) -> Param:
    return Param(default, type="string", enum=list(values), title=title, description_md=description)


def targets() -> Param:
    items = {"type": "string", "enum": list(TARGETS)}
    return Param(["duckdb", "clickhouse"], type="array", items=items, uniqueItems=True, minItems=1,
                 title="Targets", examples=list(TARGETS))  # fmt: skip


def tolerance_list(**more: Any) -> Param:
    return _texts(
        f"{_NAME}=\\d{{1,9}}(?:\\.\\d{{1,9}})?",
        "Tolerances",
        "One per line: `column=number`. Numbers that are no farther apart are equal.",
        **more,
    )


def condition_list(**more: Any) -> Param:
    return _texts(
        f"{_CONDITION} => {_WORDS}",
        "Expected differences",
        "One per line: `condition => reason`, such as "
        "`new.readings < old.readings => calibration is left out`. A condition compares "
        "`old.column` and `new.column` with each other, with numbers or with 'texts'; several are "
        "joined by `and` or `or`.",
        **more,
    )


def rollup(**more: Any) -> Param:
    listed = rf"{_NAME}(?:, {_NAME}){{0,9}} => {_AGGREGATE}(?:, {_AGGREGATE}){{0,9}}"
    told = (
        "Only when keys or windows changed: what to compare instead, such as "
        "`sensor_id => sum(readings) as readings`."
    )
    return _optional(listed, "Roll-up", told, **more)


def row_ids() -> Param:
    """Coordinates as `penstock quarantine list` shows them."""
    return _texts(
        r"(?:[\w.-]{1,249}/[\w-]{1,64}/\d{1,9}/\d{1,19}|[0-9a-f]{16,128})",
        "Rows",
        "One row id per line; none means all rows of the table.",
    )


def _optional(pattern: str, title: str, description: str, **more: Any) -> Param:
    """A text that may be left out."""
    whole = f"^(?:{pattern})?{_END}"
    return Param(
        None, type=["null", "string"], pattern=whole, title=title, description_md=description,
        **more,
    )  # fmt: skip


def _texts(pattern: str, title: str, description: str, **more: Any) -> Param:
    items = {"type": "string", "pattern": f"^{pattern}{_END}"}
    return Param(
        [], type=["null", "array"], items=items, maxItems=100, title=title,
        description_md=description, **more,
    )  # fmt: skip
