"""Registration: what the working tree declares becomes revisions, a bundle and the manifest.

A table that has no live revision gets its first one. A table whose meaning changed keeps running
the revision it has; the manifest says so, and going live is reprocessing's matter.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import DefinitionError, in_a_line
from penstock.model.catalog import Broken, Catalog
from penstock.model.definition import Table
from penstock.model.kinds import Latest, Totals
from penstock.model.names import TableName
from penstock.runtime.batch import recompute, transform_inputs
from penstock.runtime.build import changes, typed_input
from penstock.runtime.bundle import Bundle, store_bundle
from penstock.runtime.fingerprint import fingerprint
from penstock.runtime.kind_checks import check_inputs, check_output
from penstock.runtime.prepared import jobs_begun
from penstock.runtime.registry import Registry, Revision, State
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "Analysed",
    "analyse",
    "declared_of",
    "fingerprint_of",
    "register",
    "show_revision",
    "write_manifest",
]


@dataclass
class Analysed:
    """What the declarations come to: a fingerprint and a schema per sound table."""

    catalog: Catalog
    revisions: dict[TableName, str] = field(default_factory=dict)
    schemas: dict[TableName, StructType] = field(default_factory=dict)
    published: list[dict[str, Any]] = field(default_factory=list)  # the ways out, as declared
    broken: list[Broken] = field(default_factory=list)


def analyse(session: SparkSession, catalog: Catalog) -> Analysed:
    """Plan every table over empty inputs; a table that cannot be planned disables itself."""
    found = Analysed(catalog, broken=list(catalog.broken))
    for name in catalog.order():
        table = catalog.tables[name]
        try:
            revision, schema = _analysed(session, found, table)
        except DefinitionError as error:
            found.broken.append(Broken(str(name), str(error)))
            continue
        found.revisions[name] = revision
        found.schemas[name] = schema
    found.published, faults = _published(found)
    found.broken.extend(faults)
    return found


def _analysed(session: SparkSession, found: Analysed, table: Table) -> tuple[str, StructType]:
    catalog = found.catalog
    inputs = {arg: _empty_input(session, found, table, n) for arg, n in table.inputs.items()}
    stream = catalog.stream_of(table)
    changing = {
        argument: changes(catalog, catalog.tables[name])
        for argument, name in table.inputs.items()
        if name in catalog.tables
    }
    check_inputs(table, inputs, decodes=stream is not None, changing=changing)
    upstream = {str(n): found.revisions.get(n, "") for n in table.inputs.values()}
    meaning = stream.describe() if stream else None
    given = transform_inputs(table, inputs)
    revision = fingerprint(table, given, upstream, meaning)
    mapped = table(**given) if isinstance(table.kind, Totals | Latest) else None
    out = _planned(table, inputs)
    check_output(table, mapped, out)
    return revision, out.schema


def _planned(table: Table, inputs: dict[str, DataFrame]) -> DataFrame:
    session = next(iter(inputs.values())).sparkSession
    try:
        with jobs_begun(session) as begun:
            planned = recompute(table, inputs)
        if begun():
            raise DefinitionError(
                f"{table.place}: {table.name} runs something while it is planned (count, collect, "
                "toPandas, checkpoint, ...): a transform only describes what to compute."
            )
        return planned
    except DefinitionError:
        raise
    except Exception as error:  # whatever it is, it is this table's alone
        reason = in_a_line(error)
        raise DefinitionError(f"{table.place}: {table.name} does not work: {reason}") from error


def _empty_input(
    session: SparkSession, found: Analysed, table: Table, name: TableName
) -> DataFrame:
    stream = found.catalog.streams.get(name)
    if stream is not None:
        return typed_input(session, stream)
    if name not in found.schemas:
        raise DefinitionError(f"{table.place}: {table.name} reads {name}, which is broken itself.")
    return session.createDataFrame([], found.schemas[name])


def register(session: SparkSession, settings: Settings, registry: Registry) -> Analysed:
    """Store the tree's code, give new tables their first live revision, write the manifest."""
    # Stored first, analysed from the store: an edit in between cannot make the two differ.
    address = store_bundle(settings.project, settings.jobs, settings.bundles)
    found = analyse(session, Bundle(settings.bundles / address, settings.jobs).catalog())
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
    _write(settings, manifest)


def _published(found: Analysed) -> tuple[list[dict[str, Any]], list[Broken]]:
    """The ways out of sound tables, and what is wrong with the others."""
    sound, faults = [], []
    for item in found.catalog.published:
        table, schema = found.catalog.tables.get(item.table), found.schemas.get(item.table)
        if table is None or schema is None:
            problems = [f"{item.table} is not declared or is broken itself"]
        else:
            problems = item.problems(table.keys, schema.names)
        if problems:
            what = f"{item.word} {item.target}"
            faults.append(Broken(what, f"{item.place}: {what}: {'; '.join(problems)}."))
        else:
            sound.append(item.describe())
    return sound, faults


def show_revision(settings: Settings, revision: Revision, *, declared: bool) -> None:
    """Note in the manifest that a table shows another revision now.

    Args:
        declared: that is what the tree declares, as far as anybody knows.
    """
    manifest = json.loads(settings.manifest.read_text())
    for entry in manifest["tables"]:
        if entry["name"] == revision.table:
            if declared:
                entry["declared_revision"] = fingerprint_of(revision.revision)
            entry["revision"] = revision.revision
            entry["schema"] = revision.declared["schema"]
            tree = entry.get("declared_revision")
            entry["changed"] = bool(tree) and tree != fingerprint_of(revision.revision)
            entry.update(revision.declared.get("meaning", {}))
    _write(settings, manifest)


def fingerprint_of(revision: str) -> str:
    """The fingerprint in a revision's name; one that was built anew has a number behind it."""
    return revision.partition("-")[0]


def _write(settings: Settings, manifest: dict[str, Any]) -> None:
    settings.manifest.parent.mkdir(parents=True, exist_ok=True)
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
