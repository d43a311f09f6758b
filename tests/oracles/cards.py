"""Card payments: how fast cards are used, what is decided, and how right that was."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

from tests.oracles import Row, captured, first_taken_in

__all__ = ["card_fraud", "card_velocity", "fraud_review"]
__all__ += ["silver_card_payments", "silver_payment_outcomes"]

_HOUR = dt.timedelta(hours=1)
_PAYMENT = ("payment_id", "card_kind", "merchant", "amount", "latitude", "longitude")


def silver_card_payments(rows: list[Row]) -> list[Row]:
    """Each payment once."""
    columns = ("payment_id", "card_id", *_PAYMENT[1:], "paid_at")
    return [
        {column: row[column] for column in columns}
        | {"partition": row["_partition"], "offset": row["_offset"]}
        for row in first_taken_in(rows, ("payment_id",), _HOUR)
    ]


def silver_payment_outcomes(rows: list[Row]) -> list[Row]:
    """Each report once."""
    columns = ("outcome_id", "payment_id", "outcome", "reported_at")
    return [
        {column: row[column] for column in columns}
        | {"partition": row["_partition"], "offset": row["_offset"]}
        for row in first_taken_in(rows, ("outcome_id",), _HOUR)
    ]


def card_velocity(payments: list[Row], watermark: dt.datetime) -> list[Row]:
    """Each payment with the card's payments before it; final once something newer was paid."""
    found = []
    for row in payments:
        at = row["paid_at"]
        before = [
            other
            for other in payments
            if other["card_id"] == row["card_id"]
            and at - 2 * _HOUR < other["paid_at"] <= at
            and (other["paid_at"], other["payment_id"]) < (at, row["payment_id"])
        ]
        last = max(before, key=lambda other: (other["paid_at"], other["payment_id"]), default=None)
        recent = [other for other in before if other["paid_at"] > at - dt.timedelta(minutes=1)]
        km = round(_great_circle(last, row)) if last else 0
        micros = (at - last["paid_at"]) // dt.timedelta(microseconds=1) if last else 1
        found.append(
            {"card_id": row["card_id"], "window_end": at, "paid_at": at}
            | {column: row[column] for column in _PAYMENT}
            | {
                "payments": len(recent) + 1,
                "km": km,
                "kmh": km * 3_600_000_000 // max(micros, 1) if last else 0,
                "is_final": at < watermark,
            }
        )
    return found


def _great_circle(one: Row, other: Row) -> float:
    """By the law of cosines for chords, in vectors: another way than the table's."""
    chord = math.dist(_point(one), _point(other))
    return 2 * 6371 * math.asin(min(1.0, chord / 2))


def _point(row: Row) -> tuple[float, float, float]:
    north, east = math.radians(row["latitude"]), math.radians(row["longitude"])
    return math.cos(north) * math.cos(east), math.cos(north) * math.sin(east), math.sin(north)


def card_fraud(payments: list[Row], rules: list[Row]) -> list[Row]:
    """By the rules that held for this kind of card at that time."""
    found = []
    for row in payments:
        rule = captured.as_of(rules, "card_kind", row["card_kind"], row["paid_at"])
        why = []
        if rule and row["payments"] > rule["max_payments"]:
            why.append("velocity")
        if rule and row["km"] > 50 and row["kmh"] > rule["max_kmh"]:
            why.append("travel")
        if rule and row["amount"] > Decimal(rule["max_amount"]):
            why.append("amount")
        columns = ("payment_id", "card_id", "card_kind", "merchant", "amount", "paid_at")
        found.append(
            {column: row[column] for column in (*columns, "payments", "km", "kmh")}
            | {
                "decision": "deny" if why else "approve",
                "reasons": ",".join(why),
                "rules_from": rule.get("valid_from"),
            }
        )
    return found


_VERDICTS: dict[tuple[Any, Any], str] = {
    ("deny", None): "open",
    ("deny", "chargeback"): "caught",
    ("deny", "confirmed"): "caught",
    ("deny", "cleared"): "false_alarm",
    ("approve", "chargeback"): "missed",
    ("approve", "confirmed"): "missed",
    ("approve", "cleared"): "right",
}


def fraud_review(decisions: list[Row], outcomes: list[Row]) -> list[Row]:
    """Payments that were denied or reported, with the newest report."""
    decided = {row["payment_id"]: row for row in decisions}
    reported: dict[str, Row] = {}
    for row in sorted(outcomes, key=lambda r: (r["reported_at"], r["outcome_id"])):
        reported[row["payment_id"]] = row
    found = []
    for payment in {**decided, **reported}:
        ours, theirs = decided.get(payment, {}), reported.get(payment, {})
        if not theirs and ours["decision"] == "approve":
            continue
        found.append(
            {
                "payment_id": payment,
                **{
                    column: ours.get(column)
                    for column in ("paid_at", "card_id", "amount", "decision", "reasons")
                },
                "outcome": theirs.get("outcome"),
                "reported_at": theirs.get("reported_at"),
                "verdict": _VERDICTS.get((ours.get("decision"), theirs.get("outcome")), "unknown"),
            }
        )
    return found
