"""Events about live tables: those somebody asks for, and those that leave by themselves.

**Purpose.** A catalogue is to show what is live without anybody thinking of it: `penstock promote`,
`rollback`, `backfill --all`, `register` and `up` tell it of the tables that show something new.

**How it works.** A thread makes and sends the events while the command waits for it, for a few
seconds at most. By then the command's own work is done and told: whatever goes wrong here comes
back as one sentence.

**What it does not do.** Try again. `penstock lineage --emit` tells everything anew, and an event
told twice is the same run.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.lineage.events import emit, run_event
from penstock.lineage.graph import live_of, read_manifest
from penstock.lineage.revisions import Revisions

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["announce", "emit_live"]

_PATIENCE_SECONDS = 4.0  # for all of it; a server that is there takes some milliseconds an event
_STEP_SECONDS = 3.0


def emit_live(
    settings: Settings, tables: Collection[str], *, seconds: float | None = None
) -> tuple[int, str]:
    """An event for each of these tables that is live; how many, and where they went.

    Raises:
        PenstockError: nobody takes them there.
    """
    entries = read_manifest(settings)
    chosen = {name: rev for name, rev in live_of(entries).items() if name in tables}
    if not chosen:
        return 0, ""
    known = Revisions.load(settings).known
    events = [
        run_event(settings, entries, name, revision, code=found.bundle if found else "")
        for name, revision in chosen.items()
        for found in (known.get((name, revision)),)
    ]
    where = emit(events, settings) if seconds is None else emit(events, settings, seconds=seconds)
    return len(events), where


def announce(
    settings: Settings, tables: Collection[str], *, patience: float = _PATIENCE_SECONDS
) -> str:
    """Tell of these tables, come what may; what went wrong, in a sentence, or nothing."""
    wrong: list[str] = []

    def tell() -> None:
        try:
            emit_live(settings, tables, seconds=_STEP_SECONDS)
        except PenstockError as error:
            wrong.append(error.message)
        except Exception as error:  # the command's own work is done: nothing may undo its exit
            wrong.append(f"{type(error).__name__}.")  # only that: its text may have the address

    # A daemon: looking up a host or writing to a dead network disk has no timeout of its own.
    thread = threading.Thread(target=tell, name="openlineage", daemon=True)
    thread.start()
    thread.join(patience)
    if thread.is_alive():
        return f"nobody took them within {patience:g} s."
    return wrong[0] if wrong else ""
