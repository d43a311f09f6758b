"""The replication slot behind every captured database, watched: a lost one is raised, never silent.

Purpose: what a slot does not hold, nobody will ever deliver. A slot that was dropped and made again
looks healthy; the changes between are gone.

How it works: Connect commits its position together with the records, and only then lets the slot
move on. So the slot's ``confirmed_flush_lsn`` is never ahead of Connect's own position, unless
somebody dropped, recreated or advanced the slot. Debezium compares the two whenever it starts (a
missing slot, or one that begins after its position, fails the task for good) and never starts anew
by itself, so the evidence waits for whoever looks. Every few seconds the supervisor looks at
``pg_replication_slots`` and holds it against what it saw last, which it keeps in the registry
database; Connect is asked only while the slot is not being read or its reader has changed. What
means that changes may be missing is a *lasting* alarm: it stays, over restarts too, until an
operator compares (``penstock audit``) or accepts it. What may pass by itself (nobody reads the
slot) is shown as long as it is so.

What it does not do: mend anything. Known limitation: Debezium lets a slot that was *advanced*
(``pg_replication_slot_advance``, ``pg_logical_slot_get_changes``: superuser or REPLICATION only)
pass; it is found if a look comes before Connect has read on, else by the next audit.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pg8000.native

from penstock.errors import PenstockError
from penstock.runtime.ingest.connectors import (
    Capture,
    Connector,
    Reading,
    captures,
    source_database,
)
from penstock.runtime.registry import Registry
from penstock.settings import Settings

__all__ = [
    "Alarm",
    "Finding",
    "Ledger",
    "Look",
    "SlotWatch",
    "judge",
    "look_at",
    "lsn_number",
    "lsn_text",
]

log = logging.getLogger("penstock.slots")

LOOK_SECONDS = 5.0
IDLE_SECONDS = 60.0  # a slot nobody reads for so long is told


def lsn_number(text: str) -> int:
    """``16/B374D848`` as the number Debezium and comparisons use."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(number: int) -> str:
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


# --- one look ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Look:
    """A slot and its server at one moment; ``confirmed`` is 0 where there is no slot."""

    exists: bool
    system: str
    timeline: int
    written: int  # where the server's own log ends, on disk
    active: bool = False
    pid: int | None = None
    confirmed: int = 0
    wal_status: str = ""
    invalid: str = ""
    idle_seconds: float = 0.0


@dataclass(frozen=True)
class Finding:
    """Something an operator should know; lasting when changes may be missing."""

    text: str
    lasting: bool


_LOOK = """
select s.slot_name is not null,
       (select system_identifier from pg_control_system())::text,
       ('x' || substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8))::bit(32)::int,
       pg_current_wal_flush_lsn()::text,
       coalesce(s.active, false), s.active_pid, s.confirmed_flush_lsn::text,
       coalesce(s.wal_status, ''), coalesce(s.invalidation_reason, ''),
       coalesce(extract(epoch from clock_timestamp() - s.inactive_since), 0)::float8
from (select 1) one left join pg_replication_slots s on s.slot_name = :slot
"""


def look_at(connection: pg8000.native.Connection, slot: str) -> Look:
    exists, system, timeline, written, active, pid, confirmed, wal, invalid, idle = connection.run(
        _LOOK, slot=slot
    )[0]
    return Look(
        exists=exists,
        system=system,
        timeline=timeline,
        written=lsn_number(written),
        active=active,
        pid=pid,
        confirmed=lsn_number(confirmed) if confirmed else 0,
        wal_status=wal,
        invalid=invalid,
        idle_seconds=round(idle, 1),
    )


