"""The real registry database keeps whatever a supervisor has to tell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.runtime.registry import Registry

pytestmark = pytest.mark.platform
WORDS = "cannot cast 'a\0b' nor '\ud800'"
KEPT = "cannot cast 'a\ufffdb' nor '\ufffd'"


@pytest.fixture
def registry(stack) -> Iterator[Registry]:
    registry = Registry(stack.settings)
    registry.create()
    yield registry
    registry.run("delete from heartbeat where supervisor = 'words@here'")
    registry.run("delete from task where asked_by = 'words'")
    registry.close()


def test_a_sign_of_life_with_words_that_have_no_place(registry):
    registry.beat("words@here", "running", 1, [{"error": WORDS, "lag": float("nan")}])
    (beat,) = [one for one in registry.heartbeats() if one.supervisor == "words@here"]
    assert beat.streams == [{"error": KEPT, "lag": None}]


@pytest.mark.parametrize("failed", [True, False])
def test_an_answer_with_words_that_have_no_place(registry, failed):
    number = registry.ask("gold.x", "replay", {}, "words")
    registry.finish(number, {"error": WORDS, "rate": float("nan")}, failed=failed)
    (task,) = registry.tasks([number])
    assert task.state == ("failed" if failed else "done")
    assert task.result == {"error": KEPT, "rate": None}


def test_a_task_taken_back_for_such_a_reason(registry):
    number = registry.ask("gold.x", "replay", {}, "words")
    assert registry.take_back(number, WORDS)
    (task,) = registry.tasks([number])
    assert task.result == {"error": KEPT}


def test_what_cannot_be_sent_at_all_costs_no_later_answer(registry):
    """The client has asked by then; what is answered must not be taken for the next answer."""
    with pytest.raises(UnicodeEncodeError):
        registry.run("select cast(:text as text)", text="\ud800")
    assert registry.run("select cast(:n as int)", n=7) == [[7]]
