"""Where exports lie, and one export at a time to each target."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.alone import alone

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["export_folder", "one_at_a_time", "point", "synced"]


def export_folder(settings: Settings) -> Path:
    """Everything exported is below this folder; only its owner may enter it."""
    folder = settings.home / "export"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@contextmanager
def one_at_a_time(
    folder: Path, target: str, patience: float, report: Callable[[str], None]
) -> Iterator[None]:
    """Hold a target's lock, waiting for whoever has it. The kernel drops it when we die.

    Raises:
        EnvironmentProblem: another export still holds it.
    """
    with alone(
        folder / f".{target}.lock",
        patience=patience,
        report=report,
        waiting=f"waiting for another export to {target} (pid {{pid}})",
        refused=f"another export to {target} (pid {{pid}}) is at work.",
        remedy="Wait for it, or give this one longer with --wait SECONDS.",
    ):
        yield


def synced(path: Path) -> None:
    """Have a file or folder on disk before anything points at it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def point(link: Path, to: str) -> None:
    """Let a symbolic link point somewhere else: at once, never at nothing."""
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(to)
    fresh.replace(link)
    synced(link.parent)
