"""Rows of the demo shop's database change, in Postgres; change capture does the rest."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing

import pg8000.dbapi

from penstock.errors import PenstockError
from penstock.platform.postgres_admin import connect
from penstock.settings import Settings

__all__ = ["change_rows"]

# table, the column that changes, what it may become, the key, its values: infra/postgres/shop.sql
_CHANGES: tuple[tuple[str, str, Sequence[object], str, Sequence[object]], ...] = (
    ("users", "tier", ("basic", "plus", "gold"), "user_id", (1, 2, 3, 4, 5)),
    ("fraud_rules", "max_payments", (3, 4, 5), "card_kind", ("debit", "credit", "prepaid")),
    ("loyalty", "points", range(0, 2000, 50), "guest_id", range(1, 11)),
    ("regions", "manager", ("Ines", "Jonas", "Karla"), "region", ("north", "south", "centre")),
)


def change_rows(settings: Settings, dice: random.Random) -> bool:
    """Change one row of each captured table; false when the database is not to be had from here."""
    try:
        with closing(connect(settings, "shop", "shop")) as connection:
            cursor = connection.cursor()
            for table, column, values, key, names in _CHANGES:
                value, name = dice.choice(values), dice.choice(names)
                cursor.execute(
                    f"UPDATE {table} SET {column} = %s, updated_at = now() "  # noqa: S608
                    f"WHERE {key} = %s AND {column} <> %s",
                    (value, name, value),
                )
    except (PenstockError, pg8000.dbapi.Error, OSError):
        return False
    return True
