"""The stream supervisor as a service of the stack; what it does is in :mod:`penstock.runtime`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from penstock.platform.service import Service
from penstock.runtime import heartbeat

__all__ = ["Supervisor"]

_SPARK = "spark.txt"


class Supervisor(Service):
    """Started from the project's folder, so that the project's jobs can be imported.

    Of several, each is looked at by itself: its own sign of life tells of it.
    """

    name = "supervisor"

    @property
    def cwd(self) -> Path:
        return self.settings.project

    def files(self) -> Mapping[str, str]:
        """For people, and so that another master is a changed configuration."""
        alone = {_SPARK: self.settings.spark.describe()}
        if self.settings.supervisors == 1:
            return alone
        return {**alone, "share.txt": f"one of {self.settings.supervisors}\n"}

    def command(self) -> Sequence[str]:
        named = ["--name", self.name] if self.settings.supervisors > 1 else []
        return [sys.executable, "-m", "penstock.cli", "supervise", *named]

    def _beat(self) -> heartbeat.Heartbeat | None:
        recorded = self.pid_file.read()
        if self.settings.supervisors == 1 or recorded is None:
            return heartbeat.read(self.settings)
        return heartbeat.read_of(self.settings, recorded.pid)

    def ready(self) -> bool:
        """Streams run, here or in another supervisor, and the heartbeat is not a dead one's."""
        beat = self._beat()
        if beat is None or beat.age_seconds > heartbeat.STALE_AFTER:
            return False
        # Whether a container lives is its engine's matter, and a pid means nothing in another one.
        lives = self.settings.containers or psutil.pid_exists(beat.pid)
        return beat.state in ("running", "standby") and lives

    def detail(self) -> str:
        beat = self._beat()
        if beat is None:
            return "no heartbeat"
        told = f"{beat.state}, {len(beat.streams)} streams, beat {beat.age_seconds:.0f} s ago"
        return f"{told}{self._elsewhere()}"

    def _elsewhere(self) -> str:
        """The master it was started with, which the settings of whoever asks may not have."""
        try:
            master = (self.etc / _SPARK).read_text().split()[1]
        except (FileNotFoundError, IndexError):
            return ""
        return "" if master.startswith("local") else f", computes on {master}"
