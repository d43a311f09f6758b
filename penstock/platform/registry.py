"""The schema registry: Apicurio, its schemas in Postgres, spoken to through Confluent's API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import ServiceFailed
from penstock.platform import jars
from penstock.platform.http import ask
from penstock.platform.java import java_executable
from penstock.platform.service import Report, Service

__all__ = ["SchemaRegistry"]

# Code that is warm must read what newer writers write and the other way round, or going back to it
# would lose rows; so a schema may change only in ways every version understands.
COMPATIBILITY = "FULL_TRANSITIVE"


class SchemaRegistry(Service):
    """One JVM. It reads ``config/application.properties`` in the folder it is started in."""

    name = "registry"

    def files(self) -> Mapping[str, str]:
        properties = self.render(
            "registry/application.properties",
            port=self.port(),
            postgres_port=self.settings.port("postgres"),
            password=self.settings.secret("postgres-registry"),
        )
        return {"config/application.properties": properties}

    def command(self) -> Sequence[str]:
        home = jars.require(self.settings, "apicurio")
        runner = next(home.glob("apicurio-registry-app-*-runner.jar"))
        java = [str(java_executable(self.settings)), f"-Xmx{self.spec.heap}", "-XX:+UseSerialGC"]
        java += ["-XX:TieredStopAtLevel=1"]  # it starts in half the time and is never busy
        return [*java, "-jar", str(runner)]

    def ready(self) -> bool:
        return ask(f"{self.settings.registry_url}/subjects").ok

    def provision(self, report: Report) -> None:
        address = f"{self.settings.registry_url}/config"
        current = ask(address)
        if current.ok and current.body.get("compatibilityLevel") == COMPATIBILITY:
            return
        answer = ask(address, method="PUT", body={"compatibility": COMPATIBILITY})
        if not answer.ok:
            raise ServiceFailed(
                f"the schema registry refused the compatibility rule (status {answer.status}).",
                remedy=f"See {self.log}; then run `penstock up` again.",
            )
