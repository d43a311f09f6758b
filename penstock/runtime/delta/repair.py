"""A live log that is not what its writer left: noticed before anything is built on it, and mended.

A stranger wrote to it, or it was left showing a revision that is not fed any more.

Only the log of a live table is mended, by one more commit that shows the revision's rows again;
readers of the change feed get what the stranger did taken back. The revision itself is never
touched by whoever writes at the live path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import ForeignCommit
from penstock.location import Location, delta_table
from penstock.runtime.delta.log import DeltaLog, read_commit
from penstock.runtime.delta.swap import difference, shown_files_of, swap
from penstock.runtime.delta.writer import RevisionWriter

__all__ = ["refuse_foreign", "refuse_others", "show_again"]

_OURS = "penstock/"


def refuse_foreign(path: Location, table: str) -> None:
    """Raise if the newest commit of a live log is not ours.

    Asked when a writer opens the log: a commit that lands while it is open is noticed by the next
    commit of our own, which finds its version taken.
    """
    if not (path / "_delta_log").exists():
        return
    version = delta_table(path).version()
    if version == 0:
        return  # made, and empty
    for action in read_commit(path, version):
        told = action.get("commitInfo", {})
        if told and not str(told.get("engineInfo", "")).startswith(_OURS):
            raise ForeignCommit(
                f"version {version} of {table} was written by somebody else "
                f"({told.get('operation')}, {told.get('engineInfo')}).",
                remedy=f"Stop whoever did, then: `penstock repair {table}`.",
            )


def refuse_others(path: Location, table: str, revision: str) -> None:
    """Raise if a live log shows files of another revision than the one it is opened for.

    A swap takes every file of the other out in the commit that brings its own in, so there are none
    unless that never came: to mirror this one on top would show every row twice.
    """
    if not (path / "_delta_log").exists():
        return
    others = shown_files_of(delta_table(path)) - {revision}
    if others:
        raise ForeignCommit(
            f"the live log of {table} shows revision {', '.join(sorted(others))}, which is not "
            f"fed any more, where it should show {revision}.",
            remedy=f"To let it show {revision}: `penstock repair {table}`.",
        )


@dataclass(frozen=True)
class _Shown:
    """What a live log shows now, as something to compare with."""

    path: Location
    schema: pa.Schema


def show_again(
    writer: RevisionWriter, live: DeltaLog, keys: tuple[str, ...], info: Mapping[str, Any],
    scratch: Path,
) -> dict[str, Any]:  # fmt: skip
    """Let a live log show its revision again, whatever it shows now."""
    schema = pa.schema(delta_table(live.path).schema().to_arrow())
    shown = _Shown(live.path, pa.schema([field.with_nullable(True) for field in schema]))
    with writer.log.lock:  # a commit in between would be shown and not told of
        change = difference(shown, live.version, writer, writer.log.version, scratch)
        version = swap(live, writer, change, keys, info)
        writer.show(live)
    return {"version": version, "changed": change.rows}
