"""Who may do what in Kafka: every principal against every operation that matters."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.platform.stack import Stack
from penstock.runtime.kafka import client_options

pytestmark = pytest.mark.platform
ALLOWED, DENIED = "allowed", "denied"
_DENIALS = {
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "UNKNOWN_TOPIC_OR_PART",  # what one may not describe does not exist
    "_UNKNOWN_TOPIC",
    "_UNKNOWN_PARTITION",
}
Attempt = Callable[[Stack, str], None]


class _Refused(Exception):
    """The broker said no; carries its code."""


def _outcome(attempt: Attempt, stack: Stack, user: str) -> str:
    try:
        attempt(stack, user)
    except (_Refused, KafkaException) as error:
        code = error.args[0] if isinstance(error.args[0], str) else error.args[0].name()
        assert code in _DENIALS, f"{user}: an error that is no denial: {code}"
        return DENIED
    return ALLOWED


def _produce(topic: str) -> Attempt:
    def attempt(stack: Stack, user: str) -> None:
        errors: list[str] = []
        producer = Producer(client_options(stack.settings, user) | {"message.timeout.ms": 15000})
        producer.produce(topic, b"x", b"k", on_delivery=lambda e, _: e and errors.append(e.name()))
        producer.flush(20)
        if errors:
            raise _Refused(errors[0])

    return attempt


def _transact(prefix: str) -> Attempt:
    def attempt(stack: Stack, user: str) -> None:
        name = f"{prefix}{uuid.uuid4().hex[:6]}"
        Producer(
            client_options(stack.settings, user) | {"transactional.id": name}
        ).init_transactions(10)

    return attempt


def _consume(topic: str, group: str) -> Attempt:
    """Through a group, as readers do: needs READ on both."""

    def attempt(stack: Stack, user: str) -> None:
        consumer = Consumer(
            client_options(stack.settings, user)
            | {"group.id": f"{group}{uuid.uuid4().hex[:6]}", "auto.offset.reset": "earliest"}
            | {"enable.partition.eof": True}
        )
        try:
            consumer.subscribe([topic])
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is None:
                    continue
                if message.error() and message.error().name() != "_PARTITION_EOF":
                    raise _Refused(message.error().name())
                return
            raise AssertionError("neither a record nor a refusal in 20 s")
        finally:
            consumer.close()

    return attempt


def _end_offset(topic: str) -> Attempt:
    """What lag is made of: needs DESCRIBE only."""

    def attempt(stack: Stack, user: str) -> None:
        consumer = Consumer(client_options(stack.settings, user) | {"group.id": "unused"})
        try:
            consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        finally:
            consumer.close()

    return attempt


def _create(prefix: str) -> Attempt:
    def attempt(stack: Stack, user: str) -> None:
        name = f"{prefix}made-by-{user}-{uuid.uuid4().hex[:6]}"
        admin = AdminClient(client_options(stack.settings, user))
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(10)

    return attempt


def _transact_as(name: str) -> Attempt:
    def attempt(stack: Stack, user: str) -> None:
        options = client_options(stack.settings, user) | {"transactional.id": name}
        Producer(options).init_transactions(10)

    return attempt


def _tell_progress(stack: Stack, user: str) -> None:
    """An offset of a group that shows how far a stream is."""
    admin = AdminClient(client_options(stack.settings, user))
    wanted = ConsumerGroupTopicPartitions("penstock.t", [TopicPartition("trades", 0, 1)])
    told = admin.alter_consumer_group_offsets([wanted])["penstock.t"].result(10)
    errors = [part.error.name() for part in told.topic_partitions if part.error is not None]
    if errors:
        raise _Refused(errors[0])


def _change_topic(stack: Stack, user: str) -> None:
    admin = AdminClient(client_options(stack.settings, user))
    entry = ConfigEntry("retention.ms", "86400000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "trades", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(10)


ATTEMPTS: dict[str, Attempt] = {
    "write trades": _produce("trades"),
    "write users": _produce("shop.public.users"),
    "write connect-status": _produce("connect-status"),
    "read trades": _consume("trades", "penstock-"),
    "read users": _consume("shop.public.users", "penstock-"),
    "read trades in a foreign group": _consume("trades", "somebody-"),
    "read trades as app-": _consume("trades", "app-"),
    "read trades in connect's group": _consume("trades", "connect-"),
    "see the end of trades": _end_offset("trades"),
    "see the end of connect-configs": _end_offset("connect-configs"),
    "transact as demo-": _transact("demo-"),
    "transact as connect-": _transact("connect-"),
    "transact as penstock-": _transact("penstock-"),
    "transact as app-": _transact("app-"),
    "transact as the publisher": _transact_as("penstock-publisher"),
    "create a topic": _create(""),
    "create a published topic": _create("out."),
    "write positions": _produce("penstock-publish-positions"),
    "tell progress": _tell_progress,
    "change a topic": _change_topic,
}
MAY: dict[str, set[str]] = {
    "admin": set(ATTEMPTS),
    "supervisor": {"read trades", "read users", "see the end of trades", "tell progress"},
    "publisher": {"create a published topic", "write positions", "transact as the publisher"},
    "demo-producer": {"write trades", "see the end of trades", "transact as demo-"},
    "connect": {
        "write users",
        "write connect-status",
        "see the end of connect-configs",
        "transact as connect-",
    },
    "app": {"read trades as app-", "see the end of trades", "transact as app-"},
    "watch": {"see the end of trades"},
}


def test_the_matrix_covers_every_principal(stack: Stack) -> None:
    assert set(MAY) == {user.name for user in stack.spec.kafka_users}


@pytest.fixture(scope="module", autouse=True)
def _positions(stack: Stack) -> None:
    """The topic of the publisher's positions, which it makes when it is first started."""
    from penstock.publish.positions import POSITIONS
    from penstock.publish.topics import Topics

    Topics(stack.settings).made(POSITIONS, 1)


