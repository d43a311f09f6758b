"""Mirrors: what Connect is told, what is kept where, and whose a topic is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.errors import UsageError
from penstock.platform.connect import Connect
from penstock.platform.files import write_private
from penstock.platform.mirror import connector_config, forget, other_cluster
from penstock.platform.secrets import ensure_secrets
from penstock.platform.spec import PlatformSpec
from penstock.platform.stack import Stack
from penstock.runtime.mirrors import Mirror, file_of, mirrors, origin
from penstock.settings import Settings

WEST = Mirror("west", "cluster-w", "127.0.0.1:1", "app", ("readings", "shop.orders"))


@pytest.fixture
def kept(settings: Settings) -> Settings:
    ensure_secrets(settings, PlatformSpec.load(settings.project))
    write_private(settings.secrets_folder / WEST.secret, "the-password\n")
    write_private(file_of(settings, "west"), WEST.text())
    return settings


def test_what_is_kept_is_read_again_and_forgotten(kept: Settings) -> None:
    assert mirrors(kept) == [WEST]
    assert "the-password" not in file_of(kept, "west").read_text()
    forget(kept, WEST)
    assert mirrors(kept) == []
    assert not (kept.secrets_folder / WEST.secret).exists()


def test_a_copied_topic_is_its_own_clusters() -> None:
    westend = replace(WEST, name="westend", cluster_id="cluster-e")
    assert origin([WEST, westend], "mirror.west.readings") == "cluster-w"
    assert origin([WEST, westend], "mirror.westend.readings") == "cluster-e"
    assert origin([WEST, westend], "readings") is None
    assert origin([WEST, westend], "mirror.east.readings") is None


def test_the_connector_is_told_where_a_password_is_and_not_what_it_is(kept: Settings) -> None:
    config = connector_config(kept, WEST, "/etc/secrets")
    told = json.dumps(config)
    assert "the-password" not in told
    assert kept.secret("kafka-connect") not in told
    assert "${file:/etc/secrets:mirror-west}" in config["source.cluster.sasl.jaas.config"]
    assert config["exactly.once.support"] == "required"
    assert config["topics"] == r"readings,shop\.orders"
    assert "source.cluster.ssl.truststore.location" not in config
    secure = connector_config(kept, replace(WEST, ca="/w.pem"), "/etc/secrets")
    assert secure["source.cluster.security.protocol"] == "SASL_SSL"
    assert secure["target.cluster.security.protocol"] == "SASL_PLAINTEXT"


def test_connect_knows_the_passwords_of_mirrors_and_only_then(kept: Settings) -> None:
    connect = Stack(kept).services["connect"]
    assert isinstance(connect, Connect)
    known = connect.files()["secrets.properties"]
    assert "mirror-west=the-password\n" in known
    assert "kafka-connect=" in known
    assert [name for name, _ in connect._connectors()] == ["shop", "mirror-west"]
    forget(kept, WEST)
    assert connect.files()["secrets.properties"].count("=") == 1
    assert [name for name, _ in connect._connectors()] == ["shop"]


@pytest.mark.parametrize("name", ["West", "", "we.st", "9west", "a" * 40])
def test_a_name_has_to_be_the_beginning_of_a_topics_name(name: str) -> None:
    with pytest.raises(UsageError, match="no name of a cluster"):
        other_cluster(name, "127.0.0.1:1", "app", "x", topics=("readings",))
