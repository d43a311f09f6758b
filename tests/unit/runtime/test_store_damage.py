"""A damaged copy is thrown away when that shows, and filled from the beginning."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from penstock.runtime.delta.store import Store

ROWS = pa.schema([("k", pa.string())])


@pytest.fixture
def path(tmp_path):
    store = Store(tmp_path / "rows.duckdb", {"rows": ROWS})
    store.begin()
    store.add("rows", pa.table({"k": ["a", "b"]}))
    store.commit({"silver.events": 3})
    store.close()
    return tmp_path / "rows.duckdb"


def test_one_whose_damage_shows_while_it_is_brought_up_begins_anew(path):
    broken = bytearray(path.read_bytes())
    broken[len(broken) - (1 << 18) + 8] ^= 0xFF  # in the checksum of DuckDB's last block
    path.write_bytes(broken)
    store, reached = Store(path, {"rows": ROWS}), []

    def fill():
        reached.append(store.position("silver.events"))
        store.begin()
        store.add("rows", pa.table({"k": ["c"]}))
        store.commit({"silver.events": 4})

    store.bring_up(fill)
    assert reached == [-1]
    assert store.position("silver.events") == 4
    assert store.fetch("rows").to_pylist() == [{"k": "c"}]
    store.close()


def test_what_fails_for_another_reason_fails(path):
    store = Store(path, {"rows": ROWS})

    def fill():
        raise OSError("the input cannot be read")

    with pytest.raises(OSError, match="cannot be read"):
        store.bring_up(fill)
    assert store.position("silver.events") == 3, "nothing is wrong with it"
    store.close()


def test_what_cannot_even_be_closed_is_thrown_away_all_the_same(path):
    store = Store(path, {"rows": ROWS})

    class Broken:
        def close(self):
            raise duckdb.Error("Corrupt database file")

    store._duck.close()
    store._duck = Broken()
    store.clear()
    assert store.position("silver.events") == -1
    store.close()
