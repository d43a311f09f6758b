"""How long from a card payment until its decision can be read from the topic `out.card_decisions`?

Usage: python tests/bench/decisions.py [--minutes 3]

Needs a running stack with its demo. A consumer that reads only what is committed notes when each
decision came; afterwards the payment it belongs to is looked up in bronze, for the moment it was
sent. Between the two lie Kafka, bronze, three tables, the live log, and the publisher's
transaction. Corrections of a decision are left out. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from confluent_kafka import OFFSET_END, Consumer, TopicPartition
from deltalake import DeltaTable

from penstock.runtime.decode.schemas import SchemaRegistry
from penstock.runtime.kafka import client_options
from penstock.settings import Settings

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.bench.freshness import sent

TOPIC = "out.card_decisions"


def decisions(settings: Settings, seconds: float) -> dict[str, float]:
    """When the first decision on each payment came."""
    consumer = Consumer(
        {
            **client_options(settings, "app"),
            "group.id": "app-bench-decisions",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    partitions = consumer.list_topics(TOPIC, 10).topics[TOPIC].partitions
    consumer.assign([TopicPartition(TOPIC, part, OFFSET_END) for part in partitions])
    found: dict[str, float] = {}
    registry, known = SchemaRegistry(settings.registry_url), dict[int, Any]()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        message = consumer.poll(0.5)
        if message is None or message.error():
            continue
        at, key = time.time(), message.key()
        if dict(message.headers())["penstock-change"] != b"insert":
            continue
        number = int.from_bytes(key[1:5], "big")
        if number not in known:
            known[number] = fastavro.parse_schema(json.loads(registry.writer(number) or ""))
        row = fastavro.schemaless_reader(io.BytesIO(key[5:]), known[number])
        found.setdefault(row["payment_id"], at)
    consumer.close()
    return found


def payments(settings: Settings) -> dict[str, float]:
    """When each payment was sent."""
    warehouse = settings.warehouse
    silver: pa.Table = DeltaTable(str(warehouse / "silver" / "card_payments")).to_pyarrow_table(
        columns=["payment_id", "partition", "offset"]
    )
    bronze = DeltaTable(str(warehouse / "bronze" / "card_payments"))  # after what is made of it
    rows = bronze.to_pyarrow_table(columns=["partition", "offset", "timestamp", "headers"])
    places = zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
    moments = dict(zip(places, sent(rows).tolist(), strict=True))
    return {
        row["payment_id"]: moments[row["partition"], row["offset"]] for row in silver.to_pylist()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3)
    options = parser.parse_args()
    settings = Settings.load()
    came = decisions(settings, options.minutes * 60)
    began = payments(settings)
    waited = np.array([at - began[payment] for payment, at in came.items()])
    p50, p90, p99 = np.percentile(waited, [50, 90, 99]).round(2).tolist()
    told = {"p50": p50, "p90": p90, "p99": p99, "max": round(float(waited.max()), 2)}
    print(json.dumps({"decisions": len(waited), **told}))


if __name__ == "__main__":
    main()
