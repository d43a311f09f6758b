"""OpenLineage events: shaped as the standard says, kept in a file or sent to a real server."""

from __future__ import annotations

import datetime as dt
import json
import os
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from penstock.errors import EnvironmentProblem, ServiceFailed
from penstock.lineage.events import emit, run_event
from penstock.settings import Settings

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "k", "type": "string", "nullable": True, "metadata": {}},
        {"name": "price", "type": "decimal(10,2)", "nullable": True, "metadata": {}},
        {"name": "where", "type": {"type": "struct", "fields": [
            {"name": "x", "type": "double"}]}},
        {"name": "tags", "type": {"type": "array", "elementType": "string"}},
        {"name": "more", "type": {"type": "map", "keyType": "string", "valueType": "long"}},
    ],
}  # fmt: skip
ENTRIES: dict[str, dict[str, Any]] = {
    "bronze.a": {"name": "bronze.a", "kind": "stream", "topic": "topic-a", "owner": "plant",
                 "contract": {"schema": {"type": "record", "fields": [
                     {"name": "k", "type": ["null", "string"]},
                     {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
                 ]}}},
    "silver.a": {"name": "silver.a", "kind": "rows", "inputs": {"a": "bronze.a"},
                 "revision": "s1", "schema": SCHEMA, "freshness": "continuous"},
    "gold.a": {"name": "gold.a", "kind": "group", "inputs": {"x": "silver.a", "y": "silver.a"},
               "revision": "g1", "schema": SCHEMA, "freshness": "batch", "doc": "Sums.",
               "owner": "shop"},
}  # fmt: skip


@pytest.fixture
def project(settings: Settings, tmp_path):
    """Settings of a project whose file has what a test writes into it."""

    def make(line: str = "") -> Settings:
        (tmp_path / "pyproject.toml").write_text(f"[tool.penstock]\n{line}\n")
        return replace(settings, project=tmp_path)

    return make


def facets(told: Any) -> Iterator[dict[str, Any]]:
    """Every facet of an event, wherever it hangs."""
    if isinstance(told, dict):
        yield from told.get("facets", {}).values()
        for value in told.values():
            yield from facets(value)
    elif isinstance(told, list):
        for value in told:
            yield from facets(value)


@pytest.mark.parametrize("table", ENTRIES)
def test_an_event_has_all_the_standard_requires(settings, table):
    event = run_event(settings, ENTRIES, table, ENTRIES[table].get("revision", ""), code="c0de")
    assert json.loads(json.dumps(event)) == event
    assert event["eventType"] in ("START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER")
    assert dt.datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    uuid.UUID(event["run"]["runId"])
    assert event["job"]["namespace"]
    assert event["job"]["name"] == table
    assert event["schemaURL"].endswith("/OpenLineage.json#/$defs/RunEvent")
    for dataset in [*event["inputs"], *event["outputs"]]:
        assert dataset["namespace"]
        assert dataset["name"]
    listed = list(facets(event))
    assert listed
    for facet in listed:
        for address in (facet["_producer"], facet["_schemaURL"]):
            assert urlsplit(address).scheme in ("urn", "https")


def test_a_table_reads_and_writes_live_paths_once_each(settings):
    event = run_event(settings, ENTRIES, "gold.a", "g1")
    (read,), (written,) = event["inputs"], event["outputs"]
    assert (read["namespace"], read["name"]) == ("file", str(settings.warehouse / "silver" / "a"))
    assert written["name"] == str(settings.warehouse / "gold" / "a")
    (also,) = written["facets"]["symlinks"]["identifiers"]
    assert also["name"] == "gold.a"


def test_bronze_reads_a_topic_with_the_columns_of_its_contract(settings):
    (topic,) = run_event(settings, ENTRIES, "bronze.a")["inputs"]
    assert topic["namespace"] == f"kafka://{settings.kafka_bootstrap}"
    assert topic["name"] == "topic-a"
    assert topic["facets"]["schema"]["fields"] == [
        {"name": "k", "type": "string"},
        {"name": "t", "type": "timestamp-micros"},
    ]


def test_columns_are_told_with_what_is_inside_them(settings):
    (written,) = run_event(settings, ENTRIES, "silver.a", "s1")["outputs"]
    assert written["facets"]["schema"]["fields"] == [
        {"name": "k", "type": "string"},
        {"name": "price", "type": "decimal(10,2)"},
        {"name": "where", "type": "struct", "fields": [{"name": "x", "type": "double"}]},
        {"name": "tags", "type": "array", "fields": [{"name": "_element", "type": "string"}]},
        {"name": "more", "type": "map", "fields": [
            {"name": "_key", "type": "string"}, {"name": "_value", "type": "long"}]},
    ]  # fmt: skip


def test_a_revision_is_one_run_however_often_it_is_told(settings):
    ids = [run_event(settings, ENTRIES, "gold.a", r)["run"]["runId"] for r in ("g1", "g1", "g2")]
    assert ids[0] == ids[1] != ids[2]
    other = run_event(settings, ENTRIES, "silver.a", "g1")["run"]["runId"]
    assert other != ids[0]
    told = run_event(settings, ENTRIES, "gold.a", "g1", code="c0de")["run"]["facets"]
    assert told["penstock_revision"]["revision"] == "g1"
    assert told["penstock_revision"]["code"] == "c0de"


def test_streams_run_and_batches_complete(settings):
    stream = run_event(settings, ENTRIES, "silver.a", "s1")
    batch = run_event(settings, ENTRIES, "gold.a", "g1")
    assert (stream["eventType"], batch["eventType"]) == ("RUNNING", "COMPLETE")
    assert stream["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert batch["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    assert batch["job"]["facets"]["documentation"]["description"] == "Sums."
    assert batch["job"]["facets"]["ownership"]["owners"] == [{"name": "team:shop", "type": "OWNER"}]


def test_the_moment_is_told_in_utc(settings):
    moment = dt.datetime(2026, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    event = run_event(settings, ENTRIES, "gold.a", "g1", at=moment)
    assert event["eventTime"] == "2026-01-01T00:00:00.000Z"


# --- where events go ----------------------------------------------------------------------------
def test_without_an_address_events_are_lines_of_a_file(project):
    settings = project()
    events = [run_event(settings, ENTRIES, table) for table in ENTRIES]
    places = {emit(events[:1], settings), emit(events[1:], settings)}
    file = settings.home / "lineage" / "events.jsonl"
    assert places == {str(file)}
    assert [json.loads(line) for line in file.read_text().splitlines()] == events


class _Server(HTTPServer):
    got: list[tuple[str, Any]]
    status = 201


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, json.loads(body)))  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        return


@pytest.fixture
def server():
    server = _Server(("127.0.0.1", 0), _Handler)
    server.got = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("typed", "path"), [("", "/api/v1/lineage"), ("/", "/api/v1/lineage"), ("/mine", "/mine")]
)
def test_with_an_address_events_are_sent_there(project, server, typed, path):
    settings = project(f'openlineage_url = "http://127.0.0.1:{server.server_port}{typed}"')
    event = run_event(settings, ENTRIES, "gold.a", "g1")
    assert emit([event], settings) == f"http://127.0.0.1:{server.server_port}{path}"
    assert server.got == [(path, event)]
    assert not (settings.home / "lineage").exists()


