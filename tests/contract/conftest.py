"""Fixtures: the compose file, and what its steps write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from penstock.platform import compose
from penstock.platform.secrets import ensure_secrets
from penstock.platform.spec import PlatformSpec
from penstock.settings import Settings
from tests.contract.compose_file import Compose


@pytest.fixture(scope="module")
def spec(project: Path) -> PlatformSpec:
    return PlatformSpec.load(project)


@pytest.fixture(scope="module")
def text(project: Path) -> str:
    return (project / "docker-compose.yml").read_text()


@pytest.fixture(scope="module")
def file(text: str) -> Compose:
    return yaml.safe_load(text)


@pytest.fixture
def inside(settings: Settings) -> Settings:
    """The settings of a process in a container."""
    return replace(settings, containers=True, port_offset=0, home=Path("/penstock"))


@pytest.fixture
def written(settings: Settings, spec: PlatformSpec) -> Settings:
    """A home after the step `configure`, with real secrets."""
    stack = replace(settings, containers=True, port_offset=0)
    ensure_secrets(stack, spec)
    compose.configure(stack, spec)
    return stack
