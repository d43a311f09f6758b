"""A signal ends a loop where it stands; the second one is as if nobody had asked."""

from __future__ import annotations

import os
import signal

import pytest

from penstock.clients import Stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sets_it_once(number):
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    with Stopping() as stopping:
        assert not stopping.is_set()
        os.kill(os.getpid(), number)
        assert stopping.wait(5)
        assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before


def test_without_a_signal_everything_is_as_before():
    before = signal.getsignal(signal.SIGTERM)
    with Stopping():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
