"""Exported tables in ClickHouse: plain MergeTree tables, exchanged whole.

**How it works.** ``gold.sensor_5m`` is cloned to ``gold.sensor_5m__next`` (the clone shares the
parts: no row is written), the clone is changed, checked and given the claim as its comment, and the
two are exchanged by one statement. So a reader sees the table of one version, and the claim with
it; a crash leaves a ``__next`` that the following export drops.

**A row that went** is found by the hash stored with it (``_row``), read back, compared column by
column with what should go (duplicates counted), and deleted with a lightweight delete: that writes
a mask, not rows. What shared its hash and should stay is put back together with what came.

**What it does not do.** Follow a change of columns: the hash covers all of them, so the table is
taken whole.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.export.bench import Workbench
from penstock.export.claim import Claim, Rebuild, Sum
from penstock.export.clickhouse_places import CLAIM, Engine, Place
from penstock.export.clickhouse_types import ROW, Wire, laid_out, quoted, text
from penstock.export.feed import COUNT, NET, Net
from penstock.export.live import Live
from penstock.serve.snapshot import identifier

__all__ = ["ClickHouse"]

_SLICE = 2_000_000  # rows read back at a time
_READ = "read_back"


class ClickHouse:
    """The target ``clickhouse``."""

    name = "clickhouse"
    whole = False

    def __init__(self, where: Place) -> None:
        self._where = where
        self.place = where.place
        self._claims: dict[str, Claim] = {}
        self._kept = False
        self._changed = False

    def claims(self) -> dict[str, Claim]:
        self._claims = self._where.claims()
        return dict(self._claims)

    # --- writing --------------------------------------------------------------------------
    def begin(self, bench: Workbench, live: Live) -> None:
        self._changed = False
        engine = self._engine
        for database in (live.layer, "penstock"):
            engine.run(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}")
        engine.run(_EXPORTS)
        self._clear(live)

    @property
    def _engine(self) -> Engine:
        return self._where.open()

    def _clear(self, live: Live) -> None:
        for name in (_next(live), _gone(live)):
            self._engine.run(f"DROP TABLE IF EXISTS {name} SYNC")

    def replace(self, bench: Workbench, live: Live) -> None:
        wires = laid_out(bench.duck, live.columns)
        names = {column.name for column in live.columns}
        order = ", ".join(quoted(key) for key in live.keys if key in names)
        self._engine.run(
            f"CREATE TABLE {_next(live)} ({', '.join(wire.declared for wire in wires)}) "
            f"ENGINE = MergeTree ORDER BY ({order}) SETTINGS allow_nullable_key = 1"
        )
        self._changed = True
        self._insert(bench, live, wires, f"({bench.scan(live.columns, live.parts)})")

    def _insert(self, bench: Workbench, live: Live, wires: list[Wire], source: str) -> None:
        sent = ", ".join(f"{wire.out} AS {identifier(wire.name)}" for wire in wires)
        self._send(bench, _next(live), wires, f"SELECT {sent} FROM {source}")  # noqa: S608

    def _send(self, bench: Workbench, table: str, wires: list[Wire], query: str) -> None:
        for file in bench.write_parquet(query, bench.scratch / "sent"):
            self._engine.insert(table, wires, file)

    def apply(self, bench: Workbench, live: Live, net: Net) -> tuple[str, ...]:
        if net.steps:
            raise Rebuild("its columns changed")
        wires = laid_out(bench.duck, live.columns)
        self._engine.run(f"CREATE TABLE {_next(live)} CLONE AS {_table(live)}")
        self._changed = True
        if net.gone:
            self._delete(bench, live, wires, net)
        if net.added:
            came = f"(SELECT *, unnest(range({COUNT})) FROM {NET} WHERE {COUNT} > 0)"  # noqa: S608
            self._insert(bench, live, wires, came)
        return ()

    def _delete(self, bench: Workbench, live: Live, wires: list[Wire], net: Net) -> None:
        went = f"(SELECT *, unnest(range(-{COUNT})) FROM {NET} WHERE {COUNT} < 0)"  # noqa: S608
        row = wires[-1]
        self._engine.run(f"CREATE TABLE {_gone(live)} ({quoted(ROW)} {row.type}) ENGINE = Memory")
        hashes = f"SELECT DISTINCT {row.out} AS {ROW} FROM {went}"  # noqa: S608
        self._send(bench, _gone(live), [row], hashes)
        meant = f"{quoted(ROW)} IN (SELECT {quoted(ROW)} FROM {_gone(live)})"  # noqa: S608
        held = self._read(bench, live, wires, f"WHERE {meant}")
        gone = ", ".join(f"{wire.out} AS {identifier(wire.name)}" for wire in wires)
        bench.run(
            f"CREATE OR REPLACE TEMP TABLE stays AS SELECT * FROM {_READ} "  # noqa: S608
            f"EXCEPT ALL SELECT {gone} FROM {went}"
        )
        ((stay,),) = bench.run("SELECT count(*) FROM stays")
        if held - stay != net.gone:
            raise Rebuild(f"{net.gone - (held - stay)} of {net.gone} rows that went were not there")
        self._engine.run(f"DELETE FROM {_next(live)} WHERE {meant}")  # noqa: S608
        if stay:
            self._send(bench, _next(live), wires, "SELECT * FROM stays")
        self._engine.run(f"DROP TABLE {_gone(live)} SYNC")

    # --- checking -------------------------------------------------------------------------
    def measured(self, bench: Workbench, live: Live) -> Sum:
        (found,) = self._engine.rows(
            f"SELECT toString(count()) AS n, toString(sum(toUInt128({quoted(ROW)}))) AS s "  # noqa: S608
            f"FROM {self._new(live)}"
        )
        return Sum(int(found["n"]), int(found["s"]))

    def prove(self, bench: Workbench, live: Live) -> None:
        wires = laid_out(bench.duck, live.columns)
        sent = ", ".join(f"{wire.out} AS {identifier(wire.name)}" for wire in wires)
        hashed = f"hash({', '.join(identifier(wire.name) for wire in wires)})"
        slices = 1 + self.measured(bench, live).rows // _SLICE
        held = 0
        for number in range(slices):
            self._read(bench, live, wires, f"WHERE {quoted(ROW)} % {slices} = {number}")
            ((part,),) = bench.run(f"SELECT coalesce(sum({hashed}), 0) FROM {_READ}")  # noqa: S608
            held += int(part)
        rows = bench.scan(live.columns, live.parts)
        ((delta,),) = bench.run(
            f"SELECT coalesce(sum({hashed}), 0) FROM (SELECT {sent} FROM ({rows}))"  # noqa: S608
        )
        if held != int(delta):
            raise Rebuild("rows read back from ClickHouse differ from those of Delta")

    def _read(self, bench: Workbench, live: Live, wires: list[Wire], where: str) -> int:
        """Read rows back into the workbench, in the types they had; returns how many."""
        selected = ", ".join(wire.selected for wire in wires)
        found: pa.Table = self._engine.arrow(
            f"SELECT {selected} FROM {self._new(live)} {where}"  # noqa: S608
        )
        bench.duck.register("arrived", found)
        back = ", ".join(wire.back for wire in wires)
        bench.run(f"CREATE OR REPLACE TEMP TABLE {_READ} AS SELECT {back} FROM arrived")  # noqa: S608
        bench.duck.unregister("arrived")
        return int(found.num_rows)

    def _new(self, live: Live) -> str:
        return _next(live) if self._changed else _table(live)

    # --- showing --------------------------------------------------------------------------
    def keep(self, bench: Workbench, live: Live, claim: Claim) -> None:
        engine = self._engine
        engine.run(f"ALTER TABLE {self._new(live)} MODIFY COMMENT {text(claim.to_json())}")
        if self._changed and self._exists(live):
            engine.run(f"EXCHANGE TABLES {_table(live)} AND {_next(live)}")
        elif self._changed:
            engine.run(f"RENAME TABLE {_next(live)} TO {_table(live)}")
        self._clear(live)
        self._claims[claim.table] = claim
        self._kept = True

    def _exists(self, live: Live) -> bool:
        (found,) = self._engine.rows(f"EXISTS TABLE {_table(live)}")
        return bool(int(found["result"]))

    def drop(self, bench: Workbench, live: Live) -> None:
        self._clear(live)

    def publish(self, bench: Workbench) -> None:
        if self._kept:
            self._where.publish(self._claims)

    def close(self) -> None:
        self._where.close()


def _table(live: Live) -> str:
    return f"{quoted(live.layer)}.{quoted(live.name)}"


def _next(live: Live) -> str:
    return f"{quoted(live.layer)}.{quoted(f'{live.name}__next')}"


def _gone(live: Live) -> str:
    return f"{quoted(live.layer)}.{quoted(f'{live.name}__gone')}"


_EXPORTS = f"""CREATE OR REPLACE VIEW penstock.exports AS SELECT
    JSONExtractString(comment, 'table') AS table_name,
    JSONExtractInt(comment, 'delta_version') AS delta_version,
    JSONExtractString(comment, 'revision') AS revision,
    JSONExtractInt(comment, 'rows') AS rows,
    JSONExtractString(comment, 'checksum') AS checksum,
    parseDateTime64BestEffort(JSONExtractString(comment, 'exported_at'), 3, 'UTC') AS exported_at,
    JSONExtractString(comment, 'mode') AS mode,
    JSONExtractInt(comment, 'rows_written') AS rows_written,
    JSONExtractString(comment, 'verified') AS verified,
    JSONExtractString(comment, 'reason') AS reason
FROM system.tables
WHERE startsWith(comment, {text(CLAIM)}) AND NOT endsWith(name, '__next')"""  # noqa: S608
