"""Exchanging what a live table shows, and what the tables beside it show, while both stand.

Mostly the difference of the two revisions is known before, and live stands still only while it is
brought up to date. Where the old revision does not run, or is held so that live shows less than it
has, the new one is compared with what live shows; live stands still already: nobody waits for that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError, UsageError
from penstock.location import delta_table
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.log import DeltaLog, commit_metadata
from penstock.runtime.delta.repair import show_again
from penstock.runtime.delta.swap import brought_up, difference, promoted, swap
from penstock.runtime.delta.writer import RevisionWriter, live_path
from penstock.runtime.kinds.guards import GUARD
from penstock.runtime.staging import Hold
from penstock.runtime.supervise.standing import Move, Stands, World
from penstock.runtime.supervise.worker import FollowWorker

__all__ = ["Decision", "Exchange", "Known", "differences"]

Known = dict[str, tuple[Change, int, int]]

# A hold nobody knew of when it was asked: a guard's, of the last batch. In a second or two it is
# known, and what it holds back is gone past; let go, it would be shown. Whoever tries again by
# himself, as Airflow does, may: nothing was asked wrongly.
_AGAIN = "Type it again."
_PARTS = ("table", "quarantine", "late", "outcomes")


def differences(world: World, move: Move, scratch: Path) -> Known:
    """The difference of a table and of those beside it, while everything goes on."""
    if move.as_shown:
        return {}
    olds = _writers(world.worker(move.table, move.old.revision))
    news = _writers(world.worker(move.table, move.new.revision))
    found = {}
    for name, old in olds.items():
        new, at = news[name], old.log.version
        until = new.log.version
        found[name] = (difference(old, at, new, until, scratch), at, until)
    return found


def _writers(worker: FollowWorker) -> dict[str, RevisionWriter]:
    context = worker.context
    if context is None:
        raise UsageError(
            f"{worker.name} is {worker.state}: {worker.error or 'not yet running'}.",
            remedy="See `penstock streams`.",
        )
    return {
        "table": context.writer,
        "quarantine": context.broken,
        "late": context.late,
        "outcomes": context.outcomes,
    }


@dataclass(frozen=True)
class Decision:
    """What was decided about a release, as its commits and the registry keep it."""

    verb: str
    release: str
    who: str
    why: str
    report: str
    keep_warm_seconds: float | None

    def info(self, move: Move) -> dict[str, Any]:
        return {
            "operation": f"PENSTOCK {self.verb.upper()}",
            "replaced": move.old.revision,
            "code": move.new.bundle,
            **asdict(self),
        }


@dataclass(frozen=True)
class Exchange:
    """One decision being carried out, while everybody stands."""

    world: World
    stands: Stands
    decision: Decision
    scratch: Path
    holds: Mapping[str, Hold] = field(default_factory=dict)  # by table, when it was decided

    def require_free(self, moves: Sequence[Move]) -> None:
        """Every table can be swapped, and so can what lies beside it.

        A guard may have tripped in the last batch of one, or an earlier swap is not finished yet.
        Refused before the first is swapped, this is no release in part.
        """
        for move in moves:
            self._require_standing(move)
            for part in _PARTS:
                old, new = self._pair(move, part)
                if part == "table":
                    _require_unguarded(move, old, new)
                if not move.as_shown:
                    _require_shown(old, new, move)

    def swap_table(self, move: Move, known: Known) -> dict[str, Any]:
        """Swap a table itself; one that a crash left swapped is left as it is."""
        stand = self.stands[move.table, move.new.revision]
        keys = stand.call(lambda follower: follower.context.definition.keys)
        told: dict[str, Any] = {
            "table": move.table,
            "from": move.old.revision,
            "to": move.new.revision,
        }
        _, new = self._pair(move, "table")
        swapped = self._swapped(move, "table", known, keys)
        if swapped is not None:
            told |= swapped
            told["files"] = len(new.log.snapshot().file_uris())
        return told

    def swap_beside(self, move: Move, known: Known) -> list[str]:
        """Swap the tables beside it; returns those that were not swapped yet."""
        done = []
        for part in _PARTS[1:]:
            try:
                if self._swapped(move, part, known, ()) is not None:
                    done.append(part)
            except PenstockError as error:
                raise PenstockError(
                    f"{move.table} shows {move.new.revision} now, but its {part} table does not "
                    f"yet: {error.message}",
                    remedy=f"{error.remedy} Then finish: "
                    f"`penstock {self.decision.verb} --release {self.decision.release} "
                    "--why '...'`.",
                ) from error
        return done

    def _swapped(
        self, move: Move, part: str, known: Known, keys: Sequence[str]
    ) -> dict[str, Any] | None:
        """Let one live log show the other revision; None if it does already."""
        old, new = self._pair(move, part)
        if new.live is not None:
            return None
        with self._locked(move, old, new):
            if move.as_shown:
                return self._as_shown(move, old, new, keys)
            _require_shown(old, new, move)
            assert old.live is not None  # noqa: S101 - it shows one of them, and not the new one
            if old.held:
                raise PenstockError(f"{move.table} is held.", remedy=_AGAIN)
            began = time.monotonic()
            change, old_version, new_version = known[part]
            net = brought_up(change, old, old_version, new, new_version)
            ready = time.monotonic()
            old.catch_up_mirror()
            version = swap(old.live, new, net, keys, self._info(move))
            new.show(old.hide())
        return {
            "version": version,
            "changed": net.rows,
            "update_seconds": round(ready - began, 3),
            "commit_seconds": round(time.monotonic() - ready, 3),
        }

    def _as_shown(
        self, move: Move, old: RevisionWriter, new: RevisionWriter, keys: Sequence[str]
    ) -> dict[str, Any]:
        """The same where live shows less than the old revision has, or nobody knows what."""
        began = time.monotonic()
        path = live_path(self.world.settings.warehouse, old.name)
        live = DeltaLog.take(path, self.world.token_of(move.table))
        told = show_again(new, live, tuple(keys), self._info(move), self.scratch)
        old.live = None
        old.held = bool(
            old.position(GUARD)
        )  # a hold is of live; what a guard stopped stays stopped
        return {**told, "commit_seconds": round(time.monotonic() - began, 3)}

    def keep_held(self, move: Move) -> None:
        """Somebody holds the table, whatever it shows: the new one must not go on either."""
        self._pair(move, "table")[1].held = True

    # --- the hold it ends -------------------------------------------------------------------
    def _info(self, move: Move) -> dict[str, Any]:
        """The commit tells which hold ends with it: it may be another try that sees to that."""
        hold = self.holds.get(move.table)
        ends = {"ends": asdict(hold)} if hold is not None and hold.by_itself else {}
        return {**self.decision.info(move), **ends}

    def ends(self, move: Move, hold: Hold) -> bool:
        """Whether an earlier try has swapped away what this hold is of.

        Not if somebody joined it since, or if a guard has stopped the new one too.
        """
        new = self._pair(move, "table")[1]
        if new.position(GUARD):
            return False
        path = live_path(self.world.settings.warehouse, new.name)
        version = delta_table(path).transaction_version(promoted(new.revision))
        try:
            told = {} if version is None else commit_metadata(path, version)
        except FileNotFoundError:  # so old that upkeep has cleared it away
            return False
        return bool(told.get("ends") == asdict(hold))

    # --- who stands -------------------------------------------------------------------------
    def _require_standing(self, move: Move) -> None:
        for revision in (move.old, move.new):
            stand = self.stands.get((move.table, revision.revision))
            if stand is not None:
                stand.require()

    @contextmanager
    def _locked(self, move: Move, old: RevisionWriter, new: RevisionWriter) -> Iterator[None]:
        """A stand that lapsed must not commit in between."""
        with old.log.lock, new.log.lock:
            self._require_standing(move)
            yield

    def _pair(self, move: Move, part: str) -> tuple[RevisionWriter, RevisionWriter]:
        """The writers of both revisions of a table, or of one of those beside it."""
        stand = self.stands.get((move.table, move.old.revision))
        if stand is None:
            old = self.world.writer(move.table, move.old.revision, part)
        else:
            old = _writers(stand.worker)[part]
        return old, _writers(self.stands[move.table, move.new.revision].worker)[part]


def _require_unguarded(move: Move, old: RevisionWriter, new: RevisionWriter) -> None:
    if new.live is not None:
        return  # swapped before a crash: what is held now is held of this one
    if new.held:
        raise UsageError(
            f"{move.new.revision} is what a guard of {move.table} stopped.",
            remedy="Mend the code, then stage it.",
        )
    if old.held and not move.as_shown:
        raise PenstockError(
            f"{move.table} is held: a guard stopped {move.old.revision}.",
            remedy=_AGAIN,
        )


def _require_shown(old: RevisionWriter, new: RevisionWriter, move: Move) -> None:
    if old.live is None and new.live is None:
        raise UsageError(
            f"the live log of {old.name} shows neither {move.old.revision} nor "
            f"{move.new.revision}: an earlier swap of {move.table} was not finished.",
            remedy=f"See `penstock releases {move.table}`; finish that one first.",
        )
