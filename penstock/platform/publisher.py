"""The publisher as a service of the stack; what it does is in :mod:`penstock.publish`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from penstock.platform.service import Service
from penstock.publish.state import STALE_AFTER, read_told

__all__ = ["Publisher"]


class Publisher(Service):
    """It needs no Spark and no JVM: it reads the tables' logs."""

    name = "publisher"

    @property
    def cwd(self) -> Path:
        return self.settings.project

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "penstock.cli", "publish", "--follow"]

    def ready(self) -> bool:
        """It looks at its tables, and that is not a dead one's sign of life."""
        told = read_told(self.settings)
        if told is None or told.age_seconds > STALE_AFTER:
            return False
        return self.settings.containers or psutil.pid_exists(told.pid)

    def detail(self) -> str:
        told = read_told(self.settings)
        if told is None:
            return "no sign of life"
        if not told.publications:
            return "nothing is declared to be published"
        behind = sum(one.get("behind") or 0 for one in told.publications)
        trouble = [one["target"] for one in told.publications if one["state"] in _TROUBLE]
        text = f"{len(told.publications)} publications, {behind} commits behind"
        text += f"; in trouble: {', '.join(trouble)}" if trouble else ""
        return f"{text}; {told.error}" if told.error else text


_TROUBLE = ("waiting", "parked")
