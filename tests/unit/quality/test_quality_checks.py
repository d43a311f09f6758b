"""How checks are made: exact over slices, honest about samples and windows, clear when wrong."""

from __future__ import annotations

import datetime as dt
import json
import shlex

import pyarrow as pa
import pytest
from click.testing import CliRunner
from quality_world import Stand, write_suite

from penstock.cli import cli
from penstock.errors import DefinitionError, QualityFailed, UsageError
from penstock.quality import frames
from penstock.quality.gate import Gate
from penstock.quality.load import load_suites
from penstock.quality.site import KEPT, harmless

SCHEMA = pa.schema(
    [("k", pa.string()), ("v", pa.int64()), ("at", pa.timestamp("us", tz="UTC")),
     ("partition", pa.int32()), ("offset", pa.int64())]
)  # fmt: skip
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TABLE = "silver.numbers"


def numbers(count: int, **spoilt: object) -> list[dict]:
    return [
        {"k": f"k{n}", "v": n, "at": START + dt.timedelta(minutes=n), "partition": 0, "offset": n}
        for n in range(count)
    ]


def checked(own: Stand, body: str, rows: list[dict], boundary: str = "silver"):
    write_suite(own.settings.project, TABLE, body)
    own.put(TABLE, rows, SCHEMA, inputs={"n": "bronze.numbers"})
    own.declare({"name": "bronze.numbers", "layer": "bronze", "kind": "stream", "topic": "num"})
    (told,) = Gate(own.settings, hold=False).run([TABLE], boundary).tables
    return told


def test_counts_over_many_slices_are_those_of_the_whole(own, monkeypatch):
    monkeypatch.setattr(frames, "SLICE_ROWS", 2048)
    rows = numbers(10_000)
    for n in (0, 2047, 2048, 9_999):
        rows[n]["v"] = -1
    rows[5]["k"] = None
    rows[9_998]["k"] = rows[1]["k"]
    told = checked(own, """
S = suite("silver.numbers",
    blocking(gxe.ExpectColumnValuesToBeBetween(column="v", min_value=0)),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="v", min_value=0, mostly=0.9996)),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="v", min_value=0, mostly=0.9997)),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="k")),
    blocking(gxe.ExpectColumnValuesToBeUnique(column="k")),
    blocking(gxe.ExpectTableRowCountToBeBetween(min_value=10_000, max_value=10_000)),
    blocking(gxe.ExpectColumnSumToBeBetween(column="v", max_value=10)),
    blocking(gxe.ExpectTableColumnsToMatchSet(column_set=["k", "v", "at"], exact_match=False)),
)
""", rows)  # fmt: skip
    first, most, more, null, unique, count, total, columns = told.outcomes
    assert (first.success, first.element_count, first.unexpected_count) == (False, 10_000, 4)
    assert [n["offset"] for n in first.named] == [0, 2047, 2048, 9_999], "from every slice"
    assert (most.success, more.success) == (True, False), "mostly is of the whole table"
    assert (null.success, null.unexpected_count) == (False, 1)
    assert (unique.success, unique.unexpected_count) == (False, 2)
    assert unique.element_count == 10_000
    assert count.success
    assert count.observed == 10_000
    assert total.observed == sum(row["v"] for row in rows)
    assert not total.success
    assert columns.success
    assert told.failures == [o.check.name for o in (first, more, null, unique, total)], (
        "each under a name of its own"
    )


@pytest.mark.parametrize(
    ("batches", "slices"),
    [([10] * 1000, [10_000]), ([0, 700, 0, 900, 500, 1], [1600, 501]), ([0, 0], [0]), ([], [0])],
)
def test_small_files_are_judged_together(monkeypatch, batches, slices):
    monkeypatch.setattr(frames, "SLICE_ROWS", 2048 if len(batches) < 100 else 250_000)
    schema = pa.schema([("n", pa.int64())])
    made, at = [], 0
    for count in batches:
        made.append(pa.record_batch([pa.array(range(at, at + count), pa.int64())], schema))
        at += count
    gathered = list(frames._gathered(pa.RecordBatchReader.from_batches(schema, made)))
    assert [rows.num_rows for rows in gathered] == slices
    assert pa.concat_tables(gathered)["n"].to_pylist() == list(range(at))


def test_failing_rows_come_with_their_record(own):
    rows = numbers(9)
    rows[7]["v"] = -5
    told = checked(own, """
S = suite("silver.numbers",
    blocking(gxe.ExpectColumnValuesToBeBetween(column="v", min_value=0), "never below zero"))
""", rows)  # fmt: skip
    assert told.outcomes[0].failing == [
        {
            "row": {"partition": 0, "offset": 7, "v": -5},
            "records": [{"topic": "num", "partition": 0, "first": 7, "last": 7}],
        }
    ]


