"""Which table reads which, as the manifest declares it; without Spark and without services."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import EnvironmentProblem, NotRunning, UsageError

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["Graph", "Node", "live_of", "read_manifest", "tree"]


@dataclass(frozen=True)
class Node:
    """One table: what it is and what it reads."""

    name: str
    kind: str
    reads: tuple[str, ...]
    revision: str = ""  # the live one; bronze has none
    topic: str = ""
    of: str = ""  # the table it lies beside: quarantine, late and outcomes have one

    @property
    def layer(self) -> str:
        return self.name.partition(".")[0]

    @property
    def about(self) -> str:
        """What to say of it beside its name."""
        if self.topic:
            return f"topic {self.topic}"
        return f"{self.kind}, {self.revision}" if self.revision else self.kind


def read_manifest(settings: Settings) -> dict[str, dict[str, Any]]:
    """The manifest's entries by name.

    Raises:
        NotRunning: nothing is registered yet.
        EnvironmentProblem: the file is not a manifest.
    """
    try:
        listed = json.loads(settings.manifest.read_text())["tables"]
        return {str(entry["name"]): dict(entry) for entry in listed}
    except FileNotFoundError:
        raise NotRunning("nothing is registered yet.", remedy="Run `penstock up`.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise EnvironmentProblem(
            f"the list of tables {settings.manifest} cannot be read: {error}.",
            remedy="Write it anew with `penstock register`.",
        ) from None


class Graph:
    """Tables and who reads whom."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node.name: node for node in nodes}

    @classmethod
    def of(cls, entries: Mapping[str, Mapping[str, Any]]) -> Graph:
        return cls(_node(entry) for entry in entries.values())

    def __getitem__(self, name: str) -> Node:
        if name not in self.nodes:
            raise UsageError(f"{name} is not declared any more.", remedy="See `penstock tables`.")
        return self.nodes[name]

    def upstream(self, name: str) -> list[str]:
        """What it reads, as far as that is declared."""
        return [n for n in self.nodes[name].reads if n in self.nodes]

    def downstream(self, name: str) -> list[str]:
        """Who reads it; what only lies beside a table does not count as a reader."""
        return [n.name for n in self.nodes.values() if name in n.reads and not n.of]

    def tables(self) -> list[str]:
        """Every table that was declared, without those that lie beside one."""
        return [node.name for node in self.nodes.values() if not node.of]

    def around(self, name: str) -> list[str]:
        """A table, all it is made from and all that is made from it."""
        near = {*_reached(name, self.upstream), *_reached(name, self.downstream)}
        return [n for n in self.nodes if n in near]

    def part(self, names: Iterable[str]) -> Graph:
        """The same graph with these tables only."""
        return Graph(self.nodes[name] for name in names)

    def depths(self) -> dict[str, int]:
        """How many tables lie before each, on the longest way."""
        found: dict[str, int] = {}

        def depth(name: str) -> int:
            if name not in found:
                found[name] = 0  # a graph that is not one, by hand or by error, must end too
                found[name] = max((depth(n) + 1 for n in self.upstream(name)), default=0)
            return found[name]

        for name in self.nodes:
            depth(name)
        return found

    def as_dict(self) -> dict[str, Any]:
        return {
            "tables": [
                {
                    "name": node.name,
                    "kind": node.kind,
                    "revision": node.revision or None,
                    "topic": node.topic or None,
                    "reads": self.upstream(node.name),
                    "read_by": self.downstream(node.name),
                }
                for node in self.nodes.values()
            ]
        }


def live_of(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What is live of a manifest's entries, and its revision; a stream has none, and is live."""
    nodes = Graph.of(entries).nodes.values()
    return {n.name: n.revision for n in nodes if n.topic or (n.revision and not n.of)}


def _node(entry: Mapping[str, Any]) -> Node:
    of = str(entry.get("of") or "")
    reads = [of] if of else list(dict.fromkeys((entry.get("inputs") or {}).values()))
    return Node(
        name=str(entry["name"]),
        kind=str(entry.get("kind") or ""),
        reads=tuple(map(str, reads)),
        revision=str(entry.get("revision") or ""),
        topic=str(entry.get("topic") or ""),
        of=of,
    )


def _reached(start: str, step: Any) -> set[str]:
    seen, edge = {start}, [start]
    while edge:
        for name in step(edge.pop()):
            if name not in seen:
                seen.add(name)
                edge.append(name)
    return seen


# --- as text ----------------------------------------------------------------------------------
def tree(graph: Graph, name: str | None = None) -> Iterator[str]:
    """The graph as lines: what a table is made from and who reads it, or everything."""
    if name is None:
        told: set[str] = set()
        for root in graph.tables():
            if not graph.upstream(root):
                yield _label(graph, root)
                yield from _branches(graph, root, graph.downstream, "", told)
        return
    yield _label(graph, name)
    for words, step in (("made from", graph.upstream), ("read by", graph.downstream)):
        yield words
        lines = list(_branches(graph, name, step, "", set()))
        yield from lines or ["└─ nothing"]


def _branches(graph: Graph, name: str, step: Any, lead: str, told: set[str]) -> Iterator[str]:
    listed = step(name)
    for number, other in enumerate(listed):
        last = number == len(listed) - 1
        again = other in told and bool(step(other))
        yield f"{lead}{'└─' if last else '├─'} {_label(graph, other)}{'  …' if again else ''}"
        if not again:
            told.add(other)
            yield from _branches(graph, other, step, lead + ("   " if last else "│  "), told)


def _label(graph: Graph, name: str) -> str:
    return f"{name}  {graph.nodes[name].about}".rstrip()
