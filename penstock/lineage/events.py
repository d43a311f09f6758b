"""OpenLineage events, from what is declared: which job reads what and writes what.

**Purpose.** Catalogues that speak OpenLineage draw our tables without an agent inside Spark, which
loses the outputs of Delta streams. One event describes one revision of one table: its job, the
datasets it reads and the one it writes, with columns.

**How it works.** A table is a job, a revision is a run of it: the run's id is made from both names,
so an event sent twice is the same run. Datasets are named by the path of the live table, which
never changes, with the table's own name as a second identifier; topics by broker and name. An event
goes to a file, one JSON object a line, or to the address in the project file.

**What it does not do.** Report every commit: those are in the tables' own logs, with positions.
When something is told is the matter of ``announce.py``.
"""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock import __version__
from penstock.errors import EnvironmentProblem, ServiceFailed
from penstock.lineage.address import address, events_file, shown
from penstock.location import dataset
from penstock.model.names import TableName
from penstock.runtime.delta.writer import live_path

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.settings import Settings

__all__ = ["emit", "run_event"]

Event = dict[str, Any]

NAMESPACE = "penstock"
PRODUCER = f"urn:penstock:{__version__}"
_SPEC = "https://openlineage.io/spec"
_RUN_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = {  # facet -> version and name of its schema
    "schema": "1-1-1/SchemaDatasetFacet",
    "symlinks": "1-0-1/SymlinksDatasetFacet",
    "documentation": "1-0-1/DocumentationJobFacet",
    "ownership": "1-0-1/OwnershipJobFacet",
    "jobType": "2-0-3/JobTypeJobFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
}
_TIMEOUT_SECONDS = 10.0


# --- making -----------------------------------------------------------------------------------
def run_event(
    settings: Settings,
    entries: Mapping[str, Mapping[str, Any]],
    table: str,
    revision: str = "",
    *,
    code: str = "",
    at: dt.datetime | None = None,
) -> Event:
    """One event about one revision of a table; bronze has no revision.

    Args:
        entries: the manifest's entries by name.
        code: the address of the revision's code bundle, where it is known.
    """
    entry = entries[table]
    moment = (at or dt.datetime.now(dt.UTC)).astimezone(dt.UTC)
    batch = entry.get("freshness") == "batch"
    stream = entry.get("topic")
    sources = [_topic(settings, entry)] if stream else [
        _dataset(settings, entries, name)
        for name in dict.fromkeys((entry.get("inputs") or {}).values())
    ]  # fmt: skip
    return {
        # A stream has no end to report: it is running whenever one looks.
        "eventType": "COMPLETE" if batch else "RUNNING",
        "eventTime": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "producer": PRODUCER,
        "schemaURL": _RUN_EVENT,
        "run": {
            "runId": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{settings.home}#{table}@{revision}")),
            "facets": _run_facets(revision, code),
        },
        "job": {
            "namespace": NAMESPACE,
            "name": table,
            "facets": _job_facets(entry, batch=batch),
        },
        "inputs": sources,
        "outputs": [_dataset(settings, entries, table)],
    }


def _facet(facet: str, /, **told: Any) -> Event:
    address = _FACETS.get(facet)
    url = (
        f"{_SPEC}/facets/{address}.json#/$defs/{address.partition('/')[2]}"
        if address
        else f"urn:penstock:facet:{facet}"  # of our own
    )
    return {"_producer": PRODUCER, "_schemaURL": url, **told}


def _run_facets(revision: str, code: str) -> Event:
    facets = {
        "processing_engine": _facet("processing_engine", name="penstock", version=__version__)
    }
    if revision:
        told = {"revision": revision, **({"code": code} if code else {})}
        facets["penstock_revision"] = _facet("penstock_revision", **told)
    return facets


def _job_facets(entry: Mapping[str, Any], *, batch: bool) -> Event:
    facets = {
        "jobType": _facet(
            "jobType",
            processingType="BATCH" if batch else "STREAMING",
            integration="PENSTOCK",
            jobType=str(entry.get("kind") or "table").upper(),
        )
    }
    if entry.get("doc"):
        facets["documentation"] = _facet("documentation", description=str(entry["doc"]))
    if entry.get("owner"):
        owner = {"name": f"team:{entry['owner']}", "type": "OWNER"}
        facets["ownership"] = _facet("ownership", owners=[owner])
    return facets


