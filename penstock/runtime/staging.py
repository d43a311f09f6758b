"""What is on its way to being live, what was promoted, and what is held: kept in the registry.

Nothing here imports Spark: DAGs and the CLI read it too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from penstock.errors import UsageError
from penstock.model.duration import LONGEST
from penstock.runtime.registry import Registry, Revision, State

__all__ = ["Build", "Candidate", "Hold", "How", "Promotion", "Staging"]

_COLUMNS = (
    "table_name, revision, release, how, build, since, paused, share, told, asked_by, reason, "
    "asked_at::text"
)
_LONGEST = LONGEST.total_seconds()


class How:
    """How a candidate gets its history: computed as a batch, or by following its input."""

    BATCH, FOLLOW = "batch", "follow"


class Build:
    """How far a candidate's history is."""

    BUILDING, BUILT, FAILED = "building", "built", "failed"


@dataclass(frozen=True)
class Candidate:
    """One staged revision."""

    table: str
    revision: str
    release: str  # those staged together are promoted together
    how: str
    build: str = Build.BUILDING
    since: int | None = None  # its history begins here, in microseconds; None: at the beginning
    paused: bool = False
    share: float = 1.0  # of the time it may work while it has a long way to go
    told: dict[str, Any] = field(default_factory=dict)  # progress, or what went wrong
    asked_by: str = ""
    reason: str = ""
    asked_at: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Promotion:
    """One swap of a live table."""

    table: str
    revision: str
    replaced: str
    verb: str
    release: str
    live_version: int
    who: str
    why: str
    report: str
    at: str


@dataclass(frozen=True)
class Hold:
    """A live table that stands still while its revision goes on."""

    QUALITY: ClassVar[str] = "quality"  # who holds, when a check failed
    GUARD: ClassVar[str] = "a guard"  # who holds, when a batch broke one

    table: str
    reason: str
    held_by: str
    held_at: str

    @property
    def holders(self) -> frozenset[str]:
        """Everybody who holds it: some join those who did before."""
        return frozenset(self.held_by.split(", "))

    @property
    def by_itself(self) -> bool:
        """Whether nobody asked for it: a check or a guard found something in what was shown."""
        return self.holders <= {self.QUALITY, self.GUARD}


