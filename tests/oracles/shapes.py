"""Columns and types of what the tables read and write, set down by hand."""

from __future__ import annotations

import pyarrow as pa

from tests.oracles import catalogue_shapes

__all__ = ["DECODED", "TABLES", "decoded", "types"]

_TEXT, _SHORT, _LONG, _FLOAT = pa.string(), pa.int32(), pa.int64(), pa.float64()
_FLAG = pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")
_PLACE = {"partition": _SHORT, "offset": _LONG}
_SHOE = {"model": _TEXT, "size": _TEXT, "quantity": _SHORT}
_PROFILE = {
    "user_id": _LONG,
    "name": _TEXT,
    "email": _TEXT,
    "country": _TEXT,
    "tier": _TEXT,
    "updated_at": _TIME,
    "zip_code": _TEXT,
}
_PRICES = {
    "open_price": pa.decimal128(12, 4),
    "close_price": pa.decimal128(12, 4),
    "min_price": pa.decimal128(12, 4),
    "max_price": pa.decimal128(12, 4),
    "trades": _LONG,
}
_GAIN = {"gain": pa.decimal128(13, 4), "gain_percent": pa.decimal128(18, 4)}


def _money(digits: int, scale: int = 2) -> pa.DataType:
    return pa.decimal128(digits, scale)


# What a transform sees of a stream, without the coordinates that all of them have.
_PAYLOADS: dict[str, dict[str, pa.DataType]] = {
    **catalogue_shapes.PAYLOADS,
    "trades": {
        "ticker": _TEXT,
        "price": _money(12, 4),
        "ask_price": _money(12, 4),
        "size": _SHORT,
        "side": _TEXT,
    },
    "readings": {
        "sensor_id": _TEXT,
        "value": _FLOAT,
        "unit": _TEXT,
        "calibration": _FLAG,
        "measured_at": _TIME,
    },
    "shipments": {"shipment_id": _TEXT, **_SHOE, "unit_cost": _money(10)},
    "sales": {"sale_id": _TEXT, **_SHOE, "unit_price": _money(10)},
    "returns": {
        "return_id": _TEXT,
        "sale_id": _TEXT,
        **_SHOE,
        "unit_price": _money(10),
        "reason": _TEXT,
    },
    "truck_positions": {
        "truck_id": _TEXT,
        "route_id": _TEXT,
        "region": _TEXT,
        "merchandise": _money(12),
        "seen_at": _TIME,
    },
    "clicks": {"click_id": _TEXT, "user_id": _LONG, "page": _TEXT, "clicked_at": _TIME},
    "searches": {"search_id": _TEXT, "user_id": _LONG, "query": _TEXT, "searched_at": _TIME},
    "app_logs": {
        "log_id": _TEXT,
        "service": _TEXT,
        "host": _TEXT,
        "level": _TEXT,
        "message": _TEXT,
        "logged_at": _TIME,
    },
    "users": {
        **_PROFILE,
        "_op": _TEXT,
        "_deleted": pa.bool_(),
        "_truncated": pa.bool_(),
        "_snapshot": pa.bool_(),
        "_lsn": _LONG,
        "_committed_at": _TIME,
    },
}


def decoded(stream: str) -> pa.Schema:
    """The rows of a stream as a transform sees them."""
    coordinates = {
        "event_time": _TIME,
        "_topic": _TEXT,
        "_partition": _SHORT,
        "_offset": _LONG,
        "_ingested_at": _TIME,
    }
    return pa.schema({**_PAYLOADS[stream], **coordinates})


