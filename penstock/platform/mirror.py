"""Copying topics of another Kafka cluster into this one: MirrorMaker 2, as a connector on Connect.

**How it works.** `add` asks the other cluster who it is and how its topics are divided, makes the
copies here with as many partitions, notes it all in ``home/mirrors``, and lets Connect run a
``MirrorSourceConnector``: records keep their key, value, headers, time and partition; what was
copied and how far is one transaction, so a killed worker repeats nothing.

**What it does not do.** Copy settings, ACLs or consumer groups, nor schemas: ids of a registry are
in the records' bytes, so producers of both clusters need the same registry.
"""

from __future__ import annotations

import re
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from penstock.errors import NotRunning, UsageError
from penstock.platform.files import write_private
from penstock.runtime.ingest.mirrors import Mirror, file_of
from penstock.runtime.kafka import client_options
from penstock.settings import HOST, Settings

__all__ = ["connector_config", "copied", "forget", "jaas_escaped", "other_cluster"]

_TIMEOUT = 15.0
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_KEPT = {"retention.ms": "86400000"}  # as of every stream's topic: bronze is the log that lasts
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def other_cluster(
    name: str, bootstrap: str, user: str, password: str, *, topics: tuple[str, ...], ca: str = ""
) -> tuple[Mirror, dict[str, int]]:
    """Ask another cluster who it is; the mirror, and how many partitions each topic has.

    Raises:
        UsageError: a name that is none, or a topic that is not there for this user.
        NotRunning: the cluster does not answer.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name of a cluster.", remedy="Use small letters, digits and dashes."
        )
    admin = AdminClient(_login(bootstrap, user, password, ca))
    try:
        cluster = admin.describe_cluster(request_timeout=_TIMEOUT).result()
        there = admin.list_topics(timeout=_TIMEOUT).topics
    except KafkaException as error:
        raise NotRunning(
            f"the cluster at {bootstrap} does not let {user} in: {error.args[0].str()}.",
            remedy="Look at its address, the user and the password.",
        ) from error
    missing = [topic for topic in topics if topic not in there]
    if missing or not topics:
        raise UsageError(
            f"{name} has no topic {missing[0]} that {user} may see."
            if missing
            else "no topic was named.",
            remedy=f"Topics there: {', '.join(sorted(there)) or 'none'}.",
        )
    mirror = Mirror(name, cluster.cluster_id, bootstrap, user, topics, ca)
    return mirror, {topic: len(there[topic].partitions) for topic in topics}


def _login(bootstrap: str, user: str, password: str, ca: str) -> dict[str, Any]:
    way = {"security.protocol": "SASL_SSL", "ssl.ca.location": ca} if ca else {}
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
        "error_cb": lambda error: None,  # what is wrong is told by the answers
        **way,
    }


def copied(settings: Settings, mirror: Mirror, parts: dict[str, int], password: str) -> None:
    """Make the copies' topics here, and note the mirror, so that Connect runs it from now on."""
    admin = AdminClient(client_options(settings, "admin"))
    own = admin.describe_cluster(request_timeout=_TIMEOUT).result().cluster_id
    if own == mirror.cluster_id:
        raise UsageError(f"{mirror.name} is this stack's own cluster.", remedy="Name another one.")
    here = admin.list_topics(timeout=_TIMEOUT).topics
    wanted = {mirror.copy_of(topic): count for topic, count in parts.items()}
    new = [
        NewTopic(name, count, settings.brokers, config=_KEPT)
        for name, count in wanted.items()
        if name not in here
    ]
    grown = [
        NewPartitions(name, count)
        for name, count in wanted.items()
        if name in here and len(here[name].partitions) < count
    ]
    futures = [*admin.create_topics(new).values()] if new else []
    futures += [*admin.create_partitions(grown).values()] if grown else []
    for future in futures:
        future.result(_TIMEOUT)
    write_private(settings.secrets_folder / mirror.secret, password + "\n")
    write_private(file_of(settings, mirror.name), mirror.text())


def forget(settings: Settings, mirror: Mirror) -> None:
    """Copy no more; what was copied stays."""
    file_of(settings, mirror.name).unlink(missing_ok=True)
    (settings.secrets_folder / mirror.secret).unlink(missing_ok=True)


def jaas_escaped(text: str) -> str:
    """Text as it stands between the quotes of a login configuration."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def connector_config(settings: Settings, mirror: Mirror, secrets_file: object) -> dict[str, str]:
    """MirrorMaker's connector; passwords are named, their values stay in Connect's own file."""

    def login(user: str, secret: str) -> str:
        name = jaas_escaped(user)
        return f'{_LOGIN} username="{name}" password="${{file:{secrets_file}:{secret}}}";'

    here = ",".join(f"{HOST}:{port}" for port in settings.broker_ports)
    own = {"security.protocol": "SASL_PLAINTEXT"}
    there = {"security.protocol": "SASL_PLAINTEXT"}
    if mirror.ca:
        there = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": mirror.ca,
        }
    clusters = {
        "source": {"bootstrap.servers": mirror.bootstrap, **there,
                   "sasl.jaas.config": login(mirror.user, mirror.secret)},
        "target": {"bootstrap.servers": here, **own,
                   "sasl.jaas.config": login("connect", "kafka-connect")},
    }  # fmt: skip
    reached = {
        f"{side}.cluster.{key}": value
        for side, options in clusters.items()
        for key, value in {**options, "sasl.mechanism": "SCRAM-SHA-512"}.items()
    }
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": "1",
        "exactly.once.support": "required",
        "source.consumer.isolation.level": "read_committed",
        "source.cluster.alias": mirror.alias,
        "target.cluster.alias": "here",
        **reached,
        "topics": ",".join(re.escape(topic) for topic in mirror.topics),
        # Byte for byte: bronze keeps what was sent.
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "header.converter": _BYTES,
        # The copies were made beforehand, and nobody here reads by the other cluster's groups.
        "sync.topic.configs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "emit.offset-syncs.enabled": "false",
        "refresh.topics.interval.seconds": "30",
        "errors.retry.timeout": "-1",
    }
