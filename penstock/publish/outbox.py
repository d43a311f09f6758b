"""The outbox: what there is to say to whom, what was said, and the letters that say it.

**How it works.** Tables in Postgres (``infra/postgres/publisher.sql``). A *notice* holds what a row
has to say to one person now and what was last said of it; the two differ while something is to be
said. Notices change in one transaction with the position in the live table. A *letter* is made of
one person's notices in one transaction that also marks them as said: from then on its text and its
id stand, and it is sent until somebody takes it.

So a row is told of once, a changed one is told of as a correction, one that changed and changed
back before anybody was told is not told of at all, and a rebuilt table that says the same says
nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pg8000.native

from penstock.database import Database, said
from penstock.errors import ServiceFailed
from penstock.model.duration import parse_duration
from penstock.model.publication import IMMEDIATELY

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["GONE", "Letter", "Notice", "Outbox", "digest", "notice_id"]

ROLE = "publisher"  # the role and the database it owns
GONE = "gone"  # what a notice says now when its row is no more
_FIRST_WAIT, _LONGEST_WAIT = 2, 3600  # seconds until a letter is tried again
_MOST_LETTERS, _MOST_IN_LETTER = 50, 200


@dataclass(frozen=True)
class Notice:
    """One row's word to one person."""

    id: str
    subject: str | None
    body: str | None
    times: int
    gone: bool = False

    @property
    def kind(self) -> str:
        if self.gone:
            return "withdrawn"
        return "correction" if self.times else "new"


@dataclass(frozen=True)
class Letter:
    """What is sent."""

    id: str
    recipient: str
    address: str
    subject: str
    body: str
    notices: list[dict[str, Any]]
    attempts: int = 0


def notice_id(notification: str, table: str, key: str, recipient: str | None) -> str:
    told = json.dumps([notification, table, key, recipient])
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def digest(subject: str, body: str) -> str:
    return hashlib.sha256(json.dumps([subject, body]).encode()).hexdigest()[:32]


