"""An older commit never overwrites a newer one, whatever fails on the way."""

from __future__ import annotations

import random
import threading
import time

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.clients import commits as module
from penstock.clients.commits import Commits
from penstock.errors import ServiceFailed
from tests.live import wait_for

P, Q = ("t", 0), ("t", 1)


class Broker:
    """Takes commits, or fails them as told; remembers what it was sent and what it holds."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, int], int] = {}
        self.sent: list[dict[tuple[str, int], int]] = []
        self.failures: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.inside = 0

    def commit(self, offsets: list[TopicPartition]) -> list[TopicPartition]:
        self.inside += 1
        assert self.inside == 1, "two commits under way at once"
        self.sent.append({(part.topic, part.partition): part.offset for part in offsets})
        self.gate.wait(10)
        self.inside -= 1
        if self.failures:
            raise KafkaException(KafkaError(self.failures.pop(0)))
        self.held.update(self.sent[-1])
        return offsets


@pytest.fixture
def broker():
    return Broker()


@pytest.fixture
def commits(broker):
    commits = Commits("g", broker.commit)
    yield commits
    broker.gate.set()
    commits.close()


def test_a_commit_that_failed_is_sent_again(broker, commits):
    broker.failures = [KafkaError._TRANSPORT, KafkaError.COORDINATOR_NOT_AVAILABLE]
    commits.later({P: 5})
    wait_for("the commit", lambda: broker.held == {P: 5}, 10)
    assert broker.sent == [{P: 5}] * 3


def test_it_is_not_when_a_newer_one_was_asked_for(broker, commits):
    broker.failures = [KafkaError._TRANSPORT]
    broker.gate.clear()
    commits.later({P: 5, Q: 1})
    wait_for("the first to be under way", lambda: broker.sent, 10)
    commits.later({P: 9})
    broker.gate.set()
    wait_for("both", lambda: broker.held == {P: 9, Q: 1}, 10)
    assert all(sent.get(P) != 5 for sent in broker.sent[1:])


def test_nor_when_waiting_for_a_newer_one(broker, commits):
    broker.failures = [KafkaError._TRANSPORT]
    broker.gate.clear()
    commits.later({P: 5})
    wait_for("the first to be under way", lambda: broker.sent, 10)
    threading.Timer(0.2, broker.gate.set).start()
    commits.now({P: 9})
    time.sleep(0.5)
    assert broker.held == {P: 9}
    assert broker.sent == [{P: 5}, {P: 9}]


def test_going_back_on_purpose_is_newer_too(broker, commits):
    commits.now({P: 9})
    commits.now({P: 2})
    assert broker.held == {P: 2}


def test_what_went_to_another_member_is_not_committed_any_more(broker, commits):
    broker.failures = [KafkaError._TRANSPORT]
    broker.gate.clear()
    commits.later({P: 5})
    wait_for("the commit to be under way", lambda: broker.sent, 10)
    commits.forget([P])
    broker.gate.set()
    commits.later({Q: 1})
    wait_for("the other", lambda: broker.held == {Q: 1}, 10)
    time.sleep(0.5)
    assert broker.held == {Q: 1}


def test_whoever_waits_is_told_of_what_does_not_pass(broker, commits):
    broker.failures = [KafkaError.ILLEGAL_GENERATION]
    with pytest.raises(ServiceFailed, match=r"group g could not commit .*ILLEGAL_GENERATION"):
        commits.now({P: 1})
    broker.failures = [KafkaError._TRANSPORT] * 100
    with pytest.raises(ServiceFailed, match="_TRANSPORT"):
        commits.now({P: 1}, patience=0.3)


@pytest.mark.parametrize("seed", range(5))
def test_at_random(broker, commits, seed, monkeypatch):
    monkeypatch.setattr(module, "_PAUSE", 0.002)
    dice = random.Random(seed)
    asked = {}
    for number in range(300):
        time.sleep(dice.random() * 0.003)
        broker.failures = [KafkaError._TRANSPORT] * (dice.random() < 0.3)
        asked = asked | {dice.choice((P, Q)): number}
        if dice.random() < 0.05:
            commits.now(asked)
            assert broker.held == asked
        else:
            commits.later(asked)
        for before, after in zip(broker.sent, broker.sent[1:], strict=False):
            assert all(after[p] >= before[p] for p in before.keys() & after.keys())
    wait_for("the last", lambda: broker.held == asked, 10)
