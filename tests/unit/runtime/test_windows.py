"""Edges of windows: whole microseconds, before and after the epoch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.duration import micros
from penstock.model.windows import Window
from penstock.runtime.windows import first_open_start

windows = st.builds(
    lambda every, panes, offset: Window(
        size=f"{every * panes} seconds",
        every=f"{every} seconds",
        on="t",
        offset=f"{offset} seconds",
    ),
    st.integers(1, 90),
    st.integers(1, 7),
    st.integers(0, 200),
)


@given(windows, st.integers(-(10**13), 10**15))
def test_the_first_open_window_is_the_first_that_ends_after_the_watermark(window, watermark):
    start = first_open_start(window, watermark)
    size, every = micros(window.size_delta), micros(window.every_delta)
    assert (start - micros(window.offset_delta)) % every == 0
    assert start + size > watermark
    assert start - every + size <= watermark
