"""A whole stack of its own, and a browser that looks at its Airflow.

The project is a copy, because the story edits a table. Sensors have an hour of past before the
stack starts, so that windows of five minutes are there at once.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from deltalake import DeltaTable

from penstock.clients.producer import StreamProducer
from penstock.platform.stack import Stack
from penstock.settings import Settings
from spark_jobs.bronze.readings import READINGS
from spark_jobs.demo.event import Shares
from spark_jobs.demo.sources import merged
from tests.browser.operator import Operator
from tests.live import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
COPIED = ("spark_jobs", "infra", "dags", "expectations", "dbt_project")
PAST = dt.timedelta(hours=1)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pictures", action="store_true", help="keep what the browser saw in docs/pictures"
    )


class World:
    """The stack, and what the test asks of it beside the browser."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def rows(self, table: str) -> int:
        path = self.settings.warehouse.joinpath(*table.split("."))
        return DeltaTable(str(path)).to_pyarrow_table().num_rows

    def columns(self, table: str) -> list[str]:
        path = self.settings.warehouse.joinpath(*table.split("."))
        return [field.name for field in DeltaTable(str(path)).schema().fields]

    def edit(self, module: str, old: str, new: str) -> None:
        path = self.settings.project / module
        text = path.read_text()
        assert old in text, (module, old)
        path.write_text(text.replace(old, new))

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """Airflow's API, for waiting only: what is started and answered goes through pages."""
        with httpx.Client(base_url=self.settings.airflow_url, timeout=60, trust_env=False) as api:
            login = {"username": "admin", "password": self.settings.secret("airflow-admin")}
            token = api.post("/auth/token", json=login).raise_for_status().json()["access_token"]
            head = {"Authorization": f"Bearer {token}"}
            return api.request(method, path, json=body, headers=head).raise_for_status().json()

    def pause(self, dag: str) -> None:
        """What runs by itself would take the one slot for JVMs from the story for minutes."""
        wait_for(dag, lambda: self.ask(f"/api/v2/dags/{dag}", "PATCH", {"is_paused": True}), 120)


def send_the_past(settings: Settings) -> None:
    """An hour of readings, ten seconds between two of one sensor."""
    now = dt.datetime.now(dt.UTC)
    at = now - PAST

    def clock() -> dt.datetime:
        return at

    producer = StreamProducer(settings, READINGS, user="demo-producer")
    for _, event in merged(("readings",), 1.0, 11, Shares(0, 0, 0), clock):
        if at >= now - dt.timedelta(seconds=5):
            break
        assert event.row is not None
        producer.send(event.key, event.row, at=event.at)
        at += dt.timedelta(seconds=0.5)
    assert producer.flush() == 0


@contextmanager
def standing(settings: Settings, copy: Path) -> Iterator[World]:
    """A whole stack on a copy of the project, with windows of sensors to look at."""
    copy.mkdir()
    for name in ("pyproject.toml", "requirements.lock"):
        shutil.copy(settings.project / name, copy)
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(settings.project / name, copy / name, ignore=ignored)
    stack = Stack(replace(settings, project=copy))
    try:
        stack.up(only=["kafka", "registry"])
        send_the_past(stack.settings)
        stack.up()
        world = World(stack.settings)
        for dag in ("quality", "marts", "export_olap"):
            world.pause(dag)
        wait_for("windows of sensors", lambda: world.rows("gold.sensor_5m") > 100, 600)
        yield world
    finally:
        stack.down()


@pytest.fixture(scope="module")
def world(base_settings: Settings, tmp_path_factory) -> Iterator[World]:
    offset = base_settings.port_offset + 1800
    with tempfile.TemporaryDirectory(prefix="penstock-browser-") as folder:
        settings = replace(base_settings, home=Path(folder).resolve(), port_offset=offset)
        with standing(settings, tmp_path_factory.mktemp("browser") / "project") as world:
            yield world


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    found = (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    )
    assert found, "chromium was not found; `make browser` says how to install it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def operator(
    world: World, browser: Browser, request: pytest.FixtureRequest, tmp_path_factory
) -> Iterator[Operator]:
    keep = request.config.getoption("--pictures", default=False)
    folder = PICTURES if keep else tmp_path_factory.mktemp("pictures")
    with ExitStack() as open_ones:
        page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme="light")
        open_ones.callback(page.close)
        yield Operator(page, world.settings.airflow_url, folder)
