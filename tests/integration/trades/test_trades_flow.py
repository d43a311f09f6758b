"""The trades slice on real parts: what is good arrives, what is bad is kept, nothing stops."""

from __future__ import annotations

import datetime as dt
import json
import random
import struct
from decimal import Decimal

import pytest
from deltalake import DeltaTable

from penstock.runtime.decode.schemas import SchemaRegistry
from tests.live import Feed, read, rows_where, wait_for

ONE = Decimal("1.0000")

pytestmark = pytest.mark.platform


def test_rows_reach_silver_and_windows_close(running, home, feed):
    start = dt.datetime.now(dt.UTC)
    for number in range(40):
        feed.send("FLOW", size=number + 1, at=start + dt.timedelta(milliseconds=100 * number))
    feed.send("FLOWEND", at=start + dt.timedelta(seconds=20))
    feed.flush()
    wait_for("40 rows", lambda: len(rows_where(home, "silver", "trades", ticker="FLOW")) == 40)
    got = rows_where(home, "silver", "trades", ticker="FLOW")
    assert {(r["partition"], r["offset"]) for r in got} <= set(feed.acked)
    assert sum(r["notional"] for r in got) == sum(range(1, 41)) * 10
    stats = wait_for("final windows", lambda: _final_windows(home, "FLOW"))
    assert sum(r["trades"] for r in stats) == 40 * 5, "each trade is in five windows"
    assert {str(r["avg_price"]) for r in stats} == {"10.00000000"}


def _final_windows(home, ticker: str) -> list[dict]:
    found = rows_where(home, "gold", "stock_stats", ticker=ticker)
    return found if found and all(row["is_final"] for row in found) else []


def test_bronze_keeps_bytes_coordinates_and_identity(running, home, feed):
    feed.raw(b"\x00some bytes", key=b"bronze-check")
    feed.flush()
    (place,) = feed.acked
    found = wait_for("the row", lambda: rows_where(home, "bronze", "trades", key=b"bronze-check"))
    assert [(r["partition"], r["offset"]) for r in found] == [place]
    assert found[0]["value"] == b"\x00some bytes"
    assert found[0]["topic_id"]
    assert found[0]["cluster_id"]
    assert found[0]["timestamp_type"] == 0
    assert abs((found[0]["ingested_at"] - dt.datetime.now(dt.UTC)).total_seconds()) < 120


def bad_values(feed: Feed) -> dict[str, tuple]:
    """name -> (bytes, event time or None, error class, a part of the error)"""
    good = feed.producer.encode(
        {"ticker": "BAD", "price": ONE, "ask_price": ONE, "size": 1, "side": "buy"}
    )
    body, head = good[5:], good[:5]
    now = dt.datetime.now(dt.UTC)
    dice = random.Random(1)
    return {
        "null": (None, None, "null_value", ""),
        "empty": (b"", None, "bad_frame", ""),
        "header only": (head, None, "undecodable", ""),
        "wrong magic": (b"\x01" + good[1:], None, "bad_frame", ""),
        "truncated": (good[:-4], None, "undecodable", ""),
        "no such id": (b"\x00\x00\x0f\x42\x3f" + body, None, "unknown_schema", "999999"),
        "text": (b"hello, this is no avro", None, "bad_frame", ""),
        "2038": (good, dt.datetime(2038, 1, 19, tzinfo=dt.UTC), "contract", "plausible_time"),
        "1999": (good, dt.datetime(1999, 1, 1, tzinfo=dt.UTC), "contract", "plausible_time"),
        "negative size": (_row(feed, size=-5), now, "contract", "range:size"),
        "wrong enum": (_row(feed, side="perhaps"), now, "contract", "one_of:side"),
        "wrong pattern": (_row(feed, ticker="bad ticker"), now, "contract", "matches:ticker"),
        "big garbage": (b"\x00\x00\x00\x00\x01" + dice.randbytes(1_000_000), None, "", ""),
    }  # fmt: skip


def _row(feed: Feed, **changes) -> bytes:
    row = {"ticker": "BAD", "price": ONE, "ask_price": ONE, "size": 1, "side": "buy"} | changes
    return feed.producer.encode(row)


