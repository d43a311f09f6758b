"""docker-compose.yml is the embedded platform in containers: the same parts, numbers and names.

It cannot be run here (no engine). What is checked: the file against the specification's schema and
against the embedded platform. What its steps write: test_compose_steps.py.
"""

from __future__ import annotations

import json
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest

from penstock.platform import compose, jars
from penstock.platform.secrets import secret_names
from penstock.platform.services import SERVICES
from penstock.platform.spec import PlatformSpec
from penstock.settings import PORTS, Settings
from tests.contract.compose_file import (
    ADDED,
    IMAGES,
    LIBRARIES,
    PYTHON,
    STEPS,
    Compose,
    mounts,
    words,
)


# --- the file by itself ---------------------------------------------------------------------------
def test_it_is_a_compose_file(file: Compose) -> None:
    """The Compose Specification's own schema, as the package check-jsonschema carries it."""
    package = find_spec("check_jsonschema")  # located, not imported: only its data is wanted
    assert package is not None, "check-jsonschema is not installed: run `make setup`"
    assert package.origin is not None
    vendored = Path(package.origin).parent / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema = json.loads(vendored.read_text())
    jsonschema.validate(file, schema, jsonschema.Draft202012Validator)
    assert "version" not in file


def test_what_it_refers_to_exists(file: Compose, project: Path) -> None:
    """The schema does not look across: volumes, secrets, services and files that are named."""
    used_volumes, used_secrets = set(), set()
    for service in file["services"].values():
        assert set(service.get("depends_on", ())) <= set(file["services"])
        used_secrets |= set(service.get("secrets", ()))
        for source, _ in mounts(service):
            if source.startswith("./"):
                assert (project / source).exists(), source
            elif not source.startswith("$"):
                used_volumes.add(source)
        for word in words(service):
            if word.startswith("/opt/compose/"):
                assert (project / "infra" / "compose" / Path(word).name).is_file(), word
    assert used_volumes == set(file["volumes"])
    assert used_secrets == set(file["secrets"])


def test_every_image_has_a_pinned_tag(file: Compose, project: Path) -> None:
    dockerfile = (project / "infra" / "compose" / "Dockerfile").read_text()
    bases = re.findall(r"(?m)^FROM (\S+)", dockerfile)
    for image in [*(service["image"] for service in file["services"].values()), *bases]:
        name, _, tag = image.rpartition(":")
        assert name, image
        assert tag != "latest"
        assert re.match(r"\d|\$\{PYTHON\}", tag), image


def test_ports_are_published_on_loopback_only(file: Compose) -> None:
    for service in file["services"].values():
        for port in service.get("ports", ()):
            assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)
        assert service.get("network_mode") in (None, "none")


