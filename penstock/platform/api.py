"""The read API as a service of the stack; what it answers is in :mod:`penstock.serve.api`.

It needs none of the others: it reads the tables' files, and the registry only to say how far a
stream is behind.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.platform.http import ask
from penstock.platform.service import Service

__all__ = ["Api"]


class Api(Service):
    name = "api"

    @property
    def cwd(self) -> Path:
        return self.settings.project

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "penstock.cli", "serve"]

    def ready(self) -> bool:
        return ask(f"{self.settings.api_url}/health").ok

    def detail(self) -> str:
        return f"{self.settings.api_url}/docs"