def test_bad_input_is_quarantined_and_the_stream_goes_on(running, home, feed):
    cases = bad_values(feed)
    before = len(read(home, "silver", "trades"))
    for name, (value, at, _, _) in cases.items():
        feed.raw(value, at=at, key=name.encode())
    feed.send("AFTERBAD")
    feed.flush()
    wait_for("the good row", lambda: rows_where(home, "silver", "trades", ticker="AFTERBAD"))
    kept = wait_for(
        "all bad rows",
        lambda: _all_of(home, {name.encode() for name in cases}),
    )
    for name, (value, _, error_class, error) in cases.items():
        row = kept[name.encode()]
        assert row["value"] == value, name
        assert (row["partition"], row["offset"]) in feed.acked, name
        assert row["topic"] == "trades"
        if error_class:
            assert (row["error_class"], error in (row["error"] or "")) == (error_class, True), name
    assert len(read(home, "silver", "trades")) == before + 1, "no bad row slipped through"


def _all_of(home, keys: set[bytes]) -> dict[bytes, dict] | None:
    found = {r["key"]: r for r in read(home, "quarantine", "silver_trades").to_pylist()}
    return found if keys <= set(found) else None


def test_a_new_schema_id_is_picked_up_while_running(running, home, feed):
    schema = json.loads(feed.stream.contract.schema_json)
    schema["fields"].append({"name": "venue", "type": "string", "default": "unknown"})
    registry = SchemaRegistry(home.registry_url)
    new_id = registry.register(feed.stream.contract.subject, json.dumps(schema))
    assert new_id != feed.producer.schema_id
    import io

    import fastavro

    row = {
        "ticker": "NEWID",
        "price": ONE,
        "ask_price": ONE,
        "size": 2,
        "side": "sell",
        "venue": "X",
    }
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), row)
    feed.raw(b"\x00" + struct.pack(">I", new_id) + body.getvalue())
    feed.flush()
    got = wait_for("the row", lambda: rows_where(home, "silver", "trades", ticker="NEWID"))
    assert [r["size"] for r in got] == [2]


def test_a_registry_that_is_down_means_waiting_not_quarantine(running, home, feed, stack):
    schema = json.loads(feed.stream.contract.schema_json)
    schema["fields"].append({"name": "note", "type": "string", "default": ""})
    new_id = SchemaRegistry(home.registry_url).register(
        feed.stream.contract.subject, json.dumps(schema)
    )
    quarantined = len(read(home, "quarantine", "silver_trades"))
    stack.services["registry"].stop()
    try:
        plain = feed.producer.encode(
            {"ticker": "WAITED", "price": ONE, "ask_price": ONE, "size": 2, "side": "sell"}
        )
        feed.raw(b"\x00" + struct.pack(">I", new_id) + plain[5:] + b"\x00")
        feed.flush()
        wait_for("bronze has it", lambda: _at(home, feed), 60)
        state = wait_for(
            "silver to wait",
            lambda: [s for s in running.registry.heartbeat().streams if s["state"] == "waiting"],
            60,
        )
        assert any("schema registry" in s["error"] for s in state)
        assert not rows_where(home, "silver", "trades", ticker="WAITED")
        assert len(read(home, "quarantine", "silver_trades")) == quarantined
    finally:
        stack.up(only=["registry"])
    wait_for("the row", lambda: rows_where(home, "silver", "trades", ticker="WAITED"), 120)
    assert len(read(home, "quarantine", "silver_trades")) == quarantined


def _at(home, feed: Feed) -> bool:
    found = {(r["partition"], r["offset"]) for r in read(home, "bronze", "trades").to_pylist()}
    return set(feed.acked) <= found


