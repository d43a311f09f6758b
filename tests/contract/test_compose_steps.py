"""What the steps of docker-compose.yml write and do, seen by running them without an engine."""

from __future__ import annotations

import configparser
import http.server
import re
import ssl
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.platform import compose
from penstock.platform.connect import Connect
from penstock.platform.secrets import secret_names
from penstock.platform.service import Service
from penstock.platform.services import SERVICES
from penstock.platform.spec import PlatformSpec
from penstock.settings import Settings
from tests.contract.compose_file import Compose, mounts, overlay_of, properties


def test_every_service_that_holds_something_of_ours_is_provisioned(file: Compose) -> None:
    """Topics, users, ACLs, roles, connectors: made by the code that makes the embedded ones."""
    provisioned = []
    for name, service in file["services"].items():
        if name.startswith("provision"):
            *command, verb = service["command"][:4]
            assert command == ["python", "-m", "penstock.platform.compose"]
            assert verb == "provision"
            provisioned += service["command"][4:]
            assert set(service["depends_on"]) == set(service["command"][4:])
    holding = [n for n, s in SERVICES.items() if s.provision is not Service.provision]
    assert sorted(provisioned) == sorted(holding)


def test_provisioning_waits_and_hands_over_the_whole_platform(
    inside: Settings, spec: PlatformSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    answers = iter([False, True, True])
    for name in ("kafka", "postgres"):
        monkeypatch.setattr(SERVICES[name], "ready", lambda self: next(answers))
        module = f"penstock.platform.{name}.provision"
        monkeypatch.setattr(module, lambda settings, spec, n=name: seen.append((n, settings, spec)))
    monkeypatch.setattr("penstock.platform.compose.time.sleep", lambda _: None)
    compose.provision(inside, spec, ["postgres", "kafka"])
    assert seen == [("postgres", inside, spec), ("kafka", inside, spec)]


def test_a_service_gets_its_own_files_and_no_other_does(file: Compose, spec: PlatformSpec) -> None:
    services = file["services"]
    for name in spec.services:
        holders = {n for n, s in services.items() if f"{name}-etc" in dict(mounts(s))}
        assert holders - {"certificates"} == {name, "configure"}
        assert {t for n in holders for s, t in mounts(services[n]) if s == f"{name}-etc"} <= {
            f"/penstock/etc/{name}",
            f"/penstock/etc/{name}:ro",
        }


def test_a_template_is_changed_only_where_its_overlay_says_so(
    written: Settings, spec: PlatformSpec
) -> None:
    for name, file_name in (
        ("kafka", "server.properties"),
        ("connect", "worker.properties"),
        ("registry", "config/application.properties"),
        ("postgres", "postgresql.conf"),
    ):
        template = properties(SERVICES[name](written, spec).files()[file_name])
        overlay = properties(overlay_of(written, name, Path(file_name).name))
        found = properties((written.home / "etc" / name / file_name).read_text())
        assert found.keys() == template.keys() | overlay.keys()
        changed = {key for key in found if found[key] != template.get(key)}
        assert changed == overlay.keys(), name
        assert not [value for value in found.values() if "${" in value]


def test_kafka_speaks_tls_and_asks_for_a_password_on_every_open_listener(
    written: Settings, file: Compose
) -> None:
    found = properties((written.home / "etc" / "kafka" / "server.properties").read_text())
    listeners = dict(part.split("://") for part in found["listeners"].split(","))
    protocols = dict(p.split(":") for p in found["listener.security.protocol.map"].split(","))
    assert listeners.keys() == protocols.keys()
    for name, address in listeners.items():
        if address.startswith("127.0.0.1:"):
            continue
        assert protocols[name] == "SASL_SSL"
        mechanisms = f"listener.name.{name.lower()}.sasl.enabled.mechanisms"
        assert found[mechanisms] == "SCRAM-SHA-512"
        assert f"listener.name.{name.lower()}.scram-sha-512.sasl.jaas.config" in found
    assert found["authorizer.class.name"].endswith(".StandardAuthorizer")
    assert found["allow.everyone.if.no.acl.found"] == "false"
    assert found["auto.create.topics.enable"] == "false"  # topics are those of platform.toml
    advertised = dict(part.split("://") for part in found["advertised.listeners"].split(","))
    published, target = file["services"]["kafka"]["ports"][0].rsplit(":", 1)
    assert advertised["HOST"] == published
    assert listeners["HOST"].endswith(f":{target}")
    assert advertised["BROKER"] == written.kafka_bootstrap


def test_clients_speak_tls_too(written: Settings) -> None:
    found = properties((written.home / "etc" / "connect" / "worker.properties").read_text())
    for client in ("", "producer.", "consumer.", "admin."):
        assert found[f"{client}security.protocol"] == "SASL_SSL"
        assert found[f"{client}ssl.truststore.location"] == str(written.kafka_ca)
    assert written.kafka_security == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(written.kafka_ca),
    }
    assert replace(written, containers=False).kafka_security == {
        "security.protocol": "SASL_PLAINTEXT"
    }


