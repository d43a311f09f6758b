"""Fixtures: a stack of its own per test, and tables to put in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_tables import STATS, LiveTable, stats
from looked_up import WINDOWS, KeyedTable, windows

from penstock.serve.key_index import KeyIndex
from penstock.serve.lookup import Reader
from penstock.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = tmp_path / "home"
    (home / "warehouse").mkdir(parents=True)
    return Settings(project=tmp_path, home=home)


@pytest.fixture
def live(settings: Settings) -> Callable[[str], LiveTable]:
    """Make a live table's folder by name: ``live("gold.stats")``."""

    def make(label: str) -> LiveTable:
        return LiveTable(settings.warehouse.joinpath(*label.split(".")))

    return make


@pytest.fixture
def declare(settings: Settings) -> Callable[..., None]:
    """Write a manifest that declares these names."""

    def write(*names: str) -> None:
        tables = [{"name": name, "kind": "rows"} for name in names]
        settings.manifest.write_text(json.dumps({"tables": tables}))

    return write


@pytest.fixture
def gold(live: Callable[[str], LiveTable]) -> LiveTable:
    """``gold.stats``: two commits, three rows."""
    table = live("gold.stats").create(STATS)
    table.append(stats(("AAPL", 3, 10.5), ("MSFT", 5, 20.0)))
    table.append(stats(("NVDA", 8, 30.25)))
    return table


@pytest.fixture(params=["indexed", "not indexed"])
def reader(settings: Settings, request: pytest.FixtureRequest) -> Iterator[Reader]:
    index = KeyIndex(1 << 20, lambda: 1 << 40) if request.param == "indexed" else None
    with Reader(settings, index) as made:
        yield made


@pytest.fixture
def sensors(settings: Settings) -> KeyedTable:
    """Three sensors, ten windows each, in ten files by time."""
    table = KeyedTable(settings, "gold.windows", ["sensor", "window_start"]).create(WINDOWS)
    for minute in range(10):
        table.append(windows(*((f"s-{s}", minute, s * 100 + minute) for s in range(3))))
    return table
