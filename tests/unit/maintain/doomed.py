"""Maintains a small world and kills itself, with SIGKILL, at a named step.

python -m tests.unit.maintain.doomed mid-clean FOLDER
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from penstock.runtime.delta import clean
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.upkeep import vacuum
from tests.unit.maintain.upkept import Upkept

STEPS = ("files-written", "committed", "before-mirror", "checkpoint", "archived", "mid-clean",
         "before-vacuum", "mid-vacuum")  # fmt: skip


def die(*args: Any, **kwargs: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def after(owner: Any, name: str, count: int = 1) -> None:
    """Die when something was done so many times."""
    real, left = getattr(owner, name), [count]

    def doomed(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        left[0] -= 1
        return die() if not left[0] else result

    setattr(owner, name, doomed)


def arm(step: str, world: Upkept) -> Any:
    """Patch the step in; returns how the writer is asked."""
    if step == "files-written":
        return die
    if step == "committed":
        return lambda *a: (world.ask(*a), die())
    {
        "before-mirror": lambda: setattr(RevisionWriter, "_mirror", die),
        "checkpoint": lambda: after(clean, "_checkpoint"),
        "archived": lambda: after(clean, "_put_away"),
        "mid-clean": lambda: after(Path, "unlink", 8),
        "before-vacuum": lambda: setattr(vacuum, "_files_before", die),
        "mid-vacuum": lambda: after(vacuum.Path, "unlink", 45),
    }[step]()
    return world.ask


if __name__ == "__main__":
    made = Upkept(Path(sys.argv[2]))
    made.maintain(ask=arm(sys.argv[1], made))