def test_a_window_and_a_sample_are_said_and_a_candidate_is_looked_at_whole(own):
    body = """
S = suite("silver.numbers",
    warning(gxe.ExpectColumnValuesToBeBetween(column="v", min_value=50)),
    warning(gxe.ExpectColumnValuesToBeBetween(column="v", min_value=95), sample=3),
    warning(gxe.ExpectColumnValuesToBeBetween(column="v", min_value=99), where="v > 98"),
    window=Last("10 minutes", by="at"),
)
"""
    told = checked(own, body, numbers(100))
    window, sample, where = told.outcomes
    assert told.rows == 10
    assert (window.element_count, window.unexpected_count) == (10, 0)
    assert window.scope == "last 10 minutes by at"
    assert (sample.element_count, sample.check.exact) == (3, False)
    assert sample.scope == "last 10 minutes by at, sample of 3 rows"
    assert (where.element_count, where.success) == (1, True)
    kept = {row["check_name"]: row for row in told.results}
    assert [row["exact"] for row in kept.values()] == [True, False, True]
    (whole,) = Gate(own.settings, hold=False).run([TABLE], "promote", "version:2").tables
    assert whole.outcomes[0].element_count == 100
    assert whole.outcomes[0].unexpected_count == 50
    assert whole.outcomes[0].scope == "all rows"


def test_a_column_that_is_not_there_is_said_and_the_other_checks_are_made(own):
    told = checked(own, """
S = suite("silver.numbers",
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="nobody")),
    warning(gxe.ExpectColumnValuesToNotBeNull(column="broken")),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="v")),
    columns={"broken": "cast(k as integer)"},
)
""", numbers(3))  # fmt: skip
    missing, broken, fine = told.outcomes
    assert missing.error.startswith("silver.numbers version 2 has no column nobody; it has k, v")
    assert "k0" in broken.error
    assert fine.success
    assert told.failures == [missing.check.name], "what could not be checked did not pass"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("S = suite('silver.numbers')\n", "it has no check"),
        ("S = suite('silver.numbers', gxe.ExpectColumnToExist(column='k'))\n", "neither blocking"),
        ("S = suite('silver.numbers', blocking(3))\n", "is no expectation"),
        ("S = suite('silver.other', blocking(gxe.ExpectColumnToExist(column='k')))\n",
         "one suite, of silver.numbers; it declares silver.other"),
        ("import pyspark\n", "must not import pyspark"),
        ("from spark_jobs.silver.trades import trades\n", "must not import spark_jobs"),
        ("S = suite('silver.numbers', blocking(gxe.ExpectColumnToExist(colum='k')))\n", "colum"),
        ("S = \n", "invalid syntax"),
        ("S = suite('silver.numbers', blocking(gxe.ExpectColumnToExist(column='k')),\n"
         "  window=Last('ten minutes', by='at'))\n", "ten minutes"),
    ],
)  # fmt: skip
def test_a_broken_module_disables_itself_and_says_where(own, body, said):
    write_suite(own.settings.project, TABLE, body)
    fine = "S = suite('silver.fine', blocking(gxe.ExpectColumnToExist(column='k')))\n"
    write_suite(own.settings.project, "silver.fine", fine)
    own.put(TABLE, numbers(1), SCHEMA)
    own.put("silver.fine", numbers(1), SCHEMA)
    good, broken = load_suites(own.settings.expectations)
    assert set(good) == {"silver.fine"}
    (one,) = broken
    assert said in one.reason
    assert "silver/numbers.py" in one.reason
    run = Gate(own.settings, hold=False).run((), "silver")
    assert [told.table for told in run.tables] == ["silver.fine"]
    assert run.broken == broken


def test_a_window_by_a_column_that_is_not_there_names_the_suite(own):
    with pytest.raises(DefinitionError, match=r"silver/numbers.py:4: the window of the suite"):
        checked(own, """S = suite('silver.numbers',
  blocking(gxe.ExpectColumnToExist(column='k')), window=Last('1 hour', by='nobody'))
""", numbers(1))  # fmt: skip


# --- hostile values ---------------------------------------------------------------------------
EVIL = "<script>alert(1)</script>\x1b[31m${jndi}' onload=\"x"


