"""Programs that tests kill: `member.py <what> <topic> <group> <where>`, until told to stop."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyarrow as pa

from penstock.clients import GroupConsumer, RecordProducer, ResultsTable, Stopping, work
from penstock.errors import TransactionAborted
from penstock.settings import Settings

SCHEMA = pa.schema([("number", pa.int64()), ("partition", pa.int32()), ("offset", pa.int64())])
# A killed member is thrown out of its group after this long; the least a broker allows is 6 s.
OPTIONS = {"session.timeout.ms": 6000}


def rows(messages) -> pa.Table:
    found = [
        {"number": int(m.value()), "partition": m.partition(), "offset": m.offset()}
        for m in messages
    ]
    return pa.Table.from_pylist(found, SCHEMA)


def results(settings: Settings, topic: str, group: str, where: str, stopping: Stopping) -> None:
    """Writes what it reads to a Delta table, with its offsets."""
    table = ResultsTable(settings, Path(where), SCHEMA, user="app", name=group)
    with GroupConsumer(
        settings, group, [topic], user="app", start=table.start, options=OPTIONS
    ) as consumer:
        while not stopping.is_set():
            messages = consumer.consume(50, 0.2)
            if messages:
                table.append(messages, rows)
                time.sleep(0.05)  # so that there is a middle to be killed in


def copy(settings: Settings, topic: str, group: str, where: str, stopping: Stopping) -> None:
    """Copies one topic to another, in transactions."""
    producer = RecordProducer(settings, user="app", transactional_id=f"{group}-1")
    with GroupConsumer(settings, group, [topic], user="app", options=OPTIONS) as consumer:
        while not stopping.is_set():
            messages = consumer.consume(50, 0.2)
            if messages:
                try:
                    with producer.transaction(consumer):
                        for message in messages:
                            producer.send(where, message.value(), message.key())
                        consumer.done(messages)
                except TransactionAborted:
                    continue


def note(settings: Settings, topic: str, group: str, where: str, stopping: Stopping) -> None:
    """Notes numbers in a file, slowly."""

    def handle(messages) -> None:
        with Path(where).open("a") as file:
            for message in messages:
                time.sleep(0.02)
                file.write(f"{int(message.value())}\n")
                file.flush()

    with GroupConsumer(settings, group, [topic], user="app") as consumer:
        work(consumer, handle, stopping, most=50)


if __name__ == "__main__":
    with Stopping() as stopping:
        {"results": results, "copy": copy, "note": note}[sys.argv[1]](
            Settings.load(), *sys.argv[2:5], stopping
        )
