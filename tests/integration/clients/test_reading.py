"""Members of groups on a real broker: who reads what, from where, and what is committed."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import NewPartitions

from penstock.clients import (
    GroupConsumer,
    RecordProducer,
    StandaloneConsumer,
    Stopping,
    at_offsets,
    at_time,
    seek_to_time,
    work,
)
from penstock.errors import PositionLost, ServiceFailed, TransactionAborted, UsageError

pytestmark = pytest.mark.platform
NOON = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC)
HASTY = {"heartbeat.interval.ms": 300}  # by heartbeats members learn of a rebalance
Reader = GroupConsumer | StandaloneConsumer


def read(consumer: Reader, count: int, seconds: float = 30.0) -> list[Message]:
    """At least so many records, or a failure."""
    found: list[Message] = []
    deadline = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} in {seconds} s"
        found += consumer.consume(500, 0.2)
    return found


def numbers(messages: Iterable[Message]) -> list[int]:
    return sorted(int(message.value()) for message in messages)


def poll_until(check: Callable[[], object], *consumers: GroupConsumer, seconds: float = 30.0):
    """Poll the members in turn, as their own loops would, and keep what they read."""
    found: dict[GroupConsumer, list[Message]] = {consumer: [] for consumer in consumers}
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "did not come"
        for consumer in consumers:
            found[consumer] += consumer.consume(100, 0.05)
    return found


# --- commits --------------------------------------------------------------------------------------
def test_a_group_goes_on_where_it_stopped(at, topic, group, send, committed):
    send(topic, 100)
    with GroupConsumer(at, group, [topic], user="app") as consumer:
        first = read(consumer, 100)
        consumer.done(first[:60])
        consumer.commit_async()
        consumer.done(first[60:])  # committed when it leaves
    assert numbers(first) == list(range(100))
    assert sum(committed(group, topic).values()) == 100
    send(topic, 10, first=100)
    with GroupConsumer(at, group, [topic], user="app") as consumer:
        assert numbers(read(consumer, 10)) == list(range(100, 110))
    assert sum(committed(group, topic).values()) == 100  # read, but not done


def test_specific_offsets_may_be_committed_backwards_too(at, make_topic, group, send, committed):
    topic = make_topic(1)
    send(topic, 20)
    with GroupConsumer(at, group, [topic], user="app") as consumer:
        consumer.done(read(consumer, 20))
        consumer.commit_async()
        consumer.commit({(topic, 0): 15})
    assert committed(group, topic) == {0: 15}
    with GroupConsumer(at, group, [topic], user="app") as consumer:
        assert numbers(read(consumer, 5)) == [15, 16, 17, 18, 19]


# --- rebalances -----------------------------------------------------------------------------------
def test_a_member_joins_and_leaves_and_nothing_is_read_twice(at, topic, group, send):
    events: list[tuple[str, list]] = []
    send(topic, 200)
    first = GroupConsumer(
        at,
        group,
        [topic],
        user="app",
        on_assigned=lambda parts: events.append(("assigned", parts)),
        on_revoked=lambda parts: events.append(("revoked", parts)),
        options=HASTY,
    )
    done = read(first, 200)
    first.done(done)  # not committed: the rebalance does that
    second = GroupConsumer(at, group, [topic], user="app", options=HASTY)
    seen = poll_until(lambda: len(second.kafka.assignment()) == 2, first, second)
    ((_, gone),) = [event for event in events if event[0] == "revoked"]
    assert len(gone) == 2, "only what the other one gets is taken away"
    assert len(first.kafka.assignment()) == 2

    send(topic, 200, first=200)
    total = Counter(numbers([*done, *seen[first], *seen[second]]))
    while sum(total.values()) < 400:
        for member in (first, second):
            messages = member.consume(100, 0.1)
            member.done(messages)
            total.update(numbers(messages))
    second.close()
    send(topic, 100, first=400)
    total.update(numbers(read(first, 100)))
    assert total == Counter(range(500))
    assert [name for name, _ in events] == ["assigned", "revoked", "assigned"]
    first.close()


@pytest.mark.parametrize(
    "options",
    [
        {"partition.assignment.strategy": "range"} | HASTY,
        pytest.param({"partition.assignment.strategy": "roundrobin"}, marks=pytest.mark.slow),
        pytest.param({"group.protocol": "consumer"}, marks=pytest.mark.slow),
    ],
    ids=lambda options: next(iter(options.values())),
)
def test_other_strategies_share_too(at, topic, group, send, committed, options):
    members = [GroupConsumer(at, group, [topic], user="app", options=options) for _ in range(2)]
    seen = poll_until(lambda: all(len(m.kafka.assignment()) == 2 for m in members), *members)
    assert not any(seen.values())
    send(topic, 100)
    total: Counter[int] = Counter()
    while sum(total.values()) < 100:
        for member in members:
            messages = member.consume(100, 0.1)
            member.done(messages)
            total.update(numbers(messages))
    for member in members:
        member.close()
    assert total == Counter(range(100))
    assert sum(committed(group, topic).values()) == 100


def test_a_pattern_finds_topics_that_are_made_later(at, make_topic, group, send):
    kind = group.replace("app-", "app.")
    send(make_topic(1, prefix=f"{kind}.a"), 5)
    soon = {"topic.metadata.refresh.interval.ms": 500}
    with GroupConsumer(at, group, [f"^{kind}[.].*"], user="app", options=soon) as consumer:
        assert numbers(read(consumer, 5)) == [0, 1, 2, 3, 4]
        send(make_topic(1, prefix=f"{kind}.b"), 5, first=5)
        assert numbers(read(consumer, 5)) == [5, 6, 7, 8, 9]


# --- where to begin -------------------------------------------------------------------------------
def test_where_a_new_group_begins(at, topic, group, send):
    send(topic, 10)
    with GroupConsumer(
        at, f"{group}-2", [topic], user="app", options={"auto.offset.reset": "latest"}
    ) as late:
        poll_until(late.kafka.assignment, late)
        time.sleep(1)  # until its place is asked for
        send(topic, 5, first=10)
        assert numbers(read(late, 5)) == [10, 11, 12, 13, 14]
    with (
        GroupConsumer(
            at, f"{group}-3", [topic], user="app", options={"auto.offset.reset": "error"}
        ) as strict,
        pytest.raises(PositionLost, match="Seek to where"),
    ):
        read(strict, 1)


def test_what_one_may_not_read_is_told(at, group):
    with GroupConsumer(at, group, ["clicks"], user="app") as consumer:
        with pytest.raises(ServiceFailed, match="AUTHORIZATION"):
            read(consumer, 1)


def test_begin_at_a_time_or_an_offset_and_seek(at, make_topic, group, send):
    topic = make_topic(2)
    for hour in range(4):
        send(topic, 10, first=10 * hour, at=NOON + dt.timedelta(hours=hour))
    two = NOON + dt.timedelta(hours=2)
    with GroupConsumer(at, group, [topic], user="app", start=at_time(two)) as consumer:
        found = read(consumer, 20)
        assert numbers(found) == list(range(20, 40))
        assert seek_to_time(consumer.kafka, two + dt.timedelta(hours=1)).keys() == {
            (topic, 0),
            (topic, 1),
        }
        assert numbers(read(consumer, 10)) == list(range(30, 40))
        ends = seek_to_time(consumer.kafka, NOON + dt.timedelta(days=1))
        assert sum(ends.values()) == 40
        consumer.done(found)
    # The time is for a group that is new: this one goes on where it stopped.
    with GroupConsumer(at, group, [topic], user="app", start=at_time(NOON)) as again:
        send(topic, 1, first=40)
        assert numbers(read(again, 1)) == [40]
    with GroupConsumer(
        at, f"{group}-2", [topic], user="app", start=at_offsets({(topic, 0): ends[topic, 0]})
    ) as other:
        assert sum(m.partition() == 0 for m in read(other, ends[topic, 1])) <= 1


def test_lag(at, topic, group, send):
    send(topic, 100)
    with GroupConsumer(at, group, [topic], user="app") as consumer:
        messages = read(consumer, 100)
        assert set(consumer.lag().values()) == {0}
        send(topic, 40)
        assert sum(consumer.lag().values()) == 40
        consumer.done([m for m in messages if m.partition() == 0])
    with GroupConsumer(at, group, [topic], user="app", start=pausing) as consumer:
        poll_until(consumer.kafka.assignment, consumer)
        own = sum(message.partition() == 0 for message in messages)
        assert sum(consumer.lag().values()) == 140 - own  # by what was committed, or all


def pausing(kafka, partitions):
    """Nothing is to be read; the partitions begin where they would."""
    kafka.incremental_assign(partitions)
    kafka.pause(partitions)
    return []


# --- alone ----------------------------------------------------------------------------------------
def test_a_lone_reader_notices_new_partitions(at, admin, make_topic, group, send):
    topic = make_topic(1)
    send(topic, 5)
    with StandaloneConsumer(at, group, [topic], user="app", look_every=0.5) as consumer:
        assert numbers(read(consumer, 5)) == [0, 1, 2, 3, 4]
        admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
        time.sleep(0.5)
        send(topic, 40, first=5)
        found = read(consumer, 40)
        assert numbers(found) == list(range(5, 45))
        assert {message.partition() for message in found} == {0, 1, 2, 3}
        assert set(consumer.lag().values()) == {0}


# --- long work ------------------------------------------------------------------------------------
IMPATIENT = {"max.poll.interval.ms": 6000, "session.timeout.ms": 6000}


@pytest.mark.slow
def test_work_may_take_longer_than_the_poll_interval(at, make_topic, group, send, committed):
    topic = make_topic(1)
    send(topic, 10)
    lost: list[object] = []
    seen: list[int] = []
    stopping = threading.Event()

    def handle(messages: list[Message]) -> None:
        time.sleep(8)
        seen.extend(numbers(messages))
        if len(seen) >= 10:
            stopping.set()

    with GroupConsumer(
        at, group, [topic], user="app", options=IMPATIENT, on_lost=lost.append
    ) as consumer:
        work(consumer, handle, stopping, most=10)
    assert sorted(seen) == list(range(10))
    assert lost == []
    assert sum(committed(group, topic).values()) == 10


@pytest.mark.slow
def test_a_partition_that_goes_waits_for_the_work_on_it(at, make_topic, group, send):
    topic = make_topic(2)
    send(topic, 50)
    handled: Counter[int] = Counter()
    stopping, begun = threading.Event(), threading.Event()

    def slowly(messages: list[Message]) -> None:
        begun.set()
        time.sleep(3)
        handled.update(numbers(messages))

    def first() -> None:
        with GroupConsumer(at, group, [topic], user="app") as consumer:
            work(consumer, slowly, stopping, most=25)

    member = threading.Thread(target=first)
    member.start()
    assert begun.wait(30)
    with GroupConsumer(at, group, [topic], user="app") as second:
        deadline = time.monotonic() + 40
        while sum(handled.values()) < 50:
            assert time.monotonic() < deadline
            messages = second.consume(100, 0.1)
            handled.update(numbers(messages))
            second.done(messages)
        stopping.set()
        member.join(30)
    assert handled == Counter(range(50))


def test_an_error_of_the_work_ends_it_and_nothing_is_skipped(at, topic, group, send, committed):
    send(topic, 10)

    def fail(messages: list[Message]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        with GroupConsumer(at, group, [topic], user="app") as consumer, Stopping() as stopping:
            work(consumer, fail, stopping)
    assert committed(group, topic) == {}


# --- read, process, write -------------------------------------------------------------------------
def test_read_process_write_exactly_once(at, topic, make_topic, group, send, read_all, committed):
    out = make_topic(2)
    send(topic, 100)
    producer = RecordProducer(at, user="app", transactional_id=group)
    failures = 3
    with GroupConsumer(at, group, [topic], user="app") as consumer:
        while sum(committed(group, topic).values()) < 100:
            messages = consumer.consume(20, 0.5)
            try:
                with producer.transaction(consumer):
                    for message in messages:
                        producer.send(out, message.value())
                    consumer.done(messages)
                    if messages and failures:
                        failures -= 1
                        raise TransactionAborted("on purpose")
            except TransactionAborted:
                continue
        with (
            pytest.raises(UsageError, match="Read before it begins"),
            producer.transaction(consumer),
        ):
            consumer.consume()
    assert failures == 0
    assert numbers(read_all(out)) == list(range(100))
