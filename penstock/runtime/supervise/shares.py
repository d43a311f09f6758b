"""A supervisor's share of the tables: a slot among the supervisors, and a hold on each table.

**How it works.** There are as many *slots* as supervisors may work at once (one by default:
``penstock up --supervisors``); a slot is a lease, renewed every second. Whoever has none is a
standby. A table is *held* by a holder of a slot, under a token that is higher than any given
before, for any table: so whoever gets a table next, by whatever way, has the higher one and keeps
the last out (law 6). A table may be taken when nobody holds it or its holder's slot has run out. A
hold is given back only after everything that could write the table has ended.

**Dividing.** Families of tables are dealt to the slots that are taken (families.py). When a slot
is taken, given up or runs out, everybody deals anew: who has too much gives up, who has too little
takes what is free. Nobody has to agree with anybody, since a table is only ever taken when free.

**What it does not do.** Weigh tables by their load: a table counts as one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import chain

from penstock.runtime.registry import Registry, Revision
from penstock.runtime.supervise.families import deal, families

__all__ = ["LEASE", "LEASE_SECONDS", "Shares", "alive_slots", "spread"]

log = logging.getLogger("penstock.shares")

LEASE = "streams"
LEASE_SECONDS = 10.0


class Shares:
    """One supervisor's slot and holds; ``held`` is table -> token."""

    def __init__(self, registry: Registry, holder: str, slots: int) -> None:
        self._registry = registry
        self._holder = holder
        self._slots = slots
        self._token = 0  # of the slot's lease
        self.slot = 0  # 0: a standby
        self.held: dict[str, int] = {}
        self._known: set[str] = set()  # tables of any family
        self._first = True  # of those that work

    # --- the slot ---------------------------------------------------------------------------
    def enter(self) -> bool:
        """Take a slot if one is free."""
        for slot in range(1, self._slots + 1):
            token = self._registry.acquire(_lease(slot), self._holder, LEASE_SECONDS)
            if token is not None:
                self.slot, self._token = slot, token
                self.held.clear()
                return True
        return False

    def renew(self) -> bool:
        """Prolong the slot; False when it, or a table, is somebody else's by now."""
        lease = _lease(self.slot)
        if not self._registry.renew(lease, self._holder, self._token, LEASE_SECONDS):
            return False
        if self._slots == 1:
            return True  # who takes a table has to take the slot first
        rows = self._registry.run(
            "select table_name, token from holding where holder = :holder", holder=self._holder
        )
        ours = {name: int(token) for name, token in rows}
        return all(ours.get(name) == token for name, token in self.held.items())

    def leave(self) -> None:
        """Leave cleanly: the next one need not wait for the lease to run out."""
        slot, self.slot = self.slot, 0
        self.held.clear()
        if slot:
            self._registry.run("delete from holding where holder = :holder", holder=self._holder)
            self._registry.give_up(_lease(slot), self._holder, self._token)

    # --- the share --------------------------------------------------------------------------
    def mine(self, revisions: Iterable[Revision]) -> set[str]:
        """The tables that should be here, as things stand."""
        found = families(revisions)
        self._known = set(chain.from_iterable(found))
        if self._slots == 1:
            return set(self._known)
        slots = alive_slots(self._registry, self._slots)
        self._first = self.slot == min(slots, default=self.slot)
        return set(chain.from_iterable(deal(found, [*{*slots, self.slot}])[self.slot]))

    def whole(self, revisions: Iterable[Revision], wanted: set[str]) -> set[str]:
        """Of the tables wanted here those whose family is all here: only these may run."""
        held = self.held.keys()
        return set(chain.from_iterable(f for f in families(revisions) if f <= held and f <= wanted))

    def answers_for(self, table: str) -> bool:
        """Whether what is asked about a table is for us; what is nobody's is for the first."""
        if self._slots == 1:
            return True
        return table in self.held or (self._first and table not in self._known)

    def take(self, tables: set[str]) -> dict[str, int]:
        """Those that are free, each under a token higher than any before; ``keep`` them next."""
        with self._registry.transaction():
            ((token,),) = self._registry.run("update fence set token = token + 1 returning token")
            rows = self._registry.run(
                "insert into holding (table_name, holder, token) "
                "select unnest(cast(:names as text[])), cast(:holder as text), "
                "cast(:token as bigint) "
                "on conflict (table_name) do update "
                "set holder = excluded.holder, token = excluded.token, held_at = now() "
                "where holding.holder = excluded.holder or not exists (select 1 from lease "
                "where lease.holder = holding.holder and lease.expires_at >= clock_timestamp()) "
                "returning table_name",
                names=sorted(tables),
                holder=self._holder,
                token=token,
            )
        return {name: int(token) for (name,) in rows}

    def keep(self, taken: dict[str, int]) -> None:
        self.held.update(taken)
        log.info("holding %d more tables: %s", len(taken), ", ".join(sorted(taken)))

    def give_up(self, tables: Iterable[str]) -> None:
        """Let others have tables that nothing here can write any more."""
        names = sorted(tables)
        self._registry.run(
            "delete from holding where holder = :holder "
            "and table_name = any(cast(:names as text[]))",
            holder=self._holder,
            names=names,
        )
        for name in names:
            self.held.pop(name, None)
        log.info("gave up %d tables: %s", len(names), ", ".join(names))


def _lease(slot: int) -> str:
    return LEASE if slot == 1 else f"{LEASE}-{slot}"


def alive_slots(registry: Registry, most: int = 99) -> list[int]:
    """Slots that somebody has."""
    rows = registry.run("select name from lease where expires_at >= clock_timestamp()")
    taken = {name for (name,) in rows}
    return [slot for slot in range(1, most + 1) if _lease(slot) in taken]


def spread(registry: Registry, tables: list[str]) -> list[list[str]]:
    """Tables by who holds them, in the order given; one list where one supervisor has all."""
    rows = registry.run(
        "select table_name, holder from holding where table_name = any(cast(:names as text[]))",
        names=tables,
    )
    holders = dict(map(tuple, rows))
    groups: dict[str, list[str]] = {}
    for table in tables:
        groups.setdefault(holders.get(table, ""), []).append(table)
    return list(groups.values())
