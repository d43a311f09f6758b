"""Releases: what was staged together is compared, promoted, taken back and retired together.

The gates stand here. The work itself is done by the supervisor, which holds the tables' leases
(``runtime/supervise/operate.py``); a release whose promotion was interrupted is finished by asking
again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from penstock.errors import QualityFailed, UsageError
from penstock.quality.gate import standing
from penstock.reprocess.approved import done_already, require_undone
from penstock.reprocess.comparing import compared, verdict_of
from penstock.reprocess.comparison import Wishes
from penstock.reprocess.interrupted import newest_swaps, rest_of
from penstock.reprocess.report import written
from penstock.reprocess.retiring import retired
from penstock.reprocess.status import statuses
from penstock.reprocess.stopped import leads_past, refuse_stopped, stopped
from penstock.runtime.registry import Registry, Revision, State
from penstock.runtime.staging import Candidate, Promotion, Staging
from penstock.runtime.supervise.ends import referenced
from penstock.settings import Settings

__all__ = ["Ask", "NotWithin", "Releases", "not_within"]

# Leaves a task for the supervisor and waits for what it comes to.
Ask = Callable[[str, str, dict[str, Any]], dict[str, Any]]


KEEP_WARM = dt.timedelta(hours=24)


class NotWithin(UsageError):
    """A comparison found more differences than it may."""

    exit_code = 12


def not_within(message: str, remedy: str, undecided: Sequence[str]) -> NotWithin:
    """The error, with what to do first where late rows keep anybody from telling."""
    if not undecided:
        return NotWithin(message, remedy=remedy)
    first = ", ".join(f"`penstock reconcile {table}`" for table in undecided)
    return NotWithin(
        f"{message} Late rows are pending for too many of those that differ.",
        remedy=f"Reconcile first: {first}; then compare again. {remedy}",
    )


class Releases:
    """Everything that happens to releases after they were staged."""

    def __init__(self, settings: Settings, registry: Registry, ask: Ask, who: str) -> None:
        self.settings = settings
        self.registry = registry
        self.staging = Staging(registry)
        self.who = who
        self._ask = ask

    # --- which release ----------------------------------------------------------------------
    def staged(self, table: str | None, release: str | None = None) -> list[Candidate]:
        """The candidates of the release that has this table; of the only one without it.

        With a name, those of that release.
        """
        every = self.staging.candidates(release)
        if not every:
            what = "nothing" if release is None else f"nothing of release {release}"
            raise UsageError(f"{what} is staged.", remedy="See `penstock plan`, then stage it.")
        releases = {c.release for c in every if table is None or c.table == table}
        if not releases:
            raise UsageError(f"{table} has no candidate.", remedy=f"`penstock stage {table}`")
        if len(releases) > 1:
            listed = ", ".join(sorted({c.table for c in every}))
            raise UsageError(f"several releases are staged ({listed}).", remedy="Name a table.")
        (found,) = releases
        return [c for c in every if c.release == found]

    def _known(self, release: str) -> tuple[list[Candidate], dict[str, Promotion]]:
        """What is left of a release, and the newest swap of each table it has moved."""
        left, swaps = self.staging.candidates(release), newest_swaps(self.staging, release)
        if not left and not swaps and self.staging.comparison(release) is None:
            raise UsageError(
                f"there is no release {release}: none of that name is staged, was compared or "
                "promoted.",
                remedy="See `penstock releases` and `penstock stage --status`.",
            )
        return left, swaps

    def _comes_back(self, swap: Promotion) -> str:
        """How a rollback is taken back, where naming its table means just this one."""
        table = swap.table
        newest = next((p for p in self.staging.promotions(table) if p.verb != "repair"), None)
        if newest != swap or self._meant(table):
            return ""
        again = (p for p in self._of_release(swap.release) if p.verb == "rollback")
        if any(stopped(self.settings, p.table, p.replaced) for p in again):
            return ""
        return f"`penstock promote {table} --why '...'`"

    def _live(self) -> dict[str, Revision]:
        return {r.table: r for r in self.registry.revisions(states=(State.LIVE,))}

    # --- compare ------------------------------------------------------------------------------
    def compare(
        self, table: str | None, wishes: Wishes, *, release: str | None = None
    ) -> dict[str, Any]:
        """Compare a release with what is live; keeps the report and returns it."""
        candidates = self.staged(table, release)
        self._require_ready(candidates)
        release = candidates[0].release
        wanted = {c.table: c.revision for c in candidates}
        # As a list: their order is that of their inputs, and a JSON object has none.
        told = self._ask(candidates[0].table, "pin", {"to": list(wanted.items())})
        pins = told["pins"]
        reports = compared(self.settings, self.registry, candidates, pins, wishes)
        at = dt.datetime.now(dt.UTC)
        told = {
            "title": f"{', '.join(wanted)}: candidate against live",
            "release": release,
            "at": f"{at:%Y-%m-%d %H:%M:%S}Z",
            "who": self.who,
            "within": all(report.within for report in reports),
            "tables": [report.as_dict() for report in reports],
        }
        told |= written(self.settings, told, at)
        self.staging.compared(release, told["page"], verdict_of(told, pins))
        return told

    def _require_ready(self, candidates: Sequence[Candidate]) -> None:
        found = statuses(self.settings, self.registry, candidates[0].release)
        for status in found:
            if status.state != "ready":
                raise UsageError(
                    f"{status.table}@{status.revision} is not ready: {status.state}.",
                    remedy="Look at `penstock stage --status`.",
                )

    # --- promote, roll back -------------------------------------------------------------------
    def promote(
        self,
        table: str | None,
        *,
        why: str,
        accept: str | None,
        accept_quality: str | None = None,
        keep_warm: dt.timedelta | None,
        release: str | None = None,
    ) -> dict[str, Any]:
        """Let the live tables of a release show its candidates, if nothing speaks against it.

        With a name it is that release or none; one that is live already is done.
        """
        keep = None if keep_warm is None else keep_warm.total_seconds()
        if release is not None:
            left, swaps = self._known(release)
            done = done_already(release, left, swaps, self._live(), self._comes_back)
            if done is not None:
                return self._left(self._of_release(release), why, keep) or done
            undecided = self._unfinished([release], keep)
        else:
            undecided = self._unfinished(self._meant(table), keep) or self._again(table, why, keep)
        if undecided is not None:
            return undecided
        candidates = self.staged(table, release)
        self._require_ready(candidates)
        release = candidates[0].release
        wanted = {c.table: c.revision for c in candidates}
        page, verdict = self._verdict(release, wanted)
        self._require_unmoved(verdict)
        partial = [c.table for c in candidates if c.since is not None]
        if accept is None and partial:
            raise NotWithin(
                f"{', '.join(partial)}: its history is partial, rows from before it would go.",
                remedy="Stage it from BEGINNING, or add --accept-differences 'why'.",
            )
        if accept is None and not verdict.get("alike", verdict["within"]):
            raise not_within(
                f"the comparison is not within its thresholds: {verdict['unexpected']}.",
                f"Look at {page}; then abort, or add --accept-differences 'why'.",
                verdict.get("undecided", ()),
            )
        if accept_quality is None:
            self._require_quality(release, wanted, verdict, page)
        reason = why if accept is None else f"{why} (differences accepted: {accept})"
        reason += f" (failed checks accepted: {accept_quality})" if accept_quality else ""
        report = str(Path(page).relative_to(self.settings.home))  # a log outlives where home is
        decided = {"verb": "promote", "release": release, "why": reason, "report": report}
        return self._swap(wanted, verdict["live"], {**decided, "keep_warm_seconds": keep})

    def _require_quality(
        self, release: str, wanted: Mapping[str, str], verdict: Mapping[str, Any], page: str
    ) -> None:
        """No candidate failed a blocking check, when it was compared or last looked at since."""
        failed = {
            table: {
                *verdict.get("quality", {}).get(table, ()),
                *(standing(self.settings, table, revision) or ()),
            }
            for table, revision in wanted.items()
        }
        listed = "; ".join(f"{t}: {', '.join(sorted(n))}" for t, n in failed.items() if n)
        if listed:
            raise QualityFailed(
                f"the candidate fails blocking checks. {listed}.",
                remedy=f"Look at {page}; mend and compare again, or `penstock promote --release "
                f"{release} --why '...' --accept-quality 'why'`, with what else was accepted.",
            )

    def _verdict(self, release: str, wanted: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
        known = self.staging.comparison(release)
        if known is None or known[1]["candidates"] != wanted:
            raise UsageError(
                "the candidates were not compared with what is live yet.",
                remedy="Run `penstock compare`.",
            )
        return known

    def _require_unmoved(self, verdict: Mapping[str, Any]) -> None:
        """Nobody promoted a touched table since it was compared."""
        live = self._live()
        for table, revision in verdict["live"].items():
            if live[table].revision == revision:
                continue
            last = next(iter(self.staging.promotions(table, 1)), None)
            who = f": {last.who} promoted {last.revision} at {last.at}" if last else ""
            raise UsageError(
                f"{table} is not what it was compared with{who}.",
                remedy="Run `penstock compare` again.",
            )

    def _meant(self, table: str | None) -> Iterable[str]:
        """Releases that may be half way: that of the table's own candidate, else what moved it."""
        left = self.staging.candidates()
        own = dict.fromkeys(c.release for c in left if table in (None, c.table))
        return own or [
            name for name in dict.fromkeys(c.release for c in left)
            if table in newest_swaps(self.staging, name)
        ]  # fmt: skip

    def _unfinished(self, releases: Iterable[str], keep: float | None) -> dict[str, Any] | None:
        """Finish the first of these that was promoted in part, as it was decided."""
        for release in releases:
            _, verdict = self.staging.comparison(release) or ("", {})
            left, swaps = self.staging.candidates(release), newest_swaps(self.staging, release)
            rest = rest_of(left, swaps, verdict, self.registry.revisions())
            if rest is not None:
                decided = {"verb": "promote", "release": release, "report": rest.report}
                again = {"why": rest.why, "keep_warm_seconds": keep}
                return self._swap(rest.wanted, rest.expected, {**decided, **again})
        return None

    def _again(self, table: str | None, why: str, keep: float | None) -> dict[str, Any] | None:
        """What was rolled back and is wanted after all, or was not swapped to its end."""
        staged = {c.table for c in self.staging.candidates()}
        if staged if table is None else table in staged:
            return None
        newest = self._newest_of_release(table)
        if any(one.verb == "rollback" for one in newest):
            return self._undo(newest, "rollback", "promote", why, keep)
        return self._finished(newest, why, keep)

    def _finished(
        self, newest: Sequence[Promotion], why: str, keep: float | None
    ) -> dict[str, Any] | None:
        """Swap what lies beside tables that were swapped; None if nothing of that was left."""
        live = self._live()
        if not newest or any(live[p.table].revision != p.revision for p in newest):
            return None
        warm = {(r.table, r.revision) for r in self.registry.revisions(states=(State.WARM,))}
        if any((p.table, p.replaced) not in warm for p in newest):
            return None
        told = self._swap(
            {p.table: p.revision for p in newest},
            {p.table: p.replaced for p in newest},
            _taken_up(newest[0], newest[0].verb, why, keep),
        )
        return told if any(t["beside"] or "version" in t for t in told["tables"]) else None

    def _left(
        self, newest: Sequence[Promotion], why: str, keep: float | None
    ) -> dict[str, Any] | None:
        """Finish a swap that left files of the other revision behind; None if none did."""
        if any(referenced(self.settings, one.table, one.replaced) for one in newest):
            return self._finished(newest, why, keep)
        return None

    def _swap(
        self, wanted: Mapping[str, str], expected: Mapping[str, str], decided: Mapping[str, Any]
    ) -> dict[str, Any]:
        told = {"to": list(wanted.items()), "expected": dict(expected), "who": self.who, **decided}
        return self._ask(next(iter(wanted)), "swap", told)

    def rollback(
        self, table: str | None, *, why: str, release: str | None = None
    ) -> dict[str, Any]:
        """Let the live tables of the last release show again what they showed before it.

        With a name it is that release: to go back further than the last, and past what a guard
        stopped.
        """
        newest = self._newest_of_release(table) if release is None else self._of_release(release)
        if not newest:
            what = "nothing" if release is None else f"no release {release}"
            raise UsageError(f"{what} was promoted yet.", remedy="See `penstock releases`.")
        keep = KEEP_WARM.total_seconds()
        if all(one.verb == "rollback" for one in newest):
            if (told := self._left(newest, why, keep)) is not None:
                return told
            back = self._comes_back(newest[0])
            raise UsageError(
                f"{newest[0].table} was rolled back at {newest[0].at}, by {newest[0].who}.",
                remedy=(f"To take that back: {back}. " if back else "") + "To go back further: "
                "`penstock rollback --release NAME --why '...'`, one of `penstock releases`.",
            )
        named = release is not None
        return self._undo(newest, "promote", "rollback", why, keep, named=named)

    def _undo(
        self, newest: Sequence[Promotion], undone: str, verb: str, why: str, keep: float | None,
        *, named: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Take back the last swap of those tables of a release for which it is ``undone``.

        The others are where they should be already: an earlier try was interrupted.
        """
        live = self._live()
        chosen = [one for one in newest if one.verb == undone]
        moved = [one.table for one in chosen if live[one.table].revision != one.revision]
        if moved and not (named and leads_past(self.settings, self.staging, chosen, live)):
            raise UsageError(
                f"{', '.join(moved)}: promoted again since then.",
                remedy="Roll back the newer release first: `penstock releases`.",
            )
        warm = {(r.table, r.revision) for r in self.registry.revisions(states=(State.WARM,))}
        for one in chosen:
            if (one.table, one.replaced) not in warm:
                raise UsageError(
                    f"{one.table}: revision {one.replaced} is not warm any more.",
                    remedy="Stage the code of that time anew.",
                )
        refuse_stopped(self.settings, self.staging, chosen, live)
        return self._swap(
            {one.table: one.replaced for one in chosen},
            {one.table: live[one.table].revision for one in chosen},
            _taken_up(chosen[0], verb, why, keep),
        )

    def _newest_of_release(self, table: str | None) -> list[Promotion]:
        """The newest swap of each table of the last release, each after those it reads."""
        swaps = self.staging.promotions(table)
        last = next((one for one in swaps if one.verb != "repair"), None)
        if last is None:
            return []
        return self._of_release(last.release)

    def _of_release(self, release: str) -> list[Promotion]:
        mine, live = newest_swaps(self.staging, release), self._live()
        reads = {name: set(live[name].inputs) & set(mine) for name in mine if name in live}
        return [mine[name] for name in TopologicalSorter(reads).static_order()]

    # --- ends ---------------------------------------------------------------------------------
    def abort(self, table: str | None, *, release: str | None = None) -> dict[str, Any]:
        """Give up a release that was never live, at any stage.

        With a name it is that release; one that is given up already is done.
        """
        if release is not None:
            candidates, swaps = self._known(release)
            require_undone(release, candidates, swaps)
            if not candidates:
                return {"dropped": []}
        else:
            candidates = self.staged(table)
        listed = [(c.table, c.revision) for c in reversed(candidates)]
        return self._ask(candidates[0].table, "drop", {"revisions": listed})

    def retire(self, table: str) -> list[dict[str, str]]:
        """Stop feeding the warm revision of a table, and of what reads it; bytes go later."""
        return retired(self.settings, self.registry, self.staging, table)


def _taken_up(swap: Promotion, verb: str, why: str, keep: float | None) -> dict[str, Any]:
    """What is decided about a release that was swapped before."""
    told = {"verb": verb, "release": swap.release, "why": why, "report": ""}
    return {**told, "keep_warm_seconds": keep}
