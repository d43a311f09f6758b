"""Kafka: KRaft nodes, SCRAM-SHA-512 for everybody, nothing allowed that no ACL names."""

from __future__ import annotations

import shutil
import threading
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.platform import jars
from penstock.platform.files import private_folder, write_private
from penstock.platform.java import java_executable
from penstock.platform.kafka_admin import (
    await_brokers,
    broker_answers,
    missing_replicas,
    provision,
)
from penstock.platform.ports import is_open
from penstock.platform.service import Report, Service
from penstock.settings import HOST

__all__ = ["Kafka"]

_ONE_BY_ONE = threading.Lock()


class Kafka(Service):
    """A broker, run with plain `java` from the fetched jars; it is a controller too.

    **One or three.** Three vote together, keep three replicas and acknowledge what two of them
    hold, so one may die. They share a cluster id, which the first to be formatted makes; topics,
    users and ACLs are brought about by the first one, once all are there.

    **How it starts for the first time.** The storage is formatted with the admin's credential in
    it (an empty cluster would let nobody in to make the first one); the password reaches the tool
    through an argument file of mode 0600, not through its command line. A formatted folder is
    marked; one without the mark was interrupted, holds nothing, and is formatted anew.
    """

    name = "kafka"

    @property
    def data(self) -> Path:
        return self.settings.data / self.name

    def files(self) -> Mapping[str, str]:
        brokers = [s for s in self.platform.services.values() if s.base == Kafka.name]
        voters = [f"{s.number}@{HOST}:{self.settings.port(s.ports[1])}" for s in brokers]
        server = self.render(
            "kafka/server.properties",
            node=self.spec.number,
            voters=",".join(voters),
            replicas=len(brokers),
            enough=len(brokers) // 2 + 1,
            # The last to leave would ask a quorum that is gone for leave, until it is killed.
            asks_for_leave="true" if len(brokers) == 1 else "false",
            broker_port=self.settings.port(self.spec.ports[0]),
            controller_port=self.settings.port(self.spec.ports[1]),
            admin_password=self.settings.secret("kafka-admin"),
            controller_password=self.settings.secret("kafka-controller"),
            max_message_bytes=self.platform.max_message_bytes,
            data=self.data,
        )
        return {"server.properties": server, "log4j2.yaml": self.render("kafka/log4j2.yaml")}

    def command(self) -> Sequence[str]:
        return [*self._java(f"-Xmx{self.spec.heap}"), "kafka.Kafka", self._properties]

    @property
    def _properties(self) -> str:
        return str(self.etc / "server.properties")

    def _java(self, *options: str) -> list[str]:
        libraries = jars.require(self.settings, "kafka")
        java = [str(java_executable(self.settings)), *options]
        java += ["-XX:+UseSerialGC", "-Djava.awt.headless=true"]
        java += [f"-Dlog4j2.configurationFile={self.etc / 'log4j2.yaml'}"]
        return [*java, "-cp", f"{libraries}/*"]

    def prepare(self, report: Report) -> None:
        mark = self.data / "formatted-by-penstock"
        if mark.is_file():
            return
        report("formatting storage")
        shutil.rmtree(self.data, ignore_errors=True)
        private_folder(self.data)
        arguments = self.etc / "format.args"
        try:
            java, *options = self._java()
            write_private(arguments, self.format_arguments(options))
            self.run_once([java, f"@{arguments}"], "format its storage")
        finally:
            arguments.unlink(missing_ok=True)
        mark.touch(mode=0o600)

    def format_arguments(self, options: Sequence[str]) -> str:
        """One argument per line, quoted as java's argument files want it."""
        cluster_id = self._cluster_id()
        password = self.settings.secret("kafka-admin")
        # In one word: an id may begin with a dash.
        arguments = [*options, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}"]
        arguments += ["--config", self._properties]
        arguments += ["--add-scram", f"SCRAM-SHA-512=[name=admin,password={password}]"]
        return "".join('"{}"\n'.format(a.replace("\\", "\\\\")) for a in arguments)

    def _cluster_id(self) -> str:
        """A new one, or that of the brokers it is one of."""
        made = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if self.settings.brokers == 1:
            return made
        file = self.settings.data / "kafka-cluster-id"
        with _ONE_BY_ONE:  # they are formatted side by side, in threads of one command
            if not file.is_file():
                write_private(file, made)
            return file.read_text()

    def ready(self) -> bool:
        host = self.settings.host(Kafka.name)
        return is_open(self.port(), host) and broker_answers(
            self.settings, self.spec.number, f"{host}:{self.port()}"
        )

    def provision(self, report: Report) -> None:
        if self.spec.number > 1:
            return
        if self.settings.brokers > 1:
            report("waiting for the other brokers")
            await_brokers(self.settings, self.settings.brokers, self.spec.ready_within)
        provision(self.settings, self.platform)

    def detail(self) -> str:
        """Of several brokers: whether what it should hold is all there."""
        if self.settings.brokers == 1:
            return ""
        missing = missing_replicas(self.settings, self.spec.number)
        return "all replicas in sync" if not missing else f"{missing} replicas behind"
