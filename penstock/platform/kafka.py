"""Kafka: one KRaft node, SCRAM-SHA-512 for everybody, nothing allowed that no ACL names."""

from __future__ import annotations

import shutil
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.platform import jars
from penstock.platform.files import private_folder, write_private
from penstock.platform.java import java_executable
from penstock.platform.kafka_admin import broker_answers, provision
from penstock.platform.ports import is_open
from penstock.platform.service import Report, Service

__all__ = ["Kafka"]


class Kafka(Service):
    """The broker, run with plain `java` from the fetched jars.

    **How it starts for the first time.** The storage is formatted with the admin's credential in
    it (an empty cluster would let nobody in to make the first one); the password reaches the tool
    through an argument file of mode 0600, not through its command line. A formatted folder is
    marked; one without the mark was interrupted, holds nothing, and is formatted anew.
    """

    name = "kafka"

    @property
    def data(self) -> Path:
        return self.settings.data / "kafka"

    def files(self) -> Mapping[str, str]:
        server = self.render(
            "kafka/server.properties",
            broker_port=self.settings.port("kafka"),
            controller_port=self.settings.port("kafka-controller"),
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
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        password = self.settings.secret("kafka-admin")
        # In one word: an id may begin with a dash.
        arguments = [*options, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}"]
        arguments += ["--config", self._properties]
        arguments += ["--add-scram", f"SCRAM-SHA-512=[name=admin,password={password}]"]
        return "".join('"{}"\n'.format(a.replace("\\", "\\\\")) for a in arguments)

    def ready(self) -> bool:
        open_ = is_open(self.port(), self.settings.host(self.name))
        return open_ and broker_answers(self.settings)

    def provision(self, report: Report) -> None:
        provision(self.settings, self.platform)
