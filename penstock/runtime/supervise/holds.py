"""Holds: which live tables stand still, by command or by a guard of their own."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.kinds.follow import Follower
from penstock.runtime.supervise.worker import FollowWorker, Order, Worker
from penstock.runtime.supervise.writers import Writers

__all__ = ["Holds"]

log = logging.getLogger("penstock.holds")


def _show_again(follower: Follower) -> dict[str, Any]:
    return {"mirrored": follower.release()}


class Holds:
    """Carries holds of the registry out.

    What a guard holds is held by its own commit; a hold in the registry follows, and when that is
    taken away, so is the guard's: of the revision that was live then, for a swap ends a hold, and
    what the guard of the next one stops is its own. A release that fails is tried again for as long
    as we live: the registry knows of no hold any more, so nobody else would.
    """

    def __init__(self, writers: Writers, workers: Mapping[str, Worker]) -> None:
        self._writers = writers
        self._workers = workers
        self._known: dict[str, str] = {}  # which revision was live when a hold was last seen
        self._releasing: set[str] = set()  # told to go on, not yet done

    def look(self, held: Collection[str]) -> None:
        """Live tables that are held stand still; one that is no longer held catches up."""
        for name, revision, writer, worker in self._live():
            if name in held:
                writer.held = True
                self._known[name] = revision
            elif name in self._known and worker.state == "running":  # else nobody would obey
                of = self._known.pop(name)
                # Of another one it ended with the swap, and what a guard stops now came since.
                if of == revision or (writer.held and not worker.breach):
                    self._releasing.add(name)
                    worker.order(self._release(name, revision))
            if not worker.breach:
                self._releasing.discard(name)

    def _release(self, name: str, revision: str) -> Order:
        def failed(reason: str) -> None:
            log.warning("%s is not released yet: %s", name, reason)
            self._known[name] = revision
            self._releasing.discard(name)

        return Order(_show_again, lambda result: None, failed)

    def breaches(self) -> dict[str, str]:
        """Tables that a guard holds and nobody knows of yet, and why."""
        aware = self._known.keys() | self._releasing | self._writers.held
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