@pytest.mark.parametrize("operation", ATTEMPTS)
@pytest.mark.parametrize("user", [user for user in MAY if user != "admin"])
def test_matrix(stack: Stack, user: str, operation: str) -> None:
    expected = ALLOWED if operation in MAY[user] else DENIED
    assert _outcome(ATTEMPTS[operation], stack, user) == expected


def test_the_producer_may_write_idempotently(stack: Stack) -> None:
    errors: list[str] = []
    config = client_options(stack.settings, "demo-producer") | {"enable.idempotence": True}
    producer = Producer(config)
    producer.produce("trades", b"x", on_delivery=lambda e, _: e and errors.append(e.name()))
    assert producer.flush(20) == 0
    assert errors == []


@pytest.mark.parametrize(
    "change",
    [
        {"sasl.password": "wrong"},
        {"sasl.username": "nobody"},
        {"security.protocol": "PLAINTEXT"},
        {"sasl.mechanism": "PLAIN"},
    ],
)
def test_nobody_comes_in_without_the_right_password(stack: Stack, change: dict[str, str]) -> None:
    config = client_options(stack.settings, "watch") | change | {"log_level": 0}
    with pytest.raises(KafkaException):
        AdminClient(config).list_topics(timeout=4)


def test_the_controller_is_not_open_either(stack: Stack) -> None:
    address = f"127.0.0.1:{stack.settings.port('kafka-controller')}"
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=4)


def test_a_right_that_is_not_in_the_spec_is_taken_away(stack: Stack) -> None:
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
    )

    extra = AclBinding(
        ResourceType.TOPIC, "trades", ResourcePatternType.LITERAL, "User:watch", "*",
        AclOperation.READ, AclPermissionType.ALLOW,
    )  # fmt: skip
    admin = AdminClient(client_options(stack.settings, "admin"))
    admin.create_acls([extra])[extra].result(10)
    stack.up(only=["kafka"])
    found = admin.describe_acls(_any_filter()).result(10)
    assert extra not in found
    assert {acl.principal for acl in found} == {f"User:{u}" for u in MAY if u != "admin"}


def _any_filter() -> object:
    from penstock.platform.kafka_admin import EVERY_ACL

    return EVERY_ACL
