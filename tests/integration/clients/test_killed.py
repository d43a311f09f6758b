"""kill -9, of a reader and of the broker: nothing is lost, and nothing counts twice."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Message
from deltalake import DeltaTable

from penstock.clients import GroupConsumer, RecordProducer
from penstock.errors import TransactionAborted
from penstock.platform.stack import Stack
from penstock.settings import Settings
from tests.live import wait_for

pytestmark = [pytest.mark.platform, pytest.mark.slow]
MEMBER = Path(__file__).with_name("member.py")


class Members:
    """Processes of member.py, each in a session of its own."""

    def __init__(self, settings, folder: Path) -> None:
        self.settings = settings
        self.log = folder / "members.log"
        self.running: list[subprocess.Popen] = []

    def start(self, *arguments: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, str(MEMBER), *arguments],
            env=self.settings.environment(),
            cwd=self.settings.project,
            stdout=self.log.open("ab"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.running.append(process)
        return process

    def kill(self, process: subprocess.Popen) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
        self.running.remove(process)


@pytest.fixture
def members(at, tmp_path: Path) -> Iterator[Members]:
    members = Members(at, tmp_path)
    yield members
    for process in list(members.running):
        members.kill(process)


def table_at(path: Path) -> pa.Table:
    return DeltaTable(str(path)).to_pyarrow_table()


def rows_in(path: Path) -> int:
    return table_at(path).num_rows


def test_results_and_offsets_survive_a_killed_reader(at, topic, group, send, members, tmp_path):
    path = tmp_path / "results"
    send(topic, 2000)
    first = members.start("results", topic, group, str(path))
    wait_for("some rows", lambda: rows_in(path) > 300, 60)
    members.kill(first)
    before = rows_in(path)
    assert before < 2000, "it was to be killed in the middle"
    members.start("results", topic, group, str(path))
    wait_for("all rows", lambda: rows_in(path) >= 2000, 60)
    found = table_at(path)
    assert sorted(found["number"].to_pylist()) == list(range(2000))
    places = set(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True))
    assert len(places) == 2000


def test_a_killed_transaction_is_nobodys(
    at, topic, make_topic, group, send, members, read_all, committed
):
    out = make_topic(2)
    send(topic, 3000)
    process = members.start("copy", topic, group, out)
    for stop in (500, 1500):
        wait_for("progress", lambda at=stop: sum(committed(group, topic).values()) >= at, 60)
        members.kill(process)
        process = members.start("copy", topic, group, out)
    wait_for("the end", lambda: sum(committed(group, topic).values()) == 3000, 60)
    found = Counter(int(message.value()) for message in read_all(out))
    assert found == Counter(range(3000))


def test_told_to_stop_it_finishes_and_leaves(at, topic, group, send, members, tmp_path, committed):
    notes = tmp_path / "notes"
    send(topic, 300)
    process = members.start("note", topic, group, str(notes))
    wait_for("some notes", lambda: notes.read_text().count("\n") > 20, 60)
    process.terminate()
    assert process.wait(30) == 0
    noted = notes.read_text().split()
    assert len(noted) < 300, "it was to be stopped in the middle"
    assert sum(committed(group, topic).values()) == len(noted)
    began = time.monotonic()
    with GroupConsumer(at, group, [topic], user="app") as other:
        while not other.kafka.assignment():
            other.consume(1, 0.1)
    assert time.monotonic() - began < 30, "a member that left is not waited for (45 s)"


def kill_broker(stack: Stack) -> float:
    """kill -9 and start again; seconds until it answers."""
    service = stack.services["kafka"]
    os.kill(service.pid_file.read().pid, signal.SIGKILL)
    began = time.monotonic()
    time.sleep(1)
    stack.up(only=["kafka"])
    return time.monotonic() - began


class Traffic:
    """One producer sends, one sends in transactions, one member reads: a thread each."""

    def __init__(self, at: Settings, topic: str, transacted: str, group: str) -> None:
        self.at, self.topic, self.transacted, self.group = at, topic, transacted, group
        self.plain = RecordProducer(at, user="app")
        self.sent: Counter[str] = Counter()
        self.acked: list[int] = []
        self.seen: list[int] = []
        self.failures: list[BaseException] = []
        self.slowest = 0.0
        self._stopping, self._settled = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=[run])
            for run in (self._send_plainly, self._send_transacted, self._read)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let what was sent be acknowledged, then let the reader see all of it."""
        self._stopping.set()
        self._threads[0].join(60)
        assert self.plain.close(60) == 0
        self._settled.set()
        for thread in self._threads:
            thread.join(60)
        assert self.failures == []

    def has(self, plain: int, transacted: int) -> bool:
        return len(self.acked) > plain and self.sent["transacted"] > transacted

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            self.failures.append(error)

    def _send_plainly(self) -> None:
        number = 0
        while not self._stopping.is_set():
            told = functools.partial(self._acknowledged, number, time.monotonic())
            self.plain.send(self.topic, b"%d" % number, b"k-%d" % (number % 20), on_delivery=told)
            number += 1
            time.sleep(0.002)
        self.sent["plain"] = number

    def _acknowledged(self, number: int, began: float, error: object, _: Message) -> None:
        assert error is None, error
        self.acked.append(number)
        self.slowest = max(self.slowest, time.monotonic() - began)

    def _send_transacted(self) -> None:
        producer = RecordProducer(self.at, user="app", transactional_id=self.group)
        number = 0
        while not self._stopping.is_set():
            try:
                with producer.transaction():
                    for offset in range(20):
                        producer.send(self.transacted, b"%d" % (number + offset))
            except TransactionAborted:  # the broker took too long: do it again
                self.sent["aborted"] += 1
                continue
            number += 20
            self.sent["transacted"] = number
            time.sleep(0.02)

    def _read(self) -> None:
        with GroupConsumer(self.at, self.group, [self.topic], user="app") as consumer:
            while not self._settled.is_set() or len(set(self.seen)) < len(self.acked):
                messages = consumer.consume(500, 0.2)
                self.seen.extend(int(message.value()) for message in messages)
                consumer.done(messages)
                consumer.commit_async()


def test_retries_outlast_a_killed_broker(stack, at, topic, make_topic, group, read_all, capsys):
    transacted = make_topic(2)
    traffic = Traffic(at, topic, transacted, group)
    traffic.start()
    wait_for("traffic", lambda: len(traffic.seen) > 500 and traffic.has(0, 100), 60)
    away = kill_broker(stack)
    then, whole = len(traffic.acked), traffic.sent["transacted"]
    wait_for("traffic again", lambda: traffic.has(then + 500, whole + 100), 90)
    traffic.stop()
    sent = traffic.sent
    with capsys.disabled():
        told = f"broker away {away:.1f} s, slowest ack {traffic.slowest:.1f} s"
        print(f"\n{told}, sent {dict(sent)}")
    found = read_all(topic)
    assert Counter(int(m.value()) for m in found) == Counter(range(sent["plain"]))
    assert sorted(traffic.acked) == list(range(sent["plain"]))
    for key in {message.key() for message in found}:
        order = [int(m.value()) for m in found if m.key() == key]
        assert order == sorted(order), "retries kept the order"
    there = Counter(int(m.value()) for m in read_all(transacted))
    assert there == Counter(range(sent["transacted"]))
    assert set(traffic.seen) == set(range(sent["plain"]))
