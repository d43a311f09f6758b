"""All services of one stack: started in order of need, side by side where they can be.

**How it works.** `up` takes the stack's lock, writes what is missing (secrets, stack.json), and
starts every service as soon as those it needs are ready. A service that fails leaves the others
running and is reported with its reason; those that need it are skipped. `down` stops in the reverse
order and leaves all data.

**Interrupting.** Services run in sessions of their own, so ctrl-C reaches only the command: it
stops waiting, ends half-done set-up steps, and leaves what runs. `up` goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from penstock.errors import EnvironmentProblem, PenstockError, ServiceFailed, UsageError
from penstock.platform.files import write_private
from penstock.platform.lock import stack_lock
from penstock.platform.process import PidFile
from penstock.platform.secrets import ensure_secrets
from penstock.platform.service import Interrupted, Service, Status
from penstock.platform.services import SERVICES
from penstock.platform.spec import PlatformSpec
from penstock.settings import MOST_SUPERVISORS, Settings

__all__ = ["Event", "Stack"]


@dataclass(frozen=True)
class Event:
    """Something to show: a service's new state and, while it works, what it is doing.

    States: waiting, working, started, unchanged, failed, skipped, stopping, stopped.
    """

    service: str
    state: str
    detail: str = ""


ReportEvent = Callable[[Event], None]


def _silent(event: Event) -> None:
    """Report nothing."""


class Stack:
    """The embedded platform of one PENSTOCK_HOME."""

    def __init__(self, settings: Settings, spec: PlatformSpec | None = None) -> None:
        self.settings = settings
        self.spec = (spec or PlatformSpec.load(settings.project)).with_copies(settings.copies)
        self.services: dict[str, Service] = {
            name: SERVICES[one.base or name](settings, self.spec, name)
            for name, one in self.spec.services.items()
            if (one.base or name) in SERVICES
        }

    # --- which services ---------------------------------------------------------------------------
    def select(self, only: Sequence[str] | None = None, without: Sequence[str] = ()) -> list[str]:
        """The names to act on; what is asked for brings what it needs with it."""
        for name in (*(only or ()), *without):
            if name not in self.services:
                raise UsageError(
                    f"there is no service named {name!r}.",
                    remedy=f"Services: {', '.join(self.services)}.",
                )
        only = None if only is None else self._all_of(only)
        without = self._all_of(without)
        chosen = self._with_needs(only) if only is not None else set(self.services)
        names = [name for name in self.services if name in chosen and name not in without]
        for name in names:
            for needed in self.spec.services[name].needs:
                if needed in without:
                    raise UsageError(
                        f"{name} needs {needed}, so it cannot run without it.",
                        remedy=f"Leave both out: --without {needed},{name}.",
                    )
        return names

    def _all_of(self, names: Iterable[str]) -> list[str]:
        """With the copies of those that there are several of: one is of no use by itself."""
        asked = set(names)
        return [name for name in self.services if {name, self.spec.services[name].base} & asked]

    def _with_needs(self, names: Iterable[str]) -> set[str]:
        found: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += self.spec.services[name].needs
        return found

    # --- up ---------------------------------------------------------------------------------------
    def up(
        self,
        only: Sequence[str] | None = None,
        report: ReportEvent = _silent,
        *,
        without: Sequence[str] = (),
    ) -> None:
        """Start what is not running. Raises the first failure after everything else was tried."""
        names = self.select(only, without)
        with stack_lock(self.settings, lambda text: report(Event("", "working", text))):
            self._remember()
            ensure_secrets(self.settings, self.spec)
            for name in names:
                report(Event(name, "waiting"))
            failures = self._start_all(names, report)
        if failures:
            raise _joined(failures)

    def _remember(self) -> None:
        """Save what was chosen, so that later commands need no environment variable."""
        file = self.settings.home / "stack.json"
        offset = self.settings.port_offset
        warehouse = "" if self.settings.bucket is None else self.settings.bucket.uri
        try:
            known = json.loads(file.read_text())
            saved, place = int(known["port_offset"]), known.get("warehouse", "")
            brokers = int(known.get("brokers", 1))
        except (FileNotFoundError, KeyError, ValueError, TypeError):
            saved, place, brokers = offset, warehouse, 1
        self._require_same_brokers(brokers)
        if place != warehouse:
            # What the registry and the stores know is of the tables there.
            raise EnvironmentProblem(
                f"the tables of this stack are in {place or 'its home'}, not in "
                f"{warehouse or 'its home'}.",
                remedy="Unset PENSTOCK_WAREHOUSE, or start another stack with its own "
                "PENSTOCK_HOME.",
            )
        if saved != offset and any(self._runs(service) for service in self.services.values()):
            raise EnvironmentProblem(
                f"this stack is running with port offset {saved}, not {offset}.",
                remedy="Run `penstock down` first, or unset PENSTOCK_PORT_OFFSET.",
            )
        self._require_no_surplus()
        chosen = {
            "port_offset": offset,
            "warehouse": warehouse,
            "brokers": self.settings.brokers,
            "supervisors": self.settings.supervisors,
        }
        write_private(file, json.dumps(chosen) + "\n")

    def _require_no_surplus(self) -> None:
        """A supervisor more than are asked for would go on, and nobody would know of it."""
        for number in range(self.settings.supervisors + 1, MOST_SUPERVISORS + 1):
            recorded = PidFile(self.settings.run / f"supervisor-{number}.pid").read()
            if recorded is not None and recorded.is_running():
                raise EnvironmentProblem(
                    f"supervisor-{number} is running, and only {self.settings.supervisors} should.",
                    remedy="Run `penstock down` first.",
                )

    def _require_same_brokers(self, saved: int) -> None:
        """Brokers that hold data agreed on who votes: with other ones they could lose it."""
        formatted = any(self.settings.data.glob("kafka*/formatted-by-penstock"))
        if formatted and saved != self.settings.brokers:
            raise EnvironmentProblem(
                f"Kafka of this stack was made with {saved} broker{'s' if saved > 1 else ''}, "
                f"not {self.settings.brokers}.",
                remedy=f"Run `penstock up --brokers {saved}`, or start another stack with its own "
                "PENSTOCK_HOME.",
            )

    @staticmethod
    def _runs(service: Service) -> bool:
        recorded = service.pid_file.read()
        return recorded is not None and recorded.is_running()

    def _start_all(self, names: list[str], report: ReportEvent) -> dict[str, PenstockError]:
        waiting, done = list(names), set[str]()
        failures: dict[str, PenstockError] = {}
        with ThreadPoolExecutor(max_workers=max(len(names), 1)) as pool:
            running: dict[Future[bool], str] = {}
            try:
                while waiting or running:
                    self._skip_hopeless(waiting, failures, report)
                    for name in [n for n in waiting if self._may_start(n, names, done)]:
                        waiting.remove(name)
                        running[pool.submit(self._start_one, name, report)] = name
                    finished, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in finished:
                        name = running.pop(future)
                        self._settle(name, future, done, failures, report)
            except KeyboardInterrupt:
                for service in self.services.values():
                    service.cancelled.set()
                raise
        return failures

    def _may_start(self, name: str, names: list[str], done: set[str]) -> bool:
        return all(need in done or need not in names for need in self.spec.services[name].needs)

    def _skip_hopeless(
        self, waiting: list[str], failures: dict[str, PenstockError], report: ReportEvent
    ) -> None:
        for name in list(waiting):
            broken = [need for need in self.spec.services[name].needs if need in failures]
            if broken:
                waiting.remove(name)
                report(Event(name, "skipped", f"needs {broken[0]}"))
                failures[name] = ServiceFailed(f"{name} was skipped: {broken[0]} is not running.")

    def _start_one(self, name: str, report: ReportEvent) -> bool:
        report(Event(name, "working"))
        return self.services[name].ensure(lambda text: report(Event(name, "working", text)))

    def _settle(
        self,
        name: str,
        future: Future[bool],
        done: set[str],
        failures: dict[str, PenstockError],
        report: ReportEvent,
    ) -> None:
        try:
            started = future.result()
        except PenstockError as error:
            failures[name] = error
            report(Event(name, "failed", error.message))
        except Interrupted:
            failures[name] = ServiceFailed(f"{name} was interrupted.")
        else:
            done.add(name)
            report(Event(name, "started" if started else "unchanged"))

    # --- down and status --------------------------------------------------------------------------
    def down(self, report: ReportEvent = _silent) -> list[str]:
        """Stop everything, dependents first; the names of those that were running."""
        stopped: list[str] = []
        with stack_lock(self.settings, lambda text: report(Event("", "working", text))):
            for layer in self._layers():
                with ThreadPoolExecutor(max_workers=len(layer)) as pool:
                    results = pool.map(lambda name: self._stop_one(name, report), layer)
                    stopped += [n for n, was in zip(layer, results, strict=True) if was]
        return stopped

    def _stop_one(self, name: str, report: ReportEvent) -> bool:
        service = self.services[name]
        if service.pid_file.read() is None:
            return False
        report(Event(name, "stopping"))
        was_running = service.stop()
        report(Event(name, "stopped"))
        return was_running

    def _layers(self) -> list[list[str]]:
        """Services in an order of stopping: each layer holds those nobody left still needs."""
        left = list(self.services)
        layers = []
        while left:
            needed = {need for name in left for need in self.spec.services[name].needs}
            layer = [name for name in left if name not in needed]
            layers.append(layer)
            left = [name for name in left if name not in layer]
        return layers

    def status(self) -> list[Status]:
        with ThreadPoolExecutor(max_workers=len(self.services)) as pool:
            return list(pool.map(lambda service: service.status(), self.services.values()))


def _joined(failures: dict[str, PenstockError]) -> PenstockError:
    """The first real failure, with the others counted: one sentence, one next step."""
    real = [error for error in failures.values() if error.remedy] or list(failures.values())
    first = real[0]
    more = f" ({len(failures) - 1} more not started: " if len(failures) > 1 else ""
    if more:
        others = [name for name, error in failures.items() if error is not first]
        more += f"{', '.join(others)})"
    return type(first)(first.message.rstrip(".") + more, remedy=first.remedy)
