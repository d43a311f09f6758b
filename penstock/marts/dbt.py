"""dbt, called in this process: what it is told, and what it answers as plain data.

Nothing here reaches the network: no packages to fetch, no telemetry, no look for newer versions.
The project's folder is only read; targets and logs are in the stack's home.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dbt.cli.main import dbtRunner

from penstock.errors import DefinitionError, PenstockError, UsageError
from penstock.marts.places import Places
from penstock.marts.positions import Follower

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest
    from dbt_common.events.base_types import EventMsg

__all__ = ["Dbt"]

Watch = Callable[["EventMsg"], None]


class Dbt:
    """One project; parsed once, however many commands follow."""

    def __init__(self, places: Places, watch: Watch = lambda event: None) -> None:
        self._places = places
        self._watch = watch
        self._manifest: Manifest | None = None
        self.positions: dict[str, Any] = {}

    @property
    def manifest(self) -> Manifest:
        if self._manifest is None:
            self._manifest = self._call("parse", (), DefinitionError)
        return self._manifest

    def call(self, verb: str | Sequence[str], arguments: Iterable[str] = ()) -> Any:
        """The result of a command; failures of models and tests are in it, not raised."""
        self.manifest  # noqa: B018  parsed before anything is asked of it
        return self._call(verb, arguments, UsageError)

    def _call(
        self, verb: str | Sequence[str], arguments: Iterable[str], error: type[PenstockError]
    ) -> Any:
        words = [verb] if isinstance(verb, str) else list(verb)
        runner = dbtRunner(manifest=self._manifest, callbacks=[self._watch])
        answer = runner.invoke([*words, *self._common(), *arguments])
        if answer.exception is not None:
            raise error(
                f"dbt {' '.join(words)}: {str(answer.exception).strip()}",
                remedy=f"The whole story is in {self._places.logs / 'dbt.log'}.",
            )
        return answer.result

    def _common(self) -> list[str]:
        told = {"marts_root": str(self._places.tables), "positions": self.positions}
        project, places = str(self._places.project), self._places
        return [
            *("--project-dir", project, "--profiles-dir", project),
            *("--target-path", str(places.target), "--log-path", str(places.logs)),
            *("--vars", json.dumps(told)),
            *("--log-level", "none", "--log-level-file", "info"),
            *("--no-use-colors", "--no-send-anonymous-usage-stats", "--no-version-check"),
        ]

    # --- what the project declares ----------------------------------------------------------
    def sources(self) -> dict[str, dict[str, str]]:
        """Columns and types of the tables the marts read, by ``layer.name``."""
        return {
            f"{source.schema}.{source.identifier}": {
                column.name: str(column.data_type) for column in source.columns.values()
            }
            for source in self.manifest.sources.values()
        }

    def nodes(self, kinds: Sequence[str] = ("model", "snapshot")) -> list[Any]:
        found = [n for n in self.manifest.nodes.values() if n.resource_type in kinds]
        return sorted(found, key=lambda node: (node.schema, node.name))

    def selected(self, select: Sequence[str]) -> set[str]:
        """Names of models and snapshots a selection means."""
        words = ["--select", *select] if select else []
        kinds = ["--resource-type", "model", "--resource-type", "snapshot"]
        listed = self.call("ls", [*kinds, "--output", "name", *words])
        return {str(name) for name in listed or ()}

    def followers(self, only: Iterable[str]) -> list[Follower]:
        wanted = set(only)
        return [
            Follower(
                mart=node.name,
                follows=dict(node.config.meta["follows"]),
                code=self._code(node),
                folder=self._places.tables / node.name,
            )
            for node in self.nodes(("model",))
            if node.config.materialized == "incremental" and node.name in wanted
        ]

    def _code(self, node: Any) -> str:
        """Changes with the model, with every view below it, and with our macros."""
        texts: list[str] = []
        left: list[str] = [node.unique_id]
        while left:
            found: Any = self.manifest.nodes.get(left.pop())
            if found is not None:
                texts.append(f"{found.unique_id}\n{found.raw_code}")
                left += found.depends_on.nodes
        macros = self.manifest.macros.values()
        texts += [m.macro_sql for m in macros if m.package_name == node.package_name]
        return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:12]

    def following(self) -> Mapping[str, list[str]]:
        """Which tables each mart is made from, through any number of models."""
        return {node.name: sorted(self._below(node)) for node in self.nodes()}

    def _below(self, node: Any) -> set[str]:
        found: set[str] = set()
        for name in node.depends_on.nodes:
            if name in self.manifest.sources:
                source = self.manifest.sources[name]
                found.add(f"{source.schema}.{source.identifier}")
            elif name in self.manifest.nodes:
                found |= self._below(self.manifest.nodes[name])
        return found
