"""What is to be published, as the manifest has it: no code of the jobs is loaded here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import EnvironmentProblem

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["CHANGELOG", "EVENTS", "NOTIFICATION", "Published", "declared"]

CHANGELOG, EVENTS, NOTIFICATION = "changelog", "events", "notification"


@dataclass(frozen=True)
class Published:
    """One publication of a live table."""

    kind: str
    table: str
    keys: tuple[str, ...]
    # of topics
    topic: str = ""
    format: str = "avro"
    partitions: int = 2
    corrections: bool = True
    history: bool = True
    retention_ms: int = 0
    # of notifications
    name: str = ""
    to: str = ""
    subject: str = ""
    text: str = ""
    every: str = ""

    @property
    def target(self) -> str:
        return self.topic or self.name

    @property
    def id(self) -> str:
        """What its position is remembered by."""
        return f"{self.kind}:{self.table}:{self.target}"


def declared(settings: Settings) -> list[Published]:
    """Everything that is declared; nothing while nothing is registered.

    Raises:
        EnvironmentProblem: the manifest cannot be read.
    """
    try:
        manifest = json.loads(settings.manifest.read_text())
        keys = {str(t["name"]): tuple(t.get("keys") or ()) for t in manifest["tables"]}
        return [_published(told, keys) for told in manifest.get("published", ())]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise EnvironmentProblem(
            f"the list of tables {settings.manifest} cannot be read: {error}.",
            remedy="Write it anew with `penstock register`.",
        ) from None


def _published(told: dict[str, Any], keys: dict[str, tuple[str, ...]]) -> Published:
    known = {name: told[name] for name in Published.__dataclass_fields__ if name in told}
    return Published(**{**known, "keys": keys.get(str(told["table"]), ())})
