"""In a process of its own: publish, and die by kill -9 at a numbered step."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any


def killed_at(settings: Any, number: int, chunk: int) -> None:
    """Steps are sends, calls of the broker before and after, and reads of the log."""
    from penstock.clients.records import RecordProducer
    from penstock.clients.transaction import Transactions
    from penstock.publish import work
    from penstock.publish.live import LiveTable
    from penstock.publish.run import Publisher

    left = [number]

    def die_if_due() -> None:
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    def stepping(call: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            die_if_due()
            found = call(*arguments, **options)
            if after:
                die_if_due()
            return found

        return step

    RecordProducer.send = stepping(RecordProducer.send, after=False)
    Transactions._insist = stepping(Transactions._insist, after=True)
    LiveTable.following = stepping(LiveTable.following, after=False)
    work.TopicWork.__init__.__kwdefaults__["chunk"] = chunk
    told = Publisher(settings).once()
    assert [one["error"] for one in told] == [""] * len(told), told
