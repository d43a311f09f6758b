"""Giving way: work that can wait lets whoever else wants a core have it first.

**How it works.** Niceness counts among the processes of a group of the scheduler. Where Linux makes
a group of every session (``sched_autogroup_enabled``, the default of most kernels where no service
manager makes groups of its own), a process with a session of its own shares its niceness with
nobody, and would get as much of a core as all streams together. So the session's group is made as
nice as its leader.

**What it does not do.** Touch a session that is somebody else's: a command typed into a terminal
shares its session with the shell.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["give_way"]


def give_way(niceness: int, pid: int | None = None) -> None:
    """Make a process, and all it will start, at least so nice.

    Args:
        pid: the leader of a process group; without it, this process.
    """
    leader = pid or os.getpid()
    kind = os.PRIO_PROCESS if pid is None else os.PRIO_PGRP
    with suppress(ProcessLookupError):
        if os.getpriority(kind, leader) < niceness:  # nobody may take niceness back
            os.setpriority(kind, leader, niceness)
        if os.getsid(leader) == leader:
            with suppress(OSError):  # not every kernel has it
                Path(f"/proc/{leader}/autogroup").write_text(str(niceness))
