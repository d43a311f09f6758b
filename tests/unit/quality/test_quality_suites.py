"""Our suites: they pass on what the oracles say is right, and each finds what is planted."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

import pytest
from quality_world import PROJECT, Row, Stand, bronze_rows, good_rows

from penstock.quality.gate import Gate
from penstock.quality.load import load_suites
from penstock.quality.suite import Suite

NEVER = dt.datetime(1999, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def suites() -> dict[str, Suite]:
    good, broken = load_suites(PROJECT / "expectations")
    assert not broken
    return {table: loaded.suite for table, loaded in good.items()}


def test_every_table_has_a_suite_at_the_path_of_its_module(jobs, suites):
    declared = {**jobs.streams, **jobs.tables}
    assert set(suites) == {str(name) for name in declared}
    for name, table in declared.items():
        module = table.place.file.rpartition("/")[2]
        if module != "helpers.py":
            assert (PROJECT / "expectations" / name.layer / module).is_file()


def test_bronze_suites_name_the_topic_of_their_stream(jobs, suites):
    for name, stream in jobs.streams.items():
        (named,) = [c for c in suites[str(name)].checks if c.columns == ["topic"]]
        assert named.arguments["value_set"] == [stream.topic]


def test_right_rows_pass_every_check_of_every_suite(stand: Stand, suites):
    for table in suites:
        if table.startswith("bronze."):
            (named,) = [c for c in suites[table].checks if c.columns == ["topic"]]
            topic = named.arguments["value_set"][0]
            stand.put_bronze(table, topic, bronze_rows(topic))
        else:
            stand.put(table, good_rows(table))
    for boundary, layers in (("silver", ("bronze", "silver")), ("gold", ("gold",))):
        run = Gate(stand.settings, hold=False).run((), boundary)
        assert {told.table for told in run.tables} == {
            table for table in suites if table.partition(".")[0] in layers
        }
        failed = [
            (told.table, o.check.name, o.unexpected_count, o.observed, o.error)
            for told in run.tables
            for o in told.outcomes
            if not o.success
        ]
        assert not failed
        assert not run.skipped
        assert all(told.rows for told in run.tables)


def spoil(column: str, value: object, rows: slice = slice(0, 3)) -> Callable[[list[Row]], None]:
    def spoilt(listed: list[Row]) -> None:
        for row in listed[rows]:
            row[column] = value

    return spoilt


def again(listed: list[Row]) -> None:
    """Two rows that are there twice: four rows that are not alone."""
    listed += [dict(row) for row in listed[:2]]


def all_again(listed: list[Row]) -> None:
    listed += [dict(row) for row in listed]


def split_offset(listed: list[Row]) -> None:
    listed += [{**row, "offset": row["offset"] + 10_000} for row in listed[:2]]


# table, the check that finds it, what is planted in each of three rows
CATALOGUE = [
    (table, check, spoil(column, value, slice(0, count)), count)
    for table, check, column, value, count in (
        ("silver.song_plays", "column_values_to_not_be_null(song_id)", "song_id", None, 3),
        ("silver.machine_readings", "column_values_to_be_between(vibration)", "vibration", -1, 3),
        ("silver.card_payments", "column_values_to_be_between(latitude)", "latitude", 91.0, 3),
        ("silver.payment_outcomes", "column_values_to_be_in_set(outcome)", "outcome", "?", 3),
        ("silver.connections", "column_values_to_be_between(sent_bytes)", "sent_bytes", -1, 3),
        ("silver.hotel_events", "column_values_to_be_in_set(event)", "event", "?", 3),
        ("silver.app_requests", "column_values_to_be_between(status)", "status", 99, 3),
        ("silver.regions", "column_values_to_not_be_null(manager)", "manager", None, 3),
        ("silver.fraud_rules", "column_values_to_be_between(max_payments)", "max_payments", 0, 3),
        ("silver.loyalty", "column_values_to_be_in_set(level)", "level", "tin", 3),
        ("gold.song_minutes", "column_values_to_be_between(plays)", "plays", 0, 3),
        ("gold.song_hours", "column_values_to_be_between(plays)", "plays", 0, 3),
        ("gold.song_days", "column_values_to_be_between(plays)", "plays", 0, 3),
        ("gold.top_songs", "column_values_to_be_between(rank)", "rank", 11, 1),
        ("gold.truck_last_seen", "column_values_to_not_be_null(region)", "region", None, 3),
        ("gold.region_minutes", "column_values_to_be_between(sightings)", "sightings", 0, 3),
        ("gold.region_day", "column_values_to_be_between(trucks)", "trucks", 0, 1),
        ("gold.region_rolling", "column_values_to_be_between(trucks)", "trucks", 0, 1),
        ("gold.machine_steps", "column_values_to_be_between(readings)", "readings", 0, 3),
        ("gold.card_velocity", "column_values_to_be_between(km)", "km", 30_000, 3),
        ("gold.card_fraud", "column_values_to_be_in_set(decision)", "decision", "?", 3),
        ("gold.fraud_review", "column_values_to_be_in_set(verdict)", "verdict", "?", 3),
        ("gold.host_beacons", "column_values_to_be_between(hosts)", "hosts", 3, 1),
        ("gold.guest_journey", "column_values_to_be_in_set(state)", "state", "?", 3),
        ("gold.request_minutes", "column_values_to_be_between(requests)", "requests", 0, 1),
        ("gold.log_minutes", "column_values_to_be_between(lines)", "lines", 0, 1),
        ("gold.app_metrics", "column_values_to_be_null(p99_ms)", "requests", 0, 1),
    )
]
CATALOGUE += [
    (
        "gold.machine_alerts",
        "column_values_to_be_in_set(alarms)",
        lambda rows: rows[0].update(temperature_alarm=False, vibration_alarm=False),
        1,
    )
]
# One for every class of expectation our suites use, and at least one for every suite.
PLANTED = [
    *CATALOGUE,
    ("silver.trades", "column_values_to_not_be_null(ticker)", spoil("ticker", None), 3),
    ("silver.trades", "column_values_to_be_in_set(side)", spoil("side", "short"), 3),
    ("silver.trades", "compound_columns_to_be_unique(partition, offset)", again, 4),
    ("silver.trades", "column_values_to_be_between(off_by)", spoil("notional", Decimal(1)), 3),
    (
        "silver.trades",
        "column_pair_values_a_to_be_greater_than_b(ask_price, price)",
        spoil("ask_price", Decimal("0.0001"), slice(0, 4)),
        4,
    ),
    ("silver.trades", "column_median_to_be_between(price)",
     spoil("price", Decimal("99999999"), slice(0, 299)), None),
    ("gold.stock_bars", "column_values_to_be_between(seconds)", spoil("window_end", NEVER), 3),
    ("gold.stock_daily", "column_values_to_be_between(off_by)", spoil("gain", Decimal(1)), 3),
    ("gold.top_stocks_daily", "column_values_to_be_between(rank)", spoil("rank", 11), 3),
    ("silver.searches", "column_values_to_match_regex(query)", spoil("query", "a  b"), 3),
    ("gold.clicks_with_search", "column_values_to_be_between(micros)",
     spoil("searched_at", NEVER), 3),
    ("gold.user_activity", "column_mean_to_be_between(known_share)",
     spoil("known", False, slice(0, 120)), None),
    ("gold.page_stats", "column_pair_values_a_to_be_greater_than_b(clicks, logged_in)",
     spoil("logged_in", 1_000, slice(0, 2)), 2),
    ("gold.zip_stats", "compound_columns_to_be_unique(country, zip_code)", again, 4),
    ("gold.result_clicks", "column_values_to_be_between(clicks)", spoil("clicks", 0), 3),
    ("gold.query_top_results", "column_values_to_be_unique(query)", again, 4),
    ("silver.app_logs", "column_values_to_be_in_set(level)", spoil("level", "LOUD"), 3),
    ("gold.error_events", "column_values_to_not_be_null(logged_at)", spoil("logged_at", None), 3),
    ("gold.other_events", "column_values_to_be_in_set(level)", spoil("level", "ERROR"), 3),
    ("gold.word_counts", "column_values_to_be_between(odd)", spoil("word", "the", slice(0, 1)), 1),
    ("silver.clicks", "column_values_to_match_regex(page)", spoil("page", "javascript:"), 3),
    ("silver.clicks", "column_values_to_be_unique(click_id)", split_offset, 4),
    ("silver.readings", "column_distinct_values_to_be_in_set(unit)", spoil("unit", "kelvin"), None),
    ("silver.readings", "column_mean_to_be_between(calibration_share)",
     spoil("calibration", True, slice(0, 200)), None),
    ("silver.sales", "column_values_to_be_between(quantity)", spoil("quantity", 0), 3),
    ("silver.shipments", "column_values_to_be_between(off_by)", spoil("cost", Decimal("0.01")), 3),
    ("silver.returns", "column_unique_value_count_to_be_between(reason)",
     lambda rows: [r.update(reason=f"r{n}") for n, r in enumerate(rows)], None),
    ("silver.truck_positions", "column_values_to_not_be_null(region)", spoil("region", None), 3),
    ("silver.truck_loads", "column_values_to_be_between(merchandise)",
     spoil("merchandise", Decimal(-1)), 3),
    ("silver.users", "column_values_to_be_unique(user_id)", all_again, None),
    ("gold.stock_stats", "compound_columns_to_be_unique(ticker, window_start)", again, 4),
    ("gold.stock_stats", "column_values_to_be_between(seconds)", spoil("window_end", NEVER), 3),
    ("gold.sensor_5m", "column_values_to_be_between(mean_outside)", spoil("mean_value", 1e9), 3),
    (
        "gold.clicks_enriched",
        "column_values_to_be_null(tier)",
        lambda rows: [r.update(tier="gold") for r in rows if not r["known"]],
        None,
    ),
    ("gold.big_sales", "column_values_to_not_be_null(salesperson)", spoil("salesperson", None), 3),
    ("gold.inventory", "column_values_to_be_between(transactions)", spoil("transactions", 0), 3),
    ("gold.inventory_by_model", "column_values_to_be_between(sizes_in_stock)",
     spoil("sizes_in_stock", -1, slice(0, 2)), 2),
    ("gold.returns_by_reason", "column_values_to_be_unique(reason)", again, 4),
    (
        "gold.merchandise_by_region",
        "column_pair_values_a_to_be_greater_than_b(pairs, trucks)",
        spoil("trucks", 1_000, slice(0, 2)),
        2,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("table", "check", "plant", "count"), PLANTED,
                         ids=[f"{p[0]}-{p[1]}" for p in PLANTED])  # fmt: skip
def test_what_is_planted_is_found_and_counted(stand: Stand, table, check, plant, count):
    rows = good_rows(table)
    plant(rows)
    stand.put(table, rows)
    (told,) = Gate(stand.settings, hold=False).run([table], "gold").tables
    outcomes = {outcome.check.name: outcome for outcome in told.outcomes}
    found = outcomes[check]
    assert not found.success
    assert not found.error
    assert found.unexpected_count == count or (count is None and found.unexpected_count != 0)
    others = {n for n, o in outcomes.items() if not o.success} - {check}
    assert len(others) <= 2, f"a planted fault shows in few checks, not in {others}"


def test_every_class_of_expectation_in_our_suites_is_planted(suites):
    used = {c.name.partition("(")[0] for s in suites.values() for c in s.checks}
    assert used == {planted[1].partition("(")[0] for planted in PLANTED}
    tables = {table for table in suites if not table.startswith("bronze.")}
    assert tables == {planted[0] for planted in PLANTED}


def test_a_record_that_bronze_has_twice_is_found(stand: Stand):
    rows = bronze_rows("trades")
    stand.put_bronze("bronze.trades", "trades", [*rows, rows[3]])
    (told,) = Gate(stand.settings, hold=False).run(["bronze.trades"], "silver").tables
    assert told.failures == ["compound_columns_to_be_unique(topic_id, partition, offset)"]
    (failed,) = [o for o in told.outcomes if not o.success]
    assert failed.unexpected_count == 2
    where = [one["records"] for one in failed.failing]
    assert where == [[{"topic": "trades", "partition": 1, "first": 1, "last": 1}]] * 2
