"""Demo traffic: the project's own generator, run as a service so that it stops with the rest."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from penstock.platform.service import Service

__all__ = ["Demo"]

_MOMENTS = 2.0


class Demo(Service):
    name = "demo"

    @property
    def cwd(self) -> Path:
        return self.settings.project

    def command(self) -> Sequence[str]:
        rate = f"{self.settings.demo_rate:g}"
        return [sys.executable, "-m", f"{self.settings.jobs}.demo", "--rate", rate]

    def ready(self) -> bool:
        """It offers nothing to ask; alive some moments after its start is all there is to see."""
        recorded = self.pid_file.read()
        if recorded is None or not recorded.is_running():
            return False
        return time.time() - psutil.Process(recorded.pid).create_time() > _MOMENTS

    def detail(self) -> str:
        """As it was started, whatever is set now."""
        recorded = self.pid_file.read()
        if recorded is None or not recorded.is_running():
            return ""
        *_, rate = psutil.Process(recorded.pid).cmdline() or ["?"]
        return f"{rate} trades a second and the rest"
