"""Fingerprints follow meaning: what does not change the rows does not change them."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from penstock.model.names import TableName
from penstock.runtime.code.bundle import Bundle
from penstock.runtime.code.fingerprint import meaning_of_function
from penstock.runtime.declared.analysis import analyse

pytestmark = pytest.mark.spark

HEAD = """
from pyspark.sql import functions as F
from pyspark.sql.functions import udf
from penstock.model import Contract, Range, Rows, hopping, stream, table

SCHEMA = {"type": "record", "name": "R", "fields": [
    {"name": "ticker", "type": "string"}, {"name": "price", "type": "double"}]}
S = stream("bronze.s", topic="s", contract=Contract("s-value", SCHEMA, [Range("price", minimum=0)]))
"""
PLAIN = """
@table("silver.t", inputs={"s": S}, kind=Rows())
def t(s):
    dear = s.where(F.col("price") > 10)
    return dear.select("ticker", (F.col("price") * 2).alias("double"), "event_time")
"""
WITH_UDF = """
LIMIT = 3

def helper(x):
    return x + LIMIT

@udf("double")
def twice(x):
    return helper(x) * 2

@table("silver.t", inputs={"s": S}, kind=Rows())
def t(s):
    return s.select("ticker", twice("price").alias("double"), "event_time")
"""


class Lab:
    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.folder, self.count = spark, folder, 0

    def analyse(self, body: str, head: str = HEAD):
        self.count += 1
        jobs = self.folder / f"p{self.count}" / "jobs"
        jobs.mkdir(parents=True)
        (jobs / "__init__.py").write_text("")
        (jobs / "t.py").write_text(head + textwrap.dedent(body))
        return analyse(self.spark, Bundle(jobs.parent, "jobs").catalog())

    def of(self, body: str, head: str = HEAD, table: str = "silver.t") -> str:
        found = self.analyse(body, head)
        assert not found.broken, found.broken
        return found.revisions[TableName.parse(table)]


@pytest.fixture
def lab(spark, tmp_path) -> Lab:
    return Lab(spark, tmp_path)


def test_comments_names_and_moved_code_mean_nothing(lab):
    rewritten = '''
    # a comment
    FACTOR = 2

    def keep(frame):
        return frame.where(F.col("price") > 10)

    @table("silver.t", inputs={"s": S}, kind=Rows())
    def quite_another_name(s):
        """A docstring."""
        dear = keep(s)
        doubled = (F.col("price") * FACTOR).alias("double")
        return dear.select("ticker", doubled, "event_time")
    '''
    assert lab.of(PLAIN) == lab.of(rewritten)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("> 10", "> 11"),
        ("> 10", ">= 10"),
        ("* 2", "* 3"),
        ('.alias("double")', '.alias("twice")'),
        ('"ticker", ', ""),
    ],
)
def test_a_change_of_meaning_is_a_new_revision(lab, old, new):
    assert lab.of(PLAIN) != lab.of(PLAIN.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("minimum=0", "minimum=1"),
        ('"double"}]', '"double", "default": 0.0}]'),
        ('topic="s"', 'topic="z"'),
    ],
)
def test_the_contract_is_part_of_the_meaning(lab, old, new):
    assert lab.of(PLAIN) != lab.of(PLAIN, HEAD.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"), [("LIMIT = 3", "LIMIT = 4"), ("x + LIMIT", "x - LIMIT"), ("* 2", "* 3")]
)
def test_what_a_udf_reaches_is_part_of_the_meaning(lab, old, new):
    assert lab.of(WITH_UDF) != lab.of(WITH_UDF.replace(old, new))


def test_a_udf_written_otherwise_means_the_same(lab):
    renamed = WITH_UDF.replace("def twice(x):", "def zwei(y):").replace(
        "helper(x) * 2", "helper(y) * 2"
    )
    renamed = renamed.replace('twice("price")', 'zwei("price")')
    assert lab.of(WITH_UDF) == lab.of(renamed)


def test_two_lambdas_over_an_array_are_stable(lab):
    body = PLAIN.replace(
        '"ticker", ', 'F.transform(F.array("price"), lambda a: a + 1).alias("l"), '
    )
    other = body.replace("lambda a: a + 1", "lambda b: b + 1")
    assert lab.of(body) == lab.of(other)


def test_an_upstream_change_reaches_downstream(lab):
    gold = (
        PLAIN
        + """
