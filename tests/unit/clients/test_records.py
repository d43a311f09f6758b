"""What a producer of bytes does when things do not go: wait, keep, refuse."""

from __future__ import annotations

import time
from unittest.mock import create_autospec

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.clients import RecordProducer, records
from penstock.clients.options import consumer_options, producer_options
from penstock.errors import DeliveryFailed, ProducerUnusable, ServiceFailed, UsageError
from penstock.platform.files import write_private


@pytest.fixture
def kafka(monkeypatch):
    kafka = create_autospec(Producer, instance=True)
    kafka.__len__.return_value = 7
    monkeypatch.setattr(records, "Producer", lambda options: kafka)
    monkeypatch.setattr(records, "producer_options", lambda *args, **kwargs: {})
    return kafka


def test_a_full_buffer_is_waited_for(settings, kafka):
    kafka.produce.side_effect = [BufferError, BufferError, None]
    RecordProducer(settings, user="u").send("t", b"v")
    assert kafka.produce.call_count == 3
    assert kafka.poll.call_count == 3


def test_but_not_for_ever(settings, kafka):
    kafka.produce.side_effect = BufferError
    kafka.poll.side_effect = time.sleep
    began = time.monotonic()
    with pytest.raises(ServiceFailed, match=r"full for 0.3 s \(7 records wait for .*record for t"):
        RecordProducer(settings, user="u", buffer_wait=0.3).send("t", b"v")
    assert time.monotonic() - began < 5


def test_what_fails_is_kept_and_told(settings, kafka):
    told = []
    producer = RecordProducer(settings, user="u")
    producer.send("t", b"v", b"k", on_delivery=lambda error, message: told.append(error))
    error = KafkaError(KafkaError._MSG_TIMED_OUT)
    kafka.produce.call_args.kwargs["on_delivery"](error, None)
    assert told == [error]
    assert producer.failed == 1
    (line,) = producer.errors.lines()
    assert (line["kind"], line["topic"]) == ("retriable", "t")


def test_a_fatal_error_ends_it(settings, kafka):
    producer = RecordProducer(settings, user="u")
    fenced = KafkaError(KafkaError._FENCED, "fenced", fatal=True)
    kafka.produce.side_effect = KafkaException(fenced)
    for _ in range(2):
        with pytest.raises(ProducerUnusable, match=r"fenced \(_FENCED\)"):
            producer.send("t", b"v")
    assert kafka.produce.call_count == 1


def test_what_librdkafka_does_not_take_is_told_at_once(settings, kafka):
    kafka.produce.side_effect = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "big"))
    with pytest.raises(DeliveryFailed, match=r"big \(MSG_SIZE_TOO_LARGE\).*mend the record"):
        RecordProducer(settings, user="u").send("t", b"v")


def test_transactions_need_a_name(settings, kafka):
    with pytest.raises(UsageError, match="no transactional id"):
        RecordProducer(settings, user="u").transaction()


def test_defaults_lose_nothing_and_can_be_changed(settings):
    write_private(settings.home / "secrets" / "kafka-u", "pass")
    ours = producer_options(settings, "u", options={"linger.ms": 50})
    assert (ours["acks"], ours["enable.idempotence"], ours["linger.ms"]) == ("all", True, 50)
    named = producer_options(settings, "u", transactional_id="app-1")
    assert named["delivery.timeout.ms"] <= named["transaction.timeout.ms"]
    theirs = consumer_options(settings, "u", "g", {"partition.assignment.strategy": "range"})
    assert theirs["enable.auto.commit"] is False
    assert theirs["partition.assignment.strategy"] == "range"


def test_an_option_that_does_not_exist_is_named(settings):
    write_private(settings.home / "secrets" / "kafka-u", "pass")
    with pytest.raises(UsageError, match=r"lingr\.ms") as refused:
        RecordProducer(settings, user="u", options={"lingr.ms": 5})
    assert "pass" not in str(refused.value)
