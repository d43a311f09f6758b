"""What containers share: tables and secrets by the same paths, and a ClickHouse to export to."""

from __future__ import annotations

import hashlib
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.errors import ServiceFailed
from penstock.export.targets import open_target
from penstock.platform import compose
from penstock.platform.secrets import ensure_secrets
from penstock.platform.spec import PlatformSpec
from penstock.settings import Settings

Compose = dict[str, Any]


@pytest.fixture(scope="module")
def file(project: Path) -> Compose:
    found: Compose = yaml.safe_load((project / "docker-compose.yml").read_text())
    return found


@pytest.fixture
def written(settings: Settings, project: Path) -> Settings:
    stack = replace(settings, containers=True, port_offset=0)
    spec = PlatformSpec.load(project)
    ensure_secrets(stack, spec)
    compose.configure(stack, spec)
    return stack


def targets(service: Compose) -> dict[str, str]:
    """Where a container has which volume."""
    pairs = (volume.removesuffix(":ro").rsplit(":", 1) for volume in service["volumes"])
    return {target: source for source, target in pairs}


def test_tasks_of_airflow_find_the_tables_where_the_supervisor_puts_them(file: Compose) -> None:
    homes = {name: targets(file["services"][name]) for name in ("supervisor", "airflow")}
    for found in homes.values():
        assert found["/penstock"] == "home"
        assert found["/penstock/tls"] == "tls"
        # Nothing that lies over the home hides what both use.
        over = {path.split("/")[2] for path in found if path.startswith("/penstock/")}
        assert over <= {"etc", "logs", "tls"}
    # The login to the metastore is written by marts, and is the tasks' own.
    assert homes["airflow"]["/penstock/etc/metastore"] == "airflow-metastore"
    assert "/penstock/etc/metastore" not in homes["supervisor"]


def test_the_image_has_all_that_tasks_work_with(project: Path, settings: Settings) -> None:
    dockerfile = (project / "infra" / "compose" / "Dockerfile").read_text()
    copied = {w for line in re.findall(r"(?m)^COPY (.*) \S+$", dockerfile) for w in line.split()}
    assert {"dags", "spark_jobs", "dbt_project", settings.expectations.name} <= copied
    # A volume takes over the owner of the folder it is first laid over.
    made = re.search(r"install -d -o 999 -g 0 (.+)", dockerfile)
    assert made is not None
    assert {"/penstock/logs", "/penstock/etc/metastore"} <= set(made[1].split())


def test_every_python_container_is_told_where_its_secrets_are(
    file: Compose, written: Settings
) -> None:
    for name, service in file["services"].items():
        told = service.get("environment", {}).get("PENSTOCK_SECRETS")
        if name in compose.READS and service["image"].startswith("penstock:"):
            assert told == f"/penstock/etc/{name}/secrets"
            folder = written.home / "etc" / name / "secrets"
            assert {p.name for p in folder.iterdir()} == set(compose.READS[name])
        elif "secrets" in service:
            assert told == "/run/secrets", name


def test_a_service_reads_secrets_from_its_own_folder(written: Settings) -> None:
    own = replace(written, secrets=written.home / "etc" / "demo" / "secrets")
    assert own.secret("kafka-demo-producer") == written.secret("kafka-demo-producer")
    assert own.environment()["PENSTOCK_SECRETS"] == str(own.secrets)
    with pytest.raises(Exception, match="no secret named kafka-admin"):
        own.secret("kafka-admin")


# --- ClickHouse -----------------------------------------------------------------------------------
def test_clickhouse_is_the_version_that_exports_are_tested_on(file: Compose, project: Path) -> None:
    from chdb import query

    wanted = PlatformSpec.load(project).versions["clickhouse"]
    assert file["services"]["clickhouse"]["image"] == f"clickhouse/clickhouse-server:{wanted}"
    embedded = str(query("select version()", "TabSeparated")).strip()
    assert embedded.startswith(f"{wanted}."), embedded


def test_clickhouse_is_configured_by_our_files_alone(file: Compose, written: Settings) -> None:
    service = file["services"]["clickhouse"]
    (option,) = service["command"]
    assert option == "--config-file=/penstock/etc/clickhouse/config.xml"
    etc = written.home / "etc" / "clickhouse"
    config, users = (ET.parse(etc / name).getroot() for name in ("config.xml", "users.xml"))
    places = {e.tag: e.text or "" for e in config.iter() if "path" in e.tag}
    inside = {tag: p.replace(str(written.home), "/penstock") for tag, p in places.items()}
    assert inside.pop("path") in ("/penstock/etc/clickhouse/users.xml",)  # the last of that name
    mounted = targets(service)
    for path in inside.values():
        assert any(path.startswith(f"{target}/") for target in mounted), path
    published = service["ports"][0].split(":")
    assert config.findtext("http_port") == published[1] == published[2]
    limit = service["deploy"]["resources"]["limits"]["memory"]
    assert int(config.findtext("max_server_memory_usage") or 0) < int(limit[0]) * 10**9
    accounts = users.find("users")
    assert accounts is not None
    assert [account.tag for account in accounts] == ["penstock"], "nobody without a password"


def test_an_export_logs_in_with_the_password_that_clickhouse_compares(
    file: Compose, written: Settings
) -> None:
    users = ET.parse(written.home / "etc" / "clickhouse" / "users.xml").getroot()
    secret = written.secret(f"clickhouse-{written.clickhouse_user}")
    digest = hashlib.sha256(secret.encode()).hexdigest()
    assert users.findtext(f"users/{written.clickhouse_user}/password_sha256_hex") == digest
    for path in (written.home / "etc" / "clickhouse").iterdir():
        assert secret not in path.read_text()
    url = file["services"]["airflow"]["environment"]["PENSTOCK_CLICKHOUSE_URL"]
    assert url == f"http://clickhouse:{file['services']['clickhouse']['ports'][0].split(':')[2]}"
    # What a task of Airflow's would open: it gets as far as the name of the server.
    inside = replace(
        written, clickhouse_url=url, secrets=written.home / "etc" / "airflow" / "secrets"
    )
    with pytest.raises(ServiceFailed, match=rf"{url} does not answer") as caught:
        open_target(inside, "clickhouse")
    assert secret not in str(caught.value)
