"""Which marts are made from which tables, read from the files alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.marts.dbt import Dbt
from penstock.marts.declared import marts_by_table
from penstock.marts.places import Places
from penstock.settings import Settings

_FILES = {
    "models/staging/stg_a.sql": "select * from {{ source('gold', 'a') }}",
    "models/staging/lonely.sql": "select * from {{ source('gold', 'lonely') }}",
    "models/marts/plant/hours.sql": 'select * from {{ ref("stg_a") }} {# ref("lonely") #}',
    "models/marts/days.sql": "select * from {{ref( 'ours', 'hours' )}} {{ source('gold','b') }}",
    "models/marts/round.sql": "select * from {{ ref('round') }}",
    "snapshots/kept.yml": "snapshots: [{name: kept, relation: \"ref('stg_a')\"}]",
    "snapshots/other.yml": "version: 2",
    "snapshots/broken.yml": "snapshots: [",
}


def test_marts_by_table_through_any_number_of_models(tmp_path):
    for name, text in _FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert marts_by_table(tmp_path) == {"gold.a": ["days", "hours", "kept"], "gold.b": ["days"]}


def test_without_a_dbt_project_nothing_is_made_from_a_table(tmp_path):
    assert marts_by_table(tmp_path / "dbt_project") == {}


@pytest.fixture(scope="module")
def as_dbt_says(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterable[tuple[str, str]]:
    home = tmp_path_factory.mktemp("home")
    places = Places.of(replace(Settings.load(), project=project, home=home))
    places.make()
    dbt = Dbt(places)
    kept = {node.name for node in dbt.nodes() if node.config.materialized != "view"}
    return {(table, mart) for mart, read in dbt.following().items() for table in read
            if mart in kept}  # fmt: skip


def test_our_project_is_read_as_dbt_reads_it(project, as_dbt_says):
    found = marts_by_table(project / "dbt_project")
    assert {(table, mart) for table, marts in found.items() for mart in marts} == as_dbt_says
    assert found["gold.sensor_5m"] == ["sensor_health", "sensor_hours"]
