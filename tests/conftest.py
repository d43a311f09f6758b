"""Fixtures that several folders of tests share."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from penstock.location import Location, Remote
from penstock.model.catalog import Catalog
from penstock.platform.stack import Stack
from penstock.runtime.code.bundle import Bundle
from penstock.settings import Settings
from tests import lanes
from tests.live import FRAGILE, QUICK_START, Feed, Supervised, started
from tests.s3 import S3Server

_EXAMPLES = hypothesis.settings.default.max_examples
hypothesis.settings.register_profile("long", max_examples=10 * _EXAMPLES)  # `make parity`

# Airflow writes to its home as soon as it is imported: not to the home of whoever runs the tests.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="penstock-airflow-")
atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)

# For whatever tests start, but not for their own session: that one lives long.
JIT = "SPARK_SUBMIT_OPTS"
os.environ.setdefault(JIT, QUICK_START)

PROJECT = Path(__file__).resolve().parents[1]
# Away from a developer's own stack, and each worker's away from the other's.
_TEST_OFFSET = int(os.environ.get("PENSTOCK_TEST_OFFSET", "7000")) + 200 * lanes.worker(os.environ)


@pytest.hookimpl(optionalhook=True)  # without xdist nobody asks
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> lanes.Lanes | None:
    return lanes.Lanes(config, log) if config.getoption("dist") == "load" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lanes.check(items)


@pytest.fixture(scope="session")
def project() -> Path:
    return PROJECT


@pytest.fixture(scope="session")
def base_settings() -> Settings:
    """The settings of this project, with nothing of the developer's own stack in them."""
    return replace(Settings.load(), project=PROJECT, port_offset=_TEST_OFFSET)


@pytest.fixture
def settings(base_settings: Settings, tmp_path: Path) -> Settings:
    """A stack's settings with an empty home; nothing is started."""
    return replace(base_settings, home=tmp_path / "home")


@pytest.fixture(scope="session")
def spark(base_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Spark session for all tests that need one, set as the supervisor's is."""
    from penstock.spark.session import build_session

    home = tmp_path_factory.mktemp("spark-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(JIT)
        session = build_session(replace(base_settings, home=home), "penstock-tests", memory="1g")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3(base_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server; its jar is fetched the first time."""
    server = S3Server(base_settings, tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """An empty place for tables: once a folder, once a prefix of an object store."""
    if request.param == "disk":
        (tmp_path / "tables").mkdir()
        return tmp_path / "tables"
    server: S3Server = request.getfixturevalue("s3")
    return Remote(server.bucket(uuid.uuid4().hex, tmp_path / "copies" / "files"))


@pytest.fixture(scope="session")
def jobs() -> Catalog:
    """Our own tables, as the working tree declares them."""
    return Bundle(PROJECT, "spark_jobs").catalog()


@pytest.fixture(scope="session")
def stack(base_settings: Settings) -> Iterator[Stack]:
    """The light part of the platform (Postgres, Kafka, registry), started once for all tests."""
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as folder:
        stack = Stack(replace(base_settings, home=Path(folder).resolve()))
        try:
            yield started(stack)
        finally:
            stack.down()


@pytest.fixture(scope="session")
def test_project(tmp_path_factory) -> Path:
    """A project of its own with the trades tables and two fragile ones; tests may edit its code.

    Not all of ours: a supervisor is up the sooner the fewer tables it has, and tests that kill one
    again and again wait for it each time.
    """
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(PROJECT / "pyproject.toml", folder)
    shutil.copy(PROJECT / "requirements.lock", folder)
    shutil.copytree(PROJECT / "spark_jobs", folder / "spark_jobs", ignore=_not_trades)
    (folder / "spark_jobs" / "fragile.py").write_text(FRAGILE)
    return folder


def _not_trades(folder: str, names: list[str]) -> list[str]:
    """What to leave out: in a folder of tables or contracts, whatever trades do not need."""
    kept = _TRADES.get(Path(folder).name)
    return [n for n in names if n == "__pycache__" or (kept is not None and n not in kept)]


_TRADES = {
    "bronze": {"__init__.py", "trades.py"},
    "silver": {"__init__.py", "trades.py"},
    "gold": {"__init__.py", "stock_stats.py"},
    "contracts": {"__init__.py", "trades.avsc"},
}


@pytest.fixture(scope="module")
def supervised(stack: Stack, test_project: Path) -> Iterator[Supervised]:
    supervised = Supervised(replace(stack.settings, project=test_project))
    yield supervised
    supervised.kill_all()


@pytest.fixture
def feed(stack: Stack) -> Feed:
    return Feed(stack.settings)
