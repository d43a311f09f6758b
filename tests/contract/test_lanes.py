"""Who runs beside whom when `make test` has two workers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import lanes


def asking(nodeid: str, *fixtures: str) -> Any:
    return SimpleNamespace(nodeid=nodeid, fixturenames=fixtures)


def test_who_shares_the_stack_shares_a_lane_and_nobody_else() -> None:
    shared = {
        lanes.lane("tests/chaos/test_takeover.py::test_a[1]"),
        lanes.lane("tests/integration/trades/test_trades_flow.py::test_b"),
        lanes.lane("tests/security/test_kafka_acl.py::test_c"),
    }
    assert shared == {lanes.STACK}
    assert lanes.lane("tests/unit/test_location.py::test_d[a::b]") == "tests/unit/test_location.py"
    assert lanes.lane(f"{lanes.APART[0]}::test_e") == lanes.APART[0]


def test_what_is_set_apart_is_there(project: Path) -> None:
    assert [name for name in lanes.APART if not (project / name).is_file()] == []


def test_a_second_shared_stack_is_refused() -> None:
    lanes.check([asking("tests/chaos/test_x.py::test", "stack"), asking("tests/unit/test_y.py::t")])
    for module in ("tests/unit/test_y.py", lanes.APART[0]):
        with pytest.raises(pytest.UsageError, match="uses the shared stack"):
            lanes.check([asking(f"{module}::test", "stack")])


def test_workers_have_ports_of_their_own() -> None:
    assert lanes.worker({}) == lanes.worker({"PYTEST_XDIST_WORKER": "gw0"}) == 0
    assert lanes.worker({"PYTEST_XDIST_WORKER": "gw3"}) == 3


def test_modules_of_tests_have_names_of_their_own(project: Path) -> None:
    """Two of one name, in folders that are no packages, end the collection of the whole run."""
    names = [path.name for path in (project / "tests").rglob("test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []
