"""Work on what a group reads, however long it takes, without being thrown out of the group.

A member that does not poll for max.poll.interval.ms loses its partitions. So records are worked on
in another thread, while this one polls with everything paused. Records of a partition are worked on
in order, one batch after the other; parallel work is more members.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

from confluent_kafka import Message

from penstock.clients.group import GroupConsumer

__all__ = ["work"]

_SHORT = 0.5  # seconds; pausing throws away what was fetched ahead, so short work does without


def work(
    consumer: GroupConsumer,
    handle: Callable[[list[Message]], object],
    stopping: threading.Event,
    *,
    most: int = 500,
    timeout: float = 1.0,
) -> None:
    """Read, handle, commit, until told to stop; then finish, commit and return.

    An error of ``handle`` ends the loop and is raised; its batch is not committed and will be read
    again by whoever runs next. A batch whose partitions go to another member is waited for.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="work") as pool:
        while not stopping.is_set():
            messages = consumer.consume(most, timeout)
            if not messages:
                continue
            task = pool.submit(handle, messages)
            if not wait([task], timeout=_SHORT).done:
                consumer.keep_polling(task, messages)
            task.result()
            consumer.done(messages)
            consumer.commit_async()
    consumer.commit()
