"""An operator sees one line of an error: the one that says what happened."""

from __future__ import annotations

import pytest

from penstock.errors import in_a_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("the disk is full\nat line 3", "the disk is full"),
        ("\n  \nlate", "late"),
        ("An error occurred while calling o7.x.\n: java.Boom: why\n\tat a", "java.Boom: why"),
        ("\n  A worker.\nTraceback (most recent call last):\n  File x\nBoom: no\nmore", "Boom: no"),
        ("", "ValueError"),
        ("x" * 900, "x" * 500),
        ("cannot cast 'a\0b'\nat line 3", "cannot cast 'a\ufffdb'"),
        ("half of \ud83d only", "half of \ufffd only"),
    ],
)  # fmt: skip
def test_the_line_that_tells(text, line):
    assert in_a_line(ValueError(text)) == line
