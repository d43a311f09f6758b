"""Telling a catalogue what is live now, behind commands that changed it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["announce_new", "announce_swap", "live_before"]


def announce_swap(settings: Settings, told: Mapping[str, Any]) -> None:
    """Tell of the tables that a promotion or a rollback moved."""
    if "done" not in told:
        _announce(settings, [one["table"] for one in told["tables"]])


def live_before(settings: Settings) -> dict[str, str]:
    """What is live while a command begins; nothing where nothing is registered yet."""
    from penstock.lineage.graph import live_of, read_manifest

    try:
        return live_of(read_manifest(settings))
    except (PenstockError, OSError):
        return {}


def announce_new(settings: Settings, before: Mapping[str, str]) -> None:
    """Tell of the tables that show another revision than they did, or did not show any."""
    after = live_before(settings)
    _announce(settings, [name for name in after if before.get(name) != after[name]])


def _announce(settings: Settings, tables: Collection[str]) -> None:
    from penstock.lineage.announce import announce

    wrong = announce(settings, tables) if tables else ""
    if wrong:
        click.secho(f"OpenLineage events were not sent: {wrong}", fg="yellow", err=True)
        click.echo("  All else is done. To send them later: penstock lineage --emit", err=True)
