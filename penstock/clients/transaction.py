"""Transactions as a `with`: which errors to wait out, which to abort for, which to give up on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.clients.options import TRANSACTION_SECONDS
from penstock.errors import ProducerUnusable, ServiceFailed, TransactionAborted

if TYPE_CHECKING:
    from penstock.clients.group import GroupConsumer

__all__ = ["Transactions"]

_ATTEMPT = 10.0  # seconds for one call; librdkafka goes on where it was when called again


class Transactions:
    """The transactions of one producer, one after the other."""

    def __init__(self, kafka: Producer, name: str | None) -> None:
        self.named = name is not None
        self._kafka = kafka
        self._name = name
        if self.named:
            # At once, not with the first transaction: it fences an older producer of this name and
            # ends what that one left open, and until then no reader of its group gets its offsets.
            self._insist("begin", lambda: kafka.init_transactions(_ATTEMPT))

    @contextmanager
    def within(self, consumer: GroupConsumer | None) -> Iterator[None]:
        """Commit at the end of the block; abort if it, or the commit, fails."""
        with _nothing_done_if_it_fails(consumer):
            self._insist("begin", self._kafka.begin_transaction)
            try:
                with _reading_nothing(consumer):
                    yield
                if consumer is not None:
                    self._add(consumer)
                self._insist("commit", lambda: self._kafka.commit_transaction(_ATTEMPT))
            except ProducerUnusable:
                raise
            except BaseException:
                # The first error is the one to tell of; if aborting fails too, the next begin
                # says so.
                with suppress(ProducerUnusable, ServiceFailed, TransactionAborted):
                    self._insist("abort", lambda: self._kafka.abort_transaction(_ATTEMPT))
                raise
        if consumer is not None:
            consumer.committed_elsewhere()

    def _add(self, consumer: GroupConsumer) -> None:
        offsets = consumer.done_offsets()
        if offsets:
            group = consumer.kafka.consumer_group_metadata()
            self._insist(
                "commit",
                lambda: self._kafka.send_offsets_to_transaction(offsets, group, _ATTEMPT),
            )

    def _insist(self, what: str, call: Callable[[], object]) -> None:
        """Call until it succeeds, says that it never will, or the transaction has timed out."""
        deadline = time.monotonic() + TRANSACTION_SECONDS
        while True:
            try:
                call()
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                if cause.fatal():
                    raise self._unusable(cause) from None
                if cause.txn_requires_abort():
                    raise TransactionAborted(
                        f"transaction {self._name} cannot be committed: {cause.str()} "
                        f"({cause.name()}).",
                        remedy="It was aborted and nobody sees any of it. Do its work again.",
                    ) from None
                if not cause.retriable() or time.monotonic() > deadline:
                    raise ServiceFailed(
                        f"transaction {self._name} could not {what}: {cause.str()} "
                        f"({cause.name()}).",
                        remedy="Look at `penstock status`. Then start the program again under the "
                        "same transactional id: that ends what is open.",
                    ) from None
                time.sleep(0.1)
            else:
                return

    def _unusable(self, cause: KafkaError) -> ProducerUnusable:
        return ProducerUnusable(
            f"transactional id {self._name} is not this producer's any more: {cause.str()} "
            f"({cause.name()}).",
            remedy="Another producer runs under that name: stop one of the two.",
        )


@contextmanager
def _nothing_done_if_it_fails(consumer: GroupConsumer | None) -> Iterator[None]:
    """Whatever ended it: what it did not commit is not done, or closing the consumer would say so.

    Not even where the producer is past use: another one, here or elsewhere, does that work.
    """
    try:
        yield
    except BaseException:
        if consumer is not None:
            consumer.rewind()
        raise


@contextmanager
def _reading_nothing(consumer: GroupConsumer | None) -> Iterator[None]:
    if consumer is None:
        yield
        return
    consumer.in_transaction = True
    try:
        yield
    finally:
        consumer.in_transaction = False
