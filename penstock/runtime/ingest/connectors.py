"""Connectors: which database tables become which topics, and how Connect is asked about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pg8000.native

from penstock.database import connect
from penstock.errors import NotRunning, ServiceFailed
from penstock.settings import Settings

__all__ = [
    "OWNER",
    "READER",
    "Capture",
    "Connector",
    "Reading",
    "capture_of",
    "captures",
    "source_database",
]

READER = "analyst"  # reads the source and its slots, and nothing else
OWNER = "debezium"  # whose slot it is


# --- what is captured -------------------------------------------------------------------------
@dataclass(frozen=True)
class Capture:
    """One connector: a database, its slot and the tables whose changes become topics."""

    connector: str
    prefix: str
    database: str
    slot: str
    tables: tuple[str, ...]  # schema.table

    @property
    def topics(self) -> list[str]:
        return [f"{self.prefix}.{table}" for table in self.tables]


def captures(project: Path) -> list[Capture]:
    """What ``infra/connect`` declares; nothing in a project without it."""
    found = []
    for file in sorted((project / "infra" / "connect").glob("*.json")):
        declared = json.loads(file.read_text())
        config = declared["config"]
        if not str(config.get("connector.class", "")).endswith(".PostgresConnector"):
            continue
        found.append(
            Capture(
                connector=declared["name"],
                prefix=config["topic.prefix"],
                database=config["database.dbname"],
                slot=config["slot.name"],
                tables=tuple(t.strip() for t in config["table.include.list"].split(",")),
            )
        )
    return found


def capture_of(project: Path, topic: str) -> Capture:
    for capture in captures(project):
        if topic in capture.topics:
            return capture
    raise ServiceFailed(
        f"no connector in infra/connect captures a table into the topic {topic}.",
        remedy="Add the table to table.include.list of its connector; then `penstock up`.",
    )


@contextmanager
def source_database(
    settings: Settings, database: str, role: str = READER
) -> Iterator[pg8000.native.Connection]:
    """A connection to a captured database; ends with the block."""
    what = f"the source database {database}"
    connection = connect(settings, role, database, what=what, timeout=30)
    with closing(connection):
        yield connection


# --- Connect ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Reading:
    """What Connect says of a connector; ``None`` where it says nothing."""

    state: str | None = None
    trouble: str = ""
    position: int | None = None  # the LSN up to which its records are in Kafka


class Connector:
    """One connector, through Connect's own interface."""

    def __init__(self, settings: Settings, name: str, timeout: float = 15.0) -> None:
        self.name = name
        self._url = f"http://{settings.host('connect')}:{settings.port('connect')}"
        self._login = ("penstock", settings.secret("connect-rest"))
        self._timeout = timeout

    def _send(self, method: str, path: str) -> httpx.Response | None:
        """None when nobody answers."""
        try:
            with httpx.Client(
                auth=self._login, timeout=self._timeout, trust_env=False
            ) as client:  # loopback or our own network: no proxy gets between
                return client.request(method, f"{self._url}/connectors/{self.name}{path}")
        except httpx.HTTPError:
            return None

    def read(self) -> Reading:
        status = self._send("GET", "/status")
        if status is None or status.status_code != 200:
            return Reading("MISSING" if status is not None else None)
        told = status.json()
        parts = [told["connector"], *told["tasks"]]
        failed = next((p for p in parts if p["state"] == "FAILED"), None)
        state = failed or next((p for p in parts if p["state"] != "RUNNING"), parts[0])
        trouble = _gist(failed.get("trace", "it does not say why")) if failed else ""
        return Reading(str(state["state"]), trouble, self._position())

    def _position(self) -> int | None:
        answer = self._send("GET", "/offsets")
        if answer is None or answer.status_code != 200:
            return None
        known = [
            int(entry["offset"][name])
            for entry in answer.json()["offsets"]
            if entry.get("offset")
            for name in ("lsn", "lsn_proc", "lsn_commit")
            if entry["offset"].get(name) is not None
        ]
        return max(known, default=None)

    def require_running(self) -> None:
        """Raise, with what to type next, unless the connector does its work."""
        reading = self.read()
        if reading.state is None:
            raise NotRunning("Kafka Connect does not answer.", remedy="Run `penstock up`.")
        if reading.state != "RUNNING":
            said = f": {reading.trouble}" if reading.trouble else "."
            raise ServiceFailed(
                f"the connector {self.name} is {reading.state.lower()}{said}",
                remedy="See docs/cdc.md, `When the slot is lost`, and logs/connect.log.",
            )

    # --- a new snapshot -------------------------------------------------------------------
    def stop(self) -> None:
        self._must("PUT", "/stop")

    def stopped(self) -> bool:
        return self.read().state == "STOPPED"

    def forget_position(self) -> None:
        """Without a position the connector takes a snapshot of every table when it resumes."""
        self._must("DELETE", "/offsets")

    def resume(self) -> None:
        self._must("PUT", "/resume")

    def _must(self, method: str, path: str) -> None:
        answer = self._send(method, path)
        if answer is None:
            raise NotRunning("Kafka Connect does not answer.", remedy="Run `penstock up`.")
        if not answer.is_success:
            raise ServiceFailed(
                f"Connect refused {method} {path} of {self.name}: {answer.text[:200]}",
                remedy="See logs/connect.log; then try again.",
            )


def _gist(trace: str) -> str:
    """The first sentence of a Java trace, without the innards of its objects."""
    line = trace.splitlines()[0].rpartition("Exception: ")[2]
    if "no longer available on the server" in line:
        return "the position it reached is no longer available on the server"
    return line[:200]
