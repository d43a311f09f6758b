"""Which tables there are to read: what the manifest declares and what the warehouse holds.

Text typed by a person is only ever compared with this list; it is never joined into a path. So
``gold.../../etc`` is an unknown table, not a traversal.
"""

from __future__ import annotations

import datetime as dt
import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import EnvironmentProblem, UsageError
from penstock.location import Location, scan
from penstock.serve import moments

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["LAYERS", "Catalog", "TableRef", "UnknownTable"]

# The same rules as penstock.model.names, repeated because importing the model costs a tenth of
# `penstock query`'s start-up; a test holds the two equal. Marts are made by dbt (docs/marts.md): to
# read them is all this is for.
LAYERS = ("bronze", "silver", "gold", "quarantine", "late", "outcomes", "quality", "marts")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


class UnknownTable(UsageError):
    """There is no such table, or nothing in it yet."""


@dataclass(frozen=True, order=True)
class TableRef:
    """One table as a query means it; ``version`` None is the newest at the time of opening.

    ``at`` is the suffix it was typed with, ``revision`` the one it names, if any.
    """

    layer: str
    name: str
    version: int | None = None
    at: str = ""
    revision: str = ""
    time: dt.datetime | None = None

    @property
    def label(self) -> str:
        return f"{self.layer}.{self.typed}"

    @property
    def typed(self) -> str:
        """The name as a query has it."""
        return f"{self.name}@{self.at}" if self.at else self.name


class Catalog:
    """The tables of one stack, by name."""

    def __init__(
        self,
        warehouse: Location,
        refs: Iterable[TableRef],
        revision_in: Callable[[str, str], str | None] = lambda table, state: None,
    ) -> None:
        self._warehouse = warehouse
        self._revision_in = revision_in
        self._refs = {ref.label.lower(): ref for ref in refs}

    @classmethod
    def load(cls, settings: Settings) -> Catalog:
        """Declared tables first (they may hold nothing yet), then whatever the warehouse holds."""
        found = [*_declared(settings.manifest), *_stored(settings.warehouse)]
        return cls(settings.warehouse, found, _asking(settings))

    def __iter__(self) -> Iterator[TableRef]:
        return iter(sorted(self._refs.values()))

    def folder(self, ref: TableRef) -> Location:
        folder = self._warehouse / ref.layer / ref.name
        return folder / "_revisions" / ref.revision if ref.revision else folder

    def has_data(self, ref: TableRef) -> bool:
        """Whether the table has at least one commit; a declared table may not have one yet."""
        try:
            with scan(self.folder(ref) / "_delta_log") as entries:
                return any(entry.name.endswith((".json", ".parquet")) for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def find(self, parts: Sequence[str]) -> TableRef:
        """The table a query means by ``layer.table``, whatever its case; a helpful error if none.

        Raises:
            UsageError: no such table; the remedy names the closest ones.
        """
        bare, _, at = parts[-1].partition("@") if parts else ("", "", "")
        name = f"{parts[0]}.{bare}".lower()
        ref = self._refs.get(name) if len(parts) == 2 else None
        if ref is None:
            raise self._unknown([*parts[:-1], bare])
        return self._at(ref, at) if at else ref

    def _at(self, ref: TableRef, at: str) -> TableRef:
        moment = moments.read(at)
        revision = ""
        if moment.state != "live":
            revision = self._revision_in(ref.label, moment.state) or ""
            if not revision:
                raise UnknownTable(
                    f"{ref.label} has no {moment.state} revision.",
                    remedy="See `penstock releases`.",
                )
        return replace(ref, at=at, version=moment.version, time=moment.time, revision=revision)

    def no_data(self, ref: TableRef) -> UsageError:
        """What to say of a table that is declared but has never been written."""
        return UnknownTable(
            f"{ref.label} is declared, no data yet: nothing has been committed to it.",
            remedy="See what feeds it with `penstock status`, or wait with "
            f"`penstock tail {ref.label}`.",
        )

    def _unknown(self, parts: Sequence[str]) -> UsageError:
        typed = ".".join(parts)
        message = f"there is no table named {typed!r}."
        if not self._refs:
            return UnknownTable(
                f"{message} This stack has no tables yet ({self._warehouse.parent}).",
                remedy="Run `penstock up` first.",
            )
        close = self._closest(parts)
        if close:
            return UnknownTable(message, remedy=f"Did you mean {' or '.join(close)}?")
        return UnknownTable(message, remedy='List the tables: penstock query "SHOW TABLES".')

    def _closest(self, parts: Sequence[str]) -> list[str]:
        """Labels alike, counting a right table name under a wrong or missing layer as closest."""
        bare = parts[-1].lower() if parts else ""
        same = [ref.label for ref in self if ref.name.lower() == bare]
        alike = difflib.get_close_matches(".".join(parts).lower(), self._refs, n=3, cutoff=0.6)
        by_name = difflib.get_close_matches(bare, [r.name.lower() for r in self], n=3, cutoff=0.7)
        near = [ref.label for ref in self if ref.name.lower() in by_name]
        labels = [*same, *(self._refs[key].label for key in alike), *near]
        return list(dict.fromkeys(labels))[:3]


def _asking(settings: Settings) -> Callable[[str, str], str | None]:
    """Asks the registry, and only when a query names a revision: reading needs no platform."""

    def revision_in(table: str, state: str) -> str | None:
        from penstock.runtime.registry import Registry

        registry = Registry(settings)
        try:
            found = [r for r in registry.revisions(states=(state,)) if r.table == table]
        finally:
            registry.close()
        return found[-1].revision if found else None

    return revision_in


def _declared(manifest: Path) -> list[TableRef]:
    try:
        tables = json.loads(manifest.read_text())["tables"]
        names = [str(table["name"]) for table in tables]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise EnvironmentProblem(
            f"the list of tables {manifest} cannot be read: {error}.",
            remedy="Write it anew with `penstock register`.",
        ) from None
    return [ref for ref in map(_ref, names) if ref is not None]


def _ref(label: str) -> TableRef | None:
    """A name that is not a layer and a plain word is nobody's table: skip it, never path it."""
    layer, _, name = label.partition(".")
    if layer not in LAYERS or not _NAME.fullmatch(name):
        return None
    return TableRef(layer, name)


def _stored(warehouse: Location) -> list[TableRef]:
    refs = []
    for layer in LAYERS:
        try:
            with scan(warehouse / layer) as entries:
                names = [entry.name for entry in entries if entry.is_dir()]
        except (FileNotFoundError, NotADirectoryError):
            continue
        found = (_ref(f"{layer}.{name}") for name in names)
        refs += [ref for ref in found if ref is not None]
    return refs
