"""Kafka Connect with Debezium: the shop's changes, exactly once, into Kafka."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.errors import ServiceFailed
from penstock.platform import jars
from penstock.platform.http import Answer, ask
from penstock.platform.java import java_executable
from penstock.platform.mirror import connector_config, jaas_escaped
from penstock.platform.service import Report, Service
from penstock.runtime.ingest.mirrors import mirrors
from penstock.settings import HOST

__all__ = ["Connect"]

_JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="connect" password="{password}";'
)
_REST_USER = "penstock"
_DEBEZIUM = "postgres-debezium"
_NOT_FOUND = 404
_CONFLICT, _FAILED, _UNAVAILABLE = 409, 500, 503


class Connect(Service):
    """One distributed worker and its connectors (every ``infra/connect/*.json``).

    Its REST interface can start code and read the worker's secrets through a connector's
    configuration, so it asks for a password even on loopback.
    """

    name = "connect"

    @property
    def _secrets_file(self) -> Path:
        return self.etc / "secrets.properties"

    def files(self) -> Mapping[str, str]:
        secret = self.settings.secret
        worker = self.render(
            "connect/worker.properties",
            bootstrap=",".join(f"{HOST}:{port}" for port in self.settings.broker_ports),
            replicas=self.settings.brokers,
            port=self.port(),
            plugins=jars.require(self.settings, "debezium"),
            secrets_file=self._secrets_file,
            jaas=_JAAS.format(password=secret("kafka-connect")),
            max_message_bytes=self.platform.max_message_bytes,
        )
        login = (
            f'KafkaConnect {{\n  {_LOGIN_MODULE} required file="{self.etc}/rest.properties";\n}};\n'
        )
        return {
            "worker.properties": worker,
            "rest.jaas": login,
            "rest.properties": f"{_REST_USER}={secret('connect-rest')}\n",
            "secrets.properties": "".join(self._named_secrets()),
            "log4j2.yaml": self.render("kafka/log4j2.yaml"),
        }

    def _named_secrets(self) -> Iterator[str]:
        """Secrets that connectors refer to, a line each.

        Those of Kafka stand between the quotes of a login, so they are escaped for that first.
        """
        secret = self.settings.secret
        yield _property(_DEBEZIUM, secret(_DEBEZIUM))
        copied = [mirror.secret for mirror in mirrors(self.settings)]
        for name in ["kafka-connect", *copied] if copied else []:
            yield _property(name, jaas_escaped(secret(name)))

    def command(self) -> Sequence[str]:
        libraries = jars.require(self.settings, "kafka")
        java = [str(java_executable(self.settings)), f"-Xmx{self.spec.heap}", "-XX:+UseSerialGC"]
        java += [f"-Djava.security.auth.login.config={self.etc / 'rest.jaas'}"]
        java += [f"-Dlog4j2.configurationFile={self.etc / 'log4j2.yaml'}"]
        java += ["-cp", f"{libraries}/*", "org.apache.kafka.connect.cli.ConnectDistributed"]
        return [*java, str(self.etc / "worker.properties")]

    def _rest(self, path: str, method: str = "GET", body: Any = None) -> Answer:
        user = (_REST_USER, self.settings.secret("connect-rest"))
        url = f"http://{self.settings.host(self.name)}:{self.port()}{path}"
        return ask(url, method=method, body=body, user=user, timeout=15)

    def ready(self) -> bool:
        return self._rest("/connectors").ok

    def provision(self, report: Report) -> None:
        for name, config in self._connectors():
            current = self._settled(f"/connectors/{name}/config")
            if current.ok and current.body == config | {"name": name}:
                continue
            report(f"connector {name}")
            answer = self._settled(f"/connectors/{name}/config", "PUT", config)
            if not answer.ok:
                raise ServiceFailed(
                    f"Connect refused the connector {name} (status {answer.status}): "
                    f"{_reason(answer)}",
                    remedy=f"See {self.log} and infra/connect; then run `penstock up` again.",
                )

    def _settled(self, path: str, method: str = "GET", body: Any = None) -> Answer:
        """What it says once it has joined its group.

        It lists connectors before that. After a kill the group waits for the worker that is gone,
        10 s and longer on busy cores; until then a question about one connector is not answered.
        """
        deadline = time.monotonic() + self.spec.ready_within
        while True:
            answer = self._rest(path, method, body)
            if not _joining(answer) or self._ended() or time.monotonic() > deadline:
                return answer
            self._check_cancelled()
            self.cancelled.wait(0.5)

    def _connectors(self) -> list[tuple[str, dict[str, str]]]:
        found = []
        for file in sorted((self.settings.project / "infra" / "connect").glob("*.json")):
            text = self.render(
                f"connect/{file.name}",
                postgres_port=self.settings.port("postgres"),
                secrets_file=self._secrets_file,
            )
            declared = json.loads(text)
            # The file names loopback, where the database is unless it is a container.
            config = declared["config"] | {"database.hostname": self.settings.host("postgres")}
            found.append((declared["name"], config))
        for mirror in mirrors(self.settings):
            config = connector_config(self.settings, mirror, self._secrets_file)
            found.append((mirror.connector, config))
        return found

    def drop(self, name: str) -> None:
        """Let a connector end; nobody minds if it is gone already.

        Raises:
            ServiceFailed: Connect does not answer, or refuses; the connector goes on.
        """
        answer = self._rest(f"/connectors/{name}", "DELETE")
        if not answer.ok and answer.status != _NOT_FOUND:
            raise ServiceFailed(
                f"Connect did not drop the connector {name} (status {answer.status}): "
                f"{_reason(answer)}",
                remedy=f"See {self.log}; then try again.",
            )

    def state_of(self, name: str) -> str:
        """The worst state among a connector and its tasks."""
        return _state(self._rest(f"/connectors/{name}/status")).lower()

    def detail(self) -> str:
        """Connectors that do not run, or how many do."""
        names = [name for name, _ in self._connectors()]
        states = {name: _state(self._rest(f"/connectors/{name}/status")) for name in names}
        wrong = [f"{name} {state.lower()}" for name, state in states.items() if state != "RUNNING"]
        plural = "s" if len(states) > 1 else ""
        return ", ".join(wrong) or f"{len(states)} connector{plural} running"


_LOGIN_MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


def _property(name: str, value: str) -> str:
    """A line of a Java properties file, in which a backslash begins an escape."""
    escaped = value.replace("\\", "\\\\")
    return f"{name}={escaped}\n"


def _joining(answer: Answer) -> bool:
    """It says nothing yet, or that it is not done with coming into its group."""
    if answer.status == _FAILED:
        return "timed out" in _reason(answer).lower()
    return answer.status in {0, _CONFLICT, _UNAVAILABLE}


def _reason(answer: Answer) -> str:
    said = answer.body.get("message", "") if isinstance(answer.body, dict) else str(answer.body)
    return str(said).split("\n", 1)[0][:200]


def _state(answer: Answer) -> str:
    """The worst state among a connector and its tasks."""
    if not answer.ok:
        return "MISSING"
    states = [answer.body["connector"]["state"], *(t["state"] for t in answer.body["tasks"])]
    return next((state for state in states if state != "RUNNING"), "RUNNING")
