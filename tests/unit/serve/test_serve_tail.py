"""Following a table: every changed row once, in order, and nothing that did not change."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from live_tables import STATS, LiveTable, removal, stats

from penstock.errors import UsageError
from penstock.serve.tail import Change, Notice, follow
from penstock.settings import Settings

Told = tuple[int, str, str]


@pytest.fixture
def watch(settings: Settings) -> Callable[..., Iterator[Change | Notice]]:
    """Follow with a deadline, so that a missing change fails instead of hanging."""

    def start(
        table: str, *, from_version: int | None = None, within_s: float = 20
    ) -> Iterator[Change | Notice]:
        deadline = time.monotonic() + within_s
        return follow(
            settings,
            table,
            from_version=from_version,
            poll_s=0.01,
            stopped=lambda: time.monotonic() > deadline,
        )

    return start


Watch = Callable[..., Iterator[Change | Notice]]


def told(events: Iterator[Change | Notice], count: int) -> list[Told]:
    """``(version, kind, ticker)`` of the next ``count`` changes; a notice is a surprise."""
    found = list(islice(events, count))
    assert not [event for event in found if isinstance(event, Notice)], found
    return [(e.version, e.kind, e.row["ticker"]) for e in found if isinstance(e, Change)]


def changed(*rows: tuple[str, str, int, float]) -> pa.Table:
    """Rows of a change file: kind, ticker, trades, price."""
    data = stats(*(row[1:] for row in rows))
    return data.append_column("_change_type", pa.array([row[0] for row in rows]))


def test_from_a_version_on(watch: Watch, gold: LiveTable) -> None:
    assert told(watch("gold.stats", from_version=0), 3) == [
        (1, "insert", "AAPL"),
        (1, "insert", "MSFT"),
        (2, "insert", "NVDA"),
    ]
    assert told(watch("GOLD.Stats", from_version=2), 1) == [(2, "insert", "NVDA")]


def test_a_change_carries_the_row_and_its_commit(watch: Watch, gold: LiveTable) -> None:
    (change,) = islice(watch("gold.stats", from_version=2), 1)
    assert change == Change(
        2, 1_767_225_602_000, "insert", {"ticker": "NVDA", "trades": 8, "price": 30.25}
    )


def test_from_now_on_shows_only_what_comes(watch: Watch, gold: LiveTable) -> None:
    events = watch("gold.stats")
    writer = threading.Timer(0.5, lambda: gold.append(stats(("TSLA", 1, 1.0))))
    writer.start()
    assert told(events, 1) == [(3, "insert", "TSLA")]
    writer.join()


def test_a_change_is_seen_soon_after_its_commit(watch: Watch, gold: LiveTable) -> None:
    events = watch("gold.stats", from_version=2)
    assert told(events, 1)
    committed: list[float] = []

    def write() -> None:
        time.sleep(0.3)
        gold.append(stats(("TSLA", 1, 1.0)))
        committed.append(time.monotonic())

    writer = threading.Thread(target=write)
    writer.start()
    assert told(events, 1) == [(3, "insert", "TSLA")]
    writer.join()
    assert time.monotonic() - committed[0] < 2


def test_change_files_say_what_changed(watch: Watch, gold: LiveTable) -> None:
    """A commit that carries them speaks through them alone; its add and remove say nothing."""
    add = gold.write(stats(("AAPL", 4, 11.0), ("AMZN", 1, 1.0)))
    old = gold.write(stats(("GONE", 1, 1.0)))
    feed = gold.cdc(
        changed(
            ("update_preimage", "AAPL", 3, 10.5),
            ("update_postimage", "AAPL", 4, 11.0),
            ("insert", "AMZN", 1, 1.0),
            ("delete", "MSFT", 5, 20.0),
        )
    )
    gold.commit(removal(old), {"add": add}, feed)
    events = list(watch("gold.stats", from_version=3, within_s=1))
    assert [
        (e.kind, e.row["ticker"], e.row["trades"]) for e in events if isinstance(e, Change)
    ] == [
        ("update", "AAPL", 4),
        ("insert", "AMZN", 1),
        ("delete", "MSFT", 5),
    ]
    assert all("_change_type" not in e.row for e in events if isinstance(e, Change))


def test_a_promote_shows_only_the_rows_that_differ(watch: Watch, gold: LiveTable) -> None:
    candidate = gold.write(
        stats(("AAPL", 3, 10.5), ("MSFT", 6, 20.0), ("NVDA", 8, 30.25)), "_revisions/r2"
    )
    current = [{"path": f"_revisions/r1/part-{n:05}.parquet"} for n in (1, 2)]
    removes = [removal({**file, "partitionValues": {}, "size": 1}) for file in current]
    feed = gold.cdc(
        changed(("update_preimage", "MSFT", 5, 20.0), ("update_postimage", "MSFT", 6, 20.0)), "r2"
    )
    gold.commit(*removes, {"add": candidate}, feed)
    gold.append(stats(("LAST", 1, 1.0)), rev="r2")
    assert told(watch("gold.stats", from_version=3), 2) == [
        (3, "update", "MSFT"),
        (4, "insert", "LAST"),
    ]


def test_a_compaction_shows_nothing(watch: Watch, gold: LiveTable) -> None:
    merged = gold.write(stats(("AAPL", 3, 10.5), ("MSFT", 5, 20.0), ("NVDA", 8, 30.25)))
    current = [{"path": f"_revisions/r1/part-{n:05}.parquet"} for n in (1, 2)]
    removes = [
        removal({**file, "partitionValues": {}, "size": 1}, data_change=False) for file in current
    ]
    gold.commit(*removes, {"add": {**merged, "dataChange": False}})
    gold.append(stats(("AFTER", 1, 1.0)))
    assert told(watch("gold.stats", from_version=3), 1) == [(4, "insert", "AFTER")]


def test_without_change_files_a_removed_file_is_deleted_rows(watch: Watch, gold: LiveTable) -> None:
    gone = {"path": "_revisions/r1/part-00002.parquet", "partitionValues": {}, "size": 1}
    gold.commit(removal(gone), {"add": gold.write(stats(("NVDA", 9, 30.25)))})
    assert told(watch("gold.stats", from_version=3), 2) == [
        (3, "delete", "NVDA"),
        (3, "insert", "NVDA"),
    ]


def test_what_delta_rs_writes_reads_the_same(settings: Settings, watch: Watch) -> None:
    path = settings.warehouse / "silver" / "trades"
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(path, stats(("A", 1, 1.0), ("B", 2, 2.0)), configuration=feed)
    write_deltalake(path, stats(("C", 3, 3.0)), mode="append")
    DeltaTable(path).update(predicate="ticker = 'A'", updates={"trades": "10"})
    DeltaTable(path).delete("ticker = 'B'")
    source = stats(("A", 11, 1.0), ("D", 4, 4.0))
    merge = DeltaTable(path).merge(source, "t.ticker = s.ticker", "s", "t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    DeltaTable(path).optimize.compact()
    write_deltalake(path, stats(("E", 5, 5.0)), mode="append")
    events = told(watch("silver.trades", from_version=0), 8)
    assert events[:5] == [
        (0, "insert", "A"),
        (0, "insert", "B"),
        (1, "insert", "C"),
        (2, "update", "A"),
        (3, "delete", "B"),
    ]
    assert sorted(events[5:7]) == [(4, "insert", "D"), (4, "update", "A")]
    assert events[7] == (6, "insert", "E")


def test_a_concurrent_writer_is_followed_without_loss_or_double(
    settings: Settings, watch: Watch
) -> None:
    path = settings.warehouse / "silver" / "trades"
    write_deltalake(path, stats(("start", 0, 0.0)))
    events = watch("silver.trades", from_version=1)

    def write() -> None:
        for batch in range(25):
            write_deltalake(
                path, stats(*((f"{batch}-{n}", n, 0.0) for n in range(4))), mode="append"
            )

    writer = threading.Thread(target=write)
    writer.start()
    found = told(events, 100)
    writer.join()
    assert found == [(b + 1, "insert", f"{b}-{n}") for b in range(25) for n in range(4)]


def test_a_new_column_shows_from_its_commit_on(watch: Watch, gold: LiveTable) -> None:
    events = watch("gold.stats", from_version=2)
    wider = STATS.append(pa.field("venue", pa.string()))
    assert told(events, 1) == [(2, "insert", "NVDA")]
    body = gold.write(stats(("TSLA", 1, 1.0)).append_column("venue", pa.array(["NYSE"])))
    gold.commit(gold.metadata(wider), {"add": body})
    (change,) = islice(events, 1)
    assert isinstance(change, Change)
    assert change.row == {"ticker": "TSLA", "trades": 1, "price": 1.0, "venue": "NYSE"}


def test_partition_values_are_part_of_the_row(
    watch: Watch, live: Callable[[str], LiveTable]
) -> None:
    table = live("gold.parts").create(STATS, partition_by=["ticker"])
    for ticker in ("A b", None, ""):  # Delta spells a NULL partition either way
        body = table.write(pa.table({"trades": [1], "price": [1.0]}))
        table.commit({"add": {**body, "partitionValues": {"ticker": ticker}}})
    assert told(watch("gold.parts", from_version=0), 3) == [
        (1, "insert", "A b"),
        (2, "insert", None),
        (3, "insert", None),
    ]


def drop(table: LiveTable, *versions: int) -> None:
    for version in versions:
        (table.folder / "_delta_log" / f"{version:020}.json").unlink()


def test_versions_cleaned_up_are_told_and_skipped(watch: Watch, gold: LiveTable) -> None:
    for number in range(3, 7):
        gold.append(stats((f"V{number}", number, 0.0)))
    events = watch("gold.stats", from_version=3)
    assert told(events, 1) == [(3, "insert", "V3")]
    DeltaTable(gold.folder).create_checkpoint()
    drop(gold, 4, 5)
    notice = next(events)
    assert isinstance(notice, Notice)
    assert "versions 4 to 5" in notice.text
    assert "version 6" in notice.text
    assert told(events, 1) == [(6, "insert", "V6")]
    gold.append(stats(("V7", 7, 0.0)))
    assert told(events, 1) == [(7, "insert", "V7")]


def test_starting_before_the_oldest_commit_left(watch: Watch, gold: LiveTable) -> None:
    DeltaTable(gold.folder).create_checkpoint()
    drop(gold, 0, 1)
    notice, change = islice(watch("gold.stats", from_version=0), 2)
    assert isinstance(notice, Notice)
    assert "versions 0 to 1" in notice.text
    assert isinstance(change, Change)
    assert change.row["ticker"] == "NVDA"


def test_a_file_that_is_gone_is_told(watch: Watch, gold: LiveTable) -> None:
    (gold.folder / "_revisions/r1/part-00001.parquet").unlink()
    notice, change = islice(watch("gold.stats", from_version=1), 2)
    assert isinstance(notice, Notice)
    assert "version 1" in notice.text
    assert isinstance(change, Change)
    assert change.version == 2


def test_a_half_written_commit_is_waited_for(watch: Watch, gold: LiveTable) -> None:
    events = watch("gold.stats", from_version=2)
    assert told(events, 1) == [(2, "insert", "NVDA")]
    whole = gold.folder / "_delta_log" / f"{3:020}.json"
    gold.append(stats(("LATE", 1, 1.0)))
    text = whole.read_text()
    whole.write_text(text[: len(text) // 2])
    writer = threading.Timer(0.3, lambda: whole.write_text(text))
    writer.start()
    assert told(events, 1) == [(3, "insert", "LATE")]
    writer.join()


def test_a_table_declared_but_not_written_is_waited_for(
    watch: Watch, declare: Callable[..., None], live: Callable[[str], LiveTable]
) -> None:
    declare("gold.later")
    events = watch("gold.later")
    notice = next(events)
    assert isinstance(notice, Notice)
    assert "no data yet" in notice.text
    live("gold.later").create(STATS).append(stats(("FIRST", 1, 1.0)))
    assert told(events, 1) == [(1, "insert", "FIRST")]


def test_unknown_tables_and_future_versions_are_usage_errors(watch: Watch, gold: LiveTable) -> None:
    with pytest.raises(UsageError, match="no table named"):
        watch("gold.statz")
    with pytest.raises(UsageError, match="no version 4 yet; its newest is 2"):
        next(watch("gold.stats", from_version=4))


def test_waiting_is_cheap_however_long_the_log(
    watch: Watch, gold: LiveTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll looks for one name; the log is listed now and then only."""
    events = watch("gold.stats", within_s=1.5)
    listings: list[str] = []
    scandir = os.scandir

    def counted(path: str) -> object:
        listings.append(str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    assert list(events) == []
    assert len(listings) <= 8
