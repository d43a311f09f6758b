"""Declaring publications to a test's own stack."""

from __future__ import annotations

import json
from typing import Any

from penstock.settings import Settings


def publish(at: Settings, told: dict[str, Any]) -> None:
    manifest = json.loads(at.manifest.read_text())
    manifest.setdefault("published", []).append(told)
    fresh = at.manifest.with_suffix(".new")
    fresh.write_text(json.dumps(manifest))
    fresh.replace(at.manifest)
