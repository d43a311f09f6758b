"""Catalogs: order, and faults that stay where they are."""

from __future__ import annotations

from penstock.model import Rows, table
from penstock.model.catalog import Catalog
from penstock.model.names import TableName


def declare(name: str, *reads: str):
    arguments = {f"i{n}": read for n, read in enumerate(reads)}
    namespace: dict = {}
    exec(f"def f({', '.join(arguments)}): return None", namespace)
    return table(name, inputs=arguments, kind=Rows())(namespace["f"])


def names(catalog: Catalog) -> list[str]:
    return [str(name) for name in catalog.order()]


def test_a_missing_input_switches_off_everything_above_it():
    catalog = Catalog.build(
        [
            declare("gold.c", "silver.b"),
            declare("silver.b", "silver.a"),
            declare("silver.a", "silver.a0"),
            declare("silver.a0", "silver.a00"),
        ]
    )
    assert names(catalog) == []  # silver.a00 does not exist: the whole chain is off
    assert {b.what for b in catalog.broken} == {"gold.c", "silver.b", "silver.a", "silver.a0"}


def test_only_what_reads_the_broken_is_off(jobs):
    sound = [*jobs.streams.values(), *jobs.tables.values()]
    catalog = Catalog.build([*sound, declare("gold.orphan", "silver.nowhere")])
    assert set(names(catalog)) == {str(name) for name in jobs.tables}
    (broken,) = catalog.broken
    assert "gold.orphan reads silver.nowhere" in broken.reason


def test_each_table_comes_after_everything_it_reads(jobs):
    order = jobs.order()
    for name, declared in jobs.tables.items():
        before = order[: order.index(name)]
        assert all(i in before or i in jobs.streams for i in declared.inputs.values()), name


def test_a_circle_is_named_and_cut():
    catalog = Catalog.build([declare("gold.a", "gold.b"), declare("gold.b", "gold.a")])
    assert names(catalog) == []
    assert all("part of a circle" in broken.reason for broken in catalog.broken)


def test_a_name_taken_twice_names_both_places(jobs):
    twice = declare("gold.stock_stats", "silver.trades")
    catalog = Catalog.build([*jobs.streams.values(), *jobs.tables.values(), twice])
    assert TableName.parse("gold.stock_stats") in catalog.tables
    assert "spark_jobs/gold/stock_stats.py" in catalog.broken[0].reason
