"""What the publisher says of itself, for those who look from outside: one small file."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["STALE_AFTER", "Told", "read_told", "state_file"]

STALE_AFTER = 60.0  # seconds; it writes every second or two, but a broker that is away takes longer


@dataclass(frozen=True)
class Told:
    """One sign of life."""

    pid: int
    at: float
    error: str = ""  # what no publication can be blamed for, such as letters that wait
    publications: list[dict[str, Any]] = field(default_factory=list)

    @property
    def age_seconds(self) -> float:
        return time.time() - self.at

    def write(self, settings: Settings) -> None:
        file = state_file(settings)
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self)))
        os.replace(draft, file)


def state_file(settings: Settings) -> Path:
    return settings.home / "publish" / "state.json"


def read_told(settings: Settings) -> Told | None:
    """The newest sign of life; None: there never was one."""
    try:
        return Told(**json.loads(state_file(settings).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
