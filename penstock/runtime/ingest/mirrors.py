"""Mirrors: topics of another Kafka cluster that are copied into this one, and whose they are.

A topic ``trades`` of the cluster called ``west`` is ``mirror.west.trades`` here. What is known of
that cluster is one file per mirror, ``home/mirrors/west.json``; ``penstock mirror`` writes it. The
streams read it for one thing: a mirrored record's ``cluster_id`` in bronze is the cluster it was
first written to, so that rows of several clusters can be told apart. Its topic id, partition and
offset are those of the copy, which is what was read and can be read again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.settings import Settings

__all__ = ["PREFIX", "Mirror", "file_of", "mirrors", "origin"]

PREFIX = "mirror"


@dataclass(frozen=True)
class Mirror:
    """Another cluster, and which of its topics are copied; its password is a secret."""

    name: str
    cluster_id: str
    bootstrap: str
    user: str
    topics: tuple[str, ...]
    ca: str = ""  # file of who signed its brokers' certificates; empty: no TLS

    @property
    def alias(self) -> str:
        """What MirrorMaker calls it: the beginning of its topics' names here."""
        return f"{PREFIX}.{self.name}"

    @property
    def connector(self) -> str:
        return f"{PREFIX}-{self.name}"

    @property
    def secret(self) -> str:
        return f"{PREFIX}-{self.name}"

    def copy_of(self, topic: str) -> str:
        return f"{self.alias}.{topic}"

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def file_of(settings: Settings, name: str) -> Path:
    return settings.home / "mirrors" / f"{name}.json"


def mirrors(settings: Settings) -> list[Mirror]:
    """Every cluster that is mirrored into this stack's."""
    found = []
    for file in sorted((settings.home / "mirrors").glob("*.json")):
        told = json.loads(file.read_text())
        found.append(Mirror(**{**told, "topics": tuple(told["topics"])}))
    return found


def origin(known: list[Mirror], topic: str) -> str | None:
    """The id of the cluster a topic is copied from; None for one of our own."""
    return next((m.cluster_id for m in known if topic.startswith(f"{m.alias}.")), None)
