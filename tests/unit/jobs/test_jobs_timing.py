"""A day of any table can be computed again without saying which of its times is meant.

Those of which a day says nothing are listed here, and the DAG knows the same ones.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from penstock.airflow.manifest import known
from penstock.errors import UsageError
from penstock.model.kinds import Enrich, Rows
from penstock.model.names import TableName
from penstock.model.windows import Session, Timed
from penstock.reprocess.timing import Timing
from tests.oracles.shapes import TABLES, decoded

# They are computed from tables without any time: only `penstock backfill --all` is about them.
WHOLE = {"gold.inventory_by_model", "gold.query_top_results", "gold.top_stocks_daily"}


def times_of(catalog, name: TableName) -> list[str]:
    schema = decoded(name.name) if name in catalog.streams else TABLES[str(name)]
    return [field.name for field in schema if pa.types.is_timestamp(field.type)]


def chosen(catalog, name: TableName) -> dict[str, str]:
    """The column of each input, or of the table's own rows, as a backfill takes it."""
    table = catalog.tables[name]
    sources = (name, *table.inputs.values())
    timing = Timing(table, {str(one): catalog.time_of(one) for one in sources})
    if isinstance(table.kind, Rows | Enrich | Session):
        return {"": timing.of_rows(times_of(catalog, name))}
    return {a: timing.of_input(a, times_of(catalog, one)) for a, one in table.inputs.items()}


def test_every_table_has_a_time_for_every_input_or_is_a_whole(jobs):
    refused = {}
    for name, table in jobs.tables.items():
        if isinstance(table.kind, Timed) and not isinstance(table.kind, Session):
            continue  # an interval is about its windows
        try:
            assert all(chosen(jobs, name).values())
        except UsageError as error:
            refused[str(name)] = error
    assert set(refused) == WHOLE
    for name, error in refused.items():
        assert f"penstock backfill {name} --all" in error.remedy


@pytest.mark.parametrize(("name", "wanted"), [
    ("gold.zip_stats", {"clicks": "clicked_at"}),
    ("gold.result_clicks", {"clicks": "clicked_at"}),
    ("gold.stock_daily", {"bars": "window_start"}),
    ("gold.top_songs", dict.fromkeys(("minutes", "hours", "days"), "window_start")),
    ("gold.fraud_review", {"decisions": "paid_at", "outcomes": "reported_at"}),
    ("gold.guest_journey", {"events": "happened_at", "loyalty": "valid_from"}),
    ("gold.app_metrics", {"requests": "window_start", "logs": "window_start"}),
    ("gold.clicks_enriched", {"": "clicked_at"}),
    ("silver.users", {"users": "event_time"}),
    ("silver.readings", {"": "measured_at"}),
])  # fmt: skip
def test_the_time_is_the_one_that_is_meant(jobs, name, wanted):
    assert chosen(jobs, TableName.parse(name)) == wanted


def test_the_dag_skips_just_those_that_are_refused(jobs, settings):
    streams = [{"name": str(name), "kind": "stream"} for name in jobs.streams]
    tables = [
        {**table.describe(), "revision": "r", "schema": {"fields": fields(TABLES[str(name)])}}
        for name, table in jobs.tables.items()
    ]
    settings.manifest.parent.mkdir(parents=True, exist_ok=True)
    settings.manifest.write_text(json.dumps({"tables": [*streams, *tables]}))
    assert set(known(settings).timeless) == WHOLE


def fields(schema: pa.Schema) -> list[dict[str, str]]:
    """As Spark writes a schema down, as far as times go."""
    return [
        {"name": one.name, "type": "timestamp" if pa.types.is_timestamp(one.type) else "string"}
        for one in schema
    ]
