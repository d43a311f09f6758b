"""Live tables of a test's own, published to the session's broker."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from publishing import publish
from topic_oracle import Oracle

from penstock.model import Avro, Json, changelog, events
from penstock.platform.stack import Stack
from penstock.publish.run import Publisher
from penstock.settings import Settings
from tests.unit.export.export_world import World

FORMATS = {"avro": Avro(), "json": Json()}
Declare = Callable[..., str]


@pytest.fixture
def at(stack: Stack, tmp_path: Path) -> Settings:
    """A home of its own beside the services of the session."""
    home = tmp_path / "home"
    return replace(stack.settings, home=home, secrets=stack.settings.secrets_folder)


@pytest.fixture
def oracle(at: Settings) -> Oracle:
    return Oracle(at)


@pytest.fixture
def declare(at: Settings) -> Declare:
    """Add a publication of gold.sums to the manifest; the topic's name."""

    def add(kind: str = "changelog", *, format: str = "json", **more: Any) -> str:
        topic = f"out.t-{uuid.uuid4().hex[:8]}"
        made = {"changelog": changelog, "events": events}[kind](
            "gold.sums", topic=topic, format=FORMATS[format], **more
        )
        publish(at, made.describe())
        return topic

    return add


@pytest.fixture
def world(at: Settings) -> World:
    return World(at, keyed=True, rows=30)


@pytest.fixture
def publisher(at: Settings) -> Publisher:
    return Publisher(at)


@pytest.fixture
def publish_all(publisher: Publisher) -> Callable[[], None]:
    """Publish what there is, in this process, and see that nothing went wrong."""

    def run() -> None:
        while publisher.round():
            pass
        told = [kept.told() for kept in publisher._kept.values()]
        assert [one["error"] for one in told] == [""] * len(told)
        assert [one["behind"] for one in told] == [0] * len(told)

    return run
