"""The kinds of table that know no event-time windows: rows, enrich, group and the keyed ones.

One frozen class per kind. A kind says what the table means; whether that runs as a stream, in
batch, fused or alone is the runtime's matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from penstock.model.names import is_identifier

__all__ = ["Enrich", "Group", "History", "Kind", "Latest", "Rows", "Totals"]


@dataclass(frozen=True)
class Kind:
    """Common to all kinds: a name for the manifest and what can be wrong with a declaration."""

    word: ClassVar[str] = ""
    # How many inputs a table of this kind reads: (least, most).
    arity: ClassVar[tuple[int, int]] = (1, 1)

    def problems(self) -> list[str]:
        listed = self._columns()
        found = [
            f"{name} is a tuple of column names: {name}=({columns!r},)"
            for name, columns in listed.items()
            if isinstance(columns, str)
        ]
        if found:
            return found
        if "by" in listed and not listed["by"]:
            return ["by is empty: name the columns that rows belong together by"]
        return [
            f"{name} lists {column!r}, which is not a column name"
            for name, columns in self._columns().items()
            for column in columns
            if not is_identifier(column.lstrip("_"))
        ]

    def describe(self) -> dict[str, Any]:
        return {"kind": self.word, **asdict(self)}

    def _columns(self) -> Mapping[str, tuple[str, ...]]:
        """Columns the declaration names, by the argument that names them."""
        return {}

    def arguments(self, inputs: list[str]) -> list[str]:
        """The arguments the transform takes, of the declared inputs."""
        return inputs

    def key_problems(self, keys: tuple[str, ...]) -> list[str]:
        """What is wrong with the table's keys, given what the kind writes."""
        return []


@dataclass(frozen=True)
class Rows(Kind):
    """Each input row becomes zero or more output rows by itself: map, filter, branch."""

    word: ClassVar[str] = "rows"


@dataclass(frozen=True)
class Enrich(Kind):
    """Facts joined with dimensions as they were at each fact's time.

    The runtime joins: the transform takes one argument, the facts, in which every dimension is a
    struct column named by its argument, null where nothing was valid. A dimension is a table with
    history: it has the ``by`` columns, ``valid_from`` and ``valid_to``. A dimension row that comes
    late revises the rows that should have joined it.

    Args:
        by: columns that facts and dimensions share.
        on: the facts' time.
    """

    by: tuple[str, ...]
    on: str

    word: ClassVar[str] = "enrich"
    arity: ClassVar[tuple[int, int]] = (2, 8)

    def _columns(self) -> Mapping[str, tuple[str, ...]]:
        return {"by": self.by, "on": (self.on,)}

    def arguments(self, inputs: list[str]) -> list[str]:
        return inputs[:1]

    def key_problems(self, keys: tuple[str, ...]) -> list[str]:
        return [] if keys else ["an enriched table has keys: columns of its facts that name a row"]


@dataclass(frozen=True)
class Group(Kind):
    """An exact aggregate of any sort: touched groups are computed again from all their rows.

    Args:
        by: columns that every input has; the transform keeps them, and never mixes two groups.
    """

    by: tuple[str, ...]

    word: ClassVar[str] = "group"
    arity: ClassVar[tuple[int, int]] = (1, 8)

    def _columns(self) -> Mapping[str, tuple[str, ...]]:
        return {"by": self.by}

    def key_problems(self, keys: tuple[str, ...]) -> list[str]:
        if set(self.by) <= set(keys):
            return []
        return [f"a group table has its groups among its keys: {list(self.by)}"]


@dataclass(frozen=True)
class _Keyed(Kind):
    """The transform maps rows one by one; the runtime folds what it returns per key."""

    by: tuple[str, ...]

    arity: ClassVar[tuple[int, int]] = (1, 8)

    def _columns(self) -> Mapping[str, tuple[str, ...]]:
        return {"by": self.by}

    def key_problems(self, keys: tuple[str, ...]) -> list[str]:
        wanted = self.output_keys
        if tuple(keys) == wanted:
            return []
        return [f"its keys are {wanted}: leave keys out, or name exactly these"]

    @property
    def output_keys(self) -> tuple[str, ...]:
        return self.by


@dataclass(frozen=True)
class Totals(_Keyed):
    """Running totals: the transform returns the key and what each row adds; the table sums it."""

    word: ClassVar[str] = "totals"


@dataclass(frozen=True)
class Latest(_Keyed):
    """The newest row per key.

    Args:
        by: the key.
        order: columns that say which row is newer; ties go to the greater whole row.
        deleted: a boolean column of the transform's: true removes the key. Not kept.
        truncated: a boolean column: true removes every key whose rows are older. Not kept.
    """

    order: tuple[str, ...] = ()
    deleted: str | None = None
    truncated: str | None = None

    word: ClassVar[str] = "latest"

    def _columns(self) -> Mapping[str, tuple[str, ...]]:
        return {"by": self.by, "order": self.order, "flags": self.flags}

    def problems(self) -> list[str]:
        found = super().problems()
        if not self.order:
            found.append("order says which row of a key is newer: name at least one column")
        return found

    @property
    def flags(self) -> tuple[str, ...]:
        """Columns of the transform that say something and are not kept."""
        return tuple(flag for flag in (self.deleted, self.truncated) if flag)


@dataclass(frozen=True)
class History(Latest):
    """Every version of a key, with ``valid_from`` and ``valid_to`` (null: valid now).

    Args:
        since: the timestamp column that says from when a version holds. Not kept by this name.
        snapshot: a boolean column: true where a row was read from a snapshot, not from a change.
            If such a row is a key's first, it holds from the beginning. Not kept.
    """

    since: str = "valid_from"
    snapshot: str | None = None

    word: ClassVar[str] = "history"

    def _columns(self) -> Mapping[str, tuple[str, ...]]:
        return {**super()._columns(), "since": (self.since,)}

    @property
    def flags(self) -> tuple[str, ...]:
        return (*super().flags, *((self.snapshot,) if self.snapshot else ()))

    @property
    def output_keys(self) -> tuple[str, ...]:
        return (*self.by, "valid_from")