def test_every_container_has_only_the_rights_it_needs(file: Compose) -> None:
    for name, service in file["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert "privileged" not in service, name
        if name not in STEPS:
            assert service["user"] == "{}:{}".format(*compose.OWNER), name
            assert "cap_add" not in service, name
            assert "secrets" not in service, name


def test_secrets_are_files_of_the_stack_and_their_values_nowhere(
    file: Compose, text: str, spec: PlatformSpec
) -> None:
    names = set(secret_names(spec))
    assert set(file["secrets"]) == names
    for name, secret in file["secrets"].items():
        assert secret == {"file": f"${{PENSTOCK_HOME:-./.penstock}}/secrets/{name}"}
    assert set(file["services"]["configure"]["secrets"]) == names
    assert set(file["services"]["provision"]["secrets"]) == names
    assert not re.search(r"(?i)(password|passwd|secret_key|jaas\.config|token)\s*[=:]", text)
    # Anything as long and as mixed as what we generate; names, paths and classes are not.
    for word in re.findall(r"[A-Za-z0-9_-]{24,}={0,2}", text):
        if not word.strip("-") or re.fullmatch(r"[a-z_-]+", word):
            continue
        pytest.fail(f"looks like a secret: {word}")


# --- the file and the embedded platform -----------------------------------------------------------
def test_the_same_services(file: Compose, spec: PlatformSpec) -> None:
    assert set(file["services"]) - STEPS - ADDED == set(spec.services) == set(SERVICES)


def test_the_same_versions(file: Compose, spec: PlatformSpec, project: Path) -> None:
    services = file["services"]
    for name, (image, version) in IMAGES.items():
        assert services[name]["image"] == f"{image}:{spec.versions[version]}"
    ours = tomllib.loads((project / "pyproject.toml").read_text())["project"]["version"]
    for name in (*PYTHON, *STEPS):
        assert services[name]["image"] == f"penstock:{ours}"
        assert services[name]["build"]["args"] == {
            "PYTHON": spec.versions["python"],
            "JAVA": spec.versions["java"],
        }
    assert set(IMAGES) | set(PYTHON) == set(spec.services)


def test_the_same_ports(file: Compose, spec: PlatformSpec) -> None:
    for name, service in spec.services.items():
        published = [int(p.split(":")[1]) for p in file["services"][name].get("ports", ())]
        # The controller is for the broker alone, which is in the same container.
        wanted = [PORTS[port] for port in service.ports if port != "kafka-controller"]
        assert published == wanted, name
        targets = [int(p.split(":")[2]) for p in file["services"][name].get("ports", ())]
        assert targets == ([29092] if name == "kafka" else wanted), name


def test_the_same_order_and_patience(file: Compose, spec: PlatformSpec) -> None:
    for name, wanted in spec.services.items():
        service = file["services"][name]
        waits = service["depends_on"]
        healthy = {n for n, how in waits.items() if how["condition"] == "service_healthy"}
        assert healthy == set(wanted.needs), name
        done = set(waits) - healthy
        assert done <= STEPS
        for step in done:
            assert waits[step]["condition"] == "service_completed_successfully"
        # Nobody starts on files that are not written, or uses what is not made yet.
        assert done >= ({"provision"} if wanted.needs else {"configure"}), name
        if "registry" in wanted.needs:
            assert "provision-registry" in done, name
        assert service["stop_grace_period"] == f"{wanted.grace}s"
        assert service["restart"] == "unless-stopped"
        asked = service.get("stop_signal", "SIGTERM")
        assert asked == SERVICES[name].stop_signal.name
        if name != "demo":
            assert service["healthcheck"]["start_period"] == f"{wanted.ready_within}s"


def test_the_same_command_lines(file: Compose, inside: Settings, spec: PlatformSpec) -> None:
    """The virtual machines get the options they get when embedded, heap and all."""
    for name, libraries in LIBRARIES.items():
        service = SERVICES[name](inside, spec)
        jar_folder = jars.require(inside, "apicurio" if name == "registry" else "kafka")
        _, *embedded = [w.replace(str(jar_folder), libraries) for w in service.command()]
        found = words(file["services"][name])
        assert found[found.index("java") + 1 :] == embedded, name
        assert f"-Xmx{service.spec.heap}" in found
    postgres = words(file["services"]["postgres"])
    assert postgres[-1] == SERVICES["postgres"](inside, spec).command()[-1]


def test_limits_leave_a_virtual_machine_room_beside_its_heap(
    file: Compose, spec: PlatformSpec
) -> None:
    for name, service in spec.services.items():
        limit = file["services"][name]["deploy"]["resources"]["limits"]["memory"]
        if service.heap:
            assert limit == f"{2 * int(service.heap.removesuffix('m'))}m", name


def test_the_cluster_is_created_as_the_embedded_one(project: Path) -> None:
    script = (project / "infra" / "compose" / "postgres").read_text().replace("\\\n", "")
    embedded = (project / "penstock" / "platform" / "postgres.py").read_text()
    options = set(re.findall(r"--[a-z-]+", script))
    assert options == set(re.findall(r'"(--(?!user|map)[a-z-]+)"', embedded)) | {"--username"}
    for value in ("scram-sha-256", "UTF8", "C.UTF-8"):
        assert value in script
        assert value in embedded
