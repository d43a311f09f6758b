"""``infra/platform.toml`` as plain frozen objects: what the platform consists of."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.errors import EnvironmentProblem

__all__ = ["Acl", "Database", "KafkaUser", "PlatformSpec", "Role", "ServiceSpec", "Topic"]


@dataclass(frozen=True)
class ServiceSpec:
    """One service: what it waits for, where it listens, how long it may take."""

    name: str
    title: str
    ports: tuple[str, ...]
    needs: tuple[str, ...]
    ready_within: float
    grace: float
    heap: str = ""
    base: str = ""  # what it is one of several of; itself, where there is one
    number: int = 1


@dataclass(frozen=True)
class Topic:
    name: str
    partitions: int
    config: dict[str, str]


@dataclass(frozen=True)
class Acl:
    """Operations a principal is allowed on one resource; ``prefix`` when the name ended in *."""

    resource: str
    name: str
    prefix: bool
    allow: tuple[str, ...]


@dataclass(frozen=True)
class KafkaUser:
    name: str
    super_user: bool
    acls: tuple[Acl, ...]


@dataclass(frozen=True)
class Role:
    name: str
    replication: bool
    read_only: bool


@dataclass(frozen=True)
class Database:
    """A database with its one owner, the roles that may only read, and the SQL that fills it."""

    name: str
    owner: str
    readers: tuple[str, ...]
    schema: str


@dataclass(frozen=True)
class PlatformSpec:
    versions: dict[str, str]
    services: dict[str, ServiceSpec]
    topics: tuple[Topic, ...]
    kafka_users: tuple[KafkaUser, ...]
    max_message_bytes: int
    roles: tuple[Role, ...]
    databases: tuple[Database, ...]
    postgres: dict[str, Any]

    @classmethod
    def load(cls, project: Path) -> PlatformSpec:
        """Read ``infra/platform.toml`` of a project; a mistake in it names the file."""
        file = project / "infra" / "platform.toml"
        try:
            raw = tomllib.loads(file.read_text())
            return cls._parse(raw)
        except FileNotFoundError:
            raise EnvironmentProblem(
                f"{file} is missing.", remedy="Restore it from the repository."
            ) from None
        except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
            raise EnvironmentProblem(
                f"{file} cannot be understood: {error}.", remedy="Correct the file."
            ) from error

    def with_copies(self, copies: Mapping[str, int]) -> PlatformSpec:
        """The same with several of some services: ``kafka``, ``kafka-2``, ``kafka-3``.

        Whoever needs such a service needs all of them, so that they are stopped after it. A port
        of a copy is called as the service's own, with the copy's name in front.
        """
        made: dict[str, ServiceSpec] = {}
        for name, one in self.services.items():
            needs = tuple(n for need in one.needs for n in _names(need, copies.get(need, 1)))
            made[name] = replace(one, needs=needs)
            for number, copy in enumerate(_names(name, copies.get(name, 1))[1:], start=2):
                ports = tuple(port.replace(name, copy, 1) for port in one.ports)
                title = f"{one.title}, number {number}"
                made[copy] = replace(made[name], name=copy, title=title, ports=ports, number=number)
        return replace(self, services=made)

    @classmethod
    def _parse(cls, raw: dict[str, Any]) -> PlatformSpec:
        kafka, postgres = raw["kafka"], raw["postgres"]
        return cls(
            versions=raw["versions"],
            services={name: _service(name, body) for name, body in raw["services"].items()},
            topics=tuple(
                Topic(t["name"], t["partitions"], t.get("config", {})) for t in kafka["topics"]
            ),
            kafka_users=tuple(
                KafkaUser(u["name"], u.get("super", False), tuple(map(_acl, u.get("acls", ()))))
                for u in kafka["users"]
            ),
            max_message_bytes=kafka["max_message_bytes"],
            roles=tuple(
                Role(r["name"], r.get("replication", False), r.get("read_only", False))
                for r in postgres["roles"]
            ),
            databases=tuple(
                Database(d["name"], d["owner"], tuple(d.get("readers", ())), d.get("schema", ""))
                for d in postgres["databases"]
            ),
            postgres={k: v for k, v in postgres.items() if k not in ("roles", "databases")},
        )


def _names(name: str, count: int) -> list[str]:
    return [name, *(f"{name}-{number}" for number in range(2, count + 1))]


def _service(name: str, body: dict[str, Any]) -> ServiceSpec:
    return ServiceSpec(
        name=name,
        title=body["title"],
        ports=tuple(body["ports"]),
        needs=tuple(body["needs"]),
        ready_within=body["ready_within"],
        grace=body["grace"],
        heap=body.get("heap", ""),
        base=name,
    )


def _acl(body: dict[str, Any]) -> Acl:
    name = body["name"]
    return Acl(body["resource"], name.removesuffix("*"), name.endswith("*"), tuple(body["allow"]))