class Staging:
    """The tables of the registry that say what changes; on the registry's own connection."""

    def __init__(self, registry: Registry) -> None:
        self._run = registry.run
        self._transaction = registry.transaction

    # --- candidates -----------------------------------------------------------------------
    def candidates(self, release: str | None = None) -> list[Candidate]:
        """Staged revisions that are still candidates, in the order they were staged."""
        rows = self._run(
            f"select {_COLUMNS} from staging s join revision r using (table_name, revision) "  # noqa: S608
            "where r.state = 'candidate' and (cast(:release as text) is null "
            "or s.release = :release) order by s.number",
            release=release,
        )
        return [Candidate(*row) for row in rows]

    def add(self, staged: Sequence[tuple[Revision, Candidate]]) -> None:
        """Stage revisions together: all of them, or none because one table has another already."""
        with self._transaction():
            self._run("lock table revision in share row exclusive mode")
            for revision, candidate in staged:
                self._refuse_second(revision)
                self._add(revision, candidate)

    def _refuse_second(self, revision: Revision) -> None:
        others = self._run(
            "select revision, state from revision where table_name = :name "
            "and (state = 'candidate' or revision = :revision)",
            name=revision.table,
            revision=revision.revision,
        )
        for other, state in others:
            remedy = f"Promote it, or give it up: `penstock abort {revision.table}`."
            if state != State.CANDIDATE:
                remedy = "See `penstock releases`; a warm revision comes back by `rollback`."
            raise UsageError(f"{revision.table} has {state} revision {other}.", remedy=remedy)

    def _add(self, revision: Revision, candidate: Candidate) -> None:
        self._run(
            "insert into revision (table_name, revision, state, bundle, inputs, declared) values "
            "(:name, :revision, 'candidate', :bundle, cast(:inputs as jsonb), "
            "cast(:declared as jsonb))",
            name=revision.table,
            revision=revision.revision,
            bundle=revision.bundle,
            inputs=json.dumps(revision.inputs),
            declared=json.dumps(revision.declared),
        )
        self._run(
            "insert into staging (table_name, revision, release, how, build, since, share, told, "
            "asked_by, reason) values (:name, :revision, :release, :how, :build, :since, :share, "
            "'{}', :asked_by, :reason)",
            name=candidate.table,
            revision=candidate.revision,
            release=candidate.release,
            how=candidate.how,
            build=candidate.build,
            since=candidate.since,
            share=candidate.share,
            asked_by=candidate.asked_by,
            reason=candidate.reason,
        )

    def tell(
        self,
        table: str,
        revision: str,
        told: Mapping[str, Any] | None = None,
        *,
        build: str | None = None,
        how: str | None = None,
    ) -> None:
        """Say how a candidate's history is coming along."""
        self._run(
            "update staging set told = told || cast(:told as jsonb), "
            "build = coalesce(:build, build), how = coalesce(:how, how) "
            "where table_name = :name and revision = :revision",
            told=json.dumps(dict(told or {}), default=str),
            build=build,
            how=how,
            name=table,
            revision=revision,
        )

    def pace(self, table: str, *, paused: bool | None = None, share: float | None = None) -> bool:
        """Pause, resume or throttle a candidate; False when the table has none."""
        return bool(
            self._run(
                "update staging s set paused = coalesce(:paused, paused), "
                "share = coalesce(:share, share) from revision r "
                "where r.table_name = s.table_name and r.revision = s.revision "
                "and r.state = 'candidate' and s.table_name = :name returning s.revision",
                paused=paused,
                share=share,
                name=table,
            )
        )

    # --- revisions change their state -------------------------------------------------------
    def promoted(self, done: Promotion, keep_warm_seconds: float | None) -> None:
        """The live table shows another revision now: say so, and keep the other one warm."""
        with self._transaction():
            self._run(
                "update revision set state = 'warm', warm_until = case when "
                "cast(:keep as float8) is null then null else now() + make_interval(secs => :keep) "
                "end where table_name = :name and state = 'live' and revision <> :revision",
                name=done.table,
                revision=done.revision,
                # A commit of earlier may ask for more than a clock can tell: it is live already.
                keep=None if keep_warm_seconds is None else min(keep_warm_seconds, _LONGEST),
            )
            self._run(
                "update revision set state = 'live', warm_until = null "
                "where table_name = :name and revision = :revision",
                name=done.table,
                revision=done.revision,
            )
            self._run(
                "insert into promotion (table_name, revision, replaced, verb, release, "
                "live_version, who, why, report) values (:name, :revision, :replaced, :verb, "
                ":release, :version, :who, :why, :report) on conflict do nothing",
                name=done.table,
                revision=done.revision,
                replaced=done.replaced,
                verb=done.verb,
                release=done.release,
                version=done.live_version,
                who=done.who,
                why=done.why,
                report=done.report,
            )

    def promotions(
        self, table: str | None = None, most: int | None = None, *, release: str | None = None
    ) -> list[Promotion]:
        """Swaps, the newest first: all of them, or of a table, of a release, the newest few."""
        rows = self._run(
            "select table_name, revision, replaced, verb, release, live_version, who, why, report, "
            "at::text from promotion "
            "where (cast(:name as text) is null or table_name = :name) "
            "and (cast(:release as text) is null or release = :release) "
            "order by number desc limit cast(:most as bigint)",
            name=table,
            release=release,
            most=most,
        )
        return [Promotion(*row) for row in rows]

    def move(self, table: str, revision: str, *, to: str) -> None:
        """Retire a warm revision, or forget a candidate."""
        self._run(
            "update revision set state = :state, retired_at = now() "
            "where table_name = :name and revision = :revision and state <> 'live'",
            state=to,
            name=table,
            revision=revision,
        )

    def forget(self, table: str, revision: str) -> None:
        """A revision whose bytes are gone."""
        for kept_in in ("staging", "revision"):
            self._run(
                f"delete from {kept_in} where table_name = :name and revision = :revision",  # noqa: S608
                name=table,
                revision=revision,
            )

    def droppable(self, keep_seconds: float) -> list[tuple[str, str]]:
        """Retired revisions that live has not shown for as long as readers may go back."""
        rows = self._run(
            "select r.table_name, r.revision from revision r where r.state = 'retired' "
            "and r.retired_at < now() - make_interval(secs => :keep) and not exists ("
            "select 1 from promotion p where p.table_name = r.table_name "
            "and r.revision in (p.replaced, p.revision) "
            "and p.at > now() - make_interval(secs => :keep))",
            keep=keep_seconds,
        )
        return [(row[0], row[1]) for row in rows]

    def overdue(self) -> list[tuple[str, str]]:
        """Warm revisions that have been kept for as long as was promised."""
        rows = self._run(
            "select table_name, revision from revision where state = 'warm' and warm_until < now()"
        )
        return [(row[0], row[1]) for row in rows]

    def warm(self) -> list[dict[str, Any]]:
        """Warm revisions, and until when they are kept."""
        rows = self._run(
            "select table_name, revision, warm_until::text from revision where state = 'warm' "
            "order by warm_until, table_name"
        )
        return [{"table": row[0], "revision": row[1], "until": row[2]} for row in rows]

    # --- comparisons ------------------------------------------------------------------------
    def compared(self, release: str, report: str, verdict: Mapping[str, Any]) -> None:
        self._run(
            "insert into comparison (release, report, verdict) "
            "values (:release, :report, cast(:verdict as jsonb))",
            release=release,
            report=report,
            verdict=json.dumps(dict(verdict), default=str),
        )

    def comparison(self, release: str) -> tuple[str, dict[str, Any]] | None:
        """The newest comparison of a release: where its report is, and what it came to."""
        rows = self._run(
            "select report, verdict from comparison where release = :release "
            "order by number desc limit 1",
            release=release,
        )
        return (rows[0][0], rows[0][1]) if rows else None

    # --- holds ------------------------------------------------------------------------------
    def holds(self) -> dict[str, Hold]:
        rows = self._run("select table_name, reason, held_by, held_at::text from hold")
        return {row[0]: Hold(*row) for row in rows}

    def hold(self, table: str, reason: str, held_by: str) -> None:
        """The first reason stays: it is the one to look into.

        What a check holds, a check that passes lets go; not where a guard or a person holds it too.
        A person joins whatever holds by itself, so that neither a check nor a swap ends it. A guard
        joins everybody: who releases what it stopped must have been able to read of it.
        """
        self._run(
            "insert into hold (table_name, reason, held_by) values (:name, :reason, :held_by) "
            "on conflict (table_name) do update set "
            "held_by = hold.held_by || ', ' || excluded.held_by, "
            "reason = hold.reason || '; ' || excluded.reason "
            "where hold.held_by = :quality and excluded.held_by <> :quality "
            "or hold.held_by in (:guard, :both) and excluded.held_by not in (:quality, :guard) "
            "or excluded.held_by = :guard and "
            "strpos(', ' || hold.held_by || ', ', ', ' || :guard || ', ') = 0",
            name=table,
            reason=reason,
            held_by=held_by,
            quality=Hold.QUALITY,
            guard=Hold.GUARD,
            both=f"{Hold.QUALITY}, {Hold.GUARD}",
        )

    def release(self, table: str, held_by: str | None = None) -> bool:
        """Let a table go on; False when it is not held, or by somebody else than ``held_by``."""
        return bool(
            self._run(
                "delete from hold where table_name = :name and "
                "(cast(:held_by as text) is null or held_by = :held_by) returning reason",
                name=table,
                held_by=held_by,
            )
        )
