"""The services as containers (docker-compose.yml): the same configuration, given out and applied.

**Purpose.** What `penstock up` does for processes, in the few steps compose has to be told:
`configure` writes every service's files, `provision` makes what lives inside them, `run` becomes a
Python service, `ready` is its health check. All of it is the code of the embedded services.

**How it works.** Each service's files come from its template in ``infra``, then from the overlay in
``infra/compose/overlay`` that says what a container does differently (names instead of loopback,
TLS); in all these formats the later line wins. Only `configure` and `provision` see all secrets;
every service gets its own files, and the secrets it reads itself, in a volume of its own, and
PENSTOCK_SECRETS says where. ClickHouse has a server only here: the embedded one is a library.
"""

from __future__ import annotations

import configparser
import hashlib
import io
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from penstock.errors import PenstockError, ServiceFailed, UsageError
from penstock.platform.files import private_folder, render, write_private
from penstock.platform.kafka import Kafka
from penstock.platform.secrets import CLICKHOUSE_USER, POSTGRES_SUPERUSER
from penstock.platform.service import Service
from penstock.platform.services import SERVICES
from penstock.platform.spec import PlatformSpec
from penstock.settings import PORTS, Settings

__all__ = ["configure", "provision"]

OWNER = (999, 0)  # whom every container runs as; the Postgres image knows this number by name
SHARED = "shared"  # the supervisor's home in the container of a service that only reads from it
KAFKA_LIBRARIES = "/opt/kafka/libs/*"  # in the image of Kafka
# What a service reads by itself while it runs; all else is in its files.
READS = {
    "postgres": (f"postgres-{POSTGRES_SUPERUSER}",),
    # Tasks are commands: marts name tables in the metastore, an audit asks Postgres and Connect, an
    # export writes to ClickHouse.
    "airflow": (
        "airflow-admin",
        "airflow-tasks",
        "postgres-penstock",
        "postgres-metastore",
        "postgres-analyst",
        "connect-rest",
        f"clickhouse-{CLICKHOUSE_USER}",
    ),
    # It looks after the slots of the captured tables.
    "supervisor": ("kafka-supervisor", "postgres-penstock", "postgres-analyst", "connect-rest"),
    "api": ("api-bearer", "postgres-penstock"),
    "publisher": ("kafka-publisher", "postgres-publisher"),
    "demo": ("kafka-demo-producer",),
}


def configure(settings: Settings, spec: PlatformSpec, names: Sequence[str] = ()) -> None:
    """Write the files of the named services, or of every one, into their folders in ``etc``."""
    for name in names or spec.services:
        service = SERVICES[name](settings, spec)
        for file, text in _files(service):
            write_private(service.etc / file, text)
    for file, text in () if names else _clickhouse(settings):
        write_private(settings.home / "etc" / "clickhouse" / file, text)


def _clickhouse(settings: Settings) -> Iterator[tuple[str, str]]:
    """The server's files; of the password it gets what a login is compared with."""
    password = settings.secret(f"clickhouse-{CLICKHOUSE_USER}")
    values = {
        "home": settings.home,
        "user": CLICKHOUSE_USER,
        "digest": hashlib.sha256(password.encode()).hexdigest(),
    }
    for file in ("config.xml", "users.xml"):
        yield file, render(settings, f"clickhouse/{file}", values)


def _files(service: Service) -> Iterator[tuple[str, str]]:
    settings = service.settings
    for file, text in service.files().items():
        yield file, _overlaid(service, file, text)
    for secret in READS.get(service.name, ()):
        yield f"secrets/{secret}", settings.secret(secret) + "\n"
    if isinstance(service, Kafka):
        yield "format.args", service.format_arguments(["-cp", KAFKA_LIBRARIES])


def _overlaid(service: Service, file: str, text: str) -> str:
    """A service's file with what its container does differently, if anything, added at the end."""
    settings = service.settings
    name = f"compose/overlay/{service.name}/{Path(file).name}"
    if not (settings.project / "infra" / name).is_file():
        return text
    values: dict[str, object] = {"home": settings.home}
    values |= {f"{port.replace('-', '_')}_port": settings.port(port) for port in PORTS}
    if service.name == "airflow":
        values["password"] = settings.secret("postgres-airflow")
    overlay = render(settings, name, values)
    return _merged(text, overlay) if file.endswith(".cfg") else f"{text}\n{overlay}"


def _merged(text: str, overlay: str) -> str:
    """Airflow's format does not take a section twice."""
    merged = configparser.RawConfigParser()
    merged.read_string(text)
    merged.read_string(overlay)
    out = io.StringIO()
    merged.write(out)
    return out.getvalue()


def provision(settings: Settings, spec: PlatformSpec, names: Sequence[str]) -> None:
    """Bring what lives inside the named services to what the spec says."""
    for name in names:
        service = SERVICES[name](settings, spec)
        deadline = time.monotonic() + service.spec.ready_within
        while not service.ready():
            if time.monotonic() > deadline:
                raise ServiceFailed(
                    f"{service.spec.title} does not answer.",
                    remedy=f"See `docker compose logs {name}`.",
                )
            time.sleep(0.5)
        service.provision(lambda _: None)


def _read_tables_from(settings: Settings, folder: Path) -> None:
    """Tables and manifest where they are expected; all else in that folder is somebody else's."""
    own = [settings.manifest.name, *([settings.warehouse.name] if settings.bucket is None else [])]
    for name in own:
        link = settings.home / name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(folder / name)


@click.group()
def main() -> None:
    """Steps of docker-compose.yml; on a machine without containers use `penstock up`."""


@main.command("configure")
@click.argument("names", nargs=-1)
def _configure(names: tuple[str, ...]) -> None:
    """Write the files of all services, or of some, for the user the services run as."""
    settings, spec = _load()
    configure(settings, spec, names)
    # All that was written, but of the data only the folders: a running service changes the rest.
    written = private_folder(settings.home / "etc").rglob("*")
    for path in (*written, *private_folder(settings.data).iterdir()):
        os.chown(path, *OWNER, follow_symlinks=False)


@main.command("provision")
@click.argument("names", nargs=-1, required=True)
def _provision(names: tuple[str, ...]) -> None:
    """Make topics, users, roles, databases, rules and connectors in the named services."""
    settings, spec = _load()
    provision(settings, spec, names)


@main.command("run")
@click.argument("name")
def _run(name: str) -> None:
    """Become a Python service."""
    settings, spec = _load()
    service = SERVICES[name](settings, spec)
    if (shared := settings.home / SHARED).is_dir():
        _read_tables_from(settings, shared)
    service.prepare(lambda _: None)
    os.chdir(service.cwd)
    command = service.command()
    os.execve(command[0], [*command], service.environment())  # noqa: S606 - no shell is wanted


@main.command("ready")
@click.argument("name")
def _ready(name: str) -> None:
    """Exit with 0 when a service does its work."""
    sys.exit(not SERVICES[name](*_load()).ready())


def _load() -> tuple[Settings, PlatformSpec]:
    settings = Settings.load()
    if not settings.containers:
        raise UsageError(
            "this is a step of docker-compose.yml and not for use outside a container.",
            remedy="Use `penstock up`, or read docs/compose.md.",
        )
    return settings, PlatformSpec.load(settings.project)


if __name__ == "__main__":
    try:
        main()
    except PenstockError as error:
        sys.exit(f"penstock: {error.message} {error.remedy}")
