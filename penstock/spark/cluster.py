"""Spark on other machines: what executors are told, and whether there is anybody to tell it to.

**Purpose.** The same session on a thread pool of this process or on a master: ``session.py`` asks
here what a master needs beyond what every session has.

**How it works.** The driver stays in the process that asks (the supervisor, a command). Executors
get the jars and the package ``penstock`` from it when they start, Python functions of revisions by
value, and read and write tables at the same paths as the driver. Nothing but Spark's Java and the
locked Python packages has to be on their machines.

**What it does not do.** Share the files: the warehouse must be at the same path everywhere. Start
or size a cluster. Know who else uses it.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import penstock
from penstock.errors import EnvironmentProblem, NotRunning, ServiceFailed
from penstock.settings import Settings
from penstock.spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["await_executors", "described", "executor_conf", "require", "ship_package", "trouble"]

# Small on purpose: a cluster is shared, and on a standalone one an application takes every core
# that it is not told to leave.
_SMALL = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "1g",
}
_JAVA = "-Duser.timezone=UTC -XX:+UseParallelGC -Xss4m -XX:-DontCompileHugeMethods"
_PORTS = {"spark": 7077, "https": 443, "http": 80}
_KNOCK_SECONDS = 3.0
_EXECUTORS_WITHIN = 60.0
_PACKAGE = "penstock.zip"


def executor_conf(
    spark: SparkSettings, given: Mapping[str, str], jars: Sequence[str]
) -> dict[str, str]:
    """Settings of a session on a master; what was given wins over what we would choose."""
    from penstock.runtime.decode.avro import avro_limits

    conf = _SMALL | {
        "spark.driver.host": spark.driver_host,
        "spark.driver.bindAddress": spark.driver_host,
        # A task that waits three seconds for the executor it was meant for is late by that.
        "spark.locality.wait": "100ms",
        # Python's functions read the zone from there, as Java does from its options.
        "spark.executorEnv.TZ": "UTC",
    }
    if not spark.master.startswith("spark://"):
        # These make a secret for each application by themselves.
        conf |= {"spark.executor.instances": "2", "spark.authenticate": "true"}
    if "spark.executor.extraClassPath" not in given:
        conf["spark.jars"] = ",".join(jars)
    conf |= given
    if conf.get("spark.authenticate") == "true":
        conf.setdefault("spark.network.crypto.enabled", "true")
    conf.setdefault("spark.sql.shuffle.partitions", str(_cores(spark, conf)))
    own = given.get("spark.executor.extraJavaOptions", "")
    limits = " ".join(f"-D{name}={most}" for name, most in avro_limits().items())
    conf["spark.executor.extraJavaOptions"] = f"{limits} {own} {_JAVA}"
    return conf


def _cores(spark: SparkSettings, conf: Mapping[str, str]) -> int:
    """As many parts as can be computed at once; fewer would leave machines idle."""
    if spark.master.startswith("spark://"):
        return max(2, int(conf["spark.cores.max"]))
    return max(2, int(conf["spark.executor.instances"]) * int(conf["spark.executor.cores"]))


def require(settings: Settings, given: Mapping[str, str]) -> None:
    """Say plainly, before a JVM is started, why nothing could be computed on this master."""
    spark = settings.spark
    hosts = [host for host, _ in _addresses(spark.master)]
    away = not hosts or not all(map(_is_loopback, hosts))
    host = given.get("spark.driver.host", spark.driver_host)
    if away and _is_loopback(host):
        raise EnvironmentProblem(
            f"executors of {spark.master} cannot reach this process at {host}.",
            remedy="Set PENSTOCK_SPARK_DRIVER_HOST to this machine's address as they see it.",
        )
    if away and spark.master.startswith("spark://") and "spark.authenticate" not in given:
        raise EnvironmentProblem(
            f"{spark.master} is reached over a network, and what goes to its executors (the login "
            "to Kafka, rows) would be open to it.",
            remedy="Set spark.authenticate true and spark.authenticate.secret in the file that "
            "PENSTOCK_SPARK_CONF names (docs/scale-out.md); or false in [tool.penstock.spark], if "
            "the network is yours alone.",
        )
    found = trouble(settings)
    if found:
        raise NotRunning(found, remedy=_remedy(settings))


def trouble(settings: Settings) -> str:
    """What is wrong with the master as seen from here; nothing where it answers or is ourselves."""
    spark = settings.spark
    places = _addresses(spark.master)
    if spark.is_local or not places:  # where YARN's is, Hadoop's own configuration knows
        return ""
    said = []
    for host, port in places:
        try:
            with socket.create_connection((host, port), timeout=_KNOCK_SECONDS):
                return ""
        except OSError as error:
            said.append(f"{host}:{port}: {error.strerror or error}")
    return f"the Spark master {spark.master} does not answer ({'; '.join(said)})."


def _remedy(settings: Settings) -> str:
    return (
        "Start it, or compute in this process meanwhile: unset PENSTOCK_SPARK_MASTER "
        "(spark_master in [tool.penstock]). `penstock doctor` looks again."
    )


def described(settings: Settings) -> str:
    """The master in a few words."""
    spark = settings.spark
    if spark.is_local:
        return f"{spark.master}: threads of each process"
    return f"{spark.master}, reached from {spark.driver_host}"


def await_executors(session: SparkSession, settings: Settings) -> None:
    """Without one, every job would wait for ever and say nothing."""
    infos = session.sparkContext._jsc.sc().statusTracker().getExecutorInfos
    deadline = time.monotonic() + _EXECUTORS_WITHIN
    while len(infos()) < 2:  # the driver counts as one
        if time.monotonic() > deadline:
            session.stop()
            raise ServiceFailed(
                f"{settings.spark.master} gave this application no executor within "
                f"{_EXECUTORS_WITHIN:.0f} s: its cores or memory are taken, or its executors "
                f"cannot reach {settings.spark.driver_host}.",
                remedy="Look at the master's page and an executor's log; give less by "
                "spark.cores.max and spark.executor.memory in [tool.penstock.spark].",
            )
        time.sleep(0.1)


def ship_package(session: SparkSession, scratch: Path) -> None:
    """Executors' Python imports the ``penstock`` that runs here, not one installed there or none.

    Not by ``addPyFile``: that would put the archive into this process's own path as well.
    """
    root = Path(penstock.__file__).parent
    archive = scratch / _PACKAGE
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(root.rglob("*.py")):
            packed.write(path, path.relative_to(root.parent))
    context = session.sparkContext
    context.addFile(str(archive))
    context._python_includes = [*(context._python_includes or []), _PACKAGE]


def _addresses(master: str) -> list[tuple[str, int]]:
    """Where a master listens; standalone ones may be several, with one in charge."""
    if master.startswith("spark://"):
        return [_place(f"spark://{part}") for part in master[8:].split(",")]
    if master.startswith("k8s://"):
        rest = master[6:]
        return [_place(rest if "://" in rest else f"https://{rest}")]
    return []


def _place(url: str) -> tuple[str, int]:
    found = urlsplit(url)
    return found.hostname or "", found.port or _PORTS[found.scheme]


def _is_loopback(host: str) -> bool:
    if re.fullmatch(r"localhost(\.localdomain)?", host):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