def test_services_find_each_other_by_name(written: Settings, spec: PlatformSpec) -> None:
    """Loopback in a container is the container: it may only mean the service itself."""
    etc = written.home / "etc"
    airflow = configparser.RawConfigParser()
    airflow.read(etc / "airflow" / "airflow.cfg")
    assert airflow["database"]["sql_alchemy_conn"].endswith("@postgres:15432/airflow")
    assert airflow["api"]["host"] == "0.0.0.0"
    own = r"127\.0\.0\.1(:18080|$)"  # Airflow's own parts, and the address a browser uses
    for section in airflow.values():
        for value in section.values():
            assert "127.0.0.1" not in value or re.search(own, value), value
    for name, file_name in (("connect", "worker"), ("registry", "config/application")):
        found = properties((etc / name / f"{file_name}.properties").read_text())
        assert not [value for value in found.values() if "127.0.0.1" in value]
    assert "127.0.0.1" not in (etc / "postgres" / "pg_hba.conf").read_text()
    (connector,) = Connect(written, spec)._connectors()
    assert connector[1]["database.hostname"] == "postgres"
    assert written.registry_url == "http://registry:18081/apis/ccompat/v7"


def test_a_service_can_read_only_its_own_secrets(written: Settings, spec: PlatformSpec) -> None:
    allowed = {
        "postgres": {"postgres-postgres"},
        "kafka": {"kafka-admin", "kafka-controller"},
        "registry": {"postgres-registry"},
        "connect": {"kafka-connect", "connect-rest", "postgres-debezium"},
        "airflow": {"postgres-airflow", "postgres-penstock", "airflow-admin", "airflow-tasks",
                    "airflow-jwt", "airflow-secret", "airflow-fernet", "postgres-metastore",
                    "postgres-analyst", "connect-rest", "clickhouse-penstock"},
        "supervisor": {"kafka-supervisor", "postgres-penstock", "postgres-analyst",
                       "connect-rest"},
        "api": {"api-bearer", "postgres-penstock"},
        "publisher": {"kafka-publisher", "postgres-publisher"},
        "demo": {"kafka-demo-producer"},
    }  # fmt: skip
    for name in spec.services:
        paths = [p for p in (written.home / "etc" / name).rglob("*") if p.is_file()]
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in paths)
        everything = "".join(path.read_text() for path in paths)
        holds = {s for s in secret_names(spec) if written.secret(s) in everything}
        assert holds == allowed[name], name


