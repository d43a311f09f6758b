"""A transaction in our own databases counts whole or not at all, whatever is passed over in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, suppress

import pg8000.native
import pytest

from penstock.database import Database, connect, said
from penstock.errors import NotRunning, ServiceFailed
from penstock.platform.stack import Stack

pytestmark = pytest.mark.platform


@pytest.fixture
def database(stack: Stack) -> Iterator[Database]:
    made = Database(stack.settings, "publisher", "a test's database")
    yield made
    made.close()


@pytest.fixture
def table(database: Database) -> Iterator[str]:
    name = f"t_{uuid.uuid4().hex[:8]}"
    database.run(f"create table {name} (n integer primary key)")
    yield name
    database.run(f"drop table {name}")


def numbers(database: Database, table: str) -> list[int]:
    return [n for (n,) in database.run(f"select n from {table} order by n")]


@pytest.mark.parametrize("goes_on", [True, False])
def test_who_passes_over_a_refusal_commits_nothing(database, table, goes_on):
    with pytest.raises(ServiceFailed, match="earlier statement of this transaction"):  # noqa: PT012
        with database.transaction():
            database.run(f"insert into {table} values (1)")
            with suppress(pg8000.native.DatabaseError):
                database.run(f"insert into {table} values (1)")
            if goes_on:
                database.run(f"insert into {table} values (2)")
    assert numbers(database, table) == []
    with database.transaction():
        database.run(f"insert into {table} values (3)")
    assert numbers(database, table) == [3]


def test_nor_does_who_passes_over_a_server_that_went_away(stack, database, table):
    with pytest.raises(ServiceFailed), database.transaction():  # noqa: PT012
        database.run(f"insert into {table} values (1)")
        ((pid,),) = database.run("select pg_backend_pid()")
        with closing(connect(stack.settings, "publisher", "publisher", what="it")) as other:
            other.run("select pg_terminate_backend(:pid)", pid=pid)
        with suppress(NotRunning):
            database.run(f"insert into {table} values (2)")
        database.run(f"insert into {table} values (3)")
    assert numbers(database, table) == []


def test_a_refusal_outside_a_transaction_is_that_statements_alone(database, table):
    with pytest.raises(pg8000.native.DatabaseError) as refused:
        database.run("select nothing_like_it")
    assert said(refused.value) == 'column "nothing_like_it" does not exist'
    database.run(f"insert into {table} values (1)")
    assert numbers(database, table) == [1]


def test_a_database_that_is_not_there_is_told(stack):
    with pytest.raises(ServiceFailed, match=r"the moon does not let publisher in: .*moon"):
        connect(stack.settings, "publisher", "moon", what="the moon")
