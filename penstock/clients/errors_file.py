"""Records that were not delivered, kept on this machine until somebody sends them again.

One line of JSON each, in a file only its owner may read (records hold data). A line is one write
to a file opened for appending, so several processes may share it and a kill leaves no half of a
line in the middle. What it does not do: sync the disk; a power cut may take the last lines.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from penstock.errors import EnvironmentProblem

__all__ = ["ErrorsFile", "Record", "kind_of"]

Headers = Sequence[tuple[str, bytes | None]]

# More than this is no accident any more; a program that goes on sending would fill the disk.
_MOST_BYTES = 1_073_741_824

# What may have reached the log although no acknowledgement came back.
_UNSURE = {
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._PURGE_INFLIGHT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}
# Not called retriable by librdkafka, which has given up; sent again later they may well succeed.
_AGAIN = _UNSURE | {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._ISR_INSUFF,
    KafkaError._PURGE_QUEUE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_LEADER_FOR_PARTITION,
}


class Record(NamedTuple):
    """What was given to a producer. A tuple, because one is made for every record sent."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int = 0  # milliseconds; 0 is the moment of sending
    partition: int = -1


def kind_of(error: KafkaError) -> str:
    """`fatal`: the producer is done for. `retriable`: again later. `refused`: not as it is."""
    if error.fatal():
        return "fatal"
    return "retriable" if error.retriable() or error.code() in _AGAIN else "refused"


class ErrorsFile:
    """The file of one producer, or of several."""

    def __init__(self, path: Path, most_bytes: int = _MOST_BYTES) -> None:
        self.path = path
        self._most_bytes = most_bytes

    def keep(self, record: Record, error: KafkaError) -> None:
        """Add a record and why it failed."""
        line = {
            "at": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
            "kind": kind_of(error),
            "error": error.name(),
            "reason": error.str(),
            "perhaps_written": error.code() in _UNSURE,
            "topic": record.topic,
            "partition": record.partition,
            "timestamp": record.timestamp,
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": [[name, _text(value)] for name, value in record.headers],
        }
        self._append(json.dumps(line, separators=(",", ":")) + "\n")

    def lines(self) -> Iterator[dict[str, Any]]:
        """What is kept, oldest first, as it was written."""
        if self.path.is_file():
            with self.path.open() as lines:
                yield from map(json.loads, lines)

    def records(self) -> Iterator[Record]:
        """The same as records to send."""
        for line in self.lines():
            yield Record(
                line["topic"],
                _bytes(line["value"]),
                _bytes(line["key"]),
                [(name, _bytes(value)) for name, value in line["headers"]],
                line["timestamp"],
                line["partition"],
            )

    def set_aside(self) -> ErrorsFile:
        """Take what is kept under another name, so that new failures start a new file.

        What an interrupted earlier attempt left there goes first.
        """
        aside = ErrorsFile(self.path.with_name(f"{self.path.name}.resending"))
        if not aside.path.exists() and self.path.exists():
            self.path.rename(aside.path)
        return aside

    def _append(self, line: str) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(handle, "ab", buffering=0) as file:
                full = file.tell() > self._most_bytes
                if not full:
                    file.write(line.encode())
        except OSError as error:
            raise self._unkept(str(error)) from None
        if full:
            raise self._unkept(f"it has more than {self._most_bytes} bytes already")

    def _unkept(self, why: str) -> EnvironmentProblem:
        return EnvironmentProblem(
            f"a record that was not delivered cannot be kept in {self.path} either: {why}.",
            remedy="Make room, or send what is there again (`resend`), before you send more.",
        )


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)
