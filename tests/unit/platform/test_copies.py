"""Several of one service: what they are called, what they need, and what may not change later."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import EnvironmentProblem
from penstock.platform.files import private_folder
from penstock.platform.kafka import Kafka
from penstock.platform.process import Recorded, birth_of
from penstock.platform.secrets import ensure_secrets
from penstock.platform.spec import PlatformSpec
from penstock.platform.stack import Stack
from penstock.settings import Settings


@pytest.fixture
def three(settings: Settings) -> Settings:
    return replace(settings, brokers=3)


def test_one_broker_is_the_platform_as_it_is_written(settings: Settings) -> None:
    spec = PlatformSpec.load(settings.project)
    assert Stack(settings).spec == spec
    assert settings.kafka_bootstrap == f"127.0.0.1:{settings.port('kafka')}"


def test_three_brokers_are_three_services_with_ports_of_their_own(three: Settings) -> None:
    stack = Stack(three)
    brokers = [name for name in stack.services if name.startswith("kafka")]
    assert brokers == ["kafka", "kafka-2", "kafka-3"]
    ports = [three.port(p) for name in brokers for p in stack.spec.services[name].ports]
    assert len(set(ports)) == 6
    assert three.kafka_bootstrap.split(",") == [
        f"127.0.0.1:{stack.services[name].port()}" for name in brokers
    ]


def test_who_needs_kafka_needs_every_broker_and_is_stopped_before_any(three: Settings) -> None:
    stack = Stack(three)
    assert {"kafka", "kafka-2", "kafka-3"} <= set(stack.select(only=["supervisor"]))
    assert stack.select(only=["kafka"]) == ["kafka", "kafka-2", "kafka-3"]
    assert stack.select(only=["kafka-2"]) == ["kafka-2"]
    others = stack.select(without=["kafka", "supervisor", "connect", "publisher", "demo"])
    assert not [name for name in others if name.startswith("kafka")]
    layers = {name: at for at, layer in enumerate(stack._layers()) for name in layer}
    assert layers["kafka"] == layers["kafka-2"] == layers["kafka-3"] > layers["supervisor"]


def test_brokers_agree_on_who_votes_and_keep_three_replicas(three: Settings) -> None:
    stack = Stack(three)
    ensure_secrets(three, stack.spec)
    files = {n: _properties(stack.services[n]) for n in ("kafka", "kafka-2", "kafka-3")}
    assert [f["node.id"] for f in files.values()] == ["1", "2", "3"]
    assert len({f["controller.quorum.voters"] for f in files.values()}) == 1
    assert len({f["log.dirs"] for f in files.values()}) == 3
    for found in files.values():
        assert found["default.replication.factor"] == "3"
        assert found["offsets.topic.replication.factor"] == "3"
        assert found["transaction.state.log.replication.factor"] == "3"
        assert found["min.insync.replicas"] == "2"
        assert found["transaction.state.log.min.isr"] == "2"
        own = found["listeners"].split("CONTROLLER://")[1]
        assert f"{found['node.id']}@{own}" in found["controller.quorum.voters"].split(",")


def test_brokers_are_formatted_for_one_cluster(three: Settings) -> None:
    stack = Stack(three)
    ensure_secrets(three, stack.spec)
    private_folder(three.data)
    ids = set()
    for name in ("kafka", "kafka-2", "kafka-3"):
        kafka = stack.services[name]
        assert isinstance(kafka, Kafka)
        told = kafka.format_arguments([]).splitlines()
        ids |= {line for line in told if "--cluster-id" in line}
    assert len(ids) == 1


def test_the_number_of_brokers_is_kept_and_not_changed_once_they_hold_data(
    settings: Settings, three: Settings
) -> None:
    Stack(three)._remember()
    saved = json.loads((three.home / "stack.json").read_text())
    assert saved["brokers"] == 3
    Stack(settings)._remember()  # nothing was formatted: still free to choose
    Stack(three)._remember()
    mark = three.data / "kafka-2" / "formatted-by-penstock"
    mark.parent.mkdir(parents=True)
    mark.touch()
    with pytest.raises(EnvironmentProblem, match="made with 3 brokers, not 1") as caught:
        Stack(settings)._remember()
    assert "--brokers 3" in caught.value.remedy
    Stack(three)._remember()


def test_a_stack_from_before_there_were_several_has_one_broker(
    settings: Settings, three: Settings
) -> None:
    mark = settings.data / "kafka" / "formatted-by-penstock"
    mark.parent.mkdir(parents=True)
    mark.touch()
    (settings.home / "stack.json").write_text('{"port_offset": 0}')
    with pytest.raises(EnvironmentProblem, match="made with 1 broker, not 3"):
        Stack(three)._remember()


def _properties(service: object) -> dict[str, str]:
    assert isinstance(service, Kafka)
    lines = service.files()["server.properties"].splitlines()
    pairs = [line.split("=", 1) for line in lines if line and not line.startswith("#")]
    return dict(pairs)


def test_settings_remember_how_many(three: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    Stack(three)._remember()
    monkeypatch.setenv("PENSTOCK_HOME", str(three.home))
    monkeypatch.setenv("PENSTOCK_PROJECT", str(Path(three.project)))
    assert Settings.load().brokers == 3


def test_two_supervisors_are_two_services_that_know_their_names(settings: Settings) -> None:
    two = Stack(replace(settings, supervisors=2)).services
    named = [list(two[name].command())[-2:] for name in ("supervisor", "supervisor-2")]
    assert named == [["--name", "supervisor"], ["--name", "supervisor-2"]]
    one = Stack(settings).services
    assert "supervisor-2" not in one
    assert list(one["supervisor"].command())[-1] == "supervise", "as before there were several"
    assert one["supervisor"].files() != two["supervisor"].files(), "so that it is restarted"


def test_fewer_supervisors_are_refused_while_a_surplus_one_runs(settings: Settings) -> None:
    stack = Stack(replace(settings, supervisors=2))
    stack._remember()
    pid = os.getpid()
    stack.services["supervisor-2"].pid_file.write(Recorded(pid, birth_of(pid) or ""))
    with pytest.raises(EnvironmentProblem, match="supervisor-2 is running, and only 1 should"):
        Stack(settings)._remember()
    stack.services["supervisor-2"].pid_file.clear()
    Stack(settings)._remember()


def test_the_number_of_supervisors_is_remembered_and_the_environment_wins(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    Stack(replace(settings, supervisors=2))._remember()
    monkeypatch.setenv("PENSTOCK_HOME", str(settings.home))
    assert Settings.load().supervisors == 2
    monkeypatch.setenv("PENSTOCK_SUPERVISORS", "3")
    assert Settings.load().supervisors == 3
    assert Settings.load().environment()["PENSTOCK_SUPERVISORS"] == "3"
    for wrong in ("0", "many", "10", "-1"):
        monkeypatch.setenv("PENSTOCK_SUPERVISORS", wrong)
        with pytest.raises(EnvironmentProblem, match="not a number from 1 to 9"):
            Settings.load()
