"""Holds: which live tables stand still, by command or by a guard of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.kinds.follow import Follower
from penstock.runtime.staging import Hold
from penstock.runtime.supervise.worker import FollowWorker, Order, Worker
from penstock.runtime.supervise.writers import Writers

__all__ = ["Holds"]

log = logging.getLogger("penstock.holds")


@dataclass(frozen=True)
class _Seen:
    """A hold as it was last seen."""

    revision: str  # which one was live then
    of_guard: bool  # the registry named the guard: who released it knew of that


def _show_again(follower: Follower) -> dict[str, Any]:
    return {"mirrored": follower.release()}


def _show_again_unguarded(follower: Follower) -> dict[str, Any]:
    """The guard may have tripped since it was ordered: nobody decided about what that stopped."""
    return {} if follower.breach else _show_again(follower)


class Holds:
    """Carries holds of the registry out.

    What a guard holds is held by its own commit; a hold in the registry follows, and when that is
    taken away, so is the guard's: of the revision that was live then, for a swap ends a hold, and
    what the guard of the next one stops is its own. A hold that did not name the guard says nothing
    about what it stopped: when a check lets go, the guard's hold is written down instead. A release
    that fails is tried again for as long as we live: the registry knows of no hold any more, so
    nobody else would.
    """

    def __init__(self, writers: Writers, workers: Mapping[str, Worker]) -> None:
        self._writers = writers
        self._workers = workers
        self._known: dict[str, _Seen] = {}
        self._named: frozenset[str] = frozenset()  # tables of which the registry names the guard
        self._releasing: set[str] = set()  # told to go on, not yet done

    def look(self, held: Mapping[str, Hold]) -> None:
        """Live tables that are held stand still; one that is no longer held catches up."""
        self._named = frozenset(name for name, hold in held.items() if Hold.GUARD in hold.holders)
        for name, revision, writer, worker in self._live():
            if name in held:
                writer.held = True
                self._known[name] = _Seen(revision, name in self._named)
            elif name in self._known and worker.state == "running":  # else nobody would obey
                seen = self._known.pop(name)
                # Of another one it ended with the swap, and what a guard stops now came since.
                decided = seen.revision == revision and (seen.of_guard or not worker.breach)
                if decided or (writer.held and not worker.breach):
                    self._releasing.add(name)
                    worker.order(self._release(name, _Seen(revision, seen.of_guard and decided)))
            if not worker.breach:
                self._releasing.discard(name)

    def _release(self, name: str, seen: _Seen) -> Order:
        def done(result: dict[str, Any]) -> None:
            self._releasing.discard(name)  # what a guard holds by now is to be written down

        def failed(reason: str) -> None:
            log.warning("%s is not released yet: %s", name, reason)
            self._known[name] = seen
            self._releasing.discard(name)

        return Order(_show_again if seen.of_guard else _show_again_unguarded, done, failed)

    def breaches(self) -> dict[str, str]:
        """Tables that a guard holds and the registry does not name it for yet, and why."""
        to_release = {name for name, seen in self._known.items() if seen.of_guard}
        aware = self._named | to_release | self._releasing
        return {
            name: worker.breach
            for name, _, _, worker in self._live()
            if worker.breach and name not in aware
        }

    def _live(self) -> Iterator[tuple[str, str, RevisionWriter, FollowWorker]]:
        for name, revision, writer in self._writers.all():
            worker = self._workers.get(f"{name}@{revision}")
            if writer.live is not None and isinstance(worker, FollowWorker):
                yield name, revision, writer, worker
