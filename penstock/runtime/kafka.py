"""Kafka as a source: identities, offsets and how to log in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.settings import Settings

__all__ = ["MAX_RECORD_BYTES", "Topic", "client_options", "spark_options"]

# The same limit for producers, broker and fetch; held equal to infra/platform.toml by a test.
MAX_RECORD_BYTES = 1_048_576

_USER = "supervisor"


@dataclass(frozen=True)
class Topic:
    """A topic as it is now; a recreated one has another id."""

    name: str
    topic_id: str
    cluster_id: str  # of a mirrored topic: the cluster it is copied from
    earliest: dict[int, int]
    latest: dict[int, int]


def client_options(settings: Settings, user: str) -> dict[str, Any]:
    """librdkafka's settings for one of this stack's principals."""
    return {
        "bootstrap.servers": settings.kafka_bootstrap,
        **settings.kafka_security,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": settings.secret(f"kafka-{user}"),
    }


def spark_options(settings: Settings) -> dict[str, str]:
    """The same for Spark's source, reading only what was committed."""
    secret = settings.secret(f"kafka-{_USER}")
    login = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "kafka.bootstrap.servers": settings.kafka_bootstrap,
        **_way(settings),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{login} required username="{_USER}" password="{secret}";',
        "kafka.isolation.level": "read_committed",
        "kafka.max.partition.fetch.bytes": str(MAX_RECORD_BYTES),
        # Spark asks for a partition's offsets on the connection its prefetch waits on, and a broker
        # answers a connection in order: the default wait of 500 ms would be in every batch.
        "kafka.fetch.max.wait.ms": "20",
        "groupIdPrefix": "penstock-streams",
        **_patience(settings),
    }


def _patience(settings: Settings) -> dict[str, str]:
    """With several brokers: how soon a call that waits for a dead one is made anew.

    Left as they are, these are 30 and 60 s: a broker killed in the middle of a look at the offsets
    held up all topics for a minute, long after others led its partitions.
    """
    if settings.brokers == 1:
        return {}
    return {"kafka.request.timeout.ms": "8000", "kafka.default.api.timeout.ms": "10000"}


def _way(settings: Settings) -> dict[str, str]:
    """How Spark's source gets to the broker: as it is on loopback, by TLS between containers."""
    if settings.kafka_ca is None:
        return {"kafka.security.protocol": "SASL_PLAINTEXT"}
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        # Itself, not its place: executors may be machines that have no such file.
        "kafka.ssl.truststore.certificates": settings.kafka_ca.read_text(),
    }
