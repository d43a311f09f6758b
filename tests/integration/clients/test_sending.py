"""Producers on a real broker: what was sent is there, once, in order, where it belongs."""

from __future__ import annotations

import datetime as dt
import io
import random
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

import fastavro
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from penstock.clients import GroupConsumer, OwnPartition, RecordProducer, StreamProducer
from penstock.clients.partition import murmur2_partition
from penstock.errors import DeliveryFailed, ProducerUnusable, TransactionAborted
from penstock.model import Contract, Json, Protobuf, stream
from penstock.model.contract_wire import message_reader
from tests.live import wait_for

pytestmark = pytest.mark.platform
NOW = dt.datetime(2026, 11, 18, 9, 30, 0, 123000, tzinfo=dt.UTC)


def values(messages) -> list[bytes]:
    return [message.value() for message in messages]


def test_three_ways_to_send(at, topic, read_all, tmp_path):
    told = []
    with RecordProducer(at, user="app", errors_file=tmp_path / "e") as producer:
        for number in range(1000):
            producer.send(topic, b"%d" % number, b"key-%d" % (number % 7))
        producer.send(
            topic,
            b"told",
            b"k",
            headers=[("trace", b"abc"), ("empty", None)],
            at=NOW,
            on_delivery=lambda error, message: told.append((error, message.offset())),
        )
        waited = producer.send_and_wait(topic, b"waited", b"k")
    assert producer.failed == 0
    found = read_all(topic)
    by_key = defaultdict(list)
    for message in found:
        by_key[message.key()].append(message.value())
    for key in range(7):
        assert by_key[b"key-%d" % key] == [b"%d" % n for n in range(key, 1000, 7)]
    assert by_key[b"k"] == [b"told", b"waited"]
    (one,) = [m for m in found if m.value() == b"told"]
    assert told == [(None, one.offset())]
    assert one.headers() == [("trace", b"abc"), ("empty", None)]
    assert one.timestamp()[1] == int(NOW.timestamp() * 1000)
    assert (waited.topic(), waited.offset()) == (topic, one.offset() + 1)


SCHEMA = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "string"},
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
    ],
}
FORMATS = {
    "avro": {},
    "json": {"format": Json()},
    "protobuf": {"format": Protobuf("Payment", fields=("string id = 1", "string amount = 2"))},
}


@pytest.mark.parametrize("format_", FORMATS)
def test_rows_by_contract(at, topic, read_all, format_):
    contract = Contract(f"{topic}-value", SCHEMA, (), **FORMATS[format_])
    declared = stream("bronze.payments", topic=topic, contract=contract)
    producer = StreamProducer(at, declared, user="app")
    row = {"id": "p-1", "amount": Decimal("9.90")}
    producer.send("p-1", row, at=NOW, headers=[("source", b"test")])
    producer.send_and_wait("p-1", row | {"id": "p-2"}, at=NOW)
    assert producer.flush() == 0
    first, second = read_all(topic)
    raw = first.value()
    if producer.schema_id is not None:
        assert raw[:5] == b"\0" + producer.schema_id.to_bytes(4, "big")
        decoded = fastavro.schemaless_reader(io.BytesIO(raw[5:]), SCHEMA)
    else:
        decoded = message_reader(contract.schema_json, contract.format)(raw).row
    assert decoded == row
    assert first.headers() == [("source", b"test")]
    assert second.partition() == first.partition()


def test_our_murmur2_is_librdkafkas_too(at, make_topic, read_all):
    topic = make_topic(partitions=7)
    dice = random.Random(3)
    with RecordProducer(at, user="app") as producer:
        for _ in range(300):
            producer.send(topic, b"x", dice.randbytes(dice.randrange(1, 40)))
    found = read_all(topic)
    assert len(found) == 300
    assert all(m.partition() == murmur2_partition(m.key(), 7) for m in found)


def test_a_heavy_customer_has_a_partition_alone(at, topic, read_all):
    with RecordProducer(at, user="app", partitioner=OwnPartition(["acme"])) as producer:
        for number in range(400):
            producer.send(topic, b"x", b"acme" if number % 2 else b"c-%d" % number)
    keys = defaultdict(set)
    for message in read_all(topic):
        keys[message.partition()].add(message.key())
    assert keys[3] == {b"acme"}
    assert all(len(keys[number]) > 10 and b"acme" not in keys[number] for number in range(3))