def test_a_service_that_only_reads_finds_the_tables_in_the_supervisors_volume(
    file: Compose, settings: Settings, tmp_path: Path
) -> None:
    """Not at its own home: there it would take the supervisor's secrets for its own."""
    (home,) = [target for source, target in mounts(file["services"]["api"]) if source == "home"]
    assert home == f"/penstock/{compose.SHARED}:ro"
    shared = tmp_path / "shared"
    (shared / "warehouse" / "gold").mkdir(parents=True)
    settings.home.mkdir()
    for _ in range(2):  # a container may start again
        compose._read_tables_from(settings, shared)
    assert (settings.warehouse / "gold").is_dir()
    assert not settings.manifest.exists()  # the supervisor has yet to write it
    (shared / "manifest.json").write_text("{}")
    assert settings.manifest.read_text() == "{}"
    assert {path.name for path in settings.home.iterdir()} == {"warehouse", "manifest.json"}


def test_the_secrets_step_makes_them_without_starting_anything(
    settings: Settings, spec: PlatformSpec, file: Compose, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from penstock.platform.secrets import main

    assert file["services"]["secrets"]["command"] == ["python", "-m", "penstock.platform.secrets"]
    assert file["services"]["secrets"]["profiles"] == ["setup"]  # `up` alone does not run it
    monkeypatch.setattr(Settings, "load", lambda: settings)
    result = CliRunner().invoke(main)
    assert result.exit_code == 0, result.output
    assert {p.name for p in (settings.home / "secrets").iterdir()} == set(secret_names(spec))
    assert not any(settings.secret(name) in result.output for name in secret_names(spec))


def test_the_certificate_is_signed_by_the_authority_for_the_brokers_names(
    project: Path, tmp_path: Path
) -> None:
    run = ["bash", str(project / "infra" / "compose" / "certificates"), str(tmp_path)]
    subprocess.run(run, check=True)
    authority, broker = tmp_path / "tls" / "ca.pem", tmp_path / "etc" / "kafka" / "broker.pem"
    assert broker.stat().st_mode & 0o777 == 0o600
    assert authority.stat().st_mode & 0o777 == 0o644
    assert broker.read_text().startswith("-----BEGIN PRIVATE KEY-----")  # PKCS 8, as Kafka wants
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == ["broker.pem", "ca.pem"]
    for name in ("kafka", "127.0.0.1", "localhost"):
        shake_hands(authority, broker, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(authority, broker, "elsewhere")
    before = authority.read_text(), broker.read_text()
    subprocess.run(run, check=True)
    assert (authority.read_text(), broker.read_text()) == before  # only at first start


def test_the_health_check_tells_up_from_down(project: Path) -> None:
    script = str(project / "infra" / "compose" / "healthy")

    def healthy(*arguments: str) -> bool:
        done = subprocess.run(["bash", script, *arguments], capture_output=True, check=False)
        return done.returncode == 0

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/here" else 401)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = str(server.server_port)
        assert healthy(port)
        assert healthy(port, "/here", "200")
        assert healthy(port, "/there", "401")
        assert not healthy(port, "/there", "200")
        server.shutdown()
    assert not healthy(port)


def test_the_image_is_built_from_the_tree_without_its_state(project: Path) -> None:
    ignore = (project / "infra" / "compose" / "Dockerfile.dockerignore").read_text().split("\n")
    assert ignore[1] == "*"
    let_in = {line[1:] for line in ignore if line.startswith("!")}
    dockerfile = (project / "infra" / "compose" / "Dockerfile").read_text()
    copied = {
        word for line in re.findall(r"(?m)^COPY (.*) \S+$", dockerfile) for word in line.split()
    }
    assert copied == let_in
    assert not [name for name in copied if not (project / name).exists()]
    assert f"--uid {compose.OWNER[0]} --gid {compose.OWNER[1]} " in dockerfile
    assert "PENSTOCK_CONTAINERS=1" in dockerfile


def shake_hands(authority: Path, broker: Path, name: str) -> None:
    """A client that trusts the authority meets a server with the certificate, in memory."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(broker)
    client = ssl.create_default_context(cafile=str(authority))
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there, server_hostname=name),
        server.wrap_bio(there, back, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
