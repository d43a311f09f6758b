"""Where Spark computes and with what: one small table of settings, checked when it is read.

``[tool.penstock] spark_master`` names the master; ``[tool.penstock.spark]`` holds Spark's own
settings, and a table below it those of one application (``supervisor``, ``stage``, ``backfill``,
``marts``). What must not be in a repository is in a properties file of Spark's, named by
PENSTOCK_SPARK_CONF. The file wins over the table, an application over all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.errors import EnvironmentProblem

__all__ = ["LOCAL", "SparkSettings"]

LOCAL = "local[2]"  # as many threads as the machine has cores that figures were measured on
LOOPBACK = "127.0.0.1"

# What decides results is the same on every master and for every application, or the stream and
# the batch of a table would not agree.
_OURS = {
    "spark.master": "Set PENSTOCK_SPARK_MASTER, or spark_master in [tool.penstock].",
    **dict.fromkeys(
        (
            "spark.sql.session.timeZone",
            "spark.sql.ansi.enabled",
            "spark.sql.parquet.outputTimestampType",
            "spark.sql.extensions",
            "spark.sql.catalog.spark_catalog",
            "spark.sql.catalogImplementation",
            "spark.driver.extraClassPath",
            "spark.driver.extraJavaOptions",
            "spark.redaction.regex",
        ),
        "Remove it: tables would come out otherwise, or their files could not be read.",
    ),
}
_SECRET = re.compile(r"(?i)(secret|password|passwd|token|secret\.key|access\.key)$")
_MASTER = re.compile(r"local(\[.+\])?|yarn|(spark|k8s)://.+")


@dataclass(frozen=True)
class SparkSettings:
    """Which master, how executors reach us, and what Spark is told besides."""

    master: str = LOCAL
    driver_host: str = LOOPBACK  # this machine, as executors see it
    table: tuple[tuple[str, str, str], ...] = ()  # application or "", key, value
    file: Path | None = None  # more of them, and what is secret; handed to Spark by its path

    @classmethod
    def read(cls, declared: Mapping[str, Any], env: Mapping[str, str]) -> SparkSettings:
        """From ``[tool.penstock]`` and the environment, which wins."""
        master = env.get("PENSTOCK_SPARK_MASTER") or str(declared.get("spark_master", LOCAL))
        if not _MASTER.fullmatch(master):
            raise EnvironmentProblem(
                f"{master!r} is not a Spark master.",
                remedy="Set PENSTOCK_SPARK_MASTER to local[2], spark://host:7077, "
                "k8s://https://host:6443 or yarn.",
            )
        host = env.get("PENSTOCK_SPARK_DRIVER_HOST") or declared.get("spark_driver_host", LOOPBACK)
        file = env.get("PENSTOCK_SPARK_CONF")
        table = tuple(_flat(declared.get("spark", {})))
        _check({key: value for _, key, value in table}, "[tool.penstock.spark]")
        _refuse_secrets(key for _, key, _ in table)
        path = Path(file).expanduser().resolve() if file else None
        return cls(master, str(host), table, path)

    @property
    def is_local(self) -> bool:
        """True where the driver computes by itself."""
        return self.master.startswith("local")

    def with_room(self, waiting: int) -> SparkSettings:
        """The same with task slots for tasks that hold one and wait, beside those for the cores."""
        cores = re.fullmatch(r"local\[(\d+|\*)\]", self.master)
        if cores is None or not waiting:
            return self
        busy = (os.cpu_count() or 1) if cores[1] == "*" else int(cores[1])
        return replace(self, master=f"local[{busy + waiting}]")

    def environment(self) -> dict[str, str]:
        """What a process of the same stack inherits."""
        told = {
            "PENSTOCK_SPARK_MASTER": self.master,
            "PENSTOCK_SPARK_DRIVER_HOST": self.driver_host,
        }
        return told | ({"PENSTOCK_SPARK_CONF": str(self.file)} if self.file else {})

    def describe(self) -> str:
        """All of it that is not secret, for people and to see whether it changed."""
        lines = [f"master {self.master}", f"driver host {self.driver_host}", f"file {self.file}"]
        lines += [f"{name or 'all'}: {key} {value}" for name, key, value in self.table]
        return "\n".join(lines) + "\n"

    def given(self, app: str) -> dict[str, str]:
        """What the table and the file say for an application, ``supervisor`` or ``stage``."""
        found = {key: value for name, key, value in self.table if not name}
        found |= {key: value for name, key, value in self.table if name == app}
        return found | self.from_file()

    def from_file(self) -> dict[str, str]:
        """The properties of the file; the ones that are secret too: never log or print these."""
        if self.file is None:
            return {}
        try:
            text = self.file.read_text()
        except OSError as error:
            raise EnvironmentProblem(
                f"PENSTOCK_SPARK_CONF names {self.file}: {error.strerror}.",
                remedy="Correct the path, or unset it.",
            ) from None
        found = dict(_properties(text))
        _check(found, str(self.file))
        # A group may: mounted secrets belong to root and to the group of who reads them.
        if self.file.stat().st_mode & 0o007 and any(map(_SECRET.search, found)):
            raise EnvironmentProblem(
                f"{self.file} holds secrets and others may read it.",
                remedy=f"Run `chmod 600 {self.file}`.",
            )
        return found


def _flat(table: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """``spark.executor.memory = "1g"`` nests in TOML unless it is quoted: both are meant alike."""
    for name, value in table.items():
        if name == "spark" or name.startswith("spark."):
            yield from (("", key, text) for key, text in _leaves(name, value))
        elif isinstance(value, Mapping):
            for inner, deeper in value.items():
                yield from ((name, key, text) for key, text in _leaves(inner, deeper))
        else:
            raise EnvironmentProblem(
                f"[tool.penstock.spark] {name} is neither a setting of Spark nor an application.",
                remedy='Write settings by their whole name: "spark.executor.memory" = "2g".',
            )


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for inner, deeper in value.items():
            yield from _leaves(f"{name}.{inner}", deeper)
    else:
        yield name, str(value).lower() if isinstance(value, bool) else str(value)


def _properties(text: str) -> Iterator[tuple[str, str]]:
    """As Java reads them, but for escapes and continued lines: Spark's have no need of them."""
    for line in map(str.strip, text.splitlines()):
        if line and line[0] not in "#!":
            key, value = (*re.split(r"\s*[=:\s]\s*", line, maxsplit=1), "")[:2]
            yield key, value


def _check(given: Mapping[str, str], where: str) -> None:
    for key in given:
        if key in _OURS:
            raise EnvironmentProblem(f"{where} sets {key}.", remedy=_OURS[key])


def _refuse_secrets(keys: Iterator[str]) -> None:
    for key in keys:
        if _SECRET.search(key):
            raise EnvironmentProblem(
                f"[tool.penstock.spark] holds {key}: a secret, in a file of the repository.",
                remedy="Put it into a 0600 file of Spark properties and name that file in "
                "PENSTOCK_SPARK_CONF.",
            )