def test_a_row_that_breaks_a_transform_is_isolated(running, home, feed):
    for number in range(30):
        feed.send("POISON", size=number + 1)  # 13 breaks silver.fragile, 17 breaks gold.fragile
    feed.flush()
    for layer, broken in (("silver", 13), ("gold", 17)):
        wait_for(
            f"{layer}.fragile",
            lambda layer=layer: len(rows_where(home, layer, "fragile", ticker="POISON")) == 29,
        )
        sizes = {r["size"] for r in rows_where(home, layer, "fragile", ticker="POISON")}
        assert sizes == set(range(1, 31)) - {broken}
        apart = rows_where(home, "quarantine", f"{layer}_fragile", error_class="transform_error")
        assert "DIVIDE_BY_ZERO" in apart[-1]["error"]
    apart = rows_where(home, "quarantine", "silver_fragile", error_class="transform_error")
    coordinates = [(row["partition"], row["offset"]) for row in apart]
    assert [feed.acked[place]["size"] for place in coordinates if place in feed.acked] == [13]
    assert len(rows_where(home, "silver", "trades", ticker="POISON")) == 30


def test_a_stream_can_be_stopped_started_and_restarted(running, home, feed):
    def states() -> dict[str, dict]:
        return {s["stream"]: s for s in running.registry.heartbeat().streams}

    name = next(n for n in states() if n.startswith("gold.fragile@"))
    running.registry.wish(name, running=False, restart=False, said_by="test")
    wait_for("the stream to stop", lambda: name not in states())
    feed.send("PAUSED", size=3)
    feed.flush()
    wait_for("silver", lambda: rows_where(home, "silver", "trades", ticker="PAUSED"))
    assert not rows_where(home, "gold", "fragile", ticker="PAUSED")
    running.registry.wish(name, running=True, restart=False, said_by="test")
    wait_for("gold to catch up", lambda: rows_where(home, "gold", "fragile", ticker="PAUSED"))

    batches = states()["bronze.trades"]["batches"]
    assert batches > 1
    running.registry.wish("bronze.trades", running=True, restart=True, said_by="test")
    wait_for("a fresh query", lambda: states()["bronze.trades"].get("batches", batches) < batches)
    feed.send("RESTARTED", size=3)
    feed.flush()
    got = wait_for("the row", lambda: rows_where(home, "silver", "trades", ticker="RESTARTED"))
    assert len(got) == 1


def test_a_checkpoint_that_is_deleted_loses_and_doubles_nothing(running, home, feed):
    import shutil

    for folder in (home.run / "checkpoints").iterdir():
        shutil.rmtree(folder)
    for number in range(20):
        feed.send("NOCHECK", size=number + 1)
        if number == 10:
            feed.flush()
    feed.flush()
    wait_for("all rows", lambda: len(rows_where(home, "silver", "trades", ticker="NOCHECK")) >= 20)
    sizes = [r["size"] for r in rows_where(home, "silver", "trades", ticker="NOCHECK")]
    assert sorted(sizes) == list(range(1, 21))
    assert _at(home, feed)


def test_an_edit_does_not_reach_the_live_revision(running, home, feed, test_project):
    """Edit the transform, restart the supervisor: live goes on with the code it has."""
    source = test_project / "spark_jobs" / "silver" / "trades.py"
    before = source.read_text()
    try:
        source.write_text(before.replace('F.col("size")).cast', 'F.col("size") * 1000).cast'))
        assert source.read_text() != before
        running.stop(running.processes[-1])
        running.start()
        manifest = {t["name"]: t for t in json.loads(home.manifest.read_text())["tables"]}
        assert manifest["silver.trades"]["changed"]
        assert manifest["gold.stock_stats"]["changed"], "it reads what changed"
        feed.send("EDITED", size=3)
        feed.flush()
        got = wait_for("the row", lambda: rows_where(home, "silver", "trades", ticker="EDITED"))
        assert [str(r["notional"]) for r in got] == ["30.0000"]
    finally:
        source.write_text(before)


def test_delta_readers_see_whole_versions_without_gaps(running, home):
    for layer, name in (("bronze", "trades"), ("silver", "trades"), ("gold", "stock_stats")):
        path = home.warehouse / layer / name
        versions = sorted(int(p.stem) for p in (path / "_delta_log").glob("*.json"))
        assert versions == list(range(versions[0], versions[-1] + 1))
        assert DeltaTable(str(path)).version() >= versions[-1] - 1
