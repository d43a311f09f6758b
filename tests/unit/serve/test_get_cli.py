"""`penstock get` as a person and as a program see it."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from looked_up import KeyedTable

from penstock.cli import cli
from penstock.errors import UsageError
from penstock.settings import Settings

SCHEMA = pa.schema([("model", pa.string()), ("size", pa.int64()), ("price", pa.decimal128(8, 2))])


@pytest.fixture
def table(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> KeyedTable:
    monkeypatch.setattr(Settings, "load", lambda: settings)
    made = KeyedTable(settings, "gold.shoes", ["model", "size"]).create(SCHEMA)
    listed = [("runner", 42, "1.5"), ("runner", 43, "2"), ("it's/a", 40, "3"), ("-5", 40, "4")]
    for model, size, price in listed:
        row = {
            "model": [model],
            "size": [size],
            "price": pa.array([Decimal(price)], SCHEMA[2].type),
        }
        made.append(pa.table(row, SCHEMA))
    return made


def get(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["get", *arguments])


def test_one_row_reads_downwards(table: KeyedTable) -> None:
    done = get("gold.shoes", "runner", "42")
    assert done.exit_code == 0, done.output
    assert done.stdout == "model  runner\nsize   42\nprice  1.50\n"
    assert "1 row · gold.shoes version 4, committed" in done.stderr


def test_several_rows_are_a_table_and_a_cut_is_said(table: KeyedTable) -> None:
    done = get("gold.shoes", "runner", "--newest", "--limit", "1", "--columns", "size, price")
    assert done.stdout.split() == ["size", "price", "─" * 11, "43", "2.00"]
    cursor = done.stderr.split("--cursor ")[1].strip()
    rest = get("gold.shoes", "runner", "--newest", "--limit", "1", "--cursor", cursor)
    assert "42" in rest.stdout
    assert "--cursor" not in rest.stderr


def test_json_is_the_answer_of_the_api(table: KeyedTable) -> None:
    told = json.loads(get("gold.shoes", "it's/a", "--from", "40", "--to", "41", "--json").stdout)
    assert told["rows"] == [{"model": "it's/a", "size": 40, "price": "3.00"}]
    assert (told["version"], told["range"]["on"], told["next"]) == (4, "size", None)


def test_no_such_row_is_exit_code_1(table: KeyedTable) -> None:
    done = get("gold.shoes", "nobody")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no such row · gold.shoes version 4" in done.stderr
    assert get("gold.shoes", "nobody", "--json").exit_code == 1


def test_a_value_with_a_dash_and_an_older_version(table: KeyedTable) -> None:
    assert get("gold.shoes", "--", "-5").exit_code == 0
    assert get("gold.shoes@version:3", "--", "-5").exit_code == 1


def test_mistakes_come_with_the_next_step(table: KeyedTable) -> None:
    for arguments, said in (
        (("gold.shoe", "a"), "Did you mean gold.shoes?"),
        (("gold.shoes",), "the keys model, size"),
        (("gold.shoes", "runner", "large"), "digits such as 42"),
        (("gold.shoes@soon", "a"), "@version:17"),
    ):
        error = get(*arguments).exception
        assert isinstance(error, UsageError)
        assert said in str(error)


def test_help_has_examples() -> None:
    done = get("--help")
    for word in ("Examples:", "--json", "--from", "@version:17", "@candidate"):
        assert word in done.stdout
