"""A round of the supervisor: what cannot be told is no reason to tell nothing else."""

from __future__ import annotations

import time
import types
from typing import Any

import pg8000.native
import pytest

from penstock.errors import NotRunning
from penstock.runtime.supervise.supervisor import Supervisor

REFUSED = pg8000.native.DatabaseError({"C": "22P05", "M": "unsupported Unicode escape sequence"})


class Book:
    """A registry that refuses some answers."""

    def __init__(self, refuses: Exception | None = None) -> None:
        self.refuses = refuses
        self.told: list[tuple[int, dict[str, Any], bool]] = []
        self.beats: list[str] = []

    def finish(self, task: int, result: dict[str, Any], *, failed: bool = False) -> None:
        if self.refuses is not None and "bad" in result:
            raise self.refuses
        self.told.append((task, result, failed))

    def beat(self, supervisor: str, state: str, pid: int, streams: list[Any]) -> None:
        self.beats.append(state)

    def wishes(self) -> dict[str, Any]:
        return {}

    def tasks(self) -> list[Any]:
        return []

    def take(self, task: int) -> bool:
        return True


class Queue:
    """Answers that wait."""

    def __init__(self, *answers: tuple[int, dict[str, Any], bool]) -> None:
        self.waiting = list(answers)

    def answers(self) -> list[tuple[int, dict[str, Any], bool]]:
        found, self.waiting = self.waiting, []
        return found

    def keep(self, answer: tuple[int, dict[str, Any], bool]) -> None:
        self.waiting.append(answer)

    def hand_out(self, tasks: list[Any], take: Any) -> None:
        pass


@pytest.fixture
def supervisor_of(settings, monkeypatch):
    def make(book: Book, renew: Any = lambda: True) -> Supervisor:
        made = Supervisor(settings)
        made.registry = book  # type: ignore[assignment]
        made.shares = types.SimpleNamespace(renew=renew)  # type: ignore[assignment]
        made.staging = types.SimpleNamespace(  # type: ignore[assignment]
            candidates=list, holds=dict
        )
        monkeypatch.setattr(made, "_settled", lambda streams: [])
        return made

    return make


def streams(errands: Queue, converge: Any = lambda *_: None) -> Any:
    return types.SimpleNamespace(converge=converge, breaches=dict, errands=errands)


@pytest.mark.parametrize("failed", [True, False])
def test_an_answer_that_is_refused_is_replaced_and_holds_up_no_other(supervisor_of, failed):
    book, errands = Book(REFUSED), Queue((1, {"bad": 1}, failed), (2, {"rows": 3}, False))
    supervisor_of(book)._tell_answers(errands)
    (number, result, as_failed), other = book.told
    assert (number, as_failed) == (1, True)
    assert "its answer could not be kept" in result["error"]
    assert ("failed" in result["error"]) == failed
    assert other == (2, {"rows": 3}, False)
    assert errands.waiting == []


def test_while_the_registry_is_away_answers_wait(supervisor_of):
    book, errands = Book(NotRunning("away")), Queue((1, {"bad": 1}, False), (2, {}, False))
    with pytest.raises(NotRunning):
        supervisor_of(book)._tell_answers(errands)
    assert [answer[0] for answer in errands.waiting] == [1, 2]


def fails(*_: Any) -> None:
    raise RuntimeError("nobody foresaw this")


def is_away(*_: Any) -> None:
    raise NotRunning("the registry database does not answer.")


def test_a_round_that_fails_is_a_sign_of_life_all_the_same(supervisor_of):
    book = Book()
    supervisor_of(book)._round(streams(Queue(), fails))
    assert book.beats == ["running"]


def test_rounds_that_fail_for_long_are_no_life(supervisor_of, monkeypatch):
    monkeypatch.setattr("penstock.runtime.supervise.supervisor.FAILING_FOR", 0.05)
    book = Book()
    made = supervisor_of(book)
    made._round(streams(Queue(), fails))
    time.sleep(0.1)
    made._round(streams(Queue(), fails))
    assert book.beats == ["running"]
    made._round(streams(Queue()))
    made._round(streams(Queue(), fails))
    assert book.beats == ["running"] * 3


def test_who_is_away_is_not_asked_a_second_time(supervisor_of):
    book = Book()
    supervisor_of(book)._round(streams(Queue(), is_away))
    assert book.beats == []


def test_who_lost_its_slot_does_not_say_that_it_runs(supervisor_of):
    book = Book()
    made = supervisor_of(book, renew=lambda: False)
    made._round(streams(Queue()))
    assert book.beats == []
    assert made._lost.is_set()
