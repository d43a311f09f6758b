"""What declared tables come to: a fingerprint and a schema each; of a stored bundle, remembered.

**Purpose.** Planning every table over empty inputs takes Spark a second or so each, cold. A
supervisor that starts again, or takes over from one that died, would do it all anew for code that
has not changed.

**How it works.** A bundle's address is the digest of its code and of the lock file. Fingerprints
and schemas are kept in the bundle's own folder, under a digest of the engine, Python and Spark that
worked them out; a file that is not there, or is not whole, means working them out.

**What it does not do.** Remember anything of the working tree: that has no address yet.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock
from penstock.errors import DefinitionError, in_a_line
from penstock.model.catalog import Broken, Catalog
from penstock.model.definition import Table
from penstock.model.kinds import Latest, Totals
from penstock.model.names import TableName
from penstock.runtime.code.bundle import Bundle
from penstock.runtime.code.fingerprint import fingerprint
from penstock.runtime.declared.checks import check_inputs, check_output
from penstock.runtime.kinds.batch import recompute, transform_inputs
from penstock.runtime.kinds.build import changes, typed_input
from penstock.runtime.kinds.prepared import jobs_begun
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Analysed", "analyse", "analysed_bundle"]


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


def analysed_bundle(session: SparkSession, settings: Settings, address: str) -> Analysed:
    """The tables of a stored bundle, as ``analyse`` finds them."""
    root = settings.bundles / address
    catalog = Bundle(root, settings.jobs).catalog()
    file = root / f".analysed-{_engine()}.json"
    known = _remembered(file, catalog)
    if known is not None:
        return known
    found = analyse(session, catalog)
    fresh = file.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(_told(found)))
    fresh.replace(file)
    return found


def _remembered(file: Path, catalog: Catalog) -> Analysed | None:
    from pyspark.sql.types import StructType

    try:
        told = json.loads(file.read_text())
        tables = {TableName.parse(name): table for name, table in told["tables"].items()}
        return Analysed(
            catalog,
            {name: table["revision"] for name, table in tables.items()},
            {name: StructType.fromJson(table["schema"]) for name, table in tables.items()},
            told["published"],
            [*catalog.broken, *(Broken(**broken) for broken in told["broken"])],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _told(found: Analysed) -> dict[str, Any]:
    loaded = len(found.catalog.broken)  # found again whenever the code is loaded
    return {
        "tables": {
            str(name): {"revision": revision, "schema": json.loads(found.schemas[name].json())}
            for name, revision in found.revisions.items()
        },
        "published": found.published,
        "broken": [{"what": b.what, "reason": b.reason} for b in found.broken[loaded:]],
    }


@functools.cache
def _engine() -> str:
    """Whatever else the answer depends on: this package, Python and Spark."""
    from pyspark import __version__ as spark

    package = Path(penstock.__file__).parent
    digest = hashlib.sha256(f"{sys.version} {spark}".encode())
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