def test_hostile_values_reach_no_page_and_no_terminal(own, monkeypatch):
    rows = numbers(3)
    rows[1]["k"] = EVIL
    body = """
S = suite("silver.numbers",
    blocking(gxe.ExpectColumnValuesToBeInSet(column="k", value_set=["k0", "k2"])),
    warning(gxe.ExpectColumnDistinctValuesToBeInSet(column="k", value_set=["k0", "k2"])),
    warning(gxe.ExpectColumnMostCommonValueToBeInSet(column="k", value_set=["k9"])),
    warning(gxe.ExpectColumnValuesToMatchRegex(column="k", regex="^k[0-9]$")),
    warning(gxe.ExpectCompoundColumnsToBeUnique(column_list=["k", "k"])),
)
"""
    told = checked(own, body, rows)
    assert json.loads(told.results[0]["failing"])[0]["row"]["k"] == EVIL, "the history is exact"
    pages = [p.read_text() for p in own.settings.sites.rglob("*.html")]
    assert len(pages) == 2
    for page in pages:
        assert "<script" not in page
        assert "alert(1)</" not in page
        assert "\x1b" not in page
        assert "://" not in page, "nothing is fetched from elsewhere"
        assert "default-src 'none'" in page
    monkeypatch.setenv("PENSTOCK_HOME", str(own.settings.home))
    monkeypatch.setenv("PENSTOCK_PROJECT", str(own.settings.project))
    result = CliRunner().invoke(cli, ["quality", TABLE, "--no-hold"])
    assert isinstance(result.exception, QualityFailed)
    assert "alert" in result.output
    assert "\x1b" not in result.output
    assert "num partition 0 offset 1" in result.output
    look = next(line for line in result.output.splitlines() if "look: " in line)
    assert look.endswith(
        '"select * from silver.numbers@version:2 where partition = 0 and \\"offset\\" = 1"'
    )
    (words,) = [shlex.split(look.partition("look: ")[2])]
    found = CliRunner().invoke(cli, [*words[1:], "--json"])
    assert json.loads(found.stdout)[0]["k"] == EVIL, "what it says to type finds the row"


def test_harmless_keeps_what_is_harmless():
    assert harmless("Grüße, 12.5 %") == "Grüße, 12.5 %"
    assert harmless({"a<b": [1, None, "x" * 999]})["a(u003c)b"][2] == "x" * 200 + "…"


def test_the_site_does_not_grow_without_bound(own):
    body = "S = suite('silver.numbers', blocking(gxe.ExpectColumnToExist(column='k')))\n"
    checked(own, body, numbers(1))
    for _ in range(KEPT + 2):
        Gate(own.settings, hold=False).run([TABLE], "silver")
    folder = own.settings.sites / "quality" / TABLE
    assert len(list(folder.glob("*.html"))) == KEPT
    index = (own.settings.sites / "quality" / "index.html").read_text()
    assert index.count(".html'>") == KEPT
    newest = max(path.name for path in folder.glob("*.html"))
    assert f"{TABLE}/{newest}" in index


# --- the command ------------------------------------------------------------------------------
@pytest.fixture
def typed(own, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(own.settings.home))
    monkeypatch.setenv("PENSTOCK_PROJECT", str(own.settings.project))

    def run(*words: str):
        return CliRunner().invoke(cli, list(words))

    return run


def test_the_command_says_which_version_and_keeps_a_history(own, typed):
    body = "S = suite('silver.numbers', blocking(gxe.ExpectTableRowCountToBeBetween({})))\n"
    checked(own, body.format("max_value=5"), numbers(3))
    own.put(TABLE, numbers(3), SCHEMA)
    failed = typed("quality", TABLE, "--no-hold", "--json")
    assert isinstance(failed.exception, QualityFailed)
    assert failed.exception.exit_code == 13
    told = json.loads(failed.stdout)
    assert told["failures"] == {TABLE: ["table_row_count_to_be_between"]}
    (table,) = told["tables"]
    assert (table["state"], table["revision"], table["version"]) == ("live", "r1", 3)
    assert table["results"][0]["observed"] == "6"
    earlier = typed("quality", TABLE, "--at", "version:2", "--no-hold", "--json")
    assert earlier.exit_code == 0, "the version before is as it was"
    past = json.loads(typed("quality", "--history", TABLE, "--json").stdout)
    assert [(run["version"], run["blocking"]) for run in past] == [(2, 0), (3, 1), (2, 0)]
    found = typed("query", "select count(*) as n from quality.results where not success", "--json")
    assert '"n": 1' in found.output or '"n":1' in found.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gold.nobody",), "has no suite"),
        ((TABLE, "--at", "version:99"), "has no version 99"),
        ((TABLE, "--at", "yesterday"), "names nothing"),
        ((TABLE, "--at", "version:1; drop"), "names nothing"),
        (("silver.numbers/../../x",), "has no suite"),
    ],
)
def test_what_makes_no_sense_is_said(own, typed, words, said):
    body = "S = suite('silver.numbers', blocking(gxe.ExpectColumnToExist(column='k')))\n"
    checked(own, body, numbers(1))
    result = typed("quality", *words, "--no-hold")
    assert isinstance(result.exception, UsageError)
    assert said in str(result.exception)


def test_a_broken_suite_exits_as_a_wrong_declaration(own, typed):
    own.put(TABLE, numbers(1), SCHEMA)
    write_suite(own.settings.project, TABLE, "S = nobody\n")
    result = typed("quality", "--boundary", "silver")
    assert isinstance(result.exception, DefinitionError)
    assert "expectations/silver/numbers.py:4: NameError" in str(result.exception)
    assert "its suite is broken" in result.output
