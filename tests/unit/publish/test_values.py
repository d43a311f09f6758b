"""Rows as Avro and JSON: everything a live table can hold comes out as it went in."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import random
import re
from decimal import Decimal

import duckdb
import fastavro
import pytest

from penstock.errors import DefinitionError
from penstock.model.contract_changes import breaking_changes
from penstock.publish.live import LiveTable
from penstock.publish.values import avro_encoder, avro_schema_of, json_encoder
from penstock.serve.snapshot import Column
from tests.unit.export.export_world import SCHEMAS, World

ODD = [
    Column("by_number", 'MAP(BIGINT, STRUCT("a" BIGINT, "l" VARCHAR[]))'),
    Column("deep", 'STRUCT("m" MAP(DATE, DECIMAL(5,1))[])'),
    Column("naive", "TIMESTAMP"),
]


def read_back(schema, body):
    return fastavro.schemaless_reader(io.BytesIO(body[5:]), fastavro.parse_schema(schema))


def _utc(row):
    """Every library has an object of its own for UTC."""
    return {n: v.astimezone(dt.UTC) if isinstance(v, dt.datetime) else v for n, v in row.items()}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_type_of_a_live_table(settings, schema):
    world = World(settings, keyed=True, rows=60, seed=5)
    world.promote(schema)
    table = LiveTable(settings, "gold.sums", settings.home / "scratch")
    whole = table.whole()
    wanted = {row["k"]: row for row in world.rows().to_pylist()}
    avro = avro_schema_of("out.x_value", whole.columns)
    write, write_json = avro_encoder(avro, 258, whole.columns), json_encoder()
    seen = 0
    for move in table.moves(whole, ["k"]):
        body = write(move.after)
        assert body[:5] == b"\x00\x00\x00\x01\x02"
        expected = wanted[move.after["k"]]
        expected["tags"] = None if expected["tags"] is None else dict(expected["tags"])
        found = read_back(avro, body)
        assert repr(_utc(found)) == repr(_utc(expected))
        told = json.loads(write_json(move.after))
        assert list(told) == list(expected)
        assert told["raw"] == (
            None if expected["raw"] is None else base64.b64encode(expected["raw"]).decode()
        )
        seen += 1
    assert seen == len(wanted)


def test_maps_that_json_and_avro_have_no_word_for():
    row = {
        "by_number": {3: {"a": 1, "l": ["x", None]}, 4: None},
        "deep": {"m": [{dt.date(2026, 1, 2): Decimal("1.5")}, None]},
        "naive": dt.datetime(2026, 1, 2, 3, 4, 5, 6),
    }
    schema = avro_schema_of("odd", ODD)
    found = read_back(schema, avro_encoder(schema, 1, ODD)(row))
    assert found["by_number"] == [
        {"key": 3, "value": {"a": 1, "l": ["x", None]}},
        {"key": 4, "value": None},
    ]
    assert found["deep"]["m"][0] == [{"key": dt.date(2026, 1, 2), "value": Decimal("1.5")}]
    assert found["naive"] == row["naive"]
    told = json.loads(json_encoder()(row))
    assert told["deep"]["m"][0] == [{"key": "2026-01-02", "value": "1.5"}]


def test_numbers_that_json_does_not_have():
    told = json.loads(json_encoder()({"a": float("nan"), "b": float("-inf"), "c": 1.5}))
    assert told == {"a": "NaN", "b": "-Infinity", "c": 1.5}


def test_columns_may_come_go_and_be_widened_without_breaking_readers():
    old = avro_schema_of("x", [Column("k", "INTEGER"), Column("gone", "FLOAT")])
    new = avro_schema_of("x", [Column("k", "BIGINT"), Column("new", "VARCHAR[]")])
    assert list(breaking_changes(old, new)) == []
    text = avro_schema_of("x", [Column("k", "VARCHAR")])
    assert list(breaking_changes(old, text)) != []


def test_a_name_that_avro_does_not_take_is_said():
    with pytest.raises(DefinitionError, match="a-b"):
        avro_schema_of("x", [Column("a-b", "BIGINT")])


def test_the_same_stretch_gives_the_same_rows_in_the_same_order(settings):
    world = World(settings, keyed=False, rows=50, seed=3)
    table = LiveTable(settings, "gold.sums", settings.home / "scratch")
    start = table.whole()
    dice = random.Random(1)
    for _ in range(12):
        getattr(world, dice.choice(["append", "update", "compact", "promote"]))()
    stretch = table.following(start.until, start.columns, 500)
    first = [repr(move) for move in table.moves(stretch, [])]
    assert first == [repr(move) for move in table.moves(stretch, [])]
    assert len(first) > 20


def test_a_stretch_ends_where_the_columns_change(settings):
    world = World(settings, keyed=True, rows=5)
    table = LiveTable(settings, "gold.sums", settings.home / "scratch")
    start = table.whole()
    world.append(2)
    world.append(2)
    world.promote("more")
    world.append(1)
    first = table.following(start.until, start.columns, 500)
    second = table.following(first.until, first.columns, 500)
    assert (first.after, first.until) == (start.until, start.until + 2)
    assert (second.after, second.until) == (first.until, first.until + 2)
    assert [c.name for c in second.columns][-1] == "p99"
    assert table.following(second.until, second.columns, 500) is None
    assert table.following(start.until, start.columns, 1).until == start.until + 1


FAR = [
    Column("at", "TIMESTAMP WITH TIME ZONE"),
    Column("naive", "TIMESTAMP"),
    Column("day", "DATE"),
    Column("deep", 'STRUCT("m" MAP(DATE, TIMESTAMP[]))'),
]


@pytest.mark.parametrize(
    "when", ["10000-01-02 03:04:05.5", "294246-02-28 23:59:59.999999", "0044-03-15 (BC) 01:02:03"]
)
def test_times_that_python_has_no_words_for(when):
    """Avro holds them exactly; a row with one must not stop its topic for ever."""
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    at, day = f"'{when}'::TIMESTAMP", f"('{when}'::TIMESTAMP)::DATE"
    values = duck.execute(
        f"SELECT '{when}+00'::TIMESTAMPTZ, {at}, {day}, {{'m': MAP {{{day}: [{at}]}}}}"
    ).fetchone()
    micros, days = duck.execute(
        f"SELECT epoch_us({at}), date_diff('day', DATE '1970-01-01', {day})"
    ).fetchone()
    row = dict(zip([c.name for c in FAR], values, strict=True))
    assert isinstance(row["at"], str)
    schema = avro_schema_of("far", FAR)
    plain_schema = json.loads(re.sub(r', "logicalType": "[a-z-]+"', "", json.dumps(schema)))
    found = read_back(plain_schema, avro_encoder(schema, 1, FAR)(row))
    assert found == {
        "at": micros,
        "naive": micros,
        "day": days,
        "deep": {"m": [{"key": days, "value": [micros]}]},
    }
    assert json.loads(json_encoder()(row))["naive"] == row["naive"]


def test_a_text_where_a_time_should_be_is_told():
    schema = avro_schema_of("far", FAR[:1])
    with pytest.raises(DefinitionError, match="no time that Avro could hold"):
        avro_encoder(schema, 1, FAR[:1])({"at": "soon"})