def judge(
    before: Look | None, now: Look, reading: Reading | None, *, at_once: bool = True
) -> list[Finding]:
    """What a look tells, given the one before it.

    Args:
        reading: what Connect said *after* the look; None when it was not asked.
        at_once: the two looks are so close that no worker can have come and gone between them.
    """
    found = [*_server_findings(before, now), *_slot_findings(before, now)]
    position = reading.position if reading is not None else None
    if now.exists and position is not None and now.confirmed > position:
        found.append(
            Finding(
                f"the slot stands at {lsn_text(now.confirmed)}, but only changes up to "
                f"{lsn_text(position)} were delivered: it was recreated or advanced",
                lasting=True,
            )
        )
    elif at_once and _moved_unread(before, now) and reading is not None and position is None:
        found.append(
            Finding(
                f"the slot moved to {lsn_text(now.confirmed)} while nobody of ours read it: "
                "it was recreated or advanced",
                lasting=True,
            )
        )
    if reading is not None and reading.trouble:
        lost = "no longer available on the server" in reading.trouble
        found.append(Finding(f"its connector failed: {reading.trouble}", lasting=lost))
    return found


def _server_findings(before: Look | None, now: Look) -> list[Finding]:
    """Is it the same database, and is it where it was?"""
    if before is None:
        return []
    if (before.system, before.timeline) != (now.system, now.timeline):
        return [Finding("the source is another database now, or a restored one", lasting=True)]
    if now.written < before.written:
        text = f"from {lsn_text(before.written)} to {lsn_text(now.written)}"
        return [Finding(f"the source database was set back, {text}", lasting=True)]
    return []


def _slot_findings(before: Look | None, now: Look) -> list[Finding]:
    if not now.exists:
        if before is None or not before.exists:
            return []  # nothing was captured yet, or it was told when it went
        since = lsn_text(before.confirmed)
        return [Finding(f"the slot is gone; changes after {since} are lost", lasting=True)]
    if now.invalid or now.wal_status == "lost":
        reason = now.invalid or "wal_removed"
        return [Finding(f"Postgres gave the slot up ({reason}): changes are lost", lasting=True)]
    if now.wal_status == "unreserved":
        return [Finding("Postgres is about to give the slot up: it is too far behind", False)]
    if not now.active and now.idle_seconds > IDLE_SECONDS:
        text = f"nobody has read the slot for {now.idle_seconds:.0f} s; is Connect running?"
        return [Finding(text, lasting=False)]
    return []


def _moved_unread(before: Look | None, now: Look) -> bool:
    if before is None or not (before.exists and now.exists):
        return False
    return not before.active and not now.active and now.confirmed > before.confirmed


# --- what is remembered -----------------------------------------------------------------------
@dataclass(frozen=True)
class Alarm:
    """Changes of a topic may be missing; stands until somebody compared or accepted it."""

    id: int
    connector: str
    topic: str
    text: str


_SCHEMA = (
    "create table if not exists slot_look ("
    " connector text primary key, seen jsonb not null, seen_at timestamptz not null)",
    "create table if not exists cdc_alarm ("
    " id bigint generated always as identity primary key,"
    " connector text not null, topic text not null, said text not null,"
    " raised_at timestamptz not null default now(),"
    " closed_at timestamptz, closed_by text)",
    "create unique index if not exists one_open_alarm on cdc_alarm (topic, said)"
    " where closed_at is null",
)


class Ledger(Registry):
    """The registry database's part about change capture."""

    def prepare(self) -> None:
        with self.transaction():
            self.run("select pg_advisory_xact_lock(7082)")
            for statement in _SCHEMA:
                self.run(statement)

    def last_look(self, connector: str) -> Look | None:
        rows = self.run("select seen from slot_look where connector = :name", name=connector)
        return Look(**rows[0][0]) if rows else None

    def keep_look(self, connector: str, look: Look) -> None:
        self.run(
            "insert into slot_look (connector, seen, seen_at) "
            "values (:name, cast(:seen as jsonb), now()) on conflict (connector) "
            "do update set seen = excluded.seen, seen_at = excluded.seen_at",
            name=connector,
            seen=json.dumps(asdict(look)),
        )

    def open_alarms(self, topic: str | None = None) -> list[Alarm]:
        rows = self.run(
            "select id, connector, topic, said from cdc_alarm where closed_at is null "
            "and (cast(:topic as text) is null or topic = :topic) order by id",
            topic=topic,
        )
        return [Alarm(*row) for row in rows]

    def raise_alarm(self, connector: str, topic: str, text: str) -> bool:
        """False when it stands already."""
        rows = self.run(
            "insert into cdc_alarm (connector, topic, said) values (:connector, :topic, :said) "
            "on conflict do nothing returning id",
            connector=connector,
            topic=topic,
            said=text,
        )
        return bool(rows)

    def close_alarms(self, alarms: Sequence[Alarm], by: str) -> None:
        """Only these: one raised meanwhile is about something else."""
        self.run(
            "update cdc_alarm set closed_at = now(), closed_by = :closer "
            "where id = any(cast(:ids as bigint[])) and closed_at is null",
            ids=[alarm.id for alarm in alarms],
            closer=by,
        )


