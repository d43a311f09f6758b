"""Columns and types of songs, regions, machines, cards, hosts, guests and requests."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["PAYLOADS", "TABLES"]

_TEXT, _SHORT, _LONG, _FLOAT = pa.string(), pa.int32(), pa.int64(), pa.float64()
_FLAG = pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")
_PLACE = {"partition": _SHORT, "offset": _LONG}
_CAPTURED = {
    "_op": _TEXT,
    "_deleted": _FLAG,
    "_truncated": _FLAG,
    "_snapshot": _FLAG,
    "_lsn": _LONG,
    "_committed_at": _TIME,
}
_VERSION = {"lsn": _LONG, "offset": _LONG, "valid_from": _TIME, "valid_to": _TIME}
_Columns = dict[str, pa.DataType]


def _money(digits: int) -> pa.DataType:
    return pa.decimal128(digits, 2)


_SOURCES: dict[str, _Columns] = {
    "regions": {"region": _TEXT, "title": _TEXT, "manager": _TEXT, "updated_at": _TIME},
    "fraud_rules": {
        "card_kind": _TEXT,
        "max_payments": _SHORT,
        "max_kmh": _SHORT,
        "max_amount": _SHORT,
        "updated_at": _TIME,
    },
    "loyalty": {
        "guest_id": _LONG,
        "name": _TEXT,
        "level": _TEXT,
        "points": _LONG,
        "updated_at": _TIME,
    },
}
PAYLOADS: dict[str, _Columns] = {
    "song_plays": {"play_id": _TEXT, "song_id": _TEXT, "listener_id": _LONG, "played_at": _TIME},
    "machine_readings": {
        "machine_id": _TEXT,
        "temperature": _FLOAT,
        "vibration": _FLOAT,
        "measured_at": _TIME,
    },
    "card_payments": {
        "payment_id": _TEXT,
        "card_id": _TEXT,
        "card_kind": _TEXT,
        "merchant": _TEXT,
        "amount": _money(10),
        "latitude": _FLOAT,
        "longitude": _FLOAT,
        "paid_at": _TIME,
    },
    "payment_outcomes": {
        "outcome_id": _TEXT,
        "payment_id": _TEXT,
        "outcome": _TEXT,
        "reported_at": _TIME,
    },
    "connections": {
        "connection_id": _TEXT,
        "host": _TEXT,
        "address": _TEXT,
        "sent_bytes": _LONG,
        "connected_at": _TIME,
    },
    "hotel_events": {
        "event_id": _TEXT,
        "guest_id": _LONG,
        "stay_id": _TEXT,
        "event": _TEXT,
        "amount": _money(10),
        "text": _TEXT,
        "happened_at": _TIME,
    },
    "app_requests": {
        "request_id": _TEXT,
        "service": _TEXT,
        "path": _TEXT,
        "status": _SHORT,
        "latency_ms": _SHORT,
        "requested_at": _TIME,
    },
    **{name: {**columns, **_CAPTURED} for name, columns in _SOURCES.items()},
}
_COUNTED = {
    "period": _TEXT,
    "frame": _TIME,
    "ahead": _FLAG,
    "window_start": _TIME,
    "song_id": _TEXT,
    "plays": _LONG,
}
_SEEN = {"sightings": _LONG, "trucks": _LONG, "greatest_load": _money(12)}
_PAID = {k: v for k, v in PAYLOADS["card_payments"].items() if k not in ("card_id", "paid_at")}
_PACE = {"payments": _SHORT, "km": _LONG, "kmh": _LONG}
TABLES: dict[str, _Columns] = {
    **{
        f"silver.{name}": {**PAYLOADS[name], **_PLACE}
        for name in PAYLOADS
        if name not in {*_SOURCES, "machine_readings"}
    },
    **{f"silver.{name}": {**columns, **_VERSION} for name, columns in _SOURCES.items()},
    "gold.song_minutes": _COUNTED,
    "gold.song_hours": {**_COUNTED, "is_final": _FLAG},
    "gold.song_days": {**_COUNTED, "is_final": _FLAG},
    "gold.top_songs": {
        "period": _TEXT,
        "frame": _TIME,
        "rank": _SHORT,
        "song_id": _TEXT,
        "plays": _LONG,
        "since": _TIME,
        "until": _TIME,
    },
    "gold.truck_last_seen": {
        "truck_id": _TEXT,
        "seen_at": _TIME,
        "region": _TEXT,
        "route_id": _TEXT,
        "merchandise": _money(12),
        **_PLACE,
    },
    "gold.region_minutes": {
        "region": _TEXT,
        "truck_id": _TEXT,
        "window_start": _TIME,
        "ended_at": _TIME,
        "sightings": _LONG,
        "load": _money(12),
    },
    "gold.region_day": {"region": _TEXT, "window_end": _TIME, **_SEEN},
    "gold.region_rolling": {
        "region": _TEXT,
        "window_end": _TIME,
        "title": _TEXT,
        "manager": _TEXT,
        **_SEEN,
    },
    "silver.machine_readings": {
        "machine_id": _TEXT,
        "temperature": _LONG,
        "vibration": _LONG,
        "measured_at": _TIME,
        **_PLACE,
    },
    "gold.machine_steps": {
        "machine_id": _TEXT,
        "window_start": _TIME,
        "ended_at": _TIME,
        "temperature": _LONG,
        "vibration": _LONG,
        "readings": _LONG,
    },
    "gold.machine_alerts": {
        "machine_id": _TEXT,
        "window_end": _TIME,
        "temperature": _LONG,
        "usual_temperature": _LONG,
        "temperature_alarm": _FLAG,
        "vibration": _LONG,
        "usual_vibration": _LONG,
        "vibration_alarm": _FLAG,
    },
    "gold.card_velocity": {
        "card_id": _TEXT,
        "window_end": _TIME,
        "paid_at": _TIME,
        **_PAID,
        **_PACE,
        "is_final": _FLAG,
    },
    "gold.card_fraud": {
        "payment_id": _TEXT,
        "card_id": _TEXT,
        "card_kind": _TEXT,
        "merchant": _TEXT,
        "amount": _money(10),
        "paid_at": _TIME,
        **_PACE,
        "decision": _TEXT,
        "reasons": _TEXT,
        "rules_from": _TIME,
    },
    "gold.fraud_review": {
        "payment_id": _TEXT,
        "paid_at": _TIME,
        "card_id": _TEXT,
        "amount": _money(10),
        "decision": _TEXT,
        "reasons": _TEXT,
        "outcome": _TEXT,
        "reported_at": _TIME,
        "verdict": _TEXT,
    },
    "gold.host_beacons": {
        "host": _TEXT,
        "address": _TEXT,
        "window_start": _TIME,
        "window_end": _TIME,
        "contacts": _LONG,
        "hosts": _LONG,
        "beat_ms": _LONG,
        "deviation_permille": _LONG,
    },
    "gold.guest_journey": {
        "guest_id": _LONG,
        "name": _TEXT,
        "level": _TEXT,
        "points": _LONG,
        "stay_id": _TEXT,
        "state": _TEXT,
        "reserved_at": _TIME,
        "confirmed_at": _TIME,
        "checked_in_at": _TIME,
        "checked_out_at": _TIME,
        "minibar": _money(18),
        "complaints": _LONG,
        "last_complaint": _TEXT,
        "past_visits": _LONG,
        "last_event_at": _TIME,
    },
    "gold.request_minutes": {
        "service": _TEXT,
        "window_start": _TIME,
        "requests": _LONG,
        "failures": _LONG,
        "p50_ms": _FLOAT,
        "p99_ms": _FLOAT,
    },
    "gold.log_minutes": {
        "service": _TEXT,
        "window_start": _TIME,
        "lines": _LONG,
        "errors": _LONG,
    },
    "gold.app_metrics": {
        "service": _TEXT,
        "window_start": _TIME,
        "requests": _LONG,
        "failures": _LONG,
        "lines": _LONG,
        "errors": _LONG,
        "p50_ms": _FLOAT,
        "p99_ms": _FLOAT,
    },
}
