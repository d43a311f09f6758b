"""A supervisor that all tests of this folder share: its start takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.platform.stack import Stack
from penstock.settings import Settings
from tests.live import Supervised


@pytest.fixture(scope="package")
def running(stack: Stack, test_project: Path) -> Iterator[Supervised]:
    supervised = Supervised(replace(stack.settings, project=test_project))
    try:
        supervised.start()
        yield supervised
        left = supervised.stop(supervised.processes[-1])
        assert left == 0, "a supervisor told to stop leaves cleanly"
    finally:
        supervised.kill_all()


@pytest.fixture
def home(running: Supervised) -> Settings:
    return running.settings
