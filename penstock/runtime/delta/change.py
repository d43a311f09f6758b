"""A change of a table: rows that came and rows that went, as bags."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.runtime.delta.relate import members

__all__ = ["CHANGE_TYPE", "Change"]

CHANGE_TYPE = "_change_type"  # Delta's own name for it in change files
_GONE = ("delete", "update_preimage")


@dataclass(frozen=True)
class Change:
    """What a commit, or several together, did to a table's rows."""

    added: pa.Table
    gone: pa.Table | None = None

    @property
    def rows(self) -> int:
        return int(self.added.num_rows + (self.gone.num_rows if self.gone is not None else 0))

    @property
    def both(self) -> list[pa.Table]:
        """The rows that came, and those that went if any did."""
        return [self.added] if self.gone is None else [self.added, self.gone]

    @property
    def nbytes(self) -> int:
        return int(self.added.nbytes + (self.gone.nbytes if self.gone is not None else 0))

    @classmethod
    def joined(cls, schema: pa.Schema, parts: list[Change]) -> Change:
        """Several changes as one: what came and went in between is not seen."""
        added = pa.concat_tables([schema.empty_table(), *(p.added for p in parts)])
        went = [p.gone for p in parts if p.gone is not None and p.gone.num_rows]
        if not went:
            return cls(added)
        gone = pa.concat_tables(went)
        return cls(_less(added, gone), _less(gone, added))

    @classmethod
    def of_changes(cls, rows: pa.Table, schema: pa.Schema) -> Change:
        """From rows as a change file holds them."""
        kinds = rows[CHANGE_TYPE].to_pylist()
        bare = rows.select(schema.names).cast(schema)
        went = [index for index, kind in enumerate(kinds) if kind in _GONE]
        came = [index for index, kind in enumerate(kinds) if kind not in _GONE]
        return cls(bare.take(pa.array(came, pa.int64())), bare.take(pa.array(went, pa.int64())))


def _less(rows: pa.Table, gone: pa.Table) -> pa.Table:
    """``minus`` that keeps the order: who deduplicates goes by it."""
    return rows.filter(pa.array(~members(rows, gone)))
