"""Ends: candidates are given up, bytes deleted, swaps that a crash interrupted written down."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection
from typing import Any, Protocol

from deltalake.exceptions import DeltaError

from penstock.errors import UsageError
from penstock.location import bytes_below, delta_table, remove_tree
from penstock.model.names import TableName
from penstock.runtime.declared.register import show_revision
from penstock.runtime.delta.log import commit_metadata
from penstock.runtime.delta.swap import promoted, shown, shown_files_of
from penstock.runtime.delta.writer import live_path, revision_path
from penstock.runtime.registry import Registry, State
from penstock.runtime.staging import Promotion, Staging
from penstock.settings import Settings

__all__ = ["Forgetful", "delete_revision", "drop", "finish_swaps", "referenced"]


log = logging.getLogger("penstock.ends")


class Forgetful(Protocol):
    """Who has the writers of revisions, and lets go of them."""

    settings: Settings

    def forget(self, table: str, revision: str) -> None: ...
    def answers_for(self, table: str) -> bool: ...


def drop(world: Forgetful, registry: Registry, arguments: dict[str, Any]) -> dict[str, Any]:
    """Give up candidates that were never live: stop them, delete their bytes, forget them."""
    staging = Staging(registry)
    states = {
        (r.table, r.revision): r.state
        for r in registry.revisions(states=(*State.FED, State.RETIRED))
    }
    done = []
    # What is not known any more went before a crash.
    left = [(t, r) for t, r in arguments["revisions"] if (t, r) in states]
    for table, revision in left:  # all of them, before the first is deleted
        _require_candidate(world.settings, table, revision, states[table, revision])
    for table, revision in left:
        staging.move(table, revision, to=State.RETIRED)
        world.forget(table, revision)
        freed = delete_revision(world.settings, TableName.parse(table), revision)
        staging.forget(table, revision)
        done.append({"table": table, "revision": revision, "bytes": freed})
    return {"dropped": done}


def _require_candidate(settings: Settings, table: str, revision: str, state: str) -> None:
    """Readers see nothing of it, neither by the registry nor by a live log."""
    if state == State.LIVE:
        remedy = f"To go back: `penstock rollback {table} --why '...'`."
        raise UsageError(f"{table}@{revision} is live by now, not a candidate.", remedy=remedy)
    if state == State.WARM:
        remedy = f"It is given up with `penstock retire {table}`."
        raise UsageError(f"{table}@{revision} is warm, not a candidate.", remedy=remedy)
    if referenced(settings, table, revision):
        raise UsageError(
            f"live shows files of {table}@{revision}: its promotion was interrupted.",
            remedy=f"Finish it: `penstock promote {table} --why '...'`.",
        )


def referenced(settings: Settings, table: str, revision: str) -> bool:
    """Whether any live log points at files of a revision, whatever the registry says."""
    name = TableName.parse(table)
    for one in (name, name.quarantine, name.late, name.outcomes):
        path = live_path(settings.warehouse, one)
        if (path / "_delta_log").exists() and revision in shown_files_of(delta_table(path)):
            return True
    return False


def delete_revision(settings: Settings, name: TableName, revision: str) -> int:
    """Remove the bytes of a revision and of what lies beside it; returns how many."""
    freed = 0
    for one in (name, name.quarantine, name.late, name.outcomes):
        folder = revision_path(settings.warehouse, one, revision)
        freed += bytes_below(folder)
        remove_tree(folder)
    shutil.rmtree(settings.home / "stores" / str(name) / revision, ignore_errors=True)
    return freed


def finish_swaps(
    settings: Settings,
    registry: Registry,
    tables: Collection[str],
    before_each: Callable[[], None] = lambda: None,
) -> list[str]:
    """Bring the registry in line with the live logs of tables: what they show is what is live.

    A crash between the commit of a swap and its note in the registry is mended here, before
    anything is written.

    Args:
        before_each: called before each log is opened, for many take long.
    """
    staging, mended = Staging(registry), []
    revisions = [r for r in registry.revisions() if r.table in tables]
    for live in [r for r in revisions if r.state == State.LIVE]:
        others = [r.revision for r in revisions if r.table == live.table]
        path = live_path(settings.warehouse, TableName.parse(live.table))
        if len(others) < 2 or not (path / "_delta_log").exists():
            continue
        before_each()
        try:
            log_of = delta_table(path)
            actual = shown(log_of, others)
        except DeltaError as error:  # that table will be parked; the others must start
            log.error("the live log of %s cannot be read: %s", live.table, error)
            continue
        if actual is None or actual == live.revision:
            continue
        new = next(r for r in revisions if r.table == live.table and r.revision == actual)
        version = log_of.transaction_version(promoted(actual)) or 0
        told = commit_metadata(path, version)
        done = Promotion(
            live.table, actual, live.revision, told["verb"], told["release"], version,
            told["who"], told["why"], told["report"], "",
        )  # fmt: skip
        staging.promoted(done, told["keep_warm_seconds"])
        show_revision(settings, new, declared=told["verb"] == "promote")
        mended.append(live.table)
    return mended