def test_a_proxy_in_the_environment_does_not_change_the_way(project, server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    settings = project(f'openlineage_url = "http://127.0.0.1:{server.server_port}"')
    emit([run_event(settings, ENTRIES, "gold.a", "g1")], settings)
    assert len(server.got) == 1


def test_a_server_that_refuses_is_an_error_that_says_so(project, server):
    server.status = 422
    settings = project(f'openlineage_url = "http://127.0.0.1:{server.server_port}"')
    with pytest.raises(ServiceFailed, match="status 422"):
        emit([{"eventType": "RUNNING"}], settings)


def test_a_server_that_is_not_there_is_an_error_without_its_password(project):
    settings = project('openlineage_url = "http://me:s3cret@127.0.0.1:9/?key=s3cret"')
    with pytest.raises(ServiceFailed) as error:
        emit([{"eventType": "RUNNING"}], settings)
    assert "127.0.0.1:9" in str(error.value)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    "value", ['"ftp://me:s3cret@x"', '"nowhere"', "7", '""', '"http://me:s3cret@x:port"']
)
def test_an_address_that_is_none_is_said_without_its_password(project, value):
    with pytest.raises(EnvironmentProblem, match="openlineage_url") as error:
        emit([{}], project(f"openlineage_url = {value}"))
    assert "s3cret" not in str(error.value)


def test_a_file_that_takes_nothing_is_an_error_that_says_so(project):
    settings = project()
    (settings.home / "lineage" / "events.jsonl").mkdir(parents=True)
    with pytest.raises(EnvironmentProblem, match="cannot be kept"):
        emit([{}], settings)


def test_a_disk_that_takes_half_a_line_is_full(project, monkeypatch):
    monkeypatch.setattr(os, "write", lambda handle, line: len(line) - 1)
    with pytest.raises(EnvironmentProblem, match="No space left"):
        emit([{}], project())
