"""What a consumer counts as done when the transaction that was to commit it came to nothing."""

from __future__ import annotations

from unittest.mock import create_autospec

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from penstock.clients import GroupConsumer, group
from penstock.clients.transaction import Transactions
from penstock.errors import ProducerUnusable

PART = TopicPartition("t", 0)
FENCED = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))


@pytest.fixture
def kafka(monkeypatch):
    """A broker's side of a consumer, which gives one record and remembers commits."""
    kafka = create_autospec(Consumer, instance=True)
    message = create_autospec(Message, instance=True)
    message.error.return_value = None
    message.topic.return_value, message.partition.return_value = PART.topic, PART.partition
    message.offset.return_value = 41
    kafka.consume.return_value = [message]
    kafka.assignment.return_value = [PART]
    monkeypatch.setattr(group, "opened", lambda *_: kafka)
    options = {"max.poll.interval.ms": 1000}
    monkeypatch.setattr(group, "consumer_options", lambda *_: options)
    return kafka


@pytest.fixture
def consumer(settings, kafka):
    made = GroupConsumer(settings, "g", ["t"], user="u")
    kafka.subscribe.call_args.kwargs["on_assign"](kafka, [PART])
    return made


@pytest.mark.parametrize("fenced_at", ["begin_transaction", "commit_transaction"])
def test_what_a_fenced_transaction_read_is_not_done(consumer, kafka, fenced_at):
    producer = create_autospec(Producer, instance=True)
    getattr(producer, fenced_at).side_effect = FENCED
    messages = consumer.consume()
    consumer.done(messages)
    with pytest.raises(ProducerUnusable), Transactions(producer, "n").within(consumer):
        pass
    consumer.close()
    kafka.commit.assert_not_called()
    (back,) = kafka.seek.call_args.args
    assert back.offset == 41, "and who goes on with another producer reads it again"


def test_what_was_done_outside_any_transaction_is_committed_at_the_end(consumer, kafka):
    consumer.done(consumer.consume())
    consumer.close()
    (offsets,) = [call.kwargs["offsets"] for call in kafka.commit.call_args_list]
    assert [part.offset for part in offsets] == [42]
