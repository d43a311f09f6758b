"""The revision registry: what should run, who may write, and how it is going. In Postgres.

Nothing here imports Spark: DAGs and the CLI read it too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from penstock.database import Database
from penstock.runtime.beats import Heartbeat, together
from penstock.settings import Settings
from penstock.storable import as_json

__all__ = ["Heartbeat", "Registry", "Revision", "State", "Task"]

_SCHEMA = """
create table if not exists revision (
    table_name    text not null,
    revision      text not null,
    state         text not null check (state in ('candidate', 'live', 'warm', 'retired')),
    bundle        text not null,
    inputs        jsonb not null,
    declared      jsonb not null,
    registered_at timestamptz not null default now(),
    primary key (table_name, revision)
);
create unique index if not exists one_live on revision (table_name) where state = 'live';
alter table revision add column if not exists warm_until timestamptz;
alter table revision add column if not exists retired_at timestamptz;
create table if not exists staging (
    table_name text not null,
    revision   text not null,
    release    text not null,
    how        text not null check (how in ('batch', 'follow')),
    build      text not null check (build in ('building', 'built', 'failed')),
    since      bigint,
    paused     boolean not null default false,
    share      float8 not null default 1,
    told       jsonb not null,
    asked_by   text not null,
    reason     text not null,
    asked_at   timestamptz not null default now(),
    number     bigint generated always as identity,
    primary key (table_name, revision)
);
create table if not exists promotion (
    number       bigint generated always as identity primary key,
    table_name   text not null,
    revision     text not null,
    replaced     text not null,
    verb         text not null,
    release      text not null,
    live_version bigint not null,
    who          text not null,
    why          text not null,
    report       text not null,
    at           timestamptz not null default now(),
    unique (table_name, live_version)
);
create table if not exists comparison (
    number  bigint generated always as identity primary key,
    release text not null,
    report  text not null,
    verdict jsonb not null,
    at      timestamptz not null default now()
);
create table if not exists hold (
    table_name text primary key,
    reason     text not null,
    held_by    text not null,
    held_at    timestamptz not null default now()
);
create table if not exists lease (
    name       text primary key,
    holder     text not null,
    token      bigint not null,
    expires_at timestamptz not null
);
create table if not exists fence (
    one   boolean primary key check (one),
    token bigint not null
);
insert into fence select true, coalesce(max(token), 0) from lease on conflict do nothing;
create table if not exists holding (
    table_name text primary key,
    holder     text not null,
    token      bigint not null,
    held_at    timestamptz not null default now()
);
create table if not exists heartbeat (
    supervisor text primary key,
    state      text not null,
    beat_at    timestamptz not null,
    pid        integer not null,
    streams    jsonb not null
);
create table if not exists task (
    id         bigint generated always as identity primary key,
    table_name text not null,
    verb       text not null,
    arguments  jsonb not null,
    state      text not null default 'asked' check (state in ('asked', 'done', 'failed')),
    result     jsonb,
    asked_by   text not null,
    asked_at   timestamptz not null default now(),
    done_at    timestamptz
);
alter table task add column if not exists taken_at timestamptz;
create index if not exists task_asked on task (id) where state = 'asked';
create table if not exists wish (
    stream   text primary key,
    running  boolean not null,
    restarts integer not null default 0,
    said_by  text not null,
    said_at  timestamptz not null default now()
);
"""


class State:
    """States of a revision; the first three are fed."""

    CANDIDATE, LIVE, WARM, RETIRED = "candidate", "live", "warm", "retired"
    FED = (CANDIDATE, LIVE, WARM)


@dataclass(frozen=True)
class Revision:
    """One version of a definition and the code that is it."""

    table: str
    revision: str
    state: str
    bundle: str
    inputs: dict[str, str]  # input table -> revision it is pinned to; bronze has none
    declared: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """Something an operator asked of the one who writes a table."""

    id: int
    table: str
    verb: str
    arguments: dict[str, Any]
    state: str = "asked"
    result: dict[str, Any] | None = None


class Registry(Database):
    """The registry database."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, "penstock", "the registry database")
        self._seen: dict[tuple[str, ...], tuple[str, list[Revision]]] = {}

    def create(self) -> None:
        """Make the tables; safe to call by several at once."""
        with self.transaction():
            self.run("select pg_advisory_xact_lock(7081)")
            for statement in filter(str.strip, _SCHEMA.split(";")):
                self.run(statement)

    # --- revisions ------------------------------------------------------------------------
    def revisions(self, *, states: tuple[str, ...] = State.FED) -> list[Revision]:
        """In the order they were registered.

        A supervisor asks every second: what is declared, all their schemas, is read again only when
        some row was written since. Postgres tells by the transaction that wrote it.
        """
        ((now,),) = self.run(
            "select coalesce(string_agg(concat_ws(' ', table_name, revision, cast(xmin as text)), "
            "',' order by table_name, revision), '') "
            "from revision where state = any(cast(:states as text[]))",
            states=list(states),
        )
        before, known = self._seen.get(states, (None, []))
        if now != before:
            rows = self.run(
                "select table_name, revision, state, bundle, inputs, declared from revision "
                "where state = any(cast(:states as text[])) order by registered_at, table_name",
                states=list(states),
            )
            known = [Revision(*row) for row in rows]
            self._seen[states] = (now, known)
        return list(known)

    def add_live(self, revision: Revision) -> bool:
        """The first revision of a table goes live; False when the table has a live one already."""
        added = self.run(
            "insert into revision (table_name, revision, state, bundle, inputs, declared) "
            "select :name, :revision, 'live', :bundle, "
            "cast(:inputs as jsonb), cast(:declared as jsonb) "
            "where not exists (select 1 from revision where table_name = :name and state = 'live') "
            "on conflict do nothing returning revision",
            name=revision.table,
            revision=revision.revision,
            bundle=revision.bundle,
            inputs=json.dumps(revision.inputs),
            declared=json.dumps(revision.declared),
        )
        return bool(added)

    def declare(self, table: str, revision: str, declared: dict[str, Any]) -> None:
        """Say anew what is declared of a revision beside its meaning."""
        self.run(
            "update revision set declared = cast(:declared as jsonb) "
            "where table_name = :table_name and revision = :revision",
            declared=json.dumps(declared),
            table_name=table,
            revision=revision,
        )

    # --- the lease ------------------------------------------------------------------------
    def acquire(self, name: str, holder: str, ttl_seconds: float) -> int | None:
        """Take the lease if it is free or over; returns the new, higher token, or None."""
        row = self.run(
            "insert into lease (name, holder, token, expires_at) "
            "values (:name, :holder, 1, clock_timestamp() + make_interval(secs => :ttl)) "
            "on conflict (name) do update set holder = excluded.holder, "
            "token = lease.token + 1, expires_at = excluded.expires_at "
            "where lease.expires_at < clock_timestamp() returning token",
            name=name,
            holder=holder,
            ttl=ttl_seconds,
        )
        return int(row[0][0]) if row else None

    def renew(self, name: str, holder: str, token: int, ttl_seconds: float) -> bool:
        """Prolong our own lease; False when it is somebody else's by now."""
        return bool(
            self.run(
                "update lease set expires_at = clock_timestamp() + make_interval(secs => :ttl) "
                "where name = :name and holder = :holder and token = :token returning token",
                name=name,
                holder=holder,
                token=token,
                ttl=ttl_seconds,
            )
        )

    def give_up(self, name: str, holder: str, token: int) -> None:
        """Leave cleanly: the next one need not wait for the lease to run out."""
        self.run(
            "update lease set expires_at = clock_timestamp() - interval '1 second' "
            "where name = :name and holder = :holder and token = :token",
            name=name,
            holder=holder,
            token=token,
        )

    # --- signs of life --------------------------------------------------------------------
    def beat(self, supervisor: str, state: str, pid: int, streams: list[dict[str, Any]]) -> None:
        self.run(
            "insert into heartbeat (supervisor, state, beat_at, pid, streams) "
            "values (:supervisor, :state, clock_timestamp(), :pid, cast(:streams as jsonb)) "
            "on conflict (supervisor) do update set state = excluded.state, "
            "beat_at = excluded.beat_at, pid = excluded.pid, streams = excluded.streams",
            supervisor=supervisor,
            state=state,
            pid=pid,
            streams=as_json(streams),
        )
        self.run("delete from heartbeat where beat_at < clock_timestamp() - interval '1 day'")

    def heartbeats(self) -> list[Heartbeat]:
        rows = self.run(
            "select supervisor, state, extract(epoch from clock_timestamp() - beat_at)::float8, "
            "pid, streams, exists (select 1 from lease where holder = supervisor and "
            "expires_at >= clock_timestamp()) from heartbeat order by beat_at desc"
        )
        return [Heartbeat(*row) for row in rows]

    def heartbeat(self) -> Heartbeat | None:
        """What the supervisors that work come to."""
        return together(self.heartbeats())

    # --- what operators ask for -----------------------------------------------------------
    def wishes(self) -> dict[str, tuple[bool, int]]:
        """Per stream: should it run, and how often was a restart asked for."""
        return {
            row[0]: (row[1], row[2])
            for row in self.run("select stream, running, restarts from wish")
        }

    def wish(self, stream: str, *, running: bool, restart: bool, said_by: str) -> None:
        self.run(
            "insert into wish (stream, running, restarts, said_by) "
            "values (:name, :running, :restart, :said_by) on conflict (stream) do update set "
            "running = excluded.running, restarts = wish.restarts + excluded.restarts, "
            "said_by = excluded.said_by, said_at = now()",
            name=stream,  # `stream` is a word pg8000 keeps for itself
            running=running,
            restart=int(restart),
            said_by=said_by,
        )

    # --- tasks: what only the writer of a table can do ------------------------------------
    def ask(self, table: str, verb: str, arguments: dict[str, Any], asked_by: str) -> int:
        """Leave a task for the supervisor; returns its number."""
        rows = self.run(
            "insert into task (table_name, verb, arguments, asked_by) "
            "values (:table_name, :verb, cast(:arguments as jsonb), :asked_by) returning id",
            table_name=table,
            verb=verb,
            arguments=json.dumps(arguments),
            asked_by=asked_by,
        )
        return int(rows[0][0])

    def tasks(self, ids: list[int] | None = None) -> list[Task]:
        """The tasks of these numbers, or all that wait."""
        columns = "select id, table_name, verb, arguments, state, result from task "
        if ids is None:
            rows = self.run(columns + "where state = 'asked' order by id")
        else:
            rows = self.run(columns + "where id = any(cast(:ids as bigint[])) order by id", ids=ids)
        return [Task(*row) for row in rows]

    def take(self, task: int) -> bool:
        """A supervisor begins a task; False when it is done or taken back by now.

        One that a crash interrupted is taken again.
        """
        rows = self.run(
            "update task set taken_at = now() where id = :task and state = 'asked' returning id",
            task=task,
        )
        return bool(rows)

    def take_back(self, task: int, reason: str) -> bool:
        """Whoever asked gives a task up; False when somebody has begun it, or done it."""
        rows = self.run(
            "update task set state = 'failed', result = cast(:result as jsonb), done_at = now() "
            "where id = :task and state = 'asked' and taken_at is null returning id",
            result=as_json({"error": reason}),
            task=task,
        )
        return bool(rows)

    def finish(self, task: int, result: dict[str, Any], *, failed: bool = False) -> None:
        self.run(
            "update task set state = :state, result = cast(:result as jsonb), done_at = now() "
            "where id = :task and state = 'asked'",
            state="failed" if failed else "done",
            result=as_json(result),
            task=task,
        )
