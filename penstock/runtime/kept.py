"""How long versions of a table are kept: declared beside its meaning, as registered last."""

from __future__ import annotations

from penstock.model.definition import RETENTION
from penstock.model.duration import parse_duration
from penstock.runtime.registry import Revision

__all__ = ["retention_of"]


def retention_of(revision: Revision) -> float:
    """In seconds."""
    return parse_duration(revision.declared.get("retention", RETENTION)).total_seconds()
