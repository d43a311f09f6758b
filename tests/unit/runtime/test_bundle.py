"""Bundles: a revision runs the code it was registered with, whatever the tree becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.runtime.code.bundle import Bundle, store_bundle

MODULE = """
from penstock.model import Rows, table
from jobs.shared import FACTOR
from . import shared

@table("silver.n", inputs={"n": "bronze.n"}, kind=Rows())
def f(n):
    from jobs.shared import FACTOR as late   # an import that runs later must find the same copy
    return n * FACTOR * late * shared.FACTOR
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    jobs = tmp_path / "project" / "jobs"
    jobs.mkdir(parents=True)
    (jobs / "__init__.py").write_text("")
    (jobs / "shared.py").write_text("FACTOR = 2\n")
    (jobs / "silver.py").write_text(MODULE)
    return tmp_path / "project"


def load(root: Path):
    return Bundle(root, "jobs").load("jobs.silver").f


def test_the_same_content_has_one_address(project, tmp_path):
    first = store_bundle(project, "jobs", tmp_path / "b")
    assert store_bundle(project, "jobs", tmp_path / "b") == first
    (project / "jobs" / "shared.py").write_text("FACTOR = 3\n")
    assert store_bundle(project, "jobs", tmp_path / "b") != first


def test_another_lock_is_another_address(project, tmp_path):
    first = store_bundle(project, "jobs", tmp_path / "b")
    (project / "requirements.lock").write_text("pyspark==9\n")
    assert store_bundle(project, "jobs", tmp_path / "b") != first


def test_old_and_new_code_run_side_by_side_after_an_edit(project, tmp_path):
    old = store_bundle(project, "jobs", tmp_path / "b")
    running = load(tmp_path / "b" / old)
    assert running(1) == 8
    (project / "jobs" / "shared.py").write_text("FACTOR = 10\n")
    new = store_bundle(project, "jobs", tmp_path / "b")
    assert running(1) == 8, "an edit must not reach a loaded revision, not even a late import"
    assert load(tmp_path / "b" / old)(1) == 8, "nor one loaded again after a restart"
    assert load(tmp_path / "b" / new)(1) == 1000


def test_nothing_leaks_into_the_ordinary_module_table(project, tmp_path):
    import sys

    load(project)
    assert "jobs.silver" not in sys.modules


def test_udfs_travel_by_value(project):
    """A worker must not import the working tree: cloudpickle has to ship the function itself."""
    from pyspark import cloudpickle

    function = load(project).transform
    assert cloudpickle.loads(cloudpickle.dumps(function)).__code__ is not function.__code__


def test_a_broken_module_disables_itself_alone(project):
    (project / "jobs" / "bad.py").write_text("x = 1\n\ny = 1 / 0\n")
    (project / "jobs" / "worse.py").write_text("def broken(:\n")
    catalog = Bundle(project, "jobs").catalog()
    reasons = {broken.what: broken.reason for broken in catalog.broken}
    assert "jobs/bad.py:3: ZeroDivisionError" in reasons["jobs.bad"]
    assert "jobs/worse.py:1:" in reasons["jobs.worse"]
    # silver.n reads bronze.n, which nobody declares: off for its own reason, not theirs
    assert "silver.n reads bronze.n" in reasons["silver.n"]


def test_dataclasses_with_postponed_annotations_work_in_a_bundle(project):
    (project / "jobs" / "shapes.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n"
        "@dataclass(frozen=True)\nclass Point:\n    x: int\n"
    )
    assert Bundle(project, "jobs").load("jobs.shapes").Point(3).x == 3
