"""How long an old revision is kept: also where a commit of earlier says something absurd."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from penstock.runtime.staging import Promotion, Staging

DONE = Promotion("gold.g", "g2", "g1", "promote", "r1", 1, "me", "why", "", "")


@pytest.mark.parametrize(
    ("told", "kept"),
    [(3600.0, 3600.0), (None, None), (86_400.0 * 999_999_999, 100 * 365.25 * 86_400)],
)
def test_a_swap_that_is_live_is_noted_whatever_was_asked(told, kept):
    given: list[dict] = []
    registry = SimpleNamespace(run=lambda sql, **more: given.append(more), transaction=nullcontext)
    Staging(registry).promoted(DONE, told)
    assert given[0]["keep"] == kept
