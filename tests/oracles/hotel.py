"""Guests of a hotel: what happened to them, and where they stand."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from decimal import Decimal

from tests.oracles import Row, captured, first_taken_in

__all__ = ["guest_journey", "silver_hotel_events"]


def silver_hotel_events(rows: list[Row]) -> list[Row]:
    """Each event once."""
    columns = ("event_id", "guest_id", "stay_id", "event", "amount", "text", "happened_at")
    return [
        {column: row[column] for column in columns}
        | {"partition": row["_partition"], "offset": row["_offset"]}
        for row in first_taken_in(rows, ("event_id",), dt.timedelta(hours=1))
    ]


def guest_journey(events: list[Row], loyalty: list[Row]) -> list[Row]:
    """The stay of each guest's newest event."""
    guests: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(events, key=lambda r: (r["happened_at"], r["partition"], r["offset"])):
        guests[row["guest_id"]].append(row)
    found = []
    for guest, rows in guests.items():
        newest = rows[-1]
        stay = [row for row in rows if row["stay_id"] == newest["stay_id"]]
        first: dict[str, dt.datetime] = {}
        for row in stay:
            first.setdefault(row["event"], row["happened_at"])
        complaints = [row for row in stay if row["event"] == "complaint"]
        last = max(complaints, key=lambda r: (r["happened_at"], r["text"]), default=None)
        bar = [row["amount"] for row in stay if row["event"] == "minibar"]
        left = {row["stay_id"] for row in rows if row["event"] == "check_out"}
        member = captured.as_of(loyalty, "guest_id", guest, newest["happened_at"])
        states = {"check_out": "left", "check_in": "in_house", "confirmation": "confirmed"}
        found.append(
            {
                "guest_id": guest,
                "name": member.get("name"),
                "level": member.get("level"),
                "points": member.get("points"),
                "stay_id": newest["stay_id"],
                "state": next((states[e] for e in states if e in first), "reserved"),
                "reserved_at": first.get("reservation"),
                "confirmed_at": first.get("confirmation"),
                "checked_in_at": first.get("check_in"),
                "checked_out_at": first.get("check_out"),
                "minibar": sum(bar, Decimal(0)),
                "complaints": len(complaints),
                "last_complaint": last["text"] if last else None,
                "past_visits": len(left - {newest["stay_id"]}),
                "last_event_at": newest["happened_at"],
            }
        )
    return found
