"""Topics, users and ACLs, brought to what ``infra/platform.toml`` says.

Everything here may run again and again: what is right is left alone. ACLs of our users that the
file does not name are removed, so a right that was taken away there is taken away here.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from penstock.errors import ServiceFailed
from penstock.platform.files import write_private
from penstock.platform.spec import PlatformSpec, Topic
from penstock.runtime.kafka import client_options
from penstock.settings import Settings

__all__ = [
    "EVERY_ACL",
    "await_brokers",
    "broker_answers",
    "missing_replicas",
    "provision",
    "provision_streams",
]

_PARTITIONS = 2
_KEPT = {"retention.ms": "86400000"}  # bronze is the log that lasts

_TIMEOUT = 30.0
EVERY_ACL = AclBindingFilter(
    restype=ResourceType.ANY,
    name=None,  # type: ignore[arg-type]  # documented as "any"
    resource_pattern_type=ResourcePatternType.ANY,
    principal=None,  # type: ignore[arg-type]
    host=None,  # type: ignore[arg-type]
    operation=AclOperation.ANY,
    permission_type=AclPermissionType.ANY,
)
_ITERATIONS = 4096  # the least SCRAM-SHA-512 takes; the passwords are long and random


def _quiet(kind: int, reason: str, *_: Any) -> None:
    """Swallow librdkafka's own complaints: while a broker starts, refusals are expected."""


def _admin(settings: Settings) -> AdminClient:
    return AdminClient(client_options(settings, "admin") | {"log_level": 0, "error_cb": _quiet})


def broker_answers(settings: Settings, number: int, address: str, timeout: float = 2.0) -> bool:
    """True when a broker lets the admin in and counts itself among its cluster's."""
    options = client_options(settings, "admin") | {"bootstrap.servers": address}
    try:
        admin = AdminClient(options | {"log_level": 0, "error_cb": _quiet})
        return number in admin.list_topics(timeout=timeout).brokers
    except KafkaException:
        return False


def await_brokers(settings: Settings, count: int, seconds: float) -> None:
    """Wait until so many brokers are in the cluster: a topic of three replicas needs three."""
    admin, deadline = _admin(settings), time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(KafkaException):
            if len(admin.list_topics(timeout=2).brokers) >= count:
                return
        time.sleep(0.2)
    raise ServiceFailed(
        f"not all of the {count} brokers came together within {seconds:.0f} s.",
        remedy=f"See {settings.logs}/kafka*.log; then run `penstock up` again.",
    )


def missing_replicas(settings: Settings, number: int) -> int:
    """How many partitions' replicas on one broker are not in sync with their leaders."""
    try:
        found = _admin(settings).list_topics(timeout=5).topics.values()
    except KafkaException as error:
        raise ServiceFailed(f"the brokers do not answer: {error.args[0].str()}.") from error
    partitions = [part for topic in found for part in topic.partitions.values()]
    return len([p for p in partitions if number in p.replicas and number not in p.isrs])


def provision(settings: Settings, spec: PlatformSpec) -> None:
    """Create what is missing: topics, users with their passwords, ACLs."""
    admin = _admin(settings)
    try:
        declared = _declared(settings, spec)
        more = (Topic(name, _PARTITIONS, _KEPT) for name in declared)
        _topics(admin, [*spec.topics, *more], settings.brokers)
        _users(admin, settings, spec)
        _acls(admin, spec, declared)
    except KafkaException as error:
        raise ServiceFailed(
            f"Kafka refused its topics, users or ACLs: {error.args[0].str()}.",
            remedy=f"See {settings.logs / 'kafka.log'}; then run `penstock up` again.",
        ) from error


def provision_streams(settings: Settings, spec: PlatformSpec, topics: Iterable[str]) -> list[str]:
    """Make the topics of declared streams, readable by the streams and writable by producers.

    They are remembered beside the broker's data, so that the next start leaves them alone. Returns
    the topics that are new.
    """
    named = {topic.name for topic in spec.topics}
    before = set(_declared(settings, spec))
    wanted = sorted((set(topics) - named) | before)
    if set(wanted) == before:
        return []
    write_private(_record(settings), json.dumps(wanted))
    provision(settings, spec)
    return sorted(set(wanted) - before)


