"""Export live tables to one target: decide how, do it, check it, publish it.

**How it works.** Each table is pinned to its newest version. If the target claims an older one, the
change in between is applied; if that cannot be exact, for whatever reason (``Rebuild``), the table
is taken whole and the reason is kept. Either way the result is counted and hashed before anybody
sees it: against the claim plus the change, and against every row of the Delta version itself when
it was taken whole, its columns changed, it is small, or ``verify`` says so. One table that fails
leaves the others as good as they are.

**What it does not do.** Decide which tables may leave the house: ``blocked`` is asked for each.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import duckdb

from penstock.errors import PenstockError, ServiceFailed, UsageError, in_a_line
from penstock.export.bench import SCHEME, Workbench
from penstock.export.claim import Claim, Mode, Outcome, Rebuild, Sum
from penstock.export.feed import Net, net_change
from penstock.export.live import Live, keys_of, open_live
from penstock.export.place import export_folder, one_at_a_time
from penstock.export.target import Target
from penstock.runtime.upkeep.claims import Claims
from penstock.serve.catalog import Catalog, TableRef

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["Report", "export_tables"]

SMALL = 1_000_000  # rows up to which every export is compared with all of Delta: in seconds
_HELD_DAYS = 7.0  # an export that has not run for so long takes its tables whole
_STALE = 100  # commits without a change after which a claim is renewed all the same


@dataclass(frozen=True)
class Report:
    """What came of a run."""

    target: str
    place: str
    seconds: float
    tables: list[Outcome] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return not any(outcome.mode in Mode.NOT_DONE for outcome in self.tables)

    def as_dict(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "place": self.place,
            "seconds": self.seconds,
            "done": self.done,
            "tables": [outcome.as_dict() for outcome in self.tables],
        }


def export_tables(
    settings: Settings,
    names: Iterable[str],
    target: Target,
    *,
    full: bool = False,
    verify: bool = False,
    blocked: Callable[[str], str | None] = lambda table: None,
    report: Callable[[str], None] = lambda text: None,
    patience: float = 300.0,
) -> Report:
    """Export tables and publish them together.

    Args:
        names: tables, ``layer.name``; compared with the catalog, never made into paths.
        full: take every table whole.
        verify: compare every row, also of tables that did not change.
        blocked: asked for each table; a text says why it must not be exported now.
        report: told what goes on, a line at a time.
        patience: seconds to wait for another export to the same target.

    Raises:
        UsageError: there is no such table.
        EnvironmentProblem: another export is at work.
    """
    began = time.monotonic()
    catalog = Catalog.load(settings)
    refs = [catalog.find(name.split(".")) for name in names]
    keys, folder = keys_of(settings), export_folder(settings)
    outcomes = []
    with (
        one_at_a_time(folder, target.name, patience, report),
        Workbench(folder / f".scratch-{target.name}") as bench,
    ):
        try:
            claims = target.claims()
            for ref in refs:
                one = _One(target, bench, claims.get(ref.label), full, verify)
                outcome = _outcome(catalog, ref, keys.get(ref.label, ()), one, blocked)
                outcomes.append(outcome)
                report(_said(outcome))
            target.publish(bench)
            _hold(settings, target.name, outcomes)
        finally:
            target.close()
    return Report(target.name, target.place, round(time.monotonic() - began, 3), outcomes)


def _hold(settings: Settings, target: str, outcomes: Iterable[Outcome]) -> None:
    """Let the commits stay that the next export goes on from."""
    claims = Claims(settings.home)
    for outcome in outcomes:
        if outcome.mode not in Mode.NOT_DONE and outcome.delta_version is not None:
            claims.hold(f"export-{target}", outcome.table, outcome.delta_version, days=_HELD_DAYS)


def _outcome(
    catalog: Catalog,
    ref: TableRef,
    keys: tuple[str, ...],
    one: _One,
    blocked: Callable[[str], str | None],
) -> Outcome:
    began = time.monotonic()
    try:
        why = blocked(ref.label)
        if why is not None:
            outcome = Outcome(ref.label, Mode.BLOCKED, why)
        elif not catalog.has_data(ref):
            outcome = Outcome(ref.label, Mode.EMPTY, "nothing has been committed to it yet")
        else:
            outcome = one.export(open_live(catalog, ref, keys))
    except (PenstockError, duckdb.Error, OSError) as error:
        if isinstance(error, UsageError):
            raise
        outcome = Outcome(ref.label, Mode.FAILED, in_a_line(error))
    return replace(outcome, seconds=round(time.monotonic() - began, 3))


@dataclass(frozen=True)
class _Done:
    """How a table came to be what it is now."""

    mode: str
    reason: str
    held: Sum
    verified: str
    inserted: int = 0
    deleted: int = 0
    altered: tuple[str, ...] = ()


class _One:
    """One table on its way to one target."""

    def __init__(
        self, target: Target, bench: Workbench, claim: Claim | None, full: bool, verify: bool
    ) -> None:
        self._target, self._bench, self._claim = target, bench, claim
        self._full, self._verify = full, verify

    def export(self, live: Live) -> Outcome:
        claim = self._claim
        if self._full or claim is None:
            return self._whole(
                live, "asked for" if self._full else "no earlier export of it is there"
            )
        try:
            net = self._net(claim, live)
            if self._at_rest(claim, live, net) and not self._verify:
                return _told(claim, live)
            return self._follow(claim, live, net)
        except Rebuild as why:
            return self._whole(live, why.reason)
        except (duckdb.Error, ServiceFailed) as error:  # what it held is not what it says it holds
            return self._whole(live, f"the exported table cannot be changed ({in_a_line(error)})")

    # --- by what changed --------------------------------------------------------------------
    def _net(self, claim: Claim, live: Live) -> Net | None:
        """The change since the claim; None if it is of the newest version."""
        if claim.table_id != live.table_id:
            raise Rebuild("the live table was made anew")
        if claim.delta_version > live.version:
            raise Rebuild(f"live is at version {live.version}, before {claim.delta_version}")
        if claim.scheme != SCHEME:
            raise Rebuild(f"its checksum was computed by {claim.scheme}, this is {SCHEME}")
        if claim.delta_version == live.version:
            return None
        return net_change(
            self._bench, live.folder, claim.columns, claim.delta_version, live.version
        )

    def _at_rest(self, claim: Claim, live: Live, net: Net | None) -> bool:
        return net is None or (net.nothing and live.version - claim.delta_version < _STALE)

    def _follow(self, claim: Claim, live: Live, net: Net | None) -> Outcome:
        changed = net is not None and not net.nothing
        self._target.begin(self._bench, live)
        try:
            altered: tuple[str, ...] = ()
            expected: Sum | None = claim.sum
            if net is not None and changed:
                altered = self._target.apply(self._bench, live, net)
                expected = None if net.steps else claim.sum + net.sum
            held, verified = self._checked(live, expected)
            if changed and self._target.whole:
                done = _Done(Mode.FULL, "files are written whole", held, verified, held.rows)
            elif net is not None and changed:
                done = _Done(Mode.INCREMENTAL, "", held, verified, net.added, net.gone, altered)
            else:
                done = _Done(Mode.UNCHANGED, "", held, verified)
            return self._keep(live, done)
        except BaseException:
            self._target.drop(self._bench, live)
            raise

    # --- whole ------------------------------------------------------------------------------
    def _whole(self, live: Live, reason: str) -> Outcome:
        self._target.begin(self._bench, live)
        try:
            self._target.replace(self._bench, live)
            held, verified = self._checked(live, None)
            return self._keep(live, _Done(Mode.FULL, reason, held, verified, held.rows))
        except Rebuild as why:
            self._target.drop(self._bench, live)
            raise PenstockError(f"exported whole and yet not equal: {why.reason}") from None
        except BaseException:
            self._target.drop(self._bench, live)
            raise

    # --- both -------------------------------------------------------------------------------
    def _checked(self, live: Live, expected: Sum | None) -> tuple[Sum, str]:
        """What the target holds, compared.

        Raises:
            Rebuild: with less or more than it should.
        """
        held = self._target.measured(self._bench, live)
        if expected is not None and held != expected:
            raise Rebuild(
                f"the stored checksum does not match: {held.rows:,} rows {held.checksum}, "
                f"expected {expected.rows:,} rows {expected.checksum}"
            )
        if expected is None or self._verify or held.rows <= SMALL:
            rows = self._bench.scan(live.columns, live.parts)
            delta = self._bench.sum_of(f"({rows})", live.columns)
            if held != delta:
                raise Rebuild(
                    f"{held.rows:,} rows {held.checksum} differ from version {live.version}: "
                    f"{delta.rows:,} rows {delta.checksum}"
                )
            self._target.prove(self._bench, live)
            return held, "delta"
        rows_now = self._bench.count(live.columns, live.parts)
        if held.rows != rows_now:
            raise Rebuild(f"{held.rows:,} rows, but version {live.version} has {rows_now:,}")
        return held, "feed"

    def _keep(self, live: Live, done: _Done) -> Outcome:
        claim = Claim(
            table=live.table,
            delta_version=live.version,
            revision=live.revision,
            rows=done.held.rows,
            checksum=done.held.checksum,
            exported_at=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
            mode=done.mode,
            rows_written=done.inserted + done.deleted,
            reason=done.reason,
            verified=done.verified,
            columns=live.columns,
            table_id=live.table_id,
            scheme=SCHEME,
        )
        self._target.keep(self._bench, live, claim)
        return replace(
            _told(claim, live),
            mode=done.mode,
            reason=done.reason,
            rows_written=claim.rows_written,
            inserted=done.inserted,
            deleted=done.deleted,
            altered=done.altered,
            verified=done.verified,
        )


def _told(claim: Claim, live: Live) -> Outcome:
    """A table that is left as it is, as its claim has it."""
    return Outcome(
        claim.table,
        Mode.UNCHANGED,
        delta_version=claim.delta_version,
        live_version=live.version,
        revision=claim.revision,
        rows=claim.rows,
        checksum=claim.checksum,
        verified=claim.verified,
    )


def _said(outcome: Outcome) -> str:
    if outcome.rows is None:
        return f"{outcome.table}: {outcome.mode}: {outcome.reason}"
    why = f" ({outcome.reason})" if outcome.reason else ""
    return (
        f"{outcome.table}: version {outcome.delta_version}, {outcome.mode}{why}, "
        f"{outcome.rows_written:,} of {outcome.rows:,} rows written, {outcome.seconds:.2f} s"
    )
