"""Running the marts: one session, one dbt, one at a time per stack.

**Purpose.** `penstock marts` and the DAG of that name.

**How it works.** The wrapper takes the stack's marts lock, builds a session with the metastore,
gives the live tables that marts read their names, works out what each incremental mart has to read,
and lets dbt build everything in that session, one model after the other. Models are Delta tables
below ``warehouse/marts``; only this process writes them. All other tables get their names last:
people ask for them by name, the marts do not wait for it.

**What it does not do.** Stop a stream, hold a live table or pin one: streams go on while marts run.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.alone import alone
from penstock.marts.dbt import Dbt
from penstock.marts.places import LAYER, Places
from penstock.marts.positions import position_of
from penstock.marts.register import Registered, register_live
from penstock.marts.result import Outcome, built_of, fresh_of, tested_of
from penstock.marts.session_method import owned
from penstock.platform.files import private_folder
from penstock.serve.catalog import Catalog
from penstock.settings import Settings
from penstock.spark.session import build_session

if TYPE_CHECKING:
    from dbt_common.events.base_types import EventMsg
    from pyspark.sql import SparkSession

__all__ = ["Marts", "at_work", "one_run_at_a_time"]

Report = Callable[[str], None]

# Unit tests are of the SQL, not of the data: `penstock marts test`. Exposures are only declared.
_NOT_BUILT = ("--exclude-resource-type", "unit_test", "--exclude-resource-type", "exposure")


@contextmanager
def one_run_at_a_time(settings: Settings, wait: float, report: Report) -> Iterator[None]:
    """Hold the marts of this stack; two runs would write the same tables.

    Raises:
        EnvironmentProblem: another run has them, and still had after ``wait`` seconds.
    """
    with alone(
        private_folder(settings.run) / "marts.lock",
        patience=wait,
        report=report,
        waiting="waiting for another run of the marts (pid {pid})",
        refused="the marts of this stack are being run already (pid {pid}).",
        remedy="Wait for it: --wait 600 waits up to ten minutes.",
    ):
        yield


@contextmanager
def at_work(settings: Settings, *, wait: float = 0.0, report: Report) -> Iterator[Marts]:
    """Marts ready to run, alone, in a session of their own; then names for all other tables."""
    places = Places.of(settings)
    with one_run_at_a_time(settings, wait, report):
        places.make()
        report("starting Spark")
        session = build_session(
            settings, "penstock-marts", memory="1500m", quiet=True, modest=True, metastore=True
        )
        try:
            with owned(session):
                marts = Marts(settings, places, session, report)
                yield marts
                marts.name_the_rest()
        finally:
            session.stop()


@dataclass
class Marts:
    """The marts of one stack and the session they are made in."""

    settings: Settings
    places: Places
    session: SparkSession
    report: Report
    _total: int = 0
    _done: int = 0
    _counting: bool = False
    _registered: Registered | None = None
    _hows: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dbt = Dbt(self.places, self._watch)

    def register(self) -> Registered:
        """Names for the live tables that the marts read."""
        if self._registered is None:
            read = self.dbt.sources()
            done = register_live(self.session, self.settings, read, only=read)
            self._registered = done
            self.report(
                f"the marts read {len(read)} tables by name: {len(done.changed)} names changed, "
                f"{len(done.empty)} tables have no data yet"
            )
        return self._registered

    def name_the_rest(self) -> Registered:
        """Names for all tables of the warehouse; those of tables that are gone go."""
        done = register_live(self.session, self.settings, self.dbt.sources())
        self.report(
            f"{len(done.tables)} tables have names, {len(done.changed)} of them new or moved"
        )
        return done

    def build(self, select: Sequence[str] = (), *, full: bool = False) -> Outcome:
        """Models, snapshots and their tests, in order; what fails skips only what needs it."""
        begun, registered = time.monotonic(), self.register()
        chosen = self.dbt.selected(select)
        self._positions(chosen, full=full)
        words = [*_NOT_BUILT, *_selection(select)]
        results = list(self._counted("build", [*words, *(["--full-refresh"] if full else [])]))
        passed, failed = tested_of(results)
        return Outcome(
            models=built_of(results, self.places.tables, self._hows),
            tests_passed=passed,
            tests=failed,
            tables=len(registered.tables),
            empty=registered.empty,
            seconds=round(time.monotonic() - begun, 1),
        )

    def test(self, select: Sequence[str] = ()) -> Outcome:
        """Data tests and unit tests; nothing is built."""
        begun, registered = time.monotonic(), self.register()
        passed, failed = tested_of(self._counted("test", _selection(select)))
        return Outcome(
            tests_passed=passed,
            tests=failed,
            tables=len(registered.tables),
            empty=registered.empty,
            seconds=round(time.monotonic() - begun, 1),
        )

    def freshness(self) -> Outcome:
        """How old the newest rows of the live tables are."""
        begun, registered = time.monotonic(), self.register()
        words = ["--exclude", *(f"source:{name}" for name in registered.empty)]
        found = self._counted(("source", "freshness"), words if registered.empty else [])
        return Outcome(
            fresh=fresh_of(found, registered.empty),
            tables=len(registered.tables),
            empty=registered.empty,
            seconds=round(time.monotonic() - begun, 1),
        )

    def docs(self) -> Path:
        """The site: one page that needs nothing beside it."""
        self.register()
        self.report("writing the docs")
        self.dbt.call(("docs", "generate"), ["--static"])
        self.places.site.mkdir(parents=True, exist_ok=True)
        page, fresh = self.places.site / "index.html", self.places.site / ".index.new"
        shutil.copyfile(self.places.target / "static_index.html", fresh)
        fresh.replace(page)
        return page

    def _positions(self, chosen: set[str], *, full: bool) -> None:
        catalog = Catalog.load(self.settings)
        refs = [r for r in catalog if r.layer != LAYER and catalog.has_data(r)]
        live = {ref.label: catalog.folder(ref) for ref in refs}
        for follower in self.dbt.followers(chosen):
            position = position_of(self.session, follower, live, full=full)
            self.dbt.positions[follower.mart] = position.as_dict()
            self._hows[follower.mart] = how = _how(position)
            self.report(f"{LAYER}.{follower.mart}: {how}")

    # --- progress -------------------------------------------------------------------------
    def _counted(self, verb: str | Sequence[str], words: Sequence[str]) -> Iterator[Any]:
        self._total, self._done, self._counting = 0, 0, True
        try:
            answer = self.dbt.call(verb, words)
        finally:
            self._counting = False
        yield from getattr(answer, "results", ())

    def _watch(self, event: EventMsg) -> None:
        """A line per node that is done; dbt calls this for everything it could log."""
        if event.info.name == "ConcurrencyLine":
            self._total = int(event.data.node_count) if self._counting else 0
        elif event.info.name == "NodeFinished" and self._counting:
            self._done += 1
            of = f"{self._done}/{self._total}" if self._total else f"{self._done}"
            node, ended = event.data.node_info, event.data.run_result
            seconds = f"{ended.execution_time:.1f} s"
            self.report(f"{of:>7}  {node.node_status:<8} {node.node_name}  {seconds}")


def _how(position: Any) -> str:
    if position.rebuild:
        return f"everything ({position.why})"
    scopes = len(position.touched)
    return f"{scopes} touched {'scope' if scopes == 1 else 'scopes'} ({position.why})"


def _selection(select: Sequence[str]) -> list[str]:
    # A test of two models waits for both: of one that is not there it would only fail.
    return ["--select", *select, "--indirect-selection", "buildable"] if select else []
