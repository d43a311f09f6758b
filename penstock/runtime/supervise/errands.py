"""Tasks of the registry, given to whoever can carry them out here, each once."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.runtime.kinds.follow import Follower
from penstock.runtime.registry import Registry, State, Task
from penstock.runtime.supervise.operate import OPERATIONS, Operator
from penstock.runtime.supervise.tasks import VERBS
from penstock.runtime.supervise.worker import FollowWorker, Order

if TYPE_CHECKING:
    from penstock.runtime.supervise.streams import Streams

__all__ = ["Answer", "Errands", "tables_of"]

Answer = tuple[int, dict[str, Any], bool]  # number, result, failed


def tables_of(task: Task) -> list[str]:
    """The tables a task is about."""
    listed = task.arguments.get("to") or task.arguments.get("revisions") or []
    return [table for table, _ in listed] or [task.table]


class Errands:
    """What one supervisor was asked to do.

    Args:
        answers_for: whether a table is this supervisor's.
    """

    def __init__(self, streams: Streams, answers_for: Callable[[str], bool], slot: int) -> None:
        self._streams = streams
        self._answers_for = answers_for
        self._slot = slot
        self._operator: Operator | None = None
        self._given: set[int] = set()
        self._operating: set[int] = set()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()

    @property
    def busy(self) -> bool:
        """True while an operation on several writers goes on."""
        return bool(self._operating)

    def hand_out(self, tasks: list[Task], take: Callable[[int], bool]) -> None:
        """Give each task to the operator, or to the worker of its table's live revision, once.

        Args:
            take: notes that a task is begun; False when whoever asked has taken it back.
        """
        for task in tasks:
            if task.id in self._given:
                continue
            if task.verb in OPERATIONS:
                self._operate(task, take)
                continue
            if self._gone(task):
                self._given.add(task.id)
                gone = f"{task.table}@{task.arguments['revision']} is not fed any more."
                self.keep((task.id, {"error": gone, "usage": True}, True))
                continue
            worker = self._worker_of(task)
            if worker is None or worker.stopping or worker.state not in ("running", "parked"):
                continue  # it may be about to start, or be somebody else's; the task waits
            if not take(task.id):
                continue
            self._given.add(task.id)
            if worker.state == "parked":
                self.keep((task.id, {"error": f"it is parked: {worker.error}"}, True))
            elif task.verb not in VERBS:
                self.keep((task.id, {"error": f"nobody knows how to {task.verb}"}, True))
            else:
                worker.order(self._order(task))

    def _operate(self, task: Task, take: Callable[[int], bool]) -> None:
        ours = [self._answers_for(table) for table in tables_of(task)]
        if task.arguments.get("slot", self._slot) != self._slot or not ours[0]:
            return
        if not take(task.id):
            return
        self._given.add(task.id)
        if not all(ours):
            moved = "its tables are with several supervisors by now; try again."
            self.keep((task.id, {"error": moved}, True))
            return
        self._operating.add(task.id)
        self._operator_thread().give(task)

    def _order(self, task: Task) -> Order:
        def run(table: Follower) -> dict[str, Any]:
            return VERBS[task.verb](table, task.arguments)

        def done(result: dict[str, Any]) -> None:
            self.keep((task.id, result, False))

        def failed(reason: str) -> None:
            self.keep((task.id, {"error": reason}, True))

        return Order(run, done, failed)

    def _worker_of(self, task: Task) -> FollowWorker | None:
        wanted = task.arguments.get("revision")
        for (table, revision), known in self._streams.writers.revisions.items():
            mine = known.state == State.LIVE if wanted is None else revision == wanted
            if table == task.table and mine:
                worker = self._streams.workers.get(f"{table}@{revision}")
                return worker if isinstance(worker, FollowWorker) else None
        return None

    def _gone(self, task: Task) -> bool:
        """Whether it asks for a revision that nobody will ever start."""
        wanted, known = task.arguments.get("revision"), self._streams.writers.revisions
        ours = wanted is not None and self._answers_for(task.table)
        return ours and any(t == task.table for t, _ in known) and (task.table, wanted) not in known

    def _operator_thread(self) -> Operator:
        if self._operator is None:
            settings = self._streams.settings
            self._operator = Operator(
                self._streams.world, self._operated, lambda: Registry(settings)
            )
            self._operator.start()
        return self._operator

    def _operated(self, task: int, result: dict[str, Any], failed: bool) -> None:
        self.keep((task, result, failed))
        self._operating.discard(task)

    def keep(self, answer: Answer) -> None:
        """An answer that could not be told is told later."""
        self._answers.put(answer)

    def answers(self) -> list[Answer]:
        """Tasks that were carried out since the last time."""
        found = []
        while not self._answers.empty():
            found.append(self._answers.get())
        return found

    def stop(self) -> None:
        if self._operator is not None:
            self._operator.stop()
