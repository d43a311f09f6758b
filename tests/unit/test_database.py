"""A database that is away is waited for; one that refuses us, and a mistake of ours, are told."""

from __future__ import annotations

from typing import Any

import pg8000.native
import pytest

from penstock import database as module
from penstock.database import Database, connect
from penstock.errors import NotRunning, ServiceFailed


def complaint(code: str, text: str) -> pg8000.native.DatabaseError:
    return pg8000.native.DatabaseError({"S": "FATAL", "C": code, "M": text})


@pytest.fixture
def server(settings, monkeypatch):
    """Whatever happens when somebody connects."""
    monkeypatch.setattr(type(settings), "secret", lambda self, name: "x")

    def answers(with_what: Any) -> Any:
        def opened(*args: Any, **named: Any) -> Any:
            if isinstance(with_what, Exception):
                raise with_what
            return with_what

        monkeypatch.setattr(module.pg8000.native, "Connection", opened)
        return settings

    return answers


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("28P01", 'password authentication failed for user "penstock"'),
        ("3D000", 'database "penstock" does not exist'),
    ],
)
def test_who_is_not_let_in_is_told_so(server, code, text):
    settings = server(complaint(code, text))
    with pytest.raises(ServiceFailed, match=f"the book does not let penstock in: {text}"):
        connect(settings, "penstock", "penstock", what="the book")


@pytest.mark.parametrize(
    "error",
    [
        complaint("57P03", "the database system is starting up"),
        complaint("53300", "sorry, too many clients already"),
        complaint("08006", "connection failure"),
        pg8000.native.InterfaceError("network error"),
        ConnectionRefusedError(111, "Connection refused"),
    ],
)
def test_a_server_that_is_away_is_not_running(server, error):
    with pytest.raises(NotRunning, match="the book does not answer"):
        connect(server(error), "penstock", "penstock", what="the book")


class Open:
    """A connection on which a statement fails."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.closed = False

    def run(self, sql: str, **values: Any) -> Any:
        raise self.error

    def close(self) -> None:
        self.closed = True


def real_mistake() -> pg8000.native.InterfaceError:
    """What the client itself says of a value that is missing."""
    with pytest.raises(pg8000.native.InterfaceError) as told:
        pg8000.native.to_statement("select :missing")[1]({})
    return told.value


def test_a_value_that_is_missing_is_our_mistake(server):
    there = Open(real_mistake())
    database = Database(server(there), "penstock", "the book")
    with pytest.raises(pg8000.native.InterfaceError, match="placeholder"):
        database.run("select :missing")
    assert not there.closed, "nothing is wrong with the connection"


@pytest.mark.parametrize(
    "error", [pg8000.native.InterfaceError("network error"), complaint("08P01", "protocol")]
)
def test_a_connection_that_broke_is_let_go(server, error):
    there = Open(error)
    with pytest.raises(NotRunning, match="went away"):
        Database(server(there), "penstock", "the book").run("select 1")
    assert there.closed


@pytest.mark.parametrize(
    "error", [UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"), KeyboardInterrupt()]
)
def test_a_connection_with_an_answer_nobody_read_is_let_go(server, error):
    """What it says next would be taken for the answer to another question."""
    there = Open(error)
    database = Database(server(there), "penstock", "the book")
    with pytest.raises(type(error)):
        database.run("select :x", x="\ud800")
    assert there.closed


def test_one_interrupted_while_it_undoes_is_let_go(server):
    class Undoing(Open):
        def run(self, sql: str, **values: Any) -> Any:
            raise KeyboardInterrupt if sql == "rollback" else self.error

    there = Undoing(complaint("22P02", "no number"))
    with pytest.raises(KeyboardInterrupt):
        Database(server(there), "penstock", "the book").run("select 1")
    assert there.closed
