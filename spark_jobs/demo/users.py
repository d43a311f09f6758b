"""Users of the demo shop change their tier, in Postgres; change capture does the rest."""

from __future__ import annotations

import random
from contextlib import closing

import pg8000.dbapi

from penstock.errors import PenstockError
from penstock.platform.postgres_admin import connect
from penstock.settings import Settings

__all__ = ["change_tier"]

_TIERS = ("basic", "plus", "gold")
_USERS = (1, 2, 3, 4, 5)


def change_tier(settings: Settings, dice: random.Random) -> bool:
    """Give one user another tier; false when the shop's database is not to be had from here."""
    user, tier = dice.choice(_USERS), dice.choice(_TIERS)
    try:
        with closing(connect(settings, "shop", "shop")) as connection:
            cursor = connection.cursor()
            cursor.execute(
                "UPDATE users SET tier = %s, updated_at = now() WHERE user_id = %s AND tier <> %s",
                (tier, user, tier),
            )
    except (PenstockError, pg8000.dbapi.Error, OSError):
        return False
    return True
