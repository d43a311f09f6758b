"""Mirrors: what Connect is told, what is kept where, and whose a topic is."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from penstock.cli.mirror import mirror
from penstock.errors import ServiceFailed, UsageError
from penstock.platform.connect import Connect
from penstock.platform.files import write_private
from penstock.platform.http import Answer
from penstock.platform.mirror import connector_config, forget, other_cluster
from penstock.platform.secrets import ensure_secrets
from penstock.platform.spec import PlatformSpec
from penstock.platform.stack import Stack
from penstock.runtime.ingest.mirrors import Mirror, file_of, mirrors, origin
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


def test_a_worker_that_is_not_in_its_group_yet_is_asked_again(
    kept: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(kept, WEST)
    connect = Stack(kept).services["connect"]
    assert isinstance(connect, Connect)
    ((_, config),) = connect._connectors()
    timed_out = Answer(500, {"message": "Request timed out. The worker is joining its group."})
    joining = [Answer(0, None), timed_out, Answer(409, {}), Answer(503, {"message": "starting"})]
    answers = [*joining, Answer(404, {}), *joining, Answer(201, {})]
    asked: list[str] = []

    def answer(path: str, method: str = "GET", body: object = None) -> Answer:
        asked.append(method)
        assert body in (None, config)
        return answers.pop(0)

    monkeypatch.setattr(connect, "_rest", answer)
    monkeypatch.setattr(connect.cancelled, "wait", lambda seconds: False)
    connect.provision(lambda what: None)
    assert asked == ["GET"] * 5 + ["PUT"] * 5
    assert answers == []


@pytest.mark.parametrize("status", [400, 500])
def test_what_connect_refuses_is_told_at_once(
    kept: Settings, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    connect = Stack(kept).services["connect"]
    assert isinstance(connect, Connect)
    answers = [Answer(404, {}), Answer(status, {"message": "no such class"})]
    monkeypatch.setattr(connect, "_rest", lambda *asked: answers.pop(0))
    with pytest.raises(ServiceFailed, match="no such class"):
        connect.provision(lambda what: None)


def java_properties(text: str) -> dict[str, str]:
    """As java.util.Properties reads what has only plain escapes in it."""
    pairs = (line.split("=", 1) for line in text.splitlines())
    return {name: re.sub(r"\\(.)", r"\1", value) for name, value in pairs}


def jaas_value(text: str) -> str:
    """As Kafka reads what stands between the quotes of a login."""
    quoted = re.fullmatch(r'"((?:[^"\\]|\\.)*)"', f'"{text}"')
    assert quoted is not None, "a quote within ends it"
    return re.sub(r"\\(.)", r"\1", quoted[1])


@pytest.mark.parametrize("password", ["plain", 'a"b', "a\\b", "\\", 'c\\"#!=:d', "\\n"])
def test_any_password_reaches_the_other_cluster_as_it_is(kept: Settings, password: str) -> None:
    write_private(kept.secrets_folder / WEST.secret, f"{password}\n")
    connect = Stack(kept).services["connect"]
    known = java_properties(connect.files()["secrets.properties"])
    assert jaas_value(known[WEST.secret]) == password
    login = connector_config(kept, replace(WEST, user='o"b'), "/s")[
        "source.cluster.sasl.jaas.config"
    ]
    assert r'username="o\"b" password="${file:/s:mirror-west}"' in login


def test_a_connector_that_is_not_dropped_is_told(kept: Settings, monkeypatch) -> None:
    connect = Stack(kept).services["connect"]
    assert isinstance(connect, Connect)
    for status in (204, 404):
        monkeypatch.setattr(connect, "_rest", lambda *_, s=status: Answer(s, None))
        connect.drop("mirror-west")
    for status in (0, 409, 500):
        monkeypatch.setattr(connect, "_rest", lambda *_, s=status: Answer(s, None))
        with pytest.raises(ServiceFailed, match="did not drop the connector mirror-west"):
            connect.drop("mirror-west")


def test_a_mirror_is_removed_only_when_connect_has_dropped_it(
    kept: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(kept.home))
    done: list[str] = []
    monkeypatch.setattr(Stack, "up", lambda self, only: done.append(f"up {only[0]}"))
    monkeypatch.setattr(Connect, "_rest", lambda *_: done.append("asked") or Answer(0, None))
    with pytest.raises(ServiceFailed):
        CliRunner().invoke(mirror, ["west", "--remove"], catch_exceptions=False)
    assert done == ["up connect", "asked"], "Connect is started first: it may be down"
    assert mirrors(kept) == [WEST], "and what it did not drop is not forgotten"


@pytest.mark.parametrize("name", ["West", "", "we.st", "9west", "a" * 40])
def test_a_name_has_to_be_the_beginning_of_a_topics_name(name: str) -> None:
    with pytest.raises(UsageError, match="no name of a cluster"):
        other_cluster(name, "127.0.0.1:1", "app", "x", topics=("readings",))
