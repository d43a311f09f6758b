"""A platform of tiny Python programs, so that life cycles are tested without any JVM."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from penstock.platform.service import Report, Service
from penstock.platform.spec import PlatformSpec, ServiceSpec
from penstock.platform.stack import Stack
from penstock.settings import Settings

WELL = "import time, pathlib; pathlib.Path('up').touch(); time.sleep(60)"
DYING = (
    "import sys; print('2026 INFO fine'); print('ERROR the disk is made of cheese'); sys.exit(3)"
)
SILENT = "import time; time.sleep(60)"


class Fake(Service):
    """Ready once its program has made the file `up`; its configuration is one text."""

    name = "kafka"
    program = WELL
    text = "one"
    provisioned = 0

    def files(self) -> Mapping[str, str]:
        return {"config": self.text}

    def command(self) -> Sequence[str]:
        return [sys.executable, "-c", self.program]

    def prepare(self, report: Report) -> None:
        (self.etc / "up").unlink(missing_ok=True)

    def ready(self) -> bool:
        recorded = self.pid_file.read()
        return recorded is not None and recorded.is_running() and (self.etc / "up").exists()

    def provision(self, report: Report) -> None:
        self.provisioned += 1


def fake_spec(project: Path, needs: Mapping[str, tuple[str, ...]]) -> PlatformSpec:
    services = {
        name: ServiceSpec(name, name.title(), (), tuple(need), ready_within=20, grace=3)
        for name, need in needs.items()
    }
    return replace(PlatformSpec.load(project), services=services)


def fake_stack(settings: Settings, needs: Mapping[str, tuple[str, ...]]) -> Stack:
    """A stack whose services are all fakes; set `program` on one to make it misbehave."""
    spec = fake_spec(settings.project, needs)
    stack = Stack(settings, spec)
    for name in needs:
        kind = type(f"Fake_{name}", (Fake,), {"name": name})
        stack.services[name] = kind(settings, spec)
    return stack
