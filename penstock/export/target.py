"""What ``run`` needs of a place that tables are exported to."""

from __future__ import annotations

from typing import Protocol

from penstock.export.bench import Workbench
from penstock.export.claim import Claim, Sum
from penstock.export.feed import Net
from penstock.export.live import Live

__all__ = ["Target"]


class Target(Protocol):
    """A place for exports. Nothing of a run is seen by readers before it is published.

    Per table: ``begin``, then ``replace`` or ``apply`` (or neither), then ``keep`` or ``drop``.
    """

    name: str
    place: str  # where analysts find it
    whole: bool  # a changed table is always written whole

    def claims(self) -> dict[str, Claim]:
        """What is published, by table; needs nothing of the below."""

    def begin(self, bench: Workbench, live: Live) -> None:
        """Start on a table: from now on it can be changed, or dropped as if nothing was."""

    def replace(self, bench: Workbench, live: Live) -> None:
        """Take the whole table from Delta."""

    def apply(self, bench: Workbench, live: Live, net: Net) -> tuple[str, ...]:
        """Bring the table up to date by a change; returns which columns it altered.

        Raises:
            Rebuild: it cannot; the caller drops what was begun.
        """

    def measured(self, bench: Workbench, live: Live) -> Sum:
        """Rows and checksum of what would be published now."""

    def prove(self, bench: Workbench, live: Live) -> None:
        """Read all rows back and compare; for targets whose ``measured`` takes a shorter way.

        Raises:
            Rebuild: they differ.
        """

    def keep(self, bench: Workbench, live: Live, claim: Claim) -> None:
        """The table is right: its claim goes with it."""

    def drop(self, bench: Workbench, live: Live) -> None:
        """Forget what was done to the table since ``begin``."""

    def publish(self, bench: Workbench) -> None:
        """Let readers see what was kept; does nothing if nothing was."""

    def close(self) -> None:
        """Let go of everything; what was not published is gone."""
