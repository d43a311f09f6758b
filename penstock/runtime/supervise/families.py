"""Which tables stay together, and who gets which: the part of sharing that is only arithmetic.

Tables that read one another, directly or through others, with the topics they read, are a *family*.
A family is run by one supervisor: what a table reads is then in the same process, and a change of
several tables that read one another can be made at one moment. Families are dealt out by size and
name, so that everybody who knows the same comes to the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.runtime.registry import Revision

__all__ = ["Family", "deal", "families"]

Family = frozenset[str]  # names of tables, bronze ones among them


def families(revisions: Iterable[Revision]) -> list[Family]:
    """The families of all revisions that are fed, also of those that do not run yet."""
    together: dict[str, set[str]] = {}
    for revision in revisions:
        joined = {revision.table, *revision.inputs}
        for name in list(joined):
            joined |= together.get(name, set())
        for name in joined:
            together[name] = joined
    return sorted({frozenset(names) for names in together.values()}, key=min)


def deal(found: Iterable[Family], slots: Sequence[int]) -> dict[int, list[Family]]:
    """Families by slot: the largest first, each to whom has the fewest tables so far."""
    dealt: dict[int, list[Family]] = {slot: [] for slot in sorted(slots)}
    if not dealt:
        return dealt
    for family in sorted(found, key=lambda f: (-len(f), min(f))):
        least = min(dealt, key=lambda slot: (sum(map(len, dealt[slot])), slot))
        dealt[least].append(family)
    return dealt
