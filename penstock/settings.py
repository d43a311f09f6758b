"""Where things are and which knobs are set. The only module that reads the environment.

A *project* is a folder with a ``pyproject.toml`` that has a ``[tool.penstock]`` table; *home* is
where one stack keeps everything it writes. Two stacks differ in home and port offset only.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.bucket import SCHEMES, Bucket, storage_options
from penstock.errors import EnvironmentProblem
from penstock.location import Location, Remote
from penstock.publish.settings import NotifySettings
from penstock.spark.settings import SparkSettings

__all__ = ["PORTS", "NotifySettings", "Settings"]

# Default ports, all on loopback; a stack adds its offset to each of them.
PORTS: dict[str, int] = {
    "kafka": 19092,
    "kafka-controller": 19093,
    "kafka-2": 19094,
    "kafka-2-controller": 19095,
    "kafka-3": 19096,
    "kafka-3-controller": 19097,
    "postgres": 15432,
    "registry": 18081,
    "connect": 18083,
    "airflow": 18080,
    "api": 18085,
    "spark-ui": 14040,
}
HOST = "127.0.0.1"
MOST_SUPERVISORS = 9


@dataclass(frozen=True)
class Settings:
    """Immutable view of one stack."""

    project: Path
    home: Path
    jobs: str = "spark_jobs"
    port_offset: int = 0
    jars: Path = field(default=Path())
    java_home: str | None = None
    alert_url: str = ""  # where alerts of the DAGs are posted too; empty: only kept in a file
    containers: bool = False  # the services are containers (docker-compose.yml), not our processes
    export_tables: tuple[str, ...] = ("gold.*",)  # what `penstock export` takes if told nothing
    clickhouse_url: str | None = None  # None: the embedded one
    clickhouse_user: str = "penstock"  # its password is the secret clickhouse-<user>
    bucket: Bucket | None = None  # where the tables are, if not below home: docs/object-store.md
    spark: SparkSettings = field(default_factory=SparkSettings)  # which master computes
    notify: NotifySettings = field(default_factory=NotifySettings)
    secrets: Path | None = None  # the folder of the secrets, where it is not home's own
    demo_rate: float = 20.0  # trades a second of the demo; its other traffic keeps proportion
    brokers: int = 1  # 1 or 3, chosen at the first start: docs/brokers.md
    supervisors: int = 1  # how many share the tables: docs/supervisors.md

    @classmethod
    def load(cls) -> Settings:
        """Read the environment, the project file and the stack's own saved choices."""
        env = os.environ
        project = _find_project(Path(env.get("PENSTOCK_PROJECT", Path.cwd())))
        home = Path(env.get("PENSTOCK_HOME", project / ".penstock")).expanduser().resolve()
        with (project / "pyproject.toml").open("rb") as handle:
            declared = tomllib.load(handle).get("tool", {}).get("penstock", {})
        export = declared.get("export", {})
        return cls(
            project=project,
            home=home,
            jobs=declared.get("jobs", "spark_jobs"),
            port_offset=_port_offset(env.get("PENSTOCK_PORT_OFFSET"), home),
            jars=Path(env.get("PENSTOCK_JARS", project / ".jars")).expanduser().resolve(),
            java_home=env.get("JAVA_HOME") or None,
            alert_url=str(declared.get("alert_url", "")),
            containers=env.get("PENSTOCK_CONTAINERS") == "1",
            export_tables=tuple(export.get("tables", ("gold.*",))),
            clickhouse_url=env.get("PENSTOCK_CLICKHOUSE_URL") or export.get("clickhouse"),
            clickhouse_user=export.get("clickhouse_user", "penstock"),
            bucket=_bucket(env.get("PENSTOCK_WAREHOUSE"), declared, home, env),
            spark=SparkSettings.read(declared, env),
            notify=NotifySettings.read(declared),
            secrets=Path(env["PENSTOCK_SECRETS"]) if env.get("PENSTOCK_SECRETS") else None,
            demo_rate=_rate(env.get("PENSTOCK_DEMO_RATE", "20")),
            brokers=int(_saved(home).get("brokers", 1)),
            supervisors=_supervisors(env.get("PENSTOCK_SUPERVISORS"), home),
        )

    @classmethod
    def of(cls, home: Path) -> Settings:
        """Another stack of this project on this machine, as it was started."""
        saved = _saved(home)
        return replace(
            cls.load(),
            home=home,
            port_offset=int(saved.get("port_offset", 0)),
            brokers=int(saved.get("brokers", 1)),
            supervisors=int(saved.get("supervisors", 1)),
            secrets=None,
        )

    def port(self, service: str) -> int:
        return PORTS[service] + self.port_offset

    # --- folders of one stack -------------------------------------------------------------
    @property
    def warehouse(self) -> Location:
        """Live tables sit at ``warehouse/<layer>/<name>`` for ever."""
        return self.home / "warehouse" if self.bucket is None else Remote(self.bucket)

    @property
    def bundles(self) -> Path:
        return self.home / "bundles"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def run(self) -> Path:
        """Pid files, Spark's disposable checkpoints, sockets."""
        return self.home / "run"

    @property
    def data(self) -> Path:
        """Data folders of the services (kafka, postgres)."""
        return self.home / "data"

    @property
    def secrets_folder(self) -> Path:
        """One 0600 file each; containers that share a home have a folder of their own each."""
        return self.secrets or self.home / "secrets"

    @property
    def manifest(self) -> Path:
        return self.home / "manifest.json"

    @property
    def reports(self) -> Path:
        """Pages of comparisons, one folder per release."""
        return self.home / "reports"

    @property
    def sites(self) -> Path:
        """Pages made for people, one folder per site; shown beside the Airflow UI."""
        return self.home / "sites"

    @property
    def expectations(self) -> Path:
        """Suites of the project's tables; they belong to the working tree, not to a revision."""
        return self.project / "expectations"

    # --- addresses ------------------------------------------------------------------------
    def host(self, service: str) -> str:
        """Where a service is reached: on loopback, or under its own name when it is a container."""
        return service if self.containers else HOST

    @property
    def copies(self) -> dict[str, int]:
        """Services that there are several of."""
        return {"kafka": self.brokers, "supervisor": self.supervisors}

    @property
    def broker_ports(self) -> list[int]:
        names = ["kafka", *(f"kafka-{number}" for number in range(2, self.brokers + 1))]
        return [self.port(name) for name in names]

    @property
    def kafka_bootstrap(self) -> str:
        """Every broker: whichever of them lives lets a client in."""
        return ",".join(f"{self.host('kafka')}:{port}" for port in self.broker_ports)

    @property
    def kafka_ca(self) -> Path | None:
        """Who signed the broker's certificate; None on loopback, where nobody can listen in."""
        return self.home / "tls" / "ca.pem" if self.containers else None

    @property
    def kafka_security(self) -> dict[str, str]:
        """librdkafka's settings for the way to the broker."""
        if self.kafka_ca is None:
            return {"security.protocol": "SASL_PLAINTEXT"}
        return {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.kafka_ca)}

    @property
    def registry_url(self) -> str:
        """Confluent-compatible address of the schema registry."""
        return f"http://{self.host('registry')}:{self.port('registry')}/apis/ccompat/v7"

    @property
    def airflow_url(self) -> str:
        return f"http://{self.host('airflow')}:{self.port('airflow')}"

    @property
    def api_url(self) -> str:
        """Where the read API answers."""
        return f"http://{self.host('api')}:{self.port('api')}"

    def environment(self, **more: str) -> dict[str, str]:
        """What a process of this stack inherits: this one's environment and where the stack is."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW_")}
        ours = {
            "PENSTOCK_PROJECT": str(self.project),
            "PENSTOCK_HOME": str(self.home),
            "PENSTOCK_PORT_OFFSET": str(self.port_offset),
            "PENSTOCK_JARS": str(self.jars),
            "PENSTOCK_SUPERVISORS": str(self.supervisors),
            "PENSTOCK_WAREHOUSE": "" if self.bucket is None else self.bucket.uri,
            **self.spark.environment(),
            **({"PENSTOCK_SECRETS": str(self.secrets)} if self.secrets else {}),
        }
        return inherited | ours | more

    def secret(self, name: str) -> str:
        """A generated secret of this stack; one 0600 file each, made at first start."""
        path = self.secrets_folder / name
        try:
            return path.read_text().strip()
        except FileNotFoundError:
            raise EnvironmentProblem(
                f"this stack has no secret named {name} yet ({self.home}).",
                remedy="Run `penstock up` first.",
            ) from None


def _find_project(start: Path) -> Path:
    for folder in (start.resolve(), *start.resolve().parents):
        file = folder / "pyproject.toml"
        if file.is_file() and "[tool.penstock]" in file.read_text():
            return folder
    raise EnvironmentProblem(
        f"no Penstock project at or above {start}: no pyproject.toml with a [tool.penstock] table.",
        remedy="Change into the project folder, or set PENSTOCK_PROJECT.",
    )


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1_000_000:
        raise EnvironmentProblem(
            f"PENSTOCK_DEMO_RATE is {text!r}, which is no number of trades a second.",
            remedy="Set it to something such as 20, or unset it.",
        )
    return rate


def _port_offset(asked: str | None, home: Path) -> int:
    """The environment wins; otherwise what this stack was first started with."""
    if asked is not None:
        try:
            return int(asked)
        except ValueError:
            raise EnvironmentProblem(
                f"PENSTOCK_PORT_OFFSET is {asked!r}, not a whole number.",
                remedy="Unset it, or set it to a number such as 100.",
            ) from None
    try:
        return int(_saved(home)["port_offset"])
    except (KeyError, ValueError):
        return 0


def _supervisors(asked: str | None, home: Path) -> int:
    """As asked, or as the stack was started."""
    told = _saved(home).get("supervisors", 1) if asked is None else asked
    if str(told).isdigit() and 1 <= int(told) <= MOST_SUPERVISORS:
        return int(told)
    raise EnvironmentProblem(
        f"PENSTOCK_SUPERVISORS is {told!r}, not a number from 1 to {MOST_SUPERVISORS}.",
        remedy="Unset it, or set it to a number such as 2.",
    )


def _saved(home: Path) -> dict[str, Any]:
    """What a stack was first started with."""
    try:
        found = json.loads((home / "stack.json").read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _bucket(
    asked: str | None, declared: Mapping[str, Any], home: Path, env: Mapping[str, str]
) -> Bucket | None:
    """Where the tables are: as asked, or where this stack put them first; an empty word is home."""
    known = _saved(home).get("warehouse", declared.get("warehouse", ""))
    uri = str(known if asked is None else asked).rstrip("/")
    if not uri:
        return None
    scheme, _, rest = uri.partition("://")
    if scheme not in SCHEMES or not rest:
        raise EnvironmentProblem(
            f"the warehouse {uri!r} is not the address of a bucket.",
            remedy="Write s3://bucket/prefix (or gs://, az://): docs/object-store.md.",
        )
    endpoint = str(declared.get("warehouse_endpoint", ""))
    options = storage_options(
        uri, env, Path(env.get("PENSTOCK_SECRETS") or home / "secrets"), endpoint
    )
    return Bucket(uri, options, home / "copies" / "files")
