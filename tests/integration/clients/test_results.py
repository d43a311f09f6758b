"""Results and offsets in one commit: read again, by whomever, rows count once."""

from __future__ import annotations

import time

import pytest
from confluent_kafka.admin import NewTopic
from deltalake import DeltaTable

from penstock.clients import ResultsTable, StandaloneConsumer
from tests.integration.clients.member import SCHEMA, rows
from tests.integration.clients.test_reading import read

pytestmark = pytest.mark.platform


@pytest.fixture
def table(at, tmp_path, group) -> ResultsTable:
    return ResultsTable(at, tmp_path / "results", SCHEMA, user="app", name=group)


def numbers(table: ResultsTable) -> list[int]:
    return sorted(DeltaTable(str(table.path)).to_pyarrow_table()["number"].to_pylist())


def test_a_reader_begins_where_the_table_stands(at, topic, group, send, table):
    send(topic, 60)
    with StandaloneConsumer(at, group, [topic], user="app", start=table.start) as reader:
        messages = read(reader, 60)
        assert table.append(messages[:30], rows) == 30
    with StandaloneConsumer(at, group, [topic], user="app", start=table.start) as reader:
        again = read(reader, 30)
        assert len(again) == 30
        assert table.append(again, rows) == 30
        # One that was thought dead comes with what it had read.
        assert table.append(messages, rows) == 0
    assert numbers(table) == list(range(60))
    version = DeltaTable(str(table.path)).version()
    assert version == 2, "nothing is committed for nothing"


def test_of_two_who_have_the_same_records_one_writes_them(at, topic, group, send, table, tmp_path):
    send(topic, 40)
    with StandaloneConsumer(at, group, [topic], user="app") as reader:
        messages = read(reader, 40)
    other = ResultsTable(at, table.path, SCHEMA, user="app", name=group)

    def overtaken(fresh):
        """While one makes its rows, the other commits half of them."""
        if len(fresh) == 40:
            assert other.append(messages[:20], rows) == 20
        return rows(fresh)

    assert table.append(messages, overtaken) == 20
    assert numbers(table) == list(range(40))
    files = DeltaTable(str(table.path)).file_uris()
    assert len(files) == len(list(table.path.glob("*.parquet"))), "no file is left over"


def test_a_recreated_topic_is_another_one(at, admin, make_topic, group, send, table):
    topic = make_topic(1)
    send(topic, 10)
    with StandaloneConsumer(at, group, [topic], user="app", start=table.start) as reader:
        table.append(read(reader, 10), rows)
    admin.delete_topics([topic])[topic].result(30)
    time.sleep(1)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    send(topic, 5, first=10)
    with StandaloneConsumer(at, group, [topic], user="app") as reader:
        assert table.append(read(reader, 5), rows) == 5
    assert numbers(table) == list(range(15))


@pytest.mark.slow
def test_many_commits_are_checkpointed(at, make_topic, group, send, table):
    topic = make_topic(1)
    send(topic, 120)
    with StandaloneConsumer(at, group, [topic], user="app") as reader:
        for message in read(reader, 120):
            table.append([message], rows)
    assert numbers(table) == list(range(120))
    assert list((table.path / "_delta_log").glob("*.checkpoint.parquet"))
    with StandaloneConsumer(at, group, [topic], user="app", start=table.start) as reader:
        assert reader.consume(10, 2) == []
