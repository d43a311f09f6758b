"""A release by its name, as somebody approved it: that one or none.

Between a question and its answer lie hours. By then the release may have been given up and another
one staged for the same tables, may have been promoted by the very command that is tried again, or
promoted and taken back. A name in the question settles which of these it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.errors import UsageError
from penstock.runtime.registry import Revision
from penstock.runtime.staging import Candidate, Promotion

__all__ = ["done_already", "require_undone"]


def done_already(
    release: str,
    left: Sequence[Candidate],
    swaps: Mapping[str, Promotion],
    live: Mapping[str, Revision],
    comes_back: Callable[[Promotion], str],
) -> dict[str, Any] | None:
    """What a promotion came to that live shows whole; None if it is still to be decided.

    Args:
        left: candidates of the release that no live table shows yet.
        swaps: the newest swap of each table it has moved.
        comes_back: what to type to take a rollback back, if anything means just that one.

    Raises:
        UsageError: it is none to be promoted any more.
    """
    if not left and not swaps:
        raise UsageError(
            f"release {release} is not staged any more: it was given up.",
            remedy="See what is staged: `penstock stage --status`. Then stage, compare, promote.",
        )
    for swap in swaps.values():
        if swap.verb != "promote":
            raise UsageError(
                f"release {release} was taken back: {swap.table} at {swap.at}, by {swap.who}.",
                remedy="If it is wanted after all: "
                f"{comes_back(swap) or 'stage the code of that time anew'}.",
            )
        if live[swap.table].revision != swap.revision:
            raise UsageError(
                f"release {release} was promoted at {swap.at}, and {swap.table} has shown another "
                "revision since.",
                remedy=f"See `penstock releases {swap.table}`.",
            )
    if left:
        return None
    tables = [
        {"table": s.table, "from": s.replaced, "to": s.revision, "version": s.live_version}
        for s in list(swaps.values())[::-1]
    ]
    last = next(iter(swaps.values()))
    return {"tables": tables, "release": release, "done": {"at": last.at, "who": last.who}}


def require_undone(release: str, left: Sequence[Candidate], swaps: Mapping[str, Promotion]) -> None:
    """Raise if any of it is live, or was followed by another: then it is nothing to be given up.

    What was taken back is not in the way: readers see nothing of it.
    """
    promoted = [swap for swap in swaps.values() if swap.verb == "promote"]
    if promoted:
        last = promoted[0]
        rest = f" To give up what is left of it: `penstock abort {left[0].table}`." if left else ""
        raise UsageError(
            f"release {release} is no candidate: {last.who} promoted {last.table} at {last.at}.",
            remedy=f"To go back: `penstock rollback --release {release} --why '...'`.{rest}",
        )
