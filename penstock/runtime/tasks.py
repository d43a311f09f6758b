"""What operators can ask of the one who writes a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.runtime.follow import Follower

__all__ = ["VERBS"]

Verb = Callable[[Follower, dict[str, Any]], dict[str, Any]]


def _reconcile(table: Follower, arguments: dict[str, Any]) -> dict[str, Any]:
    return table.reconcile()


def _run(table: Follower, arguments: dict[str, Any]) -> dict[str, Any]:
    """Everything new was taken in just before; what is left is to commit and count it."""
    table.settle(now=True)
    return {"version": table.writer.log.version, "behind": table.behind}


VERBS: dict[str, Verb] = {"reconcile": _reconcile, "run": _run}
