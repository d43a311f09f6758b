"""Stacks of fake services that are always stopped afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from penstock.platform.stack import Stack
from penstock.settings import Settings

sys.path.insert(0, str(Path(__file__).parent))  # `fake` sits beside the tests

StackOf = Callable[[Mapping[str, tuple[str, ...]]], Stack]


@pytest.fixture
def stack_of(settings: Settings) -> Iterator[StackOf]:
    from fake import fake_stack

    made: list[Stack] = []

    def make(needs: Mapping[str, tuple[str, ...]]) -> Stack:
        made.append(fake_stack(settings, needs))
        return made[-1]

    yield make
    for stack in made:
        stack.down()
