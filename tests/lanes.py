"""Which tests run one after the other when `make test` runs on two workers.

A *lane* is a set of tests that one worker runs from beginning to end. All tests that share the
session's stack are one lane: it starts once, and a test that kills the broker has nobody beside it
who needs one. Every other module is a lane of its own, so that its fixtures are built once. Tests
on the stack mostly wait, the others mostly compute: side by side they share two cores well.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

__all__ = ["Lanes", "check", "lane", "worker"]

STACK = "the shared stack"
SHARED = ("tests/chaos/", "tests/integration/", "tests/security/")
# These start a stack of their own, on ports of their own.
APART = (
    "tests/integration/test_cluster_flow.py",
    "tests/integration/test_dags_run.py",
    "tests/integration/test_read_api.py",
    "tests/integration/test_reprocess_flow.py",
)


def lane(nodeid: str) -> str:
    """The lane of a test; its name orders nothing."""
    module = nodeid.split("::", 1)[0]
    return STACK if module.startswith(SHARED) and module not in APART else module


def worker(environment: Any) -> int:
    """The number of this worker; 0 where there is only one process."""
    return int(environment.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


def check(items: list[pytest.Item]) -> None:
    """Refuse a test that uses the shared stack outside its lane: there would be two of them."""
    for item in items:
        if "stack" in getattr(item, "fixturenames", ()) and lane(item.nodeid) != STACK:
            raise pytest.UsageError(
                f"{item.nodeid} uses the shared stack from a lane of its own.\n"
                f"Move it to one of {', '.join(SHARED)}, and not into APART of tests/lanes.py."
            )


class Lanes(LoadScopeScheduling):
    """Hands out whole lanes, in the order of collection: what is long comes first."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return lane(nodeid)
