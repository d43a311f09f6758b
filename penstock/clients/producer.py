"""A producer for a stream: rows checked by contract, encoded in its format, and sent safely."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from penstock.clients.encode import Encode, encoder
from penstock.clients.group import GroupConsumer
from penstock.clients.options import Options
from penstock.clients.partition import Partitioner
from penstock.clients.records import OnDelivery, RecordProducer
from penstock.errors import ContractBroken
from penstock.model.contract_rows import Problem, broken_rules, event_time_of, fit
from penstock.model.stream import Stream
from penstock.runtime.ingest.subjects import ensure_subjects
from penstock.settings import Settings

__all__ = ["StreamProducer"]

_Headers = Sequence[tuple[str, bytes | None]]


class StreamProducer:
    """Sends rows of one stream; the event time travels as the record's CreateTime.

    How records go, fail and are kept is RecordProducer's matter, which takes the same arguments and
    is to be had as `.records`.

    Example:
        >>> producer = StreamProducer(Settings.load(), TRADES, user="demo-producer")
        >>> producer.send("ACME", {"ticker": "ACME", ...}, at=datetime.now(UTC))
        >>> producer.flush()
    """

    def __init__(
        self,
        settings: Settings,
        stream: Stream,
        *,
        user: str,
        transactional_id: str | None = None,
        partitioner: Partitioner | None = None,
        errors_file: Path | None = None,
        options: Options | None = None,
    ) -> None:
        self.stream = stream
        self.schema_id: int | None = None
        if stream.contract.format.registered:
            self.schema_id = ensure_subjects(settings, [stream])[stream.contract.subject]
        self._encode: Encode | None = None
        self.records = RecordProducer(
            settings,
            user=user,
            transactional_id=transactional_id,
            partitioner=partitioner,
            errors_file=errors_file,
            options=options,
        )

    def encode(self, row: Mapping[str, Any]) -> bytes:
        """The row as bytes, if its types fit; its rules are for `send` to check."""
        return self._bytes(self._fitted(row))

    def send(
        self,
        key: str,
        row: Mapping[str, Any],
        *,
        at: dt.datetime,
        headers: _Headers = (),
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """Send a row that keeps its contract; raises ContractBroken for any other.

        Bad rows on purpose: ``send_raw(key, encode(row), at=at)``.
        """
        value = self._checked(row, at)
        self.send_raw(key.encode(), value, at=at, headers=headers, on_delivery=on_delivery)

    def send_and_wait(
        self, key: str, row: Mapping[str, Any], *, at: dt.datetime, headers: _Headers = ()
    ) -> Message:
        """The same for one row that must be in the topic before the program goes on."""
        value = self._checked(row, at)
        return self.records.send_and_wait(
            self.stream.topic, value, key.encode(), headers=headers, at=at
        )

    def send_raw(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        at: dt.datetime,
        headers: _Headers = (),
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """Bytes as they are, for tests and demos of what happens to bad ones."""
        self.records.send(
            self.stream.topic, value, key, headers=headers, at=at, on_delivery=on_delivery
        )

    def transaction(self, consumer: GroupConsumer | None = None) -> AbstractContextManager[None]:
        """Rows sent within count together, or not at all."""
        return self.records.transaction(consumer)

    def flush(self, timeout: float = 30.0) -> int:
        """Wait until everything is acknowledged; returns how many are not, or never will be."""
        return self.records.flush(timeout)

    def close(self, timeout: float = 30.0) -> int:
        """Flush and keep what is left in the errors file; returns how many failed."""
        return self.records.close(timeout)

    def _checked(self, row: Mapping[str, Any], at: dt.datetime) -> bytes:
        fitted = self._fitted(row)
        now = dt.datetime.now(dt.UTC)
        time = event_time_of(self.stream, fitted, at, now)
        problems = broken_rules(self.stream.contract, fitted, time, now)
        if problems:
            raise _broken(self.stream, problems)
        return self._bytes(fitted)

    def _fitted(self, row: Mapping[str, Any]) -> dict[str, Any]:
        verdict = fit(self.stream.contract, row)
        if verdict.row is None:
            raise _broken(self.stream, verdict.problems)
        return verdict.row

    def _bytes(self, fitted: Mapping[str, Any]) -> bytes:
        if self._encode is None:
            self._encode = encoder(self.stream.contract, self.schema_id)
        return self._encode(fitted)


def _broken(stream: Stream, problems: list[Problem]) -> ContractBroken:
    return ContractBroken(
        f"a row for {stream.topic} breaks the contract of {stream.name}: "
        f"{'; '.join(map(str, problems))}.",
        remedy="It was not sent. Mend the row where it is made.",
    )
