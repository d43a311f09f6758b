"""What is asked of nobody is not done by whoever comes hours later."""

from __future__ import annotations

import types

import pytest

from penstock.cli import asking
from penstock.cli.asking import ask
from penstock.errors import NotRunning, PenstockError
from penstock.runtime import heartbeat
from penstock.runtime.registry import Task


class Book:
    """The tasks of a registry, in memory."""

    def __init__(self) -> None:
        self.task: Task | None = None
        self.done_meanwhile = False

    def create(self) -> None:
        return

    def ask(self, table, verb, arguments, asked_by) -> int:
        self.task = Task(1, table, verb, arguments)
        return 1

    def tasks(self, ids=None) -> list[Task]:
        return [] if self.task is None else [self.task]

    def finish(self, number, result, *, failed=False) -> None:
        if self.done_meanwhile:
            failed, result = False, {"version": 7}
        if self.task.state == "asked":
            state = "failed" if failed else "done"
            self.task = Task(1, self.task.table, self.task.verb, {}, state, result)


@pytest.fixture
def book(monkeypatch) -> Book:
    """Nobody there, and nobody waited for."""
    made = Book()
    monkeypatch.setattr(asking, "Registry", lambda settings: made)
    monkeypatch.setattr(asking, "_SOON", 0.0)
    monkeypatch.setattr(asking, "_LOOK", 0.01)
    monkeypatch.setattr(heartbeat, "read", lambda settings: None)
    return made


def test_what_nobody_takes_is_taken_back(book):
    with pytest.raises(NotRunning, match="task 1 is taken back"):
        ask(None, "gold.x", "reconcile")
    assert book.task.state == "failed", "the next supervisor would do it"


def test_a_swap_is_not_asked_of_nobody(book):
    with pytest.raises(NotRunning, match="nothing was swapped"):
        ask(None, "gold.x", "swap")
    assert book.task is None


def test_what_was_done_at_the_last_moment_was_done(book):
    book.done_meanwhile = True
    assert ask(None, "gold.x", "reconcile") == {"version": 7}


def test_what_a_supervisor_left_when_it_died_is_taken_back(book, monkeypatch):
    alive = types.SimpleNamespace(age_seconds=1.0)
    beats = iter([alive])
    monkeypatch.setattr(heartbeat, "read", lambda settings: next(beats, None))
    with pytest.raises(NotRunning, match="taken back"):
        ask(None, "gold.x", "reconcile", timeout=0.1, quiet=True)
    assert book.task.state == "failed"


def test_what_a_supervisor_is_slow_with_goes_on(book, monkeypatch):
    alive = types.SimpleNamespace(age_seconds=1.0)
    monkeypatch.setattr(heartbeat, "read", lambda settings: alive)
    with pytest.raises(PenstockError, match="goes on by itself"):
        ask(None, "gold.x", "reconcile", timeout=0.1, quiet=True)
    assert book.task.state == "asked"
