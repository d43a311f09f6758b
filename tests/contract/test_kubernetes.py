"""infra/kubernetes: valid, whole, and the same platform as the embedded one.

They cannot be run here (no cluster). What is checked: every document against the schemas of
Kubernetes, strictly; what they refer to; the rights of every container; commands, secrets, ports
and patience against the code that runs the embedded services.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from penstock.errors import NotRunning
from penstock.platform import compose
from penstock.platform.airflow import Airflow
from penstock.platform.publisher import Publisher
from penstock.platform.secrets import ensure_secrets, secret_names
from penstock.platform.spec import PlatformSpec
from penstock.platform.supervisor import Supervisor
from penstock.settings import PORTS, Settings
from penstock.spark import cluster
from penstock.spark.settings import SparkSettings
from tests.cluster import MASTER, WORKER

Document = dict[str, Any]
VERSIONS = ("1.30", "1.37")  # the oldest that is meant to do, and the newest there are schemas of
FOLDER = Path(__file__).resolve().parents[2] / "infra" / "kubernetes"
MADE_FIRST = {"penstock-secrets", "penstock-spark", "kafka-ca"}  # by hand: docs/kubernetes.md
DOCUMENTS = [
    pytest.param(document, id=f"{file.stem}-{document['kind']}-{document['metadata']['name']}")
    for file in sorted(FOLDER.glob("*.yaml"))
    if file.name != "kustomization.yaml"
    for document in yaml.safe_load_all(file.read_text())
]


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return [param.values[0] for param in DOCUMENTS]  # type: ignore[misc]


@pytest.fixture(scope="module")
def spec(project: Path) -> PlatformSpec:
    return PlatformSpec.load(project)


def workloads(documents: list[Document]) -> dict[str, Document]:
    kinds = ("StatefulSet", "Deployment", "Job")
    return {d["metadata"]["name"]: d for d in documents if d["kind"] in kinds}


def pod(workload: Document) -> Document:
    found: Document = workload["spec"]["template"]["spec"]
    return found


def containers(documents: list[Document]) -> Iterator[tuple[str, Document, Document]]:
    for name, workload in workloads(documents).items():
        for box in [*pod(workload).get("initContainers", ()), *pod(workload)["containers"]]:
            yield f"{name}/{box['name']}", pod(workload), box


def named(documents: list[Document], kind: str) -> dict[str, Document]:
    return {d["metadata"]["name"]: d for d in documents if d["kind"] == kind}


def environment(documents: list[Document], box: Document) -> dict[str, str]:
    """What a container's process sees; the pod's own address is made up."""
    found: dict[str, str] = {}
    for source in box.get("envFrom", ()):
        found |= named(documents, "ConfigMap")[source["configMapRef"]["name"]]["data"]
    for entry in box.get("env", ()):
        value = entry.get("value", "10.0.0.7")
        found[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda m: found[m[1]], value)
    return found


# --- by themselves --------------------------------------------------------------------------------
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_it_is_valid(document: Document, version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_a_mistake_would_be_noticed(documents: list[Document]) -> None:
    wrong = copy.deepcopy(workloads(documents)["supervisor"])
    pod(wrong)["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_all_of_it_is_applied_into_one_namespace(documents: list[Document]) -> None:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    files = {file.name for file in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(listed["resources"]) == files
    for document in documents:
        if document["kind"] != "Namespace":
            assert document["metadata"]["namespace"] == listed["namespace"] == "penstock"


def test_every_container_has_only_the_rights_it_needs(documents: list[Document]) -> None:
    for name, pod_, box in containers(documents):
        assert pod_["automountServiceAccountToken"] is False, name
        assert pod_["securityContext"]["runAsNonRoot"] is True, name
        assert pod_["securityContext"]["runAsUser"] == compose.OWNER[0], name
        assert pod_["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert box["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        assert {"cpu", "memory"} <= set(box["resources"]["requests"]), name
        assert "memory" in box["resources"]["limits"], name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod_), name


def test_what_it_refers_to_exists(documents: list[Document]) -> None:
    claims, maps = named(documents, "PersistentVolumeClaim"), named(documents, "ConfigMap")
    for name, pod_, box in containers(documents):
        volumes = {volume["name"]: volume for volume in pod_["volumes"]}
        for mount in box["volumeMounts"]:
            assert mount["name"] in volumes, name
        for source in box.get("envFrom", ()):
            assert source["configMapRef"]["name"] in maps, name
        for volume in volumes.values():
            if claim := volume.get("persistentVolumeClaim"):
                assert claim["claimName"] in claims
            if secret := volume.get("secret"):
                assert secret["secretName"] in MADE_FIRST
                assert secret["defaultMode"] & 0o007 == 0, "nobody else reads it"
            if config := volume.get("configMap"):
                assert config["name"] in MADE_FIRST
    for name, workload in workloads(documents).items():
        if workload["kind"] == "StatefulSet":
            labels = workload["spec"]["template"]["metadata"]["labels"]
            assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
            service = named(documents, "Service")[workload["spec"]["serviceName"]]
            assert service["spec"]["selector"].items() <= labels.items()
            open_ = {p["containerPort"] for p in pod(workload)["containers"][0].get("ports", ())}
            assert {p["port"] for p in service["spec"]["ports"]} <= open_, name


def test_nested_folders_are_made_before_they_are_laid_over(documents: list[Document]) -> None:
    """A runtime makes a missing mount point as root, in the volume, for good."""
    for name, workload in workloads(documents).items():
        for box in pod(workload)["containers"]:
            where = {m["mountPath"] for m in box["volumeMounts"]}
            nested = {path for path in where if path.startswith("/penstock/")}
            if "/penstock" not in where or not nested:
                continue
            first = pod(workload)["initContainers"][0]
            assert nested <= set(first["command"]), name
            assert first["volumeMounts"] == [{"name": "home", "mountPath": "/penstock"}]


def test_no_secret_is_written_here(project: Path, documents: list[Document]) -> None:
    assert "Secret" not in {document["kind"] for document in documents}
    for _, _, box in containers(documents):
        for entry in box.get("env", ()):
            assert "secretKeyRef" not in entry.get("valueFrom", {}), "files, not the environment"


# --- and the embedded platform --------------------------------------------------------------------
def test_the_image_is_ours_in_its_version(project: Path, documents: list[Document]) -> None:
    version = tomllib.loads((project / "pyproject.toml").read_text())["project"]["version"]
    assert {box["image"] for _, _, box in containers(documents)} == {f"penstock:{version}"}
    (image,) = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["images"]
    assert (image["name"], image["newTag"]) == ("penstock", version)


def test_the_supervisor_is_started_asked_and_stopped_as_embedded(
    documents: list[Document], settings: Settings, spec: PlatformSpec
) -> None:
    workload = workloads(documents)["supervisor"]
    assert workload["spec"]["replicas"] == 1
    (box,) = pod(workload)["containers"]
    service = Supervisor(settings, spec)
    assert box["command"] == ["python", *service.command()[1:]]
    assert pod(workload)["terminationGracePeriodSeconds"] > service.spec.grace
    startup = box["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= service.spec.ready_within
    for probe in ("startupProbe", "readinessProbe"):
        assert box[probe]["exec"]["command"][2:] == [compose.__name__, "ready", "supervisor"]
    assert "livenessProbe" not in box
    airflow = pod(workloads(documents)["airflow"])
    assert airflow["terminationGracePeriodSeconds"] > Airflow(settings, spec).spec.grace


def test_the_publisher_is_started_asked_and_stopped_as_embedded(
    documents: list[Document], settings: Settings, spec: PlatformSpec
) -> None:
    workload = workloads(documents)["publisher"]
    assert workload["kind"] == "StatefulSet", "one at a time, and the old one is gone first"
    assert workload["spec"]["replicas"] == 1
    (box,) = pod(workload)["containers"]
    service = Publisher(settings, spec)
    assert box["command"] == ["python", *service.command()[1:]]
    assert pod(workload)["terminationGracePeriodSeconds"] > service.spec.grace
    startup = box["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= service.spec.ready_within
    for probe in ("startupProbe", "readinessProbe"):
        assert box[probe]["exec"]["command"][2:] == [compose.__name__, "ready", "publisher"]


def test_each_gets_the_secrets_it_reads_and_no_others(
    documents: list[Document], spec: PlatformSpec
) -> None:
    def keys(name: str) -> set[str]:
        (secrets,) = [v for v in pod(workloads(documents)[name])["volumes"]
                      if v["name"] == "secrets"]  # fmt: skip
        return {item["key"] for item in secrets["secret"]["items"]}

    assert keys("supervisor") == set(compose.READS["supervisor"])
    assert keys("publisher") == set(compose.READS["publisher"])
    configured = {"postgres-airflow", "airflow-fernet", "airflow-secret", "airflow-jwt"}
    assert keys("airflow") == set(compose.READS["airflow"]) | configured
    assert keys("supervisor") | keys("airflow") | keys("publisher") <= set(secret_names(spec))
    for name in ("spark-master", "spark-worker"):
        assert "secrets" not in {v["name"] for v in pod(workloads(documents)[name])["volumes"]}


def test_airflow_is_configured_from_those_alone(
    documents: list[Document], settings: Settings, spec: PlatformSpec, tmp_path: Path
) -> None:
    """The step of the pod, run here with the files it would have."""
    ensure_secrets(settings, spec)
    given = tmp_path / "given"
    given.mkdir()
    volumes = {v["name"]: v for v in pod(workloads(documents)["airflow"])["volumes"]}
    for item in volumes["secrets"]["secret"]["items"]:
        (given / item["path"]).write_text(settings.secret(item["key"]))
    inside = replace(
        settings, containers=True, port_offset=0, secrets=given, home=tmp_path / "penstock"
    )
    configure = pod(workloads(documents)["airflow"])["initContainers"][1]
    assert configure["command"][3] == "configure"
    compose.configure(inside, spec, configure["command"][4:])
    made = {str(p.relative_to(inside.home)) for p in inside.home.rglob("*") if p.is_file()}
    reads = {f"etc/airflow/secrets/{name}" for name in compose.READS["airflow"]}
    assert made == {"etc/airflow/airflow.cfg"} | reads


def test_the_cluster_is_the_one_that_is_tested(documents: list[Document]) -> None:
    env = environment(documents, pod(workloads(documents)["supervisor"])["containers"][0])
    (_, master), (_, worker) = [
        (name, box) for name, _, box in containers(documents) if name.startswith("spark-")
    ]
    assert (master["args"][0], worker["args"][0]) == (MASTER, WORKER)
    told = dict(zip(master["args"][1::2], master["args"][2::2], strict=True))
    url = f"spark://{told['--host']}:{told['--port']}"
    assert worker["args"][-1] == env["PENSTOCK_SPARK_MASTER"] == url
    assert told["--host"] == "spark-master-0.spark-master"  # pod and service of a StatefulSet
    given = dict(zip(worker["args"][1:-1:2], worker["args"][2:-1:2], strict=True))
    files = {told["--properties-file"], given["--properties-file"], env["PENSTOCK_SPARK_CONF"]}
    assert len(files) == 1
    limit = int(worker["resources"]["limits"]["memory"].removesuffix("Gi"))
    assert int(given["--memory"].removesuffix("g")) < limit, "Python needs room beside the heaps"


def test_drivers_are_told_how_executors_reach_them(
    documents: list[Document], settings: Settings
) -> None:
    guarded = {"spark.authenticate": "true"}
    for name in ("supervisor", "airflow"):
        env = environment(documents, pod(workloads(documents)[name])["containers"][0])
        assert env["PENSTOCK_CONTAINERS"] == "1"
        spark = SparkSettings.read({}, env)
        assert spark.driver_host == env["POD_IP"]
        with pytest.raises(NotRunning, match="does not answer"):  # all else is as it must be
            cluster.require(replace(settings, spark=spark), guarded)


def test_names_and_ports_outside_are_those_the_settings_have(
    documents: list[Document], settings: Settings
) -> None:
    inside = replace(settings, containers=True, port_offset=0)
    services, slices = named(documents, "Service"), named(documents, "EndpointSlice")
    allowed = {
        port["port"]
        for rule in named(documents, "NetworkPolicy")["to-the-outside"]["spec"]["egress"]
        for port in rule["ports"]
    }
    for name in ("kafka", "postgres", "registry", "connect"):
        assert inside.host(name) in services
        assert services[name]["spec"]["ports"][0]["port"] == PORTS[name]
        assert slices[name]["metadata"]["labels"]["kubernetes.io/service-name"] == name
        assert slices[name]["ports"][0]["port"] in allowed
    assert services["airflow"]["spec"]["ports"][0]["port"] == PORTS["airflow"]


def test_nobody_speaks_to_anybody_unless_it_is_said(documents: list[Document]) -> None:
    policies = named(documents, "NetworkPolicy")
    assert policies["nobody"]["spec"] == {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
    }
    known = set(workloads(documents))
    text = (FOLDER / "network.yaml").read_text()
    for values in re.findall(r"values: \[(.+)\]", text):
        assert {value.strip() for value in values.split(",")} <= known
    spark = policies["spark"]["spec"]["ingress"][0]["ports"]
    ranges = [(port["port"], port.get("endPort", port["port"])) for port in spark]
    doc = (FOLDER.parents[1] / "docs" / "kubernetes.md").read_text()
    for key in ("spark.driver.port", "spark.blockManager.port"):
        found = re.search(rf"{re.escape(key)} (\d+)", doc)
        assert found is not None, key
        tries = re.search(r"spark.port.maxRetries (\d+)", doc)
        assert tries is not None
        first = int(found[1])
        assert (first, first + int(tries[1])) in ranges, key
