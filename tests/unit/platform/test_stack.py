"""Starting, stopping, failing and being interrupted, on a stack of tiny programs."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from fake import DYING, SILENT, Fake, fake_stack

from penstock.errors import EnvironmentProblem, ServiceFailed, UsageError
from penstock.platform.process import Recorded
from penstock.platform.stack import Event, Stack
from penstock.settings import Settings

PLAIN = {"postgres": (), "kafka": (), "registry": ("postgres",), "demo": ("kafka", "registry")}
StackOf = Callable[..., Stack]


def pids(stack: Stack) -> dict[str, int | None]:
    return {status.name: status.pid for status in stack.status()}


def test_up_starts_everything_and_again_changes_nothing(stack_of: StackOf) -> None:
    stack = stack_of(PLAIN)
    events: list[Event] = []
    stack.up(report=events.append)
    before = pids(stack)
    assert all(before.values())
    assert {e.service for e in events if e.state == "started"} == set(PLAIN)
    events.clear()
    stack.up(report=events.append)
    assert pids(stack) == before
    assert {e.service for e in events if e.state == "unchanged"} == set(PLAIN)


def test_a_service_starts_only_after_what_it_needs(stack_of: StackOf) -> None:
    events: list[Event] = []
    stack_of(PLAIN).up(report=events.append)
    order = [(e.service, e.state) for e in events if e.state in ("working", "started")]
    assert order.index(("postgres", "started")) < order.index(("registry", "working"))
    assert order.index(("registry", "started")) < order.index(("demo", "working"))


def test_down_stops_dependents_first_and_twice_is_fine(stack_of: StackOf) -> None:
    stack = stack_of(PLAIN)
    stack.up()
    events: list[Event] = []
    assert set(stack.down(events.append)) == set(PLAIN)
    stopped = [e.service for e in events if e.state == "stopped"]
    assert stopped[:2] == ["demo", "registry"] or stopped[0] == "demo"
    assert stopped.index("registry") < stopped.index("postgres")
    assert stack.down() == []
    assert {status.state for status in stack.status()} == {"stopped"}


def test_only_brings_what_it_needs_and_without_leaves_out(stack_of: StackOf) -> None:
    stack = stack_of(PLAIN)
    assert stack.select(only=["registry"]) == ["postgres", "registry"]
    assert stack.select(without=["demo"]) == ["postgres", "kafka", "registry"]
    with pytest.raises(UsageError, match="registry needs postgres"):
        stack.select(without=["postgres"])
    with pytest.raises(UsageError, match="no service named 'kafak'"):
        stack.select(only=["kafak"])


def test_a_killed_service_is_seen_as_dead_and_started_again(stack_of: StackOf) -> None:
    stack = stack_of(PLAIN)
    stack.up()
    before = pids(stack)
    os.kill(before["kafka"] or 0, signal.SIGKILL)
    time.sleep(0.2)
    assert {s.name: s.state for s in stack.status()}["kafka"] == "dead"
    stack.up()
    after = pids(stack)
    assert after["kafka"] != before["kafka"]
    assert after["postgres"] == before["postgres"]


def test_a_pid_file_from_before_a_reboot_harms_nobody(stack_of: StackOf) -> None:
    stack = stack_of(PLAIN)
    mine = os.getpid()
    stack.services["kafka"].pid_file.write(Recorded(mine, "before-the-reboot:1", "x"))
    stack.up(only=["kafka"])
    assert pids(stack)["kafka"] not in (None, mine)


def test_a_changed_configuration_restarts_only_that_service(
    stack_of: StackOf, settings: Settings
) -> None:
    stack = stack_of(PLAIN)
    stack.up()
    before = pids(stack)
    kafka = stack.services["kafka"]
    assert isinstance(kafka, Fake)
    kafka.text = "two"
    stack.up()
    after = pids(stack)
    assert after["kafka"] != before["kafka"]
    assert after["registry"] == before["registry"]


def test_a_service_that_dies_says_why_and_where_and_the_rest_runs(stack_of: StackOf) -> None:
    stack = stack_of(PLAIN)
    broken = stack.services["registry"]
    assert isinstance(broken, Fake)
    broken.program = DYING
    events: list[Event] = []
    with pytest.raises(ServiceFailed) as caught:
        stack.up(report=events.append)
    assert "the disk is made of cheese" in caught.value.message
    assert str(broken.log) in caught.value.remedy
    assert "demo" in caught.value.message  # it needs the registry, so it was not started
    assert {e.service: e.state for e in events}["demo"] == "skipped"
    assert {s.name: s.state for s in stack.status()}["kafka"] == "running"


def test_a_service_that_never_answers_is_given_up(stack_of: StackOf) -> None:
    stack = stack_of({"kafka": ()})
    kafka = stack.services["kafka"]
    assert isinstance(kafka, Fake)
    kafka.program = SILENT
    kafka.spec = replace(kafka.spec, ready_within=0.3)
    with pytest.raises(ServiceFailed, match="was not ready after"):
        stack.up()


def test_interrupting_is_prompt_and_up_goes_on_from_there(stack_of: StackOf) -> None:
    stack = stack_of({"kafka": ()})
    kafka = stack.services["kafka"]
    assert isinstance(kafka, Fake)
    kafka.program = SILENT
    began = time.monotonic()
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        stack.up()
    assert time.monotonic() - began < 5
    again = fake_stack(stack.settings, {"kafka": ()})
    again.up()
    assert pids(again)["kafka"]


def test_the_port_offset_is_remembered_and_not_changed_under_a_running_stack(
    stack_of: StackOf, settings: Settings
) -> None:
    stack, offset = stack_of({"kafka": ()}), settings.port_offset
    stack.up()
    assert json.loads((settings.home / "stack.json").read_text())["port_offset"] == offset
    moved = fake_stack(replace(settings, port_offset=offset + 1000), {"kafka": ()})
    with pytest.raises(EnvironmentProblem, match=f"running with port offset {offset}"):
        moved.up()
    stack.down()
    moved.up()
    moved.down()


def test_two_ups_at_once_start_everything_once(stack_of: StackOf) -> None:
    first, second = stack_of(PLAIN), stack_of(PLAIN)
    events: list[Event] = []
    threads = [
        threading.Thread(target=one.up, kwargs={"report": events.append}) for one in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(e.state == "started" for e in events) == len(PLAIN)
    assert sum(e.state == "unchanged" for e in events) == len(PLAIN)


def test_two_stacks_side_by_side(stack_of: StackOf, settings: Settings) -> None:
    one = stack_of(PLAIN)
    other = fake_stack(
        replace(settings, home=settings.home.with_name("other"), port_offset=9000), PLAIN
    )
    one.up()
    other.up()
    assert not set(pids(one).values()) & set(pids(other).values())
    assert len(other.down()) == len(PLAIN)
    assert all(pids(one).values())