@table("gold.g", inputs={"t": "silver.t"},
       kind=hopping("4 seconds", every="2 seconds", on="event_time"),
       keys=("ticker", "window_start"))
def g(t):
    return t.groupBy("ticker", "window_start").agg(F.count(F.lit(1)).alias("n"))
"""
    )
    first = lab.of(gold, table="gold.g")
    assert first == lab.of(gold, table="gold.g")
    assert first != lab.of(gold.replace("> 10", "> 11"), table="gold.g")
    assert first != lab.of(gold.replace('"4 seconds"', '"6 seconds"'), table="gold.g")


@pytest.mark.parametrize(
    "clock", ["F.rand()", "F.current_timestamp()", "F.expr('uuid()')", "F.now()"]
)
def test_what_a_replay_could_not_repeat_is_refused(lab, clock):
    found = lab.analyse(PLAIN.replace('"ticker", ', f'{clock}.alias("c"), '))
    assert "a replay would give other rows" in found.broken[0].reason
    assert "t.py:" in found.broken[0].reason


def test_an_unknown_column_names_the_line_and_disables_only_its_table(lab):
    second = (
        PLAIN.replace("silver.t", "silver.other")
        .replace("def t(", "def o(")
        .replace('"ticker"', '"tickr"')
    )
    found = lab.analyse(PLAIN + second)
    assert TableName.parse("silver.t") in found.revisions
    assert [b.what for b in found.broken] == ["silver.other"]
    assert "tickr" in found.broken[0].reason


def test_keys_must_be_returned(lab):
    found = lab.analyse(PLAIN.replace("kind=Rows()", 'kind=Rows(), keys=("nope",)'))
    assert "keys: there is no nope" in found.broken[0].reason


def test_wide_plans_are_read_to_their_end(lab):
    """Spark shortens plans it prints by default: a change in column 30 must show all the same."""
    columns = ", ".join(f'F.lit({n}).alias("c{n}")' for n in range(40))
    wide = PLAIN.replace('"ticker", ', f"{columns}, ")
    assert lab.of(wide) != lab.of(wide.replace('F.lit(33).alias("c33")', 'F.lit(99).alias("c33")'))
    clock = wide.replace('F.lit(33).alias("c33")', 'F.current_timestamp().alias("c33")')
    assert "a replay would give other rows" in lab.analyse(clock).broken[0].reason


def test_text_that_looks_like_an_expression_id_is_not_one(lab):
    body = PLAIN.replace('F.col("price") > 10', 'F.col("ticker") == "#1"')
    assert lab.of(body) != lab.of(body.replace('"#1"', '"#2"'))


@pytest.mark.parametrize("act", ["dear.count()", "dear.toPandas()", "dear.toArrow()"])
def test_a_transform_that_runs_something_is_refused(lab, act):
    body = """
    @table("silver.t", inputs={"s": S}, kind=Rows())
    def t(s):
        dear = s.where(F.col("price") > 10)
        %s
        return dear.select("ticker")
    """
    found = lab.analyse(body % act)
    (broken,) = found.broken
    assert "only describes" in broken.reason
    assert not lab.analyse(body % "pass").broken


def test_an_attribute_is_not_the_module_global_of_its_name():
    """`type(x).__name__` in a UDF must not take in the name of the bundle's module."""
    source = "def said(x):\n    return type(x).__name__ + MARK\n"
    found = []
    for module, mark in (("one", "!"), ("two", "!"), ("two", "?")):
        scope = {"__name__": module, "__file__": f"/{module}.py", "MARK": mark}
        exec(source, scope)
        found.append(meaning_of_function(scope["said"]))
    assert found[0] == found[1] != found[2]
