"""One source of versions, ports and principals: the other places that name them must agree."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from penstock.platform.java import JAVA_VERSION
from penstock.platform.services import SERVICES
from penstock.platform.spec import PlatformSpec
from penstock.settings import PORTS


@pytest.fixture(scope="module")
def spec(project: Path) -> PlatformSpec:
    return PlatformSpec.load(project)


def test_jars_have_the_versions_of_the_platform(project: Path, spec: PlatformSpec) -> None:
    tree = ET.parse(project / "infra" / "jars" / "ivy.xml")
    found = {d.attrib["name"]: d.attrib["rev"] for d in tree.iter("dependency")}
    assert found["kafka_2.13"] == spec.versions["kafka"]
    assert found["connect-runtime"] == spec.versions["kafka"]
    assert found["debezium-connector-postgres"] == spec.versions["debezium"]
    assert found["apicurio-registry-app"] == spec.versions["apicurio"]
    assert found["spark-sql-kafka-0-10_2.13"] == spec.versions["spark"]
    assert found["delta-spark_4.1_2.13"] == spec.versions["delta"]


def test_every_locked_jar_is_pinned_by_hash_and_none_that_spark_has_itself(project: Path) -> None:
    lines = (project / "infra" / "jars" / "jars.lock").read_text().splitlines()
    assert all(
        re.fullmatch(r"[0-9a-f]{64}  (spark|kafka|debezium|apicurio|s3proxy|s3a)/\S+", li)
        for li in lines
    )
    ours = [line.split("/")[1] for line in lines if "  spark/" in line]
    own = ("hadoop", "log4j", "slf4j", "scala-library", "jackson", "parquet", "zstd", "lz4",
           "snappy", "RoaringBitmap", "antlr")  # fmt: skip
    beside = "hadoop-bare-naked-local-fs-"  # no part of Hadoop: a file system for it
    assert [jar for jar in ours if jar.startswith(own) and not jar.startswith(beside)] == []


def test_packages_have_the_versions_of_the_platform(project: Path, spec: PlatformSpec) -> None:
    lock = (project / "requirements.lock").read_text()
    for package, name in (
        ("pyspark", "spark"),
        ("delta-spark", "delta"),
        ("apache-airflow", "airflow"),
    ):
        assert f"\n{package}=={spec.versions[name]} " in lock
    assert spec.versions["java"] == str(JAVA_VERSION)


def test_no_address_is_committed_where_packages_and_jars_come_from(project: Path) -> None:
    files = ["requirements.in", "requirements.lock", "infra/bootstrap.lock", "infra/setup",
             "infra/jars/ivy.xml", "infra/jars/ivysettings.xml"]  # fmt: skip
    for name in files:
        text = (project / name).read_text().replace("http://ant.apache.org/ivy/maven", "")
        assert "http://" not in text, name
        assert "https://" not in text, name
        assert "--index-url" not in text, name


def test_services_ports_and_needs_exist(spec: PlatformSpec) -> None:
    assert set(SERVICES) == set(spec.services)
    for service in spec.services.values():
        assert set(service.ports) <= set(PORTS)
        assert set(service.needs) <= set(spec.services)


def test_databases_are_owned_and_read_by_known_roles(spec: PlatformSpec) -> None:
    roles = {role.name for role in spec.roles}
    for database in spec.databases:
        assert {database.owner, *database.readers} <= roles


def test_exactly_one_super_user_and_nobody_has_rights_on_everything(spec: PlatformSpec) -> None:
    assert [user.name for user in spec.kafka_users if user.super_user] == ["admin"]
    for user in spec.kafka_users:
        for acl in user.acls:
            assert acl.name, f"{user.name} may touch every {acl.resource}"
            assert "ALL" not in acl.allow


def test_no_secret_is_written_in_infra(project: Path) -> None:
    """Passwords appear as placeholders only."""
    assigned = re.compile(r"(?i)(?:password|secret_key|jwt_secret|fernet_key)\s*[=:]\s*(\S+)")
    for file in (project / "infra").rglob("*"):
        if file.suffix in (".properties", ".cfg", ".json", ".conf", ".yaml"):
            for found in assigned.findall(file.read_text()):
                assert "${" in found, (file, found)
