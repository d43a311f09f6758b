"""A stack of its own, with a project of its own for suites that only tests need."""

from __future__ import annotations

from dataclasses import replace

import pytest
from quality_world import Stand


@pytest.fixture
def stand(settings) -> Stand:
    """Our own suites, and no table yet."""
    return Stand(settings)


@pytest.fixture
def own(settings, tmp_path) -> Stand:
    """A project without suites: a test writes those it needs."""
    project = tmp_path / "project"
    (project / "expectations").mkdir(parents=True)
    (project / "pyproject.toml").write_text("[tool.penstock]\njobs = 'spark_jobs'\n")
    return Stand(replace(settings, project=project))
