"""Users with their history, clicks, and who clicked."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import Any

from tests.oracles import Row, first_taken_in

__all__ = ["BEGINNING", "as_of", "clicks_enriched", "silver_clicks", "users_history"]

BEGINNING = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_PROFILE = ("user_id", "name", "email", "country", "tier", "updated_at", "zip_code")


def silver_clicks(rows: list[Row]) -> list[Row]:
    """Each click once."""
    return [
        {
            "click_id": row["click_id"],
            "user_id": row["user_id"],
            "page": row["page"],
            "clicked_at": row["clicked_at"],
            "partition": row["_partition"],
            "offset": row["_offset"],
        }
        for row in first_taken_in(rows, ("click_id",), dt.timedelta(hours=1))
    ]


def users_history(changes: list[Row]) -> list[Row]:
    """Versions of each user; a version that was replaced at the moment it began never was.

    ``changes`` are what change capture says: the user's columns and ``_lsn``, ``_offset``,
    ``_committed_at``, ``_deleted``, ``_truncated``, ``_snapshot``.
    """
    sweeps = [row for row in changes if row["_truncated"]]
    users: dict[int, list[Row]] = defaultdict(list)
    for row in changes:
        if not row["_truncated"]:
            users[row["user_id"]].append(row)
    return [version for rows in users.values() for version in _versions(rows, sweeps)]


def _versions(rows: list[Row], sweeps: list[Row]) -> list[Row]:
    steps = sorted([*rows, *sweeps], key=_position)
    found = []
    for number, row in enumerate(steps):
        if row["_deleted"] or row["_truncated"]:
            continue
        always = row["_snapshot"] and number == 0
        start = BEGINNING if always else row["_committed_at"]
        follows = steps[number + 1] if number + 1 < len(steps) else None
        end = follows["_committed_at"] if follows else None
        if end is None or start < end:
            found.append(
                {
                    **{column: row[column] for column in _PROFILE},
                    "lsn": row["_lsn"],
                    "offset": row["_offset"],
                    "valid_from": start,
                    "valid_to": end,
                }
            )
    return found


def _position(row: Row) -> tuple[Any, ...]:
    return row["_committed_at"], row["_lsn"], row["_offset"]


def as_of(user_id: int | None, at: dt.datetime, users: list[Row]) -> Row:
    """The version of a user that was valid then; empty where there was none."""
    valid = [
        user
        for user in users
        if user["user_id"] == user_id
        and user["valid_from"] <= at
        and (user["valid_to"] is None or at < user["valid_to"])
    ]
    return valid[0] if valid else {}


def clicks_enriched(clicks: list[Row], users: list[Row]) -> list[Row]:
    """Each click with the version of its user that was valid then."""
    found = []
    for click in clicks:
        user = as_of(click["user_id"], click["clicked_at"], users)
        found.append(
            {
                "click_id": click["click_id"],
                "user_id": click["user_id"],
                "page": click["page"],
                "clicked_at": click["clicked_at"],
                "known": bool(user),
                "user_name": user.get("name"),
                "country": user.get("country"),
                "tier": user.get("tier"),
                "profile_from": user.get("valid_from"),
                "zip_code": user.get("zip_code"),
            }
        )
    return found