# --- the watch --------------------------------------------------------------------------------
class SlotWatch:
    """A thread of the supervisor that looks at every slot and keeps the alarms."""

    def __init__(self, settings: Settings, looks: Callable[[], bool] = lambda: True) -> None:
        self._settings = settings
        self._looks = looks  # one supervisor looks; the others show what it found
        self._captures = captures(settings.project)
        self._ledger = Ledger(settings)
        self._shown: dict[str, str] = {}  # topic -> what to show of it
        self._passing: dict[str, str] = {}  # connector -> what passes by itself
        self._looked: dict[str, float] = {}  # connector -> when, by this process
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live, name="slots", daemon=True)

    def start(self) -> None:
        if self._captures:
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def marked(self, statuses: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Stream entries, with an alarm on those whose topic has one."""
        shown = self._shown
        return [
            {**entry, "alarm": shown[entry["topic"]]} if entry.get("topic") in shown else entry
            for entry in statuses
        ]

    def _live(self) -> None:
        prepared = False
        while not self._stopping.is_set():
            try:
                if not prepared:
                    self._ledger.prepare()
                    prepared = True
                self.look()
            except PenstockError as error:  # a database that is away is told by others
                log.debug("%s", error)
            except Exception:
                log.exception("looking at the slots failed; the next look tries again")
            self._stopping.wait(LOOK_SECONDS)
        self._ledger.close()

    def look(self) -> None:
        """Look once at every slot; raise what is new and show what stands."""
        for capture in self._captures if self._looks() else []:
            self._look_at(capture)
        shown = {t: text for c in self._captures for t, text in self._passing_of(c)}
        standing: dict[str, list[str]] = {}
        for alarm in self._ledger.open_alarms():
            standing.setdefault(alarm.topic, []).append(alarm.text)
        for topic, texts in standing.items():
            shown[topic] = f"{'; '.join(texts)}. See docs/cdc.md, then `penstock audit`"
        self._shown = shown

    def _passing_of(self, capture: Capture) -> list[tuple[str, str]]:
        text = self._passing.get(capture.connector)
        return [(topic, text) for topic in capture.topics] if text else []

    def _look_at(self, capture: Capture) -> None:
        before = self._ledger.last_look(capture.connector)
        with source_database(self._settings, capture.database) as connection:
            now = look_at(connection, capture.slot)
        ask = not now.active or before is None or now.pid != before.pid
        reading = Connector(self._settings, capture.connector, 5.0).read() if ask else None
        moment = time.monotonic()
        at_once = moment - self._looked.get(capture.connector, -1e9) < 2 * LOOK_SECONDS
        self._looked[capture.connector] = moment
        passing = []
        for finding in judge(before, now, reading, at_once=at_once):
            if not finding.lasting:
                passing.append(finding.text)
                continue
            for topic in capture.topics:
                if self._ledger.raise_alarm(capture.connector, topic, finding.text):
                    log.error("%s, slot %s: %s", topic, capture.slot, finding.text)
        self._tell_passing(capture, "; ".join(passing))
        self._ledger.keep_look(capture.connector, now)

    def _tell_passing(self, capture: Capture, text: str) -> None:
        known = self._passing.get(capture.connector, "")
        if bool(text) != bool(known):
            said = text or "all is well again"
            log.log(logging.ERROR if text else logging.INFO, "slot %s: %s", capture.slot, said)
        self._passing[capture.connector] = text
