"""Every table is declared soundly, has an oracle's shape, and says what its rows are."""

from __future__ import annotations

import json

import pytest

from tests.oracles.shapes import DECODED, TABLES

CONTINUOUS = {"silver.trades"}


def test_nothing_is_broken_and_every_table_has_a_shape(jobs):
    assert jobs.broken == ()
    assert {str(name) for name in jobs.tables} == set(TABLES)
    assert {name.name for name in jobs.streams} == set(DECODED)


def test_every_table_says_what_a_row_is_and_whose_it_is(jobs):
    for table in jobs.tables.values():
        assert table.doc.startswith("One row per"), table.name
        assert table.owner, table.name
    for stream in jobs.streams.values():
        assert stream.doc, stream.name
        assert stream.owner, stream.name


def test_only_what_must_be_is_continuous(jobs):
    kept = {str(name) for name, table in jobs.tables.items() if table.freshness == "continuous"}
    assert kept == CONTINUOUS


def test_no_table_promises_more_than_those_it_reads(jobs):
    for table in jobs.tables.values():
        for source in table.inputs.values():
            if source in jobs.tables:
                assert jobs.tables[source].every <= table.every, (table.name, source)


def test_every_stream_refuses_implausible_times(jobs):
    for stream in jobs.streams.values():
        assert "plausible_time" in {rule.name for rule in stream.contract.rules}, stream.name


@pytest.mark.parametrize("name", DECODED)
def test_contracts_hold_the_fields_the_shapes_say(jobs, name):
    from tests.oracles.shapes import decoded

    stream = next(s for s in jobs.streams.values() if s.name.name == name)
    seen = [c for c in decoded(name).names if not c.startswith("_") and c != "event_time"]
    assert [field["name"] for field in json.loads(stream.contract.schema_json)["fields"]] == seen
