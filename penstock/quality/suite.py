"""What a suite is: which expectations a table has to meet, and what follows when it does not.

A suite names a table and lists checks. A check is one expectation of Great Expectations, blocking
or warning, over every row unless it says otherwise: ``where`` narrows it to some rows, ``sample``
to a number of rows taken at random, the suite's ``window`` to the newest ones. Columns that the
table does not have can be declared by an SQL expression: DuckDB computes them, decimals exactly.

What it does not do: run anything, or look at a table.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import DefinitionError
from penstock.model.duration import parse_duration
from penstock.model.names import TableName, is_identifier
from penstock.model.place import Place, caller, parse_name, raise_if

__all__ = ["BLOCKING", "BOUNDARIES", "WARNING", "Check", "Last", "Suite", "blocking", "suite"]
__all__ += ["warning"]

BLOCKING, WARNING = "blocking", "warning"
# Great Expectations' own words for the same, shown in its pages.
_SEVERITIES = {BLOCKING: "critical", WARNING: "warning"}

# Where checks are made: into silver, into gold, before a candidate goes live, before an export.
BOUNDARIES = ("silver", "gold", "promote", "export")
_COLUMNS = ("column", "column_A", "column_B")
_COLUMN_LISTS = ("column_list", "column_set")
# Expectations whose columns are what they ask about: a missing one is their answer, no mistake.
_ABOUT_COLUMNS = ("expect_column_to_exist", "expect_table_columns_to_match_set",
                  "expect_table_columns_to_match_ordered_list")  # fmt: skip


@dataclass(frozen=True)
class Last:
    """Only the newest rows: those at most ``length`` older than the newest value of ``by``."""

    length: str
    by: str

    def __str__(self) -> str:
        return f"last {self.length} by {self.by}"


@dataclass(frozen=True)
class Check:
    """One expectation, how much it matters, and which rows it looks at."""

    expectation: Any  # great_expectations.expectations.Expectation
    severity: str
    why: str = ""
    where: str = ""
    sample: int = 0  # rows taken at random; 0: all
    name: str = field(default="", compare=False)

    @property
    def type(self) -> str:
        """``expect_column_values_to_not_be_null``."""
        return str(self.expectation.expectation_type)

    @property
    def arguments(self) -> dict[str, Any]:
        """What the expectation was given, without what it has by default."""
        kwargs = self.expectation.configuration.kwargs
        return {key: value for key, value in kwargs.items() if value is not None}

    @property
    def columns(self) -> list[str]:
        """The columns whose values it looks at."""
        if self.type in _ABOUT_COLUMNS:
            return []
        given = self.arguments
        named = [given[word] for word in _COLUMNS if word in given]
        named += [name for word in _COLUMN_LISTS for name in given.get(word) or ()]
        return list(dict.fromkeys(map(str, named)))

    @property
    def exact(self) -> bool:
        return not self.sample


@dataclass(frozen=True)
class Suite:
    """All checks of one table."""

    table: TableName
    checks: tuple[Check, ...]
    columns: Mapping[str, str]  # declared here: name -> SQL expression
    window: Last | None
    keys: tuple[str, ...]  # that name a row, where the table declares none
    place: Place

    def scope(self, check: Check, boundary: str) -> str:
        """In words, which rows a check looks at; a candidate is always looked at as a whole."""
        said = [f"where {check.where}"] if check.where else []
        if self.window is not None and boundary != "promote":
            said.append(str(self.window))
        if check.sample:
            said.append(f"sample of {check.sample} rows")
        return ", ".join(said) or "all rows"


def blocking(expectation: Any, why: str = "", *, where: str = "", sample: int = 0) -> Check:
    """A check that holds the live table, and stops promote and export, when it fails."""
    return _check(expectation, BLOCKING, why, where, sample)


def warning(expectation: Any, why: str = "", *, where: str = "", sample: int = 0) -> Check:
    """A check whose failure is recorded and shown, and stops nothing."""
    return _check(expectation, WARNING, why, where, sample)


def _check(expectation: Any, severity: str, why: str, where: str, sample: int) -> Check:
    place = caller(sys._getframe(2))
    if not str(getattr(expectation, "expectation_type", "")).startswith("expect_"):
        raise DefinitionError(f"{place}: {expectation!r} is no expectation of Great Expectations.")
    problems = []
    if sample < 0:
        problems.append(f"a sample of {sample} rows holds none")
    if getattr(expectation, "row_condition", None) is not None:
        problems.append("write a row condition as where='…', in SQL: it is the same in every check")
    raise_if(problems, expectation.expectation_type, place)
    expectation.severity = _SEVERITIES[severity]
    return Check(expectation, severity, why, where, sample)


def suite(
    table: str,
    *checks: Check,
    columns: Mapping[str, str] | None = None,
    window: Last | None = None,
    keys: Sequence[str] = (),
) -> Suite:
    """Declare what must hold of a table.

    Args:
        table: its name, ``layer.name``.
        checks: made by `blocking` and `warning`.
        columns: further columns for the checks, each an SQL expression over the table's own.
        window: look at the newest rows only, except before a promote.
        keys: columns that name a row, for a table that declares no keys.
    """
    place = caller(sys._getframe(1))
    name = parse_name(table, place)
    found = Suite(name, _named(checks), dict(columns or {}), window, tuple(keys), place)
    raise_if(_problems(found), f"the suite of {table}", place)
    return found


def _problems(declared: Suite) -> list[str]:
    found = []
    if not declared.checks:
        found.append("it has no check")
    for other in declared.checks:
        if not isinstance(other, Check):
            found.append(f"{other!r} is neither blocking(…) nor warning(…)")
    found += [f"{name!r} is no column name" for name in declared.columns if not is_identifier(name)]
    if declared.window is not None:
        try:
            parse_duration(declared.window.length)
        except ValueError as error:
            found.append(str(error))
    return found


def _named(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Each with a name of its own: what it is told apart by in results and on the terminal."""
    named: list[Check] = []
    seen: dict[str, int] = {}
    for check in checks:
        if not isinstance(check, Check):
            named.append(check)
            continue
        short = check.type.removeprefix("expect_")
        name = f"{short}({', '.join(check.columns)})" if check.columns else short
        seen[name] = seen.get(name, 0) + 1
        number = f" #{seen[name]}" if seen[name] > 1 else ""
        named.append(replace(check, name=f"{name}{number}"))
    return tuple(named)
