"""What is asked of nobody is not done by whoever comes hours later."""

from __future__ import annotations

import types
from dataclasses import replace
from itertools import repeat
from typing import Any

import pytest

from penstock.cli import asking
from penstock.cli.asking import ask
from penstock.errors import NotRunning, PenstockError
from penstock.runtime import heartbeat
from penstock.runtime.registry import Task

ALIVE = types.SimpleNamespace(age_seconds=1.0)


class Book:
    """The tasks of a registry, in memory."""

    def __init__(self) -> None:
        self.task: Task | None = None
        self.done_meanwhile = self.taken = False
        self.beats: Any = repeat(None)  # then nothing any more
        self.away = False

    def create(self) -> None:
        return

    def ask(self, table, verb, arguments, asked_by) -> int:
        self.task = Task(1, table, verb, arguments)
        return 1

    def tasks(self, ids=None) -> list[Task]:
        return [] if self.task is None else [self.task]

    def heartbeat(self) -> Any:
        if self.away:
            raise NotRunning("the registry database went away.")
        return next(self.beats, None)

    def take_back(self, number, reason) -> bool:
        if self.done_meanwhile:
            self.task = replace(self.task, state="done", result={"version": 7})
        if self.taken or self.task.state != "asked":
            return False
        self.task = replace(self.task, state="failed", result={"error": reason})
        return True


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


def test_what_a_supervisor_left_when_it_died_is_taken_back(book):
    book.beats = iter([ALIVE])
    with pytest.raises(NotRunning, match="taken back"):
        ask(None, "gold.x", "reconcile", timeout=0.1, quiet=True)
    assert book.task.state == "failed"


def test_what_was_begun_is_not_taken_back(book):
    """A supervisor that cannot reach the registry may commit a swap this moment."""
    book.taken = True
    with pytest.raises(NotRunning, match="may have done it, or the next one does"):
        ask(None, "gold.x", "reconcile")
    assert book.task.state == "asked"


def test_a_registry_that_cannot_be_asked_is_no_supervisor_that_is_gone(book):
    book.away = True
    with pytest.raises(NotRunning, match=r"went away\. Task 1 may be done by now"):
        ask(None, "gold.x", "reconcile")
    assert book.task.state == "asked"


def test_what_a_supervisor_is_slow_with_goes_on(book):
    book.beats = repeat(ALIVE)
    with pytest.raises(PenstockError, match="goes on by itself"):
        ask(None, "gold.x", "reconcile", timeout=0.1, quiet=True)
    assert book.task.state == "asked"