class Outbox(Database):
    """The publisher's own database."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, ROLE, "the outbox of notifications")

    def run(self, sql: str, **values: Any) -> list[Any]:
        """One statement.

        Raises:
            NotRunning: the database is away; what was begun is undone.
            ServiceFailed: it refused the statement; what was begun is undone.
        """
        try:
            return super().run(sql, **values)
        except pg8000.native.DatabaseError as error:
            raise ServiceFailed(
                f"the outbox of notifications refused: {said(error)}.",
                remedy="Look at `penstock publish` and at the publisher's log.",
            ) from error

    # --- positions ------------------------------------------------------------------------
    def position(self, name: str) -> dict[str, Any] | None:
        rows = self.run("select position from feed where notification = :name", name=name)
        return dict(rows[0][0]) if rows else None

    def keep(self, name: str, position: str) -> None:
        self.run(
            "insert into feed (notification, position) values (:name, cast(:told as jsonb)) "
            "on conflict (notification) do update set position = excluded.position, at = now()",
            name=name,
            told=position,
        )

    # --- notices --------------------------------------------------------------------------
    def say(self, about: Mapping[str, str], subject: str, body: str, *, known: bool) -> None:
        """A row has this to say now.

        Args:
            known: the row was there before; if nobody was told of it then, nobody will be.
        """
        self.run(
            "insert into notice (notice_id, notification, table_name, key, recipient, every, "
            "subject, body, now, said, silent) values (:id, :notification, :table_name, "
            "cast(:key as jsonb), :recipient, :every, :subject, :body, :now, "
            "case when cast(:silent as boolean) then :now end, :silent) "
            "on conflict (notice_id) do update set subject = excluded.subject, "
            "body = excluded.body, every = excluded.every, now = excluded.now, "
            "since = case when notice.now is distinct from notice.said then notice.since "
            "else now() end",
            **about,
            subject=subject,
            body=body,
            now=digest(subject, body),
            silent=known,
        )

    def unsay(self, about: Mapping[str, str]) -> bool:
        """A row is gone; what nobody was told of needs no word now either.

        Returns:
            Whether it was one to tell of, not one from before the notification began.
        """
        ((silent,),) = self.run(
            "insert into notice (notice_id, notification, table_name, key, recipient, every, now, "
            "said, silent) values (:id, :notification, :table_name, cast(:key as jsonb), "
            ":recipient, :every, :now, :now, true) "
            "on conflict (notice_id) do update set now = excluded.now, since = case "
            "when notice.now is distinct from notice.said then notice.since else now() end "
            "returning silent",
            **about,
            now=GONE,
        )
        self.run("delete from notice where notice_id = :id and said is null", id=about["id"])
        return not silent

    def tell_nobody(self, about: Mapping[str, str], *, known: bool) -> None:
        """A row names nobody; remembered, so that it can be told of once it does.

        Args:
            known: as in ``say``.
        """
        self.run(
            "insert into notice (notice_id, notification, table_name, key, recipient, every, now, "
            "said, silent) values (:id, :notification, :table_name, cast(:key as jsonb), "
            ":recipient, :every, :now, :now, :silent) on conflict (notice_id) do nothing",
            **about,
            now=GONE,
            silent=known,
        )

    # --- letters --------------------------------------------------------------------------
    def make_letters(self, default: str) -> int:
        """Make letters of what is due; returns how many.

        Args:
            default: the address of those who chose none.
        """
        made = 0
        for name, every, waited in self.run(
            "select n.recipient, coalesce(r.every, n.every) as every, "
            "extract(epoch from now() - min(n.since)) from notice n "
            "left join recipient r on r.name = n.recipient "
            "where not n.silent and n.now is distinct from n.said group by 1, 2 order by 3 desc"
        ):
            if every == IMMEDIATELY or waited >= parse_duration(every).total_seconds():
                made += self._make_letter(name, every, default)
        return made

    def _make_letter(self, recipient: str, every: str, default: str) -> int:
        with self.transaction():
            rows = self.run(
                "select n.notice_id, n.subject, n.body, n.times, n.now = :gone from notice n "
                "left join recipient r on r.name = n.recipient "
                "where md5(n.recipient) = md5(cast(:recipient as text)) "  # which has an index
                "and n.recipient = :recipient and coalesce(r.every, n.every) = :every "
                "and not n.silent and n.now is distinct from n.said "
                "order by n.since, n.notice_id limit :most for update of n",
                recipient=recipient,
                every=every,
                most=_MOST_IN_LETTER,
                gone=GONE,
            )
            notices = [Notice(*row) for row in rows]
            if not notices:
                return 0
            told = [{"id": n.id, "time": n.times + 1, "kind": n.kind} for n in notices]
            chosen = self.run("select address from recipient where name = :name", name=recipient)
            subject, body = written(notices)
            self.run(
                "insert into letter (letter_id, recipient, address, subject, body, notices) "
                "values (:id, :recipient, :address, :subject, :body, cast(:told as jsonb))",
                id=_letter_id(told),
                recipient=recipient,
                address=(chosen[0][0] if chosen else None) or default,
                subject=subject,
                body=body,
                told=json.dumps(told),
            )
            self.run(
                "update notice set said = now, times = times + 1 "
                "where notice_id = any(cast(:ids as text[]))",
                ids=[notice.id for notice in notices],
            )
        return 1

    def due(self, default: str, *, mail: bool = True) -> list[Letter]:
        """Letters to send now, oldest first; none that an earlier one to the same person waits for.

        Addresses are those of now, not of when the letter was made: mending one helps.

        Args:
            default: the address of those who chose none.
            mail: those that go by mail, too.
        """
        rows = self.run(
            "select l.letter_id, l.recipient, coalesce(r.address, :default), l.subject, l.body, "
            "l.notices, l.attempts from letter l left join recipient r on r.name = l.recipient "
            "where l.sent_at is null and l.next_try <= now() and (cast(:mail as boolean) "
            "or not starts_with(coalesce(r.address, :default), 'smtp:')) and not exists "
            "(select 1 from letter e where e.recipient = l.recipient and e.sent_at is null "
            "and e.next_try > now() and (e.made_at, e.letter_id) < (l.made_at, l.letter_id)) "
            "order by l.made_at, l.letter_id limit :most",
            most=_MOST_LETTERS,
            default=default,
            mail=mail,
        )
        return [Letter(*row) for row in rows]

    def sent(self, letter: Letter) -> None:
        self.run(
            "update letter set sent_at = now(), error = '', attempts = attempts + 1, "
            "address = :address where letter_id = :id",
            id=letter.id,
            address=letter.address,
        )

    def failed(self, letter: Letter, error: str) -> None:
        """To be tried again, later each time."""
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(letter.attempts, 12))
        self.run(
            "update letter set attempts = attempts + 1, error = :error, address = :address, "
            "next_try = now() + make_interval(secs => cast(:wait as float8)) where letter_id = :id",
            id=letter.id,
            error=error[:500],
            address=letter.address,
            wait=wait,
        )

    # --- people ---------------------------------------------------------------------------
    def prefer(self, name: str, address: str | None, every: str | None) -> None:
        """Somebody's choice; letters that wait for a better address wait no longer.

        Args:
            address, every: None leaves what was chosen before, or the default.
        """
        with self.transaction():
            self.run(
                "insert into recipient (name, address, every) values (:name, :address, :every) "
                "on conflict (name) do update set "
                "address = coalesce(excluded.address, recipient.address), "
                "every = coalesce(excluded.every, recipient.every)",
                name=name,
                address=address,
                every=every,
            )
            self.run(
                "update letter set next_try = now() where recipient = :name and sent_at is null",
                name=name,
            )

    def recipients(self) -> list[dict[str, Any]]:
        rows = self.run("select name, address, every from recipient order by name")
        return [dict(zip(("recipient", "address", "every"), row, strict=True)) for row in rows]

    def letters(self, most: int = 20) -> list[dict[str, Any]]:
        names = (
            "letter",
            "recipient",
            "address",
            "subject",
            "made_at",
            "sent_at",
            "attempts",
            "error",
        )
        rows = self.run(
            "select letter_id, recipient, address, subject, made_at, sent_at, attempts, error "
            "from letter order by made_at desc limit :most",
            most=most,
        )
        return [dict(zip(names, row, strict=True)) for row in rows]

    def waiting(self) -> int:
        """Notices that wait for their letter."""
        rows = self.run(
            "select count(*) from notice where not silent and now is distinct from said"
        )
        return int(rows[0][0])


# --- what a letter says -------------------------------------------------------------------------
_MARKS = {"new": "", "correction": "Correction: ", "withdrawn": "Withdrawn: "}


def written(notices: Sequence[Notice]) -> tuple[str, str]:
    """Subject and body; a correction and a withdrawal say that they are one."""
    parts = [_one(notice) for notice in notices]
    if len(parts) == 1:
        return parts[0]
    subject = f"{len(parts)} messages: {parts[0][0]}"
    return subject, "\n\n".join(f"{title}\n{text}" for title, text in parts)


def _one(notice: Notice) -> tuple[str, str]:
    mark, number = _MARKS[notice.kind], f"(message {notice.id[:8]})"
    told = "This does not hold any more:\n" if notice.gone else ""
    return f"{mark}{notice.subject}", f"{told}{notice.body}\n{number}"


def _letter_id(told: Sequence[Mapping[str, Any]]) -> str:
    names = sorted(f"{one['id']}:{one['time']}" for one in told)
    return hashlib.sha256("|".join(names).encode()).hexdigest()[:32]