def _dataset(settings: Settings, entries: Mapping[str, Mapping[str, Any]], table: str) -> Event:
    also = {"namespace": NAMESPACE, "name": table, "type": "TABLE"}
    facets = {"symlinks": _facet("symlinks", identifiers=[also])}
    fields = ((entries.get(table) or {}).get("schema") or {}).get("fields")
    if fields:
        facets["schema"] = _facet("schema", fields=[_field(f["name"], f["type"]) for f in fields])
    namespace, name = dataset(live_path(settings.warehouse, TableName.parse(table)))
    return {"namespace": namespace, "name": name, "facets": facets}


def _topic(settings: Settings, entry: Mapping[str, Any]) -> Event:
    """A topic, with the columns its contract promises where that lists them."""
    contract = (entry.get("contract") or {}).get("schema")
    fields = contract.get("fields") if isinstance(contract, dict) else None
    listed = [{"name": str(f["name"]), "type": _avro(f.get("type"))} for f in fields or ()]
    return {
        "namespace": f"kafka://{settings.kafka_bootstrap}",
        "name": str(entry["topic"]),
        "facets": {"schema": _facet("schema", fields=listed)} if listed else {},
    }


def _field(name: str, kind: Any) -> Event:
    """A column as Spark's schema has it; inner columns are named as OpenLineage names them."""
    if isinstance(kind, str):
        return {"name": name, "type": kind}
    if kind["type"] == "struct":
        inner = [_field(f["name"], f["type"]) for f in kind["fields"]]
    elif kind["type"] == "array":
        inner = [_field("_element", kind["elementType"])]
    elif kind["type"] == "map":
        inner = [_field("_key", kind["keyType"]), _field("_value", kind["valueType"])]
    else:
        inner = []
    return {"name": name, "type": str(kind["type"]), **({"fields": inner} if inner else {})}


def _avro(kind: Any) -> str:
    if isinstance(kind, dict):
        return str(kind.get("logicalType") or kind.get("type"))
    if isinstance(kind, list):
        return _avro(next((k for k in kind if k != "null"), "null"))
    return str(kind)


# --- sending ----------------------------------------------------------------------------------
def emit(events: Sequence[Event], settings: Settings, *, seconds: float = _TIMEOUT_SECONDS) -> str:
    """Send events to the project's ``openlineage_url``, or keep them in a file; returns where.

    Args:
        seconds: how long a server may take for one step of an answer.

    Raises:
        EnvironmentProblem: the address in the project file is none, or the file takes nothing.
        ServiceFailed: nobody takes the events there.
    """
    url = address(settings)
    return _keep(events, settings) if url is None else _post(events, url, seconds)


def _keep(events: Sequence[Event], settings: Settings) -> str:
    file = events_file(settings)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        _append(file, events)
    except OSError as error:
        raise EnvironmentProblem(
            f"events cannot be kept in {file}: {error.strerror or type(error).__name__}.",
            remedy="Make room, and see who owns the file; then `penstock lineage --emit`.",
        ) from None
    return str(file)


def _append(file: Path, events: Sequence[Event]) -> None:
    # One write per line to a file opened for appending: two commands at once do not mix theirs.
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        for event in events:
            line = json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n"
            if os.write(handle, line.encode()) < len(line.encode()):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(handle)


def _post(events: Sequence[Event], url: str, seconds: float) -> str:
    import httpx

    try:
        # The project names the address; a proxy from the environment must not change the way there.
        with httpx.Client(timeout=seconds, trust_env=False) as client:
            answers = (client.post(url, json=event) for event in events)
            refused = next((answer for answer in answers if not answer.is_success), None)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = f"does not take events: {type(error).__name__}"
    else:
        if refused is None:
            return shown(url)
        reason = f"refused an event: status {refused.status_code}"
    raise ServiceFailed(
        f"{shown(url)} {reason}.",
        remedy="Start the server, or take openlineage_url out of pyproject.toml to keep events "
        "in a file.",
    )
