"""What is in a table's quarantine now, and how rows leave it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.location import delta_table
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import removal, write_arrow, write_changes
from penstock.runtime.delta.log import Action
from penstock.runtime.delta.source import read_files
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.fates import quarantine

__all__ = ["held_in", "taken_out"]


def held_in(broken: RevisionWriter) -> pa.Table:
    """The rows that are in quarantine."""
    if broken.position("from") is None:
        return quarantine.SCHEMA.empty_table()
    return broken.log.snapshot().to_pyarrow_table().cast(quarantine.SCHEMA)


def taken_out(broken: RevisionWriter, ids: set[str]) -> list[Action]:
    """Actions that take rows out of a quarantine table."""
    table = delta_table(broken.path, broken.log.version)
    actions: list[Action] = []
    gone = [quarantine.SCHEMA.empty_table()]
    wanted = pa.array(sorted(ids), pa.string())
    for add in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        (rows,) = read_files([broken.path / add["path"]], quarantine.SCHEMA)
        hit = pc.is_in(rows["row_id"], wanted)
        if not pc.any(hit).as_py():
            continue
        gone.append(rows.filter(hit))
        actions.append(removal(add["path"], add["size_bytes"]))
        actions += write_arrow(rows.filter(pc.invert(hit)), broken.path)
    told = Change(quarantine.SCHEMA.empty_table(), pa.concat_tables(gone))
    return [*actions, *write_changes(told, ("row_id",), broken.path)] if actions else []
