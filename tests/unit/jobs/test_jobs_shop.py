"""The shop's totals and groups as a plain batch."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

from tests.oracles import in_order, samples, shop
from tests.oracles.shapes import TABLES, types

pytestmark = pytest.mark.spark


def booked(dice: random.Random) -> tuple[list[dict], list[dict], list[dict]]:
    return (
        shop.silver_shipments(samples.sent(samples.shipments(dice, 20))),
        shop.silver_sales(samples.sent(samples.sales(dice, 40))),
        shop.silver_returns(samples.sent(samples.returns(dice, 15))),
    )


def test_inventory(table, frame, dice):
    shipments, sales, returns = booked(dice)
    added = table("gold.inventory")(
        frame(shipments, "silver.shipments"),
        frame(sales, "silver.sales"),
        frame(returns, "silver.returns"),
    )
    assert types(added.toArrow().schema) == types(TABLES["gold.inventory"])
    assert added.count() == len(shipments) + len(sales) + len(returns), "one row in, one row out"
    out = added.groupBy("model", "size").agg(
        F.sum("stock").alias("stock"),
        F.sum("money").alias("money"),
        F.sum("transactions").alias("transactions"),
    )
    expected = shop.inventory(shipments, sales, returns)
    assert in_order(out.toArrow().to_pylist()) == in_order(expected)


def test_inventory_by_model(table, frame, dice):
    inventory = shop.inventory(*booked(dice))
    out = table("gold.inventory_by_model")(frame(inventory, "gold.inventory")).toArrow()
    assert types(out.schema) == types(TABLES["gold.inventory_by_model"])
    assert in_order(out.to_pylist()) == in_order(shop.inventory_by_model(inventory))


def test_returns_by_reason(table, frame, dice):
    returns = booked(dice)[2]
    out = table("gold.returns_by_reason")(returns=frame(returns, "silver.returns")).toArrow()
    assert types(out.schema) == types(TABLES["gold.returns_by_reason"])
    assert in_order(out.to_pylist()) == in_order(shop.returns_by_reason(returns))


def test_big_sales(table, frame, dice):
    sales = booked(dice)[1]
    sales[0] = {**sales[0], "revenue": Decimal("10000.00")}  # not more than that
    sales[1] = {**sales[1], "revenue": Decimal("10000.01"), "model": "clog"}
    out = table("gold.big_sales")(frame(sales, "silver.sales")).toArrow()
    assert types(out.schema) == types(TABLES["gold.big_sales"])
    assert in_order(out.to_pylist()) == in_order(shop.big_sales(sales))
    assert 0 < out.num_rows < len(sales)


def test_an_empty_size_is_not_in_stock(table, frame):
    rows = [
        {"model": "boot", "size": "41", "stock": 0, "money": Decimal(1), "transactions": 2},
        {"model": "boot", "size": "42", "stock": -1, "money": Decimal(2), "transactions": 1},
    ]
    told = [{"model": "boot", "sizes_in_stock": 0, "stock": -1, "money": Decimal(3)}]
    assert shop.inventory_by_model(rows) == told
    out = table("gold.inventory_by_model")(frame(rows, "gold.inventory"))
    assert out.toArrow().to_pylist() == told
