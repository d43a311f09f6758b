"""Fixtures: a small stack on disk, and no registry to ask."""

from __future__ import annotations

import pytest
from lineage_world import World

from penstock.settings import Settings


@pytest.fixture
def world(settings: Settings) -> World:
    return World(settings)
