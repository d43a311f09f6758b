"""`penstock marts` without Spark: the project is sound, and nothing slips past the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.marts import marts
from penstock.errors import EnvironmentProblem, NotRunning, UsageError
from penstock.marts.dbt import Dbt
from penstock.marts.places import Places
from penstock.marts.run import one_run_at_a_time
from penstock.runtime.declared.analysis import analyse
from penstock.settings import Settings


@pytest.fixture(scope="module")
def dbt(base_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Dbt:
    places = Places.of(replace(base_settings, home=tmp_path_factory.mktemp("home")))
    places.make()
    return Dbt(places)


@pytest.fixture
def stack_of_nobody(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in settings.environment().items():
        if name.startswith("PENSTOCK_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("PENSTOCK_PORT_OFFSET", "9341")  # where nothing listens
    return settings


def test_every_model_column_and_source_is_described(dbt):
    nodes = dbt.nodes()
    assert len([n for n in nodes if n.schema == "marts"]) >= 9
    for thing in [*nodes, *dbt.manifest.sources.values()]:
        assert thing.description, thing.unique_id
        assert thing.columns, thing.unique_id
        assert all(c.description for c in thing.columns.values()), thing.unique_id
    assert all(s.loaded_at_field for s in dbt.manifest.sources.values())
    assert all(s.freshness.warn_after for s in dbt.manifest.sources.values())


def test_the_project_has_all_it_should(dbt):
    manifest = dbt.manifest
    kinds = [node.config.materialized for node in dbt.nodes()]
    assert kinds.count("incremental") == 3
    assert kinds.count("snapshot") == 1
    assert kinds.count("view") == 8
    tests = [n for n in manifest.nodes.values() if n.resource_type == "test"]
    assert len([t for t in tests if getattr(t, "test_metadata", None) is None]) >= 4  # singular
    assert len(manifest.unit_tests) >= 5
    assert len(manifest.exposures) >= 4
    assert not (Path(dbt._places.project) / "packages.yml").exists()  # nothing to download


def test_every_mart_is_somebodys(dbt):
    used = {name for e in dbt.manifest.exposures.values() for name in e.depends_on.nodes}
    made = {n.unique_id for n in dbt.nodes() if n.schema == "marts"}
    assert made <= used


def test_an_incremental_mart_keeps_its_scope_as_a_column(dbt):
    for node in dbt.nodes():
        if node.config.materialized == "incremental":
            assert node.config.meta["scope"] in node.columns
            assert set(node.config.meta["follows"]) <= set(dbt.sources())


@pytest.mark.spark
def test_sources_have_the_columns_of_the_tables(dbt, spark, jobs):
    from pyspark.sql.types import _parse_datatype_string

    schemas = {str(name): schema for name, schema in analyse(spark, jobs).schemas.items()}
    for name, columns in dbt.sources().items():
        own = {f.name: f.dataType.simpleString() for f in schemas[name].fields}
        told = {n: _parse_datatype_string(t).simpleString() for n, t in columns.items()}
        assert told == own, name


@pytest.mark.parametrize(
    "word",
    ["--full-refresh", "-x", "--vars", "a b", "a;b", "$(id)", "../x\n", "", "--profiles-dir=/tmp"],
)
def test_a_selection_cannot_carry_options(stack_of_nobody, word):
    got = CliRunner().invoke(marts, ["run", f"--select={word}"], standalone_mode=False)
    assert isinstance(got.exception, UsageError | NotRunning)
    assert isinstance(got.exception, UsageError), "it was looked at only after Spark was wanted"


def test_without_a_platform_it_says_so_and_starts_nothing(stack_of_nobody):
    secrets = stack_of_nobody.home / "secrets"
    secrets.mkdir(parents=True)
    (secrets / "postgres-metastore").write_text("x")
    got = CliRunner().invoke(marts, ["run"], standalone_mode=False)
    assert isinstance(got.exception, NotRunning)
    assert "penstock up" in got.exception.remedy


def test_list_needs_no_platform(stack_of_nobody):
    got = CliRunner().invoke(marts, ["list", "--json"], standalone_mode=False)
    listed = {row["mart"]: row for row in json.loads(got.stdout)}
    assert listed["marts.stock_days"]["reads"] == ["gold.stock_stats"]
    assert listed["marts.stock_days"]["rows"] is None
    assert listed["marts.stock_minutes"]["kind"] == "incremental"


def test_one_run_at_a_time(settings):
    with one_run_at_a_time(settings, 0, print):
        with pytest.raises(EnvironmentProblem, match="being run already"):
            with one_run_at_a_time(settings, 0.6, print):
                raise AssertionError("two runs at once")
    with one_run_at_a_time(settings, 0, print):
        pass


@pytest.mark.parametrize("name", list(marts.commands))
def test_every_command_prints_json_if_asked(name):
    """The DAGs ask each of them."""
    assert "as_json" in {parameter.name for parameter in marts.commands[name].params}
