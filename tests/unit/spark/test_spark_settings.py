"""Which master, and what it is told: read from one place, and refused where it cannot work."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import EnvironmentProblem, NotRunning
from penstock.platform import doctor
from penstock.platform.spec import PlatformSpec
from penstock.platform.supervisor import Supervisor
from penstock.settings import Settings
from penstock.spark import cluster
from penstock.spark.settings import LOCAL, SparkSettings

AWAY = "spark://spark.example:7077"
GUARDED = {"spark.authenticate": "true"}


def declared(**more: Any) -> dict[str, Any]:
    return {"spark_master": AWAY, **more}


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def on(settings: Settings, master: str, **more: Any) -> Settings:
    return replace(settings, spark=replace(settings.spark, master=master, **more))


# --- what is read ---------------------------------------------------------------------------------
def test_without_a_word_the_process_computes_by_itself() -> None:
    assert SparkSettings.read({}, {}) == SparkSettings(LOCAL, "127.0.0.1", (), None)
    assert SparkSettings.read({}, {}).is_local


def test_the_environment_wins_over_the_project() -> None:
    spark = SparkSettings.read(declared(spark_driver_host="10.0.0.1"), {})
    assert (spark.master, spark.driver_host, spark.is_local) == (AWAY, "10.0.0.1", False)
    env = {"PENSTOCK_SPARK_MASTER": "yarn", "PENSTOCK_SPARK_DRIVER_HOST": "10.0.0.2"}
    assert SparkSettings.read(declared(), env).environment() == env


@pytest.mark.parametrize("master", ["spark", "http://host:7077", "mesos://host", "spark://", " "])
def test_what_is_no_master_is_refused(master: str) -> None:
    with pytest.raises(EnvironmentProblem, match="not a Spark master"):
        SparkSettings.read({}, {"PENSTOCK_SPARK_MASTER": master})


def test_an_application_has_its_own_and_toml_may_nest_names() -> None:
    table = {
        "spark.cores.max": 4,
        "spark": {"executor": {"memory": "2g"}},
        "stage": {"spark": {"cores": {"max": 16}}},
    }
    spark = SparkSettings.read(declared(spark=table), {})
    assert spark.given("supervisor") == {"spark.cores.max": "4", "spark.executor.memory": "2g"}
    assert spark.given("stage") == {"spark.cores.max": "16", "spark.executor.memory": "2g"}


def test_a_file_wins_and_what_is_secret_in_it_is_told_to_nobody(tmp_path: Path) -> None:
    file = tmp_path / "spark.properties"
    file.write_text("# ours\nspark.authenticate.secret hush\nspark.cores.max=8\n")
    file.chmod(0o600)
    env = {"PENSTOCK_SPARK_CONF": str(file)}
    spark = SparkSettings.read(declared(spark={"spark.cores.max": 4}), env)
    assert spark.given("x") == {"spark.authenticate.secret": "hush", "spark.cores.max": "8"}
    assert "hush" not in spark.describe() + repr(spark) + str(spark.environment())
    file.chmod(0o644)
    with pytest.raises(EnvironmentProblem, match="others may read it"):
        spark.given("x")
    file.unlink()
    with pytest.raises(EnvironmentProblem, match="No such file"):
        spark.given("x")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"spark.authenticate.secret": "x"}, "a secret, in a file of the repository"),
        ({"spark.ssl.keyPassword": "x"}, "a secret"),
        ({"spark.hadoop.fs.s3a.secret.key": "x"}, "a secret"),
        ({"spark.sql.session.timeZone": "CET"}, "timeZone"),
        ({"stage": {"spark.sql.ansi.enabled": False}}, "ansi"),
        ({"spark.master": "yarn"}, "spark.master"),
        ({"executor_memory": "2g"}, "neither a setting"),
    ],
)
def test_what_must_not_be_in_the_table_is_refused(table: dict[str, Any], words: str) -> None:
    with pytest.raises(EnvironmentProblem, match=words) as caught:
        SparkSettings.read(declared(spark=table), {})
    assert caught.value.remedy


# --- what executors are told ----------------------------------------------------------------------
def test_executors_are_few_small_in_utc_and_get_the_jars() -> None:
    conf = cluster.executor_conf(SparkSettings(AWAY, "10.0.0.1"), {}, ["/a.jar", "/b.jar"])
    assert conf["spark.jars"] == "/a.jar,/b.jar"
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "10.0.0.1"
    assert (conf["spark.cores.max"], conf["spark.executor.memory"]) == ("2", "1g")
    assert "-Duser.timezone=UTC" in conf["spark.executor.extraJavaOptions"]
    assert "-Dorg.apache.avro.limits.bytes.maxLength=1048576" in (
        conf["spark.executor.extraJavaOptions"].split()
    )
    assert conf["spark.executorEnv.TZ"] == "UTC"
    assert "spark.authenticate" not in conf


def test_what_is_given_wins_but_never_the_zone() -> None:
    given = {
        "spark.executor.extraJavaOptions": "-Dx=y -Duser.timezone=CET",
        "spark.executor.extraClassPath": "/opt/jars/*",
        "spark.cores.max": "12",
        **GUARDED,
    }
    conf = cluster.executor_conf(SparkSettings(AWAY), given, ["/a.jar"])
    assert "spark.jars" not in conf, "they are there already"
    assert conf["spark.sql.shuffle.partitions"] == "12"
    assert conf["spark.network.crypto.enabled"] == "true"
    options = conf["spark.executor.extraJavaOptions"]
    assert options.index("-Dx=y") < options.rindex("-Duser.timezone=UTC"), "the last one counts"


def test_masters_that_make_a_secret_themselves_are_asked_for_one() -> None:
    for master in ("yarn", "k8s://https://10.0.0.9:6443"):
        conf = cluster.executor_conf(SparkSettings(master), {"spark.executor.cores": "3"}, [])
        assert (conf["spark.authenticate"], conf["spark.sql.shuffle.partitions"]) == ("true", "6")


# --- whether it can work --------------------------------------------------------------------------
def test_a_master_that_does_not_answer_is_named_with_what_to_type(
    settings: Settings, listening: int
) -> None:
    cluster.require(on(settings, f"spark://127.0.0.1:{listening}"), {})
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    nobody = on(settings, f"spark://127.0.0.1:{closed}")
    with pytest.raises(NotRunning, match=rf"spark://127.0.0.1:{closed} does not answer") as caught:
        cluster.require(nobody, {})
    assert "unset PENSTOCK_SPARK_MASTER" in caught.value.remedy
    several = on(settings, f"spark://127.0.0.1:{closed},127.0.0.1:{listening}")
    assert cluster.trouble(several) == "", "one of them is in charge"
    check = next(c for c in doctor.examine(nobody) if c.name == "spark")
    assert (check.outcome, "does not answer" in check.message) == ("fail", True)
    with pytest.raises(EnvironmentProblem, match="does not answer"):
        doctor.require_startable(nobody, ["supervisor"])
    assert next(c for c in doctor.examine(settings) if c.name == "spark").outcome == "ok"


@pytest.mark.parametrize("master", [AWAY, "k8s://https://10.255.0.1:6443", "yarn"])
def test_executors_elsewhere_cannot_call_back_on_loopback(settings: Settings, master: str) -> None:
    with pytest.raises(EnvironmentProblem, match="cannot reach this process") as caught:
        cluster.require(on(settings, master), GUARDED)
    assert "PENSTOCK_SPARK_DRIVER_HOST" in caught.value.remedy


def test_a_network_without_a_secret_has_to_be_wanted(settings: Settings) -> None:
    away = on(settings, AWAY, driver_host="10.0.0.1")
    with pytest.raises(EnvironmentProblem, match="the login to Kafka"):
        cluster.require(away, {})
    with pytest.raises(NotRunning, match="does not answer"):  # as far as it gets here
        cluster.require(away, {"spark.authenticate": "false"})


def test_another_master_is_another_configuration(settings: Settings, project: Path) -> None:
    spec = PlatformSpec.load(project)
    found = {Supervisor(on(settings, master), spec).configure() for master in (LOCAL, AWAY, LOCAL)}
    assert len(found) == 2, "`penstock up` starts the supervisor anew"


def test_the_status_says_where_the_one_that_runs_computes(
    settings: Settings, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks may have another master in mind, or none."""
    spec = PlatformSpec.load(project)
    beat = SimpleNamespace(state="running", streams=[], age_seconds=1.0)
    monkeypatch.setattr("penstock.runtime.heartbeat.read", lambda _: beat)
    asked = Supervisor(settings, spec)
    assert "computes on" not in asked.detail()
    Supervisor(on(settings, AWAY), spec).configure()
    assert asked.detail().endswith(f"computes on {AWAY}")


@pytest.mark.parametrize(
    ("master", "roomy"),
    [
        ("local[2]", "local[6]"),
        ("local[*]", f"local[{(os.cpu_count() or 1) + 4}]"),
        ("local", "local"),
        ("local[2,3]", "local[2,3]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_tasks_that_wait_take_no_slot_from_those_that_compute(master, roomy):
    assert SparkSettings(master).with_room(4).master == roomy
    assert SparkSettings(master).with_room(0).master == master
