"""Finding a Java that the services and Spark run on."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from penstock.errors import EnvironmentProblem
from penstock.settings import Settings

__all__ = ["JAVA_VERSION", "java_executable", "java_version"]

JAVA_VERSION = 17  # Spark 4.1, Kafka 4.3 and Apicurio 3.0 all run on it; later ones are untested
_REMEDY = (
    f"Install a JDK {JAVA_VERSION} (Debian: `apt-get install openjdk-17-jre-headless`), "
    "or point JAVA_HOME at one."
)


def java_executable(settings: Settings) -> Path:
    """The `java` to use: JAVA_HOME's if set, else the one on PATH; must be the right version."""
    found = _candidate(settings.java_home)
    version = java_version(found)
    if version != JAVA_VERSION:
        raise EnvironmentProblem(
            f"Java {JAVA_VERSION} is needed; {found} is version {version or 'unknown'}.",
            remedy=_REMEDY,
        )
    return found


def _candidate(java_home: str | None) -> Path:
    if java_home:
        path = Path(java_home) / "bin" / "java"
        if not path.is_file():
            raise EnvironmentProblem(
                f"JAVA_HOME is {java_home}, but there is no bin/java in it.",
                remedy=f"Unset JAVA_HOME or point it at a JDK {JAVA_VERSION}.",
            )
        return path
    on_path = shutil.which("java")
    if on_path is None:
        raise EnvironmentProblem("no Java was found on PATH.", remedy=_REMEDY)
    return Path(on_path)


@lru_cache
def java_version(java: Path) -> int | None:
    """Major version of a `java`; None when it does not run or says nothing we understand."""
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match.group(1)) if match else None
