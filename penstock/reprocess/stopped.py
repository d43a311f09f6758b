"""What a guard stopped is not gone back to: live goes past it, and whoever wants that says so.

A revision that a guard stopped stays warm when mended code replaces it. To show it again would show
what was stopped. If the mended code proves bad too, the way back leads to what live showed before
both: by the name of the release that brought the one that was stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from penstock.errors import UsageError
from penstock.location import delta_table
from penstock.model.names import TableName
from penstock.reprocess.interrupted import newest_swaps
from penstock.runtime.delta.writer import revision_path
from penstock.runtime.kinds.guards import GUARD
from penstock.runtime.registry import Revision
from penstock.runtime.staging import Promotion, Staging
from penstock.settings import Settings

__all__ = ["leads_past", "refuse_stopped", "stopped"]


def stopped(settings: Settings, table: str, revision: str) -> bool:
    """Whether a guard stopped a revision and nobody released it: its own log says so."""
    path = revision_path(settings.warehouse, TableName.parse(table), revision)
    if not (path / "_delta_log").exists():
        return False
    return bool(delta_table(path).transaction_version(f"{revision}:{GUARD}"))


def leads_past(
    settings: Settings,
    staging: Staging,
    chosen: Sequence[Promotion],
    live: Mapping[str, Revision],
) -> bool:
    """Whether all that came over these swaps came to replace what a guard had stopped.

    And moved no other tables: they would be left reading what live does not show any more.
    """
    over: set[str] = set()
    for one in chosen:
        since = _since(staging, one)
        newest = since[0] if since else one
        if live[one.table].revision != newest.revision:
            return False
        over |= {swap.release for swap in since}
    tables = {table for one in chosen for table in newest_swaps(staging, one.release)}
    return bool(over) and all(_mended(settings, staging, name, tables) for name in over)


def _since(staging: Staging, one: Promotion) -> list[Promotion]:
    """The swaps of its table that came over one and were not taken back, the newest first."""
    swaps = (swap for swap in staging.promotions(one.table) if swap.verb != "repair")
    newest: dict[str, Promotion] = {}
    for swap in takewhile(lambda swap: swap != one, swaps):
        newest.setdefault(swap.release, swap)
    return [swap for swap in newest.values() if swap.verb == "promote"]


def _mended(settings: Settings, staging: Staging, release: str, tables: set[str]) -> bool:
    """Whether a release replaced something that a guard stopped, and moved these tables only."""
    swaps = newest_swaps(staging, release)
    replaced = (stopped(settings, swap.table, swap.replaced) for swap in swaps.values())
    return swaps.keys() <= tables and any(replaced)


def refuse_stopped(
    settings: Settings,
    staging: Staging,
    chosen: Sequence[Promotion],
    live: Mapping[str, Revision],
) -> None:
    """Raise if live would show again what a guard stopped."""
    for one in chosen:
        if stopped(settings, one.table, one.replaced):
            raise UsageError(
                f"{one.table}: a guard stopped {one.replaced}; to go back to it would show what "
                "it stopped.",
                remedy=_way_past(settings, staging, one, live) or "Mend the code, then stage it.",
            )


def _way_past(
    settings: Settings, staging: Staging, one: Promotion, live: Mapping[str, Revision]
) -> str:
    """What to type to go further back than to the revision that a swap replaced."""
    swaps = [swap for swap in staging.promotions(one.table) if swap.verb != "repair"]
    brought = next((swap for swap in swaps if swap.revision == one.replaced), None)
    if brought is None or brought.verb != "promote":
        return ""
    newest = newest_swaps(staging, brought.release).values()
    chosen = [swap for swap in newest if swap.verb == "promote"]
    if not leads_past(settings, staging, chosen, live):
        return ""
    return f"To go back past it: `penstock rollback --release {brought.release} --why '...'`."
