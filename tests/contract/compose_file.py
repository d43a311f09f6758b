"""docker-compose.yml as tests read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from penstock.platform.files import infra_text
from penstock.settings import Settings

Compose = dict[str, Any]
STEPS = {"secrets", "certificates", "configure", "provision", "provision-registry",
         "provision-connect"}  # fmt: skip
IMAGES = {  # service -> image and the version of infra/platform.toml it must have
    "postgres": ("postgres", "postgres"),
    "kafka": ("apache/kafka", "kafka"),
    "registry": ("apicurio/apicurio-registry", "apicurio"),
    "connect": ("quay.io/debezium/connect", "debezium"),
}
PYTHON = ("airflow", "supervisor", "api", "publisher", "demo")
ADDED = {"clickhouse"}  # embedded, it is a library: test_compose_shared.py
# Where the jars that we fetch are in the images.
LIBRARIES = {"kafka": "/opt/kafka/libs", "connect": "/kafka/libs", "registry": "/deployments"}


def words(service: Compose) -> list[str]:
    return [*service.get("entrypoint", ()), *service.get("command", ())]


def mounts(service: Compose) -> Iterator[tuple[str, str]]:
    for volume in service.get("volumes", ()):
        source, target = re.split(r":(?=/)", volume, maxsplit=1)
        yield source, target


def properties(text: str) -> dict[str, str]:
    """Lines of ``key=value``; as in Java and in Postgres, the last one wins."""
    lines = [line.partition("=") for line in text.splitlines() if line and line[0] != "#"]
    return {key.strip(): value.strip() for key, _, value in lines}


def overlay_of(settings: Settings, service: str, name: str) -> str:
    return infra_text(settings, f"compose/overlay/{service}/{name}")