def _record(settings: Settings) -> Path:
    return settings.data / "kafka" / "topics-by-penstock"


def _declared(settings: Settings, spec: PlatformSpec) -> list[str]:
    """Topics of streams that are not in the platform's own file."""
    record = _record(settings)
    names: list[str] = json.loads(record.read_text()) if record.is_file() else []
    return [name for name in names if name not in {topic.name for topic in spec.topics}]


def _settle(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.result(_TIMEOUT)


def _topics(admin: AdminClient, topics: Iterable[Topic], replicas: int) -> None:
    existing = admin.list_topics(timeout=_TIMEOUT).topics
    missing = [
        NewTopic(topic.name, topic.partitions, replicas, config=topic.config)
        for topic in topics
        if topic.name not in existing
    ]
    if missing:
        _settle(admin.create_topics(missing).values())


def _users(admin: AdminClient, settings: Settings, spec: PlatformSpec) -> None:
    """Set passwords once; a stamp in the broker's own folder says for which ones that was done.

    Setting a password anew salts it anew, so it is not done at every start.
    """
    users = [user.name for user in spec.kafka_users if not user.super_user]
    known = {user: settings.secret(f"kafka-{user}") for user in users}
    wanted = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
    stamp = settings.data / "kafka" / "users-by-penstock"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
    changes = [UserScramCredentialUpsertion(u, info, p.encode()) for u, p in known.items()]
    _settle(admin.alter_user_scram_credentials([*changes]).values())
    _await_login(settings, users[-1])
    write_private(stamp, wanted)


def _await_login(settings: Settings, user: str) -> None:
    """Wait until a new password is let in.

    A broker knows passwords a moment after the controller took them, all of one call together; and
    a producer that is refused for its password does not try again.
    """
    options = client_options(settings, user) | {"log_level": 0, "error_cb": _quiet}
    deadline = time.monotonic() + _TIMEOUT
    while time.monotonic() < deadline:
        with suppress(KafkaException):
            AdminClient(options).list_topics(timeout=2)
            return
        time.sleep(0.1)
    raise ServiceFailed(
        f"Kafka took the passwords of its users and does not let {user} in.",
        remedy=f"See {settings.logs / 'kafka.log'}; then run `penstock up` again.",
    )


def _acls(admin: AdminClient, spec: PlatformSpec, declared: list[str]) -> None:
    wanted = {*_wanted_acls(spec), *_stream_acls(declared)}
    existing = set(admin.describe_acls(EVERY_ACL).result(_TIMEOUT))
    ours = {f"User:{user.name}" for user in spec.kafka_users}
    if wanted - existing:
        _settle(admin.create_acls(list(wanted - existing)).values())
    surplus = [acl for acl in existing - wanted if acl.principal in ours]
    if surplus:
        _settle(admin.delete_acls([_as_filter(acl) for acl in surplus]).values())


def _wanted_acls(spec: PlatformSpec) -> Iterable[AclBinding]:
    for user in spec.kafka_users:
        for acl in user.acls:
            pattern = ResourcePatternType.PREFIXED if acl.prefix else ResourcePatternType.LITERAL
            for operation in acl.allow:
                yield AclBinding(
                    ResourceType[acl.resource.upper()],
                    acl.name,
                    pattern,
                    f"User:{user.name}",
                    "*",
                    AclOperation[operation],
                    AclPermissionType.ALLOW,
                )


def _stream_acls(topics: list[str]) -> Iterable[AclBinding]:
    """Who may do what with the topic of a declared stream."""
    rights = {
        "supervisor": ("READ", "DESCRIBE"),
        "demo-producer": ("WRITE", "DESCRIBE"),
        "watch": ("DESCRIBE",),
    }
    for topic in topics:
        for user, operations in rights.items():
            for operation in operations:
                yield AclBinding(
                    ResourceType.TOPIC,
                    topic,
                    ResourcePatternType.LITERAL,
                    f"User:{user}",
                    "*",
                    AclOperation[operation],
                    AclPermissionType.ALLOW,
                )


def _as_filter(acl: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        acl.restype,
        acl.name,
        acl.resource_pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )
