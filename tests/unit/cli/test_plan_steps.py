"""What `penstock plan` says is to be typed next."""

from __future__ import annotations

import types

import pytest

from penstock.cli.change import _next_steps

A, B = (types.SimpleNamespace(table=f"gold.{n}", live=f"{n}1") for n in "ab")
NEW = types.SimpleNamespace(table="gold.new", live=None)


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ([A], ["Next: penstock stage gold.a"]),
        (
            [A, B],
            ["Next: penstock stage gold.a", "That stages gold.a and gold.b as one release."],
        ),
        ([NEW], ["New: gold.new. To let them go live: penstock register"]),
        (
            [NEW, A],
            [
                "Next: penstock stage gold.a",
                "New: gold.new. To let them go live, after what they read: penstock register",
            ],
        ),
    ],
)
def test_a_table_that_was_never_live_is_registered_not_staged(changes, lines):
    assert _next_steps(changes) == lines
