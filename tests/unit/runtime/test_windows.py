"""Edges of windows and joins: whole microseconds, before and after the epoch."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.model import hopping, interval_join, sliding
from penstock.runtime.kinds.geometry import geometry_of

windows = st.builds(
    lambda every, panes, offset: hopping(
        f"{every * panes} seconds", every=f"{every} seconds", on="t", offset=f"{offset} seconds"
    ),
    st.integers(1, 90),
    st.integers(1, 7),
    st.integers(0, 200),
)
moments = st.integers(-(10**13), 10**15)


@given(windows, moments)
def test_a_row_falls_into_every_window_that_holds_its_time_and_no_other(window, at):
    shape = geometry_of(window, ["rows"])
    starts = [int(points[0]) for points in shape.own("rows", np.array([at]))]
    size, every, offset = window.us("size"), window.us("every"), window.us("offset")
    assert len(set(starts)) == window.panes
    for start in starts:
        assert (start - offset) % every == 0
        assert start <= at < start + size
    assert not (max(starts) + every <= at < max(starts) + every + size)
    assert all(at - shape.back("rows") <= start <= at + shape.ahead("rows") for start in starts)


@given(windows, moments)
def test_a_window_is_final_exactly_when_the_watermark_has_reached_its_end(window, watermark):
    limit = geometry_of(window, ["rows"]).limit(watermark)
    size = window.us("size")
    assert limit - 1 + size <= watermark < limit + size


@given(st.integers(0, 90), st.integers(0, 90), moments, moments)
def test_a_right_row_touches_the_left_rows_it_may_pair_with(before, after, left, right):
    join = interval_join(
        by=("k",), on="t", right_on="t", before=f"{before} seconds", after=f"{after} seconds"
    )
    shape = geometry_of(join, ["left", "right"])
    pairs = -before * 10**6 <= right - left <= after * 10**6
    assert pairs == (right - shape.back("right") <= left <= right + shape.ahead("right"))
    # once it is final, no right row that is on time can still pair with it
    assert (left < shape.limit(right)) == (left + after * 10**6 < right)


def test_a_sliding_window_is_about_the_time_before_its_moment():
    shape = geometry_of(sliding("5 seconds", by=("k",), on="t"), ["rows"])
    assert (shape.back("rows"), shape.ahead("rows")) == (0, 5_000_000 - 1)
    assert shape.limit(100) == 100, "rows of the very moment may still come"