def types(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Names and types alone: what may be null is not part of a shape."""
    return [(field.name, field.type) for field in schema]


DECODED = tuple(_PAYLOADS)

TABLES: dict[str, pa.Schema] = {
    name: pa.schema(columns)
    for name, columns in {
        **catalogue_shapes.TABLES,
        "silver.trades": {
            **_PAYLOADS["trades"],
            "notional": _money(24, 4),
            "traded_at": _TIME,
            **_PLACE,
        },
        "gold.stock_stats": {
            "ticker": _TEXT,
            "window_start": _TIME,
            "window_end": _TIME,
            "min_ask_price": _money(12, 4),
            "trades": _LONG,
            "avg_price": _money(16, 8),
            "is_final": pa.bool_(),
        },
        "gold.stock_bars": {
            "ticker": _TEXT,
            "window_start": _TIME,
            "window_end": _TIME,
            **_PRICES,
            "trading_day": pa.date32(),
        },
        "gold.stock_daily": {"ticker": _TEXT, "trading_day": pa.date32(), **_PRICES, **_GAIN},
        "gold.top_stocks_daily": {
            "trading_day": pa.date32(),
            "rank": _SHORT,
            "ticker": _TEXT,
            "open_price": _PRICES["open_price"],
            "close_price": _PRICES["close_price"],
            **_GAIN,
        },
        "silver.readings": {**_PAYLOADS["readings"], **_PLACE},
        "gold.sensor_5m": {
            "sensor_id": _TEXT,
            "window_start": _TIME,
            "window_end": _TIME,
            "min_value": _FLOAT,
            "max_value": _FLOAT,
            "mean_value": _FLOAT,
            "p95_value": _FLOAT,
            "readings": _LONG,
        },
        "silver.shipments": {
            **_PAYLOADS["shipments"],
            "cost": _money(18),
            "shipped_at": _TIME,
            **_PLACE,
        },
        "silver.sales": {**_PAYLOADS["sales"], "revenue": _money(18), "sold_at": _TIME, **_PLACE},
        "silver.returns": {
            **{k: v for k, v in _PAYLOADS["returns"].items() if k != "reason"},
            "refunded": _money(18),
            "reason": _TEXT,
            "returned_at": _TIME,
            **_PLACE,
        },
        "gold.inventory": {
            "model": _TEXT,
            "size": _TEXT,
            "stock": _LONG,
            "money": _money(28),
            "transactions": _LONG,
        },
        "gold.inventory_by_model": {
            "model": _TEXT,
            "sizes_in_stock": _LONG,
            "stock": _LONG,
            "money": _money(28),
        },
        "gold.returns_by_reason": {
            "reason": _TEXT,
            "returns": _LONG,
            "quantity": _LONG,
            "refunded": _money(28),
            "median_quantity": _FLOAT,
        },
        "silver.truck_positions": {**_PAYLOADS["truck_positions"], **_PLACE},
        "silver.truck_loads": {
            "region": _TEXT,
            "truck_id": _TEXT,
            "route_id": _TEXT,
            "merchandise": _money(12),
            "seen_at": _TIME,
            **_PLACE,
        },
        "gold.merchandise_by_region": {
            "region": _TEXT,
            "merchandise": _money(28),
            "pairs": _LONG,
            "trucks": _LONG,
            "median_load": _money(18, 4),
            "p95_load": _money(18, 4),
        },
        "silver.users": {
            **_PROFILE,
            "lsn": _LONG,
            "offset": _LONG,
            "valid_from": _TIME,
            "valid_to": _TIME,
        },
        "silver.clicks": {**_PAYLOADS["clicks"], **_PLACE},
        "gold.clicks_enriched": {
            **_PAYLOADS["clicks"],
            "known": pa.bool_(),
            "user_name": _TEXT,
            "country": _TEXT,
            "tier": _TEXT,
            "profile_from": _TIME,
            "zip_code": _TEXT,
        },
        "silver.searches": {**_PAYLOADS["searches"], **_PLACE},
        "gold.clicks_with_search": {
            **_PAYLOADS["clicks"],
            "search_id": _TEXT,
            "query": _TEXT,
            "searched_at": _TIME,
        },
        "gold.user_activity": {
            **_PAYLOADS["clicks"],
            "search_id": _TEXT,
            "query": _TEXT,
            "known": _FLAG,
            "user_name": _TEXT,
            "country": _TEXT,
            "zip_code": _TEXT,
            "tier": _TEXT,
        },
        "gold.page_stats": {"page": _TEXT, "clicks": _LONG, "logged_in": _LONG},
        "gold.zip_stats": {"country": _TEXT, "zip_code": _TEXT, "clicks": _LONG},
        "gold.result_clicks": {"query": _TEXT, "page": _TEXT, "clicks": _LONG},
        "gold.query_top_results": {
            "query": _TEXT,
            "page": _TEXT,
            "clicks": _LONG,
            "all_clicks": _LONG,
        },
        "silver.app_logs": {**_PAYLOADS["app_logs"], **_PLACE},
        "gold.error_events": {k: v for k, v in _PAYLOADS["app_logs"].items() if k != "level"},
        "gold.other_events": _PAYLOADS["app_logs"],
        "gold.word_counts": {"word": _TEXT, "occurrences": _LONG},
    }.items()
}
