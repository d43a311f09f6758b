"""Registration: what the working tree declares becomes revisions, a bundle and the manifest.

A table that has no live revision gets its first one. A table whose meaning changed keeps running
the revision it has; the manifest says so, and going live is reprocessing's matter.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.alone import alone
from penstock.model.definition import Table
from penstock.model.names import TableName
from penstock.runtime.code.bundle import store_bundle
from penstock.runtime.declared.analysis import Analysed, analysed_bundle
from penstock.runtime.registry import Registry, Revision, State
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "declared_of",
    "fingerprint_of",
    "register",
    "show_revision",
    "write_manifest",
]


def register(session: SparkSession, settings: Settings, registry: Registry) -> Analysed:
    """Store the tree's code, give new tables their first live revision, write the manifest."""
    # Stored first, analysed from the store: an edit in between cannot make the two differ.
    address = store_bundle(settings.project, settings.jobs, settings.bundles)
    found = analysed_bundle(session, settings, address)
    live = {r.table: r for r in registry.revisions(states=(State.LIVE,))}
    for name, revision in found.revisions.items():
        if str(name) in live:
            _refresh(registry, found.catalog.tables[name], live[str(name)], revision)
            continue
        inputs = _pinned(found, found.catalog.tables[name], live)
        if inputs is None:
            continue  # what it was planned on is not live, so neither can it be
        added = Revision(
            table=str(name),
            revision=revision,
            state=State.LIVE,
            bundle=address,
            inputs=inputs,
            declared=declared_of(found, name),
        )
        if registry.add_live(added):
            live[str(name)] = added
    write_manifest(settings, found, live)
    return found


def declared_of(found: Analysed, name: TableName) -> dict[str, Any]:
    """What a revision is remembered by, beside its code."""
    table = found.catalog.tables[name]
    return {
        "schema": json.loads(found.schemas[name].json()),
        "freshness": table.freshness,
        "retention": table.retention,
        "meaning": table.describe(),
    }


def _refresh(registry: Registry, table: Table, running: Revision, declared: str) -> None:
    """How fresh a table is kept, and how long, is not what it means: a live revision takes it
    over."""
    kept = {"freshness": table.freshness, "retention": table.retention}
    told = {**running.declared, **kept}
    if fingerprint_of(running.revision) == declared and told != running.declared:
        registry.declare(running.table, running.revision, told)


def _pinned(found: Analysed, table: Table, live: dict[str, Revision]) -> dict[str, str] | None:
    """The input revisions the table was planned on, if those are the live ones."""
    pinned = {}
    for name in table.inputs.values():
        running = live.get(str(name))
        if name.layer == "bronze":
            pinned[str(name)] = ""
        elif running is not None and fingerprint_of(running.revision) == found.revisions[name]:
            pinned[str(name)] = running.revision
        else:
            return None
    return pinned


def write_manifest(settings: Settings, found: Analysed, live: dict[str, Revision]) -> None:
    """What DAGs, CLI and pages read without Spark; replaced in one step."""
    streams = [
        {
            "name": str(stream.name),
            "layer": "bronze",
            "kind": "stream",
            "owner": stream.owner,
            "doc": stream.doc,
            "place": str(stream.place),
            **stream.describe(),
        }
        for stream in found.catalog.streams.values()
    ]
    tables = [_entry(found, name, live) for name in found.catalog.order()]
    companions = [
        {"name": str(beside), "layer": beside.layer, "kind": beside.layer, "of": str(name)}
        for name in found.catalog.order()
        for beside in (name.quarantine, name.late, name.outcomes)
    ]
    broken = [{"what": b.what, "reason": b.reason} for b in found.broken]
    manifest = {
        "tables": [*streams, *tables, *companions],
        "published": found.published,
        "broken": broken,
    }
    with _alone_with(settings):
        _write(settings, manifest)


def show_revision(settings: Settings, revision: Revision, *, declared: bool) -> None:
    """Note in the manifest that a table shows another revision now.

    Args:
        declared: that is what the tree declares, as far as anybody knows.
    """
    with _alone_with(settings):
        manifest = json.loads(settings.manifest.read_text())
        _show(manifest, revision, declared=declared)
        _write(settings, manifest)


@contextmanager
def _alone_with(settings: Settings) -> Iterator[None]:
    """The manifest is ours; another supervisor that wants to change it waits."""
    settings.manifest.parent.mkdir(parents=True, exist_ok=True)
    with alone(
        Path(f"{settings.manifest}.lock"),
        patience=30.0,
        report=lambda text: None,
        waiting="",
        refused="the manifest is being written by process {pid}.",
        remedy="Look at that process; then try again.",
    ):
        yield


def _show(manifest: dict[str, Any], revision: Revision, *, declared: bool) -> None:
    for entry in manifest["tables"]:
        if entry["name"] == revision.table:
            if declared:
                entry["declared_revision"] = fingerprint_of(revision.revision)
            entry["revision"] = revision.revision
            entry["schema"] = revision.declared["schema"]
            tree = entry.get("declared_revision")
            entry["changed"] = bool(tree) and tree != fingerprint_of(revision.revision)
            entry.update(revision.declared.get("meaning", {}))


def fingerprint_of(revision: str) -> str:
    """The fingerprint in a revision's name; one that was built anew has a number behind it."""
    return revision.partition("-")[0]


def _write(settings: Settings, manifest: dict[str, Any]) -> None:
    fresh = Path(f"{settings.manifest}.new")
    fresh.write_text(json.dumps(manifest, indent=1))
    os.replace(fresh, settings.manifest)


def _entry(found: Analysed, name: TableName, live: dict[str, Revision]) -> dict[str, Any]:
    table = found.catalog.tables[name]
    running = live.get(str(name))
    declared = found.revisions.get(name)
    told = running.declared if running else {}
    planned = json.loads(found.schemas[name].json()) if name in found.schemas else None
    return {
        **told.get("meaning", table.describe()),
        "layer": name.layer,
        "owner": table.owner,
        "doc": table.doc,
        "place": str(table.place),
        "freshness": table.freshness,
        "retention": table.retention,
        "revision": running.revision if running else None,
        "declared_revision": declared,
        "changed": bool(running and declared and fingerprint_of(running.revision) != declared),
        "schema": told.get("schema", planned),
    }
