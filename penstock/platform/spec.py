"""``infra/platform.toml`` as plain frozen objects: what the platform consists of."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
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


def _service(name: str, body: dict[str, Any]) -> ServiceSpec:
    return ServiceSpec(
        name=name,
        title=body["title"],
        ports=tuple(body["ports"]),
        needs=tuple(body["needs"]),
        ready_within=body["ready_within"],
        grace=body["grace"],
        heap=body.get("heap", ""),
    )


def _acl(body: dict[str, Any]) -> Acl:
    name = body["name"]
    return Acl(body["resource"], name.removesuffix("*"), name.endswith("*"), tuple(body["allow"]))
