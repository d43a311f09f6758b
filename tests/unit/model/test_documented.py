"""The tables in README and docs work as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.model import Stream, Table
from penstock.model.catalog import Catalog
from penstock.runtime.code.bundle import Bundle

_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
_FILE = re.compile(r"`(spark_jobs/[\w/]+\.\w+)`:\n```\w+\n(.*?)```", re.DOTALL)
_SCRIPT = re.compile(r"<<'END'\n(.*?)\nEND", re.DOTALL)


def written(project: Path, document: str) -> str:
    return (project / document).read_text()


def run_blocks(project: Path, document: str) -> dict[str, Any]:
    """All python blocks of a document, one after the other."""
    names: dict[str, Any] = {}
    for block in _BLOCK.findall(written(project, document)):
        exec(compile(block, document, "exec"), names)
    return names


@pytest.fixture(scope="module")
def bikes(project: Path) -> Catalog:
    names = run_blocks(project, "docs/definitions.md")
    return Catalog.build(v for v in names.values() if isinstance(v, Stream | Table))


@pytest.fixture(scope="module")
def readme(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has nothing but what the README says to type."""
    folder = tmp_path_factory.mktemp("readme")
    for name, text in _FILE.findall(written(project, "README.md")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for package in ("", "silver", "gold", "contracts"):
        (folder / "spark_jobs" / package / "__init__.py").touch()
    return folder


def test_definitions_has_an_example_of_every_kind(bikes):
    assert bikes.broken == ()
    kinds = {table.kind.word for table in bikes.tables.values()}
    assert kinds == {
        "rows",
        "group",
        "totals",
        "latest",
        "history",
        "enrich",
        "window",
        "session",
        "sliding",
        "interval_join",
    }
    assert any(table.query for table in bikes.tables.values()), "and one in SQL"


def test_the_readme_declares_a_topic_and_its_tables(readme):
    catalog = Bundle(readme, "spark_jobs").catalog()
    assert catalog.broken == ()
    assert [str(name) for name in catalog.streams] == ["bronze.parking"]
    assert {str(name) for name in catalog.tables} == {"silver.parking", "gold.parking_hours"}


def test_the_row_the_readme_sends_keeps_its_contract(project, readme):
    from penstock.model.contract_rows import broken_rules, event_time_of, fit

    (script,) = _SCRIPT.findall(written(project, "README.md"))
    (parking,) = Bundle(readme, "spark_jobs").catalog().streams.values()
    sent: list[tuple] = []

    class Producer:
        def __init__(self, settings: Any, stream: Any, *, user: str) -> None:
            assert user == "demo-producer"  # who may write to topics that registering makes

        def send(self, key: str, row: dict, *, at: Any) -> None:
            sent.append((row, at))

        def flush(self) -> int:
            return 0

    body = "\n".join(line for line in script.splitlines() if not _imports_ours(line))
    settings = type("Settings", (), {"load": staticmethod(lambda: None)})
    exec(body, {"StreamProducer": Producer, "Settings": settings, "PARKING": parking})
    ((row, at),) = sent
    verdict = fit(parking.contract, row)
    assert verdict.row is not None
    time = event_time_of(parking, verdict.row, at, at)
    assert broken_rules(parking.contract, verdict.row, time, at) == []


def _imports_ours(line: str) -> bool:
    return line.startswith(("from penstock", "from spark_jobs"))


@pytest.mark.spark
def test_what_is_documented_can_be_registered(spark, bikes, readme):
    from penstock.runtime.declared.analysis import analyse

    for catalog in (bikes, Bundle(readme, "spark_jobs").catalog()):
        found = analyse(spark, catalog)
        assert found.broken == []
        assert set(found.revisions) == set(catalog.tables)


@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    [
        "test_a_minute_is_written_when_it_is_final_and_mended_by_reconcile",
        "test_a_row_that_is_taken_back_leaves_its_group",
        "test_a_click_sent_twice_counts_once",
    ],
)
def test_the_tests_of_the_testing_page_pass(project, spark, jobs, tmp_path, name):
    test = run_blocks(project, "docs/testing.md")[name]
    given = {"spark": spark, "jobs": jobs, "tmp_path": tmp_path}
    wanted = test.__code__.co_varnames[: test.__code__.co_argcount]
    test(**{argument: given[argument] for argument in wanted})