def test_what_the_broker_refuses_is_kept_and_sent_again(at, admin, make_topic, read_all, tmp_path):
    topic = make_topic(1, **{"max.message.bytes": "1000"})
    big = random.Random(1).randbytes(5000)
    producer = RecordProducer(at, user="app", errors_file=tmp_path / "errors.jsonl")
    producer.send(topic, big, b"k", headers=[("h", b"1")], at=NOW)
    assert producer.flush() == 1
    with pytest.raises(DeliveryFailed, match=r"MSG_SIZE_TOO_LARGE.*mend the record"):
        producer.send_and_wait(topic, big)
    (line,) = producer.errors.lines()
    assert (line["kind"], line["error"]) == ("refused", "MSG_SIZE_TOO_LARGE")

    entry = ConfigEntry("max.message.bytes", "10000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)
    wait_for("the broker to heed it", lambda: producer.resend() == 1, 30)
    assert list(tmp_path.iterdir()) == []
    (message,) = read_all(topic)
    assert (message.value(), message.headers()) == (big, [("h", b"1")])
    assert message.timestamp()[1] == int(NOW.timestamp() * 1000)


def test_what_one_may_not_write_is_kept_and_no_password_with_it(at, tmp_path, capfd):
    producer = RecordProducer(at, user="app", errors_file=tmp_path / "errors.jsonl")
    producer.send("trades", b"v")
    assert producer.close() == 1
    (line,) = producer.errors.lines()
    assert (line["kind"], line["error"]) == ("refused", "TOPIC_AUTHORIZATION_FAILED")
    written = (tmp_path / "errors.jsonl").read_text() + "".join(capfd.readouterr())
    assert at.secret("kafka-app") not in written


def test_what_is_left_at_the_end_is_kept(at, tmp_path):
    nowhere = replace(at, port_offset=at.port_offset + 40)
    producer = RecordProducer(nowhere, user="app", errors_file=tmp_path / "errors.jsonl")
    for number in range(10):
        producer.send("t", b"%d" % number)
    assert producer.close(timeout=0.5) == 10
    assert [line["kind"] for line in producer.errors.lines()] == ["retriable"] * 10
    assert values_of(producer) == [b"%d" % number for number in range(10)]


def values_of(producer: RecordProducer) -> list[bytes | None]:
    return [record.value for record in producer.errors.records()]


def test_a_transaction_counts_whole_or_not_at_all(at, topic, read_all, group):
    producer = RecordProducer(at, user="app", transactional_id=group)
    with producer.transaction():
        for number in range(10):
            producer.send(topic, b"%d" % number)
    with suppress(ZeroDivisionError), producer.transaction():
        for _ in range(10):
            producer.send(topic, b"no")
        assert producer.kafka.flush(10) == 0  # they are in the log, and nobody sees them
        raise ZeroDivisionError
    with producer.transaction():
        producer.send(topic, b"after")
    assert sorted(values(read_all(topic))) == [*(b"%d" % n for n in range(10)), b"after"]
    assert producer.failed == 0


def test_a_record_that_fails_aborts_its_transaction(at, make_topic, read_all, group):
    topic = make_topic(1, **{"max.message.bytes": "1000"})
    producer = RecordProducer(at, user="app", transactional_id=group)
    within = producer.transaction()
    within.__enter__()
    producer.send(topic, b"small")
    producer.send(topic, random.Random(1).randbytes(5000))
    with pytest.raises(TransactionAborted, match="Do its work again"):
        within.__exit__(None, None, None)
    # librdkafka may abort once more: the refused record left a gap in its sequence numbers.
    for _ in range(2):
        try:
            with producer.transaction():
                producer.send(topic, b"again")
            break
        except TransactionAborted:
            continue
    assert values(read_all(topic)) == [b"again"]


def test_of_two_with_one_name_the_younger_goes_on(at, topic, read_all, group):
    old = RecordProducer(at, user="app", transactional_id=group)
    with old.transaction():
        old.send(topic, b"old")
    young = RecordProducer(at, user="app", transactional_id=group)
    with young.transaction():
        young.send(topic, b"young")
    with pytest.raises(ProducerUnusable), old.transaction():
        old.send(topic, b"zombie")
    assert sorted(values(read_all(topic))) == [b"old", b"young"]


def test_what_a_fenced_producer_took_in_is_read_by_the_next(at, topic, group, send, committed):
    send(topic, 5)
    old = RecordProducer(at, user="app", transactional_id=group)
    with GroupConsumer(at, group, [topic], user="app") as consumer:
        messages = wait_for("records", consumer.consume)
        RecordProducer(at, user="app", transactional_id=group)
        with pytest.raises(ProducerUnusable), old.transaction(consumer):
            consumer.done(messages)
    assert committed(group, topic) == {}
