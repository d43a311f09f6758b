"""The shoe shop: deliveries, sales, returns, and what they leave in stock and in the till."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from decimal import Decimal
from statistics import median

from tests.oracles import Row, first_taken_in

__all__ = [
    "big_sales",
    "inventory",
    "inventory_by_model",
    "returns_by_reason",
    "silver_returns",
    "silver_sales",
    "silver_shipments",
]

_HOUR = dt.timedelta(hours=1)


def silver_shipments(rows: list[Row]) -> list[Row]:
    """Each delivery once, with what it cost."""
    return [
        {
            "shipment_id": row["shipment_id"],
            "model": row["model"],
            "size": row["size"],
            "quantity": row["quantity"],
            "unit_cost": row["unit_cost"],
            "cost": row["quantity"] * row["unit_cost"],
            "shipped_at": row["event_time"],
            "partition": row["_partition"],
            "offset": row["_offset"],
        }
        for row in first_taken_in(rows, ("shipment_id",), _HOUR)
    ]


def silver_sales(rows: list[Row]) -> list[Row]:
    """Each sale once, with what it brought in."""
    return [
        {
            "sale_id": row["sale_id"],
            "model": row["model"],
            "size": row["size"],
            "quantity": row["quantity"],
            "unit_price": row["unit_price"],
            "revenue": row["quantity"] * row["unit_price"],
            "sold_at": row["event_time"],
            "partition": row["_partition"],
            "offset": row["_offset"],
        }
        for row in first_taken_in(rows, ("sale_id",), _HOUR)
    ]


def silver_returns(rows: list[Row]) -> list[Row]:
    """Each return once, with what was paid back."""
    return [
        {
            "return_id": row["return_id"],
            "sale_id": row["sale_id"],
            "model": row["model"],
            "size": row["size"],
            "quantity": row["quantity"],
            "unit_price": row["unit_price"],
            "refunded": row["quantity"] * row["unit_price"],
            "reason": row["reason"],
            "returned_at": row["event_time"],
            "partition": row["_partition"],
            "offset": row["_offset"],
        }
        for row in first_taken_in(rows, ("return_id",), _HOUR)
    ]


def inventory(shipments: list[Row], sales: list[Row], returns: list[Row]) -> list[Row]:
    """Per model and size: pairs, money, bookings."""
    books: dict[tuple[str, str], Row] = {}
    for rows, pairs, earned, amount in (
        (shipments, +1, -1, "cost"),
        (sales, -1, +1, "revenue"),
        (returns, +1, -1, "refunded"),
    ):
        for row in rows:
            empty = {"stock": 0, "money": Decimal(0), "transactions": 0}
            book = books.setdefault((row["model"], row["size"]), empty)
            book["stock"] += pairs * row["quantity"]
            book["money"] += earned * row[amount]
            book["transactions"] += 1
    return [{"model": model, "size": size, **book} for (model, size), book in books.items()]


def inventory_by_model(rows: list[Row]) -> list[Row]:
    """The inventory over sizes."""
    models: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        models[row["model"]].append(row)
    return [
        {
            "model": model,
            "sizes_in_stock": len([row for row in sizes if row["stock"] > 0]),
            "stock": sum(row["stock"] for row in sizes),
            "money": sum((row["money"] for row in sizes), Decimal(0)),
        }
        for model, sizes in models.items()
    ]


def returns_by_reason(returns: list[Row]) -> list[Row]:
    """Per reason: how many, how much, and the pairs of a middling return."""
    reasons: dict[str, list[Row]] = defaultdict(list)
    for row in returns:
        reasons[row["reason"]].append(row)
    return [
        {
            "reason": reason,
            "returns": len(rows),
            "quantity": sum(row["quantity"] for row in rows),
            "refunded": sum((row["refunded"] for row in rows), Decimal(0)),
            "median_quantity": float(median(row["quantity"] for row in rows)),
        }
        for reason, rows in reasons.items()
    ]


def big_sales(sales: list[Row]) -> list[Row]:
    """Sales of more than ten thousand, and whom they are told to."""
    people = {"runner": "ines", "boot": "bruno", "sandal": "sol", "loafer": "lotte"}
    return [
        {
            "sale_id": row["sale_id"],
            "model": row["model"],
            "size": row["size"],
            "quantity": row["quantity"],
            "revenue": row["revenue"],
            "sold_at": row["sold_at"],
            "salesperson": people.get(row["model"], "manager"),
        }
        for row in sales
        if row["revenue"] > 10_000
    ]
