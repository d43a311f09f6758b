"""All declarations of a project together: who reads whom, in which order, and what is broken.

A broken declaration disables itself and whatever reads it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from penstock.model.definition import Table
from penstock.model.kinds import Enrich, History, Rows
from penstock.model.names import TableName
from penstock.model.publication import Publication
from penstock.model.stream import Stream
from penstock.model.windows import Timed

__all__ = ["Broken", "Catalog"]


@dataclass(frozen=True)
class Broken:
    """A module or table that is switched off, and why; the reason names file, line and fix."""

    what: str
    reason: str


@dataclass(frozen=True)
class Catalog:
    """Sound streams and tables by name, and what had to be left out."""

    streams: dict[TableName, Stream] = field(default_factory=dict)
    tables: dict[TableName, Table] = field(default_factory=dict)
    published: tuple[Publication, ...] = ()
    broken: tuple[Broken, ...] = ()

    @classmethod
    def build(
        cls, declared: Iterable[Stream | Table | Publication], broken: Iterable[Broken] = ()
    ) -> Catalog:
        faults = list(broken)
        published: dict[str, Publication] = {}
        by_name: dict[TableName, Stream | Table] = {}
        for item in declared:
            if isinstance(item, Publication):
                faults.extend(_clash(published.setdefault(item.target, item), item))
                continue
            other = by_name.get(item.name)
            if other is not None and other.place != item.place:
                faults.append(
                    Broken(
                        str(item.name),
                        f"{item.place}: {item.name} is declared at {other.place} already; "
                        "rename one of them.",
                    )
                )
                continue
            by_name[item.name] = item
        tables = {n: t for n, t in by_name.items() if isinstance(t, Table)}
        streams = {n: s for n, s in by_name.items() if isinstance(s, Stream)}
        faults.extend(_drop_dangling(streams, tables))
        faults.extend(_drop_cycles(tables))
        return cls(streams, tables, tuple(published.values()), tuple(faults))

    def order(self) -> list[TableName]:
        """Tables so that each comes after what it reads."""
        graph = {name: set(table.inputs.values()) for name, table in self.tables.items()}
        return [name for name in TopologicalSorter(graph).static_order() if name in self.tables]

    def stream_of(self, table: Table) -> Stream | None:
        """The stream a contract table decodes, if its input is bronze."""
        for name in table.inputs.values():
            if name in self.streams:
                return self.streams[name]
        return None

    def time_of(self, name: TableName) -> str | None:
        """The column that says when a row was, as its stream or table declares it, if it does.

        A transform may have renamed it: it need not be among the columns of the table.
        """
        if name in self.streams:
            return self.streams[name].event_time_field or "event_time"
        kind = self.tables[name].kind
        if isinstance(kind, Timed):
            return kind.point
        if isinstance(kind, Enrich):
            return kind.on
        if isinstance(kind, History):
            return "valid_from"
        if isinstance(kind, Rows):  # each comes of one row of its only input
            return self.time_of(next(iter(self.tables[name].inputs.values())))
        return None


def _clash(first: Publication, item: Publication) -> list[Broken]:
    """Two publications to one target would write over each other."""
    if first is item or first.place == item.place:
        return []
    what = f"{item.word} of {item.table}"
    told = f"{item.place}: {item.target} is published to at {first.place} already; name another."
    return [Broken(what, told)]


def _drop_dangling(
    streams: dict[TableName, Stream], tables: dict[TableName, Table]
) -> list[Broken]:
    """Switch off tables whose inputs do not exist, and then those that read them."""
    faults: list[Broken] = []
    while True:
        bad = {
            name: missing
            for name, table in tables.items()
            if (missing := [i for i in table.inputs.values() if i not in streams | tables])
        }
        if not bad:
            return faults
        for name, missing in bad.items():
            place = tables.pop(name).place
            listed = ", ".join(map(str, missing))
            faults.append(
                Broken(
                    str(name),
                    f"{place}: {name} reads {listed}, which is not declared or is broken itself; "
                    "declare or mend it.",
                )
            )


def _drop_cycles(tables: dict[TableName, Table]) -> list[Broken]:
    faults: list[Broken] = []
    while True:
        try:
            TopologicalSorter({n: set(t.inputs.values()) for n, t in tables.items()}).prepare()
        except CycleError as error:
            ring = list(dict.fromkeys(error.args[1]))
            names = " -> ".join(map(str, ring))
            for name in ring:
                place = tables.pop(name).place
                faults.append(
                    Broken(str(name), f"{place}: {name} is part of a circle ({names}); cut it.")
                )
        else:
            return faults
