"""Somebody is told of a row once, of a changed one as a correction, of a rebuilt one nothing."""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from email.message import EmailMessage

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from publishing import publish
from sinks import HookSink, SmtpSink

from penstock.model import notification
from penstock.publish.outbox import Outbox
from penstock.publish.run import Publisher
from penstock.publish.send import Sender
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import removal, write_arrow, write_changes
from penstock.runtime.delta.swap import difference, files_at, swap
from penstock.runtime.delta.writer import RevisionWriter
from penstock.settings import NotifySettings, Settings

pytestmark = pytest.mark.platform
SCHEMA = pa.schema([("sale_id", pa.string()), ("who", pa.string()), ("amount", pa.int64())])
Sales = dict[str, tuple[str | None, int]]


class SalesTable:
    """gold.big_sales, with a life: what is set is what live shows."""

    def __init__(self, at: Settings) -> None:
        from penstock.model.names import TableName

        self.at, self.name, self.number = at, TableName.parse("gold.big_sales"), 1
        at.warehouse.mkdir(parents=True, exist_ok=True)
        self.writer = RevisionWriter(at.warehouse, self.name, "r1", SCHEMA, token=1, live=True)
        at.manifest.write_text('{"tables": [{"name": "gold.big_sales", "keys": ["sale_id"]}]}')
        self.sales: Sales = {}
        self.old: RevisionWriter | None = None

    def set(self, **changed: tuple[str | None, int] | None) -> None:
        """Sales come, change (another value) or go (None), in one commit."""
        before = dict(self.sales)
        for name, value in changed.items():
            if value is None:
                self.sales.pop(name)
            else:
                self.sales[name] = value
        gone = {n: v for n, v in before.items() if self.sales.get(n) != v}
        came = {n: v for n, v in self.sales.items() if before.get(n) != v}
        change = Change(rows(came), rows(gone))
        path, files = self.writer.path, files_at(self.writer.path, self.writer.log.version)
        out = [removal(name, add["size"]) for name, add in files.items()]
        new = write_arrow(rows(self.sales), path)
        told = write_changes(change, ("sale_id",), path)
        self.writer.commit([*out, *new, *told], {"n": 1}, change=change)

    def promote(self, sales: Sales) -> None:
        self.number += 1
        new = RevisionWriter(self.at.warehouse, self.name, f"r{self.number}", SCHEMA, token=1,
                             live=False)  # fmt: skip
        new.commit(write_arrow(rows(sales), new.path), {"n": 1}, change=Change(rows(sales)))
        self._swap(new)
        self.sales = dict(sales)

    def rollback(self) -> None:
        assert self.old is not None
        self._swap(self.old)  # which nobody fed meanwhile: it shows what it had
        live = self.at.warehouse / "gold" / "big_sales"
        found = DeltaTable(str(live)).to_pyarrow_table().to_pylist()
        self.sales = {row["sale_id"]: (row["who"], row["amount"]) for row in found}

    def _swap(self, new: RevisionWriter) -> None:
        old = self.writer
        net = difference(old, old.log.version, new, new.log.version, self.at.home / "run")
        assert old.live is not None
        swap(old.live, new, net, ("sale_id",), {"operation": "PENSTOCK PROMOTE"})
        new.show(old.hide())
        self.old, self.writer = old, new


def rows(sales: Sales) -> pa.Table:
    told = [{"sale_id": n, "who": who, "amount": a} for n, (who, a) in sales.items()]
    return pa.Table.from_pylist(told, SCHEMA)


@pytest.fixture
def smtp() -> Iterator[SmtpSink]:
    sink = SmtpSink()
    yield sink
    sink.close()


@pytest.fixture
def hook() -> Iterator[HookSink]:
    sink = HookSink()
    yield sink
    sink.close()


@pytest.fixture
def here(at: Settings, smtp: SmtpSink) -> Settings:
    return replace(at, notify=NotifySettings(smtp=smtp.address, sender="penstock@example.com"))


@pytest.fixture
def sales(here: Settings) -> SalesTable:
    table = SalesTable(here)
    table.set(old=("alice", 11_000))  # before anybody asked to be told
    told = notification(
        "gold.big_sales", name=f"big_{uuid.uuid4().hex[:8]}", to="who",
        subject="Sale {sale_id}", text="{sale_id}: {amount:,} $ by {who}",
    )  # fmt: skip
    publish(here, told.describe())
    Publisher(here).once()
    return table


@pytest.fixture
def outbox(here: Settings) -> Iterator[Outbox]:
    box = Outbox(here)
    for name in ("recipient", "letter", "notice"):
        box.run(f"delete from {name}")  # of tests before
    yield box
    box.close()


def said(mail: EmailMessage) -> str:
    return mail.get_content().replace("\r\n", "\n")


def step(here: Settings) -> None:
    told = Publisher(here).once()
    assert [one["error"] for one in told] == [""]


def test_a_sale_notifies_its_salesperson_once(here, sales, outbox, smtp):
    outbox.prefer("alice", "smtp:alice@example.com", "immediately")
    sales.set(s1=("alice", 12_000), s2=(None, 99_000))
    step(here)
    step(here)
    ((to, mail),) = smtp.mails
    assert to == ["alice@example.com"]
    assert mail["From"] == "penstock@example.com"
    assert mail["Subject"] == "Sale s1"
    assert "12,000 $ by alice" in mail.get_content()
    assert mail["Message-ID"].endswith("@penstock>")


def test_corrections_say_that_they_are_and_a_rebuild_says_nothing(here, sales, outbox, smtp):
    outbox.prefer("alice", "smtp:alice@example.com", "immediately")
    outbox.prefer("bob", "smtp:bob@example.com", "immediately")
    sales.set(s1=("alice", 12_000), s2=("alice", 20_000))
    step(here)
    assert len(smtp.mails) == 1, "two messages at once are one letter"
    sales.promote(dict(sales.sales))  # rebuilt, the same
    sales.rollback()
    step(here)
    assert len(smtp.mails) == 1
    sales.promote({**sales.sales, "s1": ("alice", 13_000), "s2": ("bob", 20_000)})
    step(here)
    told = {(to[0], str(mail["Subject"])): said(mail) for to, mail in smtp.mails[1:]}
    assert set(told) == {
        ("alice@example.com", "2 messages: Correction: Sale s1"),
        ("bob@example.com", "Sale s2"),
    } or set(told) == {
        ("alice@example.com", "2 messages: Withdrawn: Sale s2"),
        ("bob@example.com", "Sale s2"),
    }
    (alice,) = [text for (to, _), text in told.items() if to.startswith("alice")]
    assert "Correction: Sale s1\ns1: 13,000 $" in alice
    assert "Withdrawn: Sale s2" in alice
    sales.rollback()
    step(here)
    back = [str(mail["Subject"]) for _, mail in smtp.mails[3:]]
    assert sorted(back) == ["2 messages: Correction: Sale s1", "Withdrawn: Sale s2"] or sorted(
        back
    ) == ["2 messages: Correction: Sale s2", "Withdrawn: Sale s2"]


def test_history_is_nobodys_news_whatever_becomes_of_it(here, sales, outbox, smtp):
    outbox.prefer("alice", "smtp:alice@example.com", "immediately")
    sales.promote({"old": ("alice", 15_000)})
    step(here)
    sales.promote({})
    step(here)
    sales.rollback()
    step(here)
    assert smtp.mails == []


def test_history_that_passes_to_somebody_else_is_nobodys_news_either(here, sales, outbox, smtp):
    for name in ("alice", "bob", "carol"):
        outbox.prefer(name, f"smtp:{name}@example.com", "immediately")
    for who in ("bob", None, "carol", "alice"):
        sales.promote({"old": (who, 15_000)})
        step(here)
    assert smtp.mails == []


def test_a_row_without_anybody_is_told_of_once_it_names_somebody(here, sales, outbox, smtp):
    for name in ("alice", "bob"):
        outbox.prefer(name, f"smtp:{name}@example.com", "immediately")
    sales.set(s1=(None, 12_000))
    step(here)
    sales.set(s1=(None, 13_000))
    step(here)
    assert smtp.mails == []
    sales.set(s1=("alice", 14_000))
    step(here)
    sales.set(s1=(None, 14_000))
    step(here)
    sales.set(s1=("bob", 14_000))
    step(here)
    told = [(to[0], str(mail["Subject"])) for to, mail in smtp.mails]
    assert told == [
        ("alice@example.com", "Sale s1"),
        ("alice@example.com", "Withdrawn: Sale s1"),
        ("bob@example.com", "Sale s1"),
    ]


def test_history_that_named_nobody_stays_history(here, outbox, smtp):
    outbox.prefer("alice", "smtp:alice@example.com", "immediately")
    table = SalesTable(here)
    table.set(old=(None, 11_000))
    told = notification(
        "gold.big_sales", name=f"big_{uuid.uuid4().hex[:8]}", to="who", subject="S", text="T"
    )
    publish(here, told.describe())
    step(here)
    table.promote({"old": ("alice", 11_000)})
    step(here)
    assert smtp.mails == []


def test_messages_are_collected_as_a_person_likes(here, sales, outbox, smtp):
    outbox.prefer("alice", "smtp:alice@example.com", "1 hour")
    sales.set(s1=("alice", 12_000))
    step(here)
    sales.set(s2=("alice", 22_000))
    sales.set(s3=("alice", 32_000))
    step(here)
    sales.set(s1=("alice", 14_000))  # corrected before it was told: no correction
    sales.set(s3=None)
    step(here)
    assert smtp.mails == []
    assert outbox.waiting() == 2
    outbox.run("update notice set since = since - interval '61 minutes'")
    step(here)
    ((_, mail),) = smtp.mails
    assert str(mail["Subject"]).startswith("2 messages: Sale")
    text = mail.get_content()
    assert "14,000 $" in text
    assert "22,000 $" in text
    assert "Correction" not in text
    assert "12,000" not in text
    assert "32,000" not in text


def test_a_webhook_and_a_file(here, sales, outbox, hook):
    outbox.prefer("alice", f"webhook:{hook.address}", "immediately")
    sales.set(s1=("alice", 12_000), s2=("../carol", 13_000))
    hook.status = 503
    step(here)
    (letter,) = [one for one in outbox.letters() if one["recipient"] == "alice"]
    assert letter["sent_at"] is None
    assert "503" in letter["error"]
    assert outbox.due("file") == [], "not at once again"
    hook.status = 200
    outbox.run("update letter set next_try = now()")
    step(here)
    step(here)
    ((key, body),) = hook.posts
    assert key == body["id"] == letter["letter"]
    assert body["subject"] == "Sale s1"
    (file,) = (here.home / "notifications").rglob("*.txt")
    assert file.parent.name.startswith("other-"), "a value of a row is no path"
    assert file.read_text().startswith("Sale s2\n\ns2: 13,000 $ by ../carol")
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_character_that_postgres_cannot_keep_stops_nobody(here, sales, outbox):
    sales.set(**{"s\0a": ("ann\0", 12_000), "s\ufffda": ("ann\ufffd", 13_000)})
    step(here)
    (letter,) = outbox.run("select body, recipient from letter")
    assert letter[1] == "ann\ufffd"
    assert {"12,000", "13,000"} <= set(letter[0].split()), "two sales are two, however written"


def test_a_mail_server_that_is_away_is_waited_for(here, sales, outbox, smtp):
    outbox.prefer("alice", "smtp:alice@example.com", "immediately")
    smtp.deaf = True
    sales.set(s1=("alice", 12_000))
    step(here)
    smtp.deaf = False
    outbox.run("update letter set next_try = now()")
    step(here)
    assert len(smtp.mails) == 1


def test_mails_nobody_takes_hold_up_no_file(here, sales, outbox):
    """More of them than are looked at together, and older."""
    nobody = replace(here.notify, default="smtp:all@example.com", smtp="127.0.0.1:1")
    away = replace(here, notify=nobody)
    sales.set(**{f"s{n}": (f"reader {n}", n) for n in range(60)})
    step(away)
    outbox.prefer("ben", "file", None)
    sales.set(late=("ben", 7))
    step(away)
    (file,) = (here.home / "notifications" / "ben").iterdir()
    assert "late: 7 $ by ben" in file.read_text()
    letters = outbox.letters(100)
    assert [one["recipient"] for one in letters if one["sent_at"]] == ["ben"]
    assert sum(one["attempts"] for one in letters) < 10, "a mail for each look, not for each mail"


def test_a_correction_never_comes_before_what_it_corrects(here, sales, outbox, hook):
    outbox.prefer("alice", f"webhook:{hook.address}", "immediately")
    hook.status = 503
    sales.set(s1=("alice", 12_000))
    step(here)
    hook.status = 200
    sales.set(s1=("alice", 13_000), s2=("bob", 14_000))
    step(here)
    assert hook.posts == [], "the first waits to be tried again, and the second for the first"
    assert [one["recipient"] for one in outbox.letters() if one["sent_at"]] == ["bob"]
    outbox.run("update letter set next_try = now()")
    step(here)
    subjects = [body["subject"] for _, body in hook.posts]
    assert subjects == ["Sale s1", "Correction: Sale s1"]


def test_an_address_that_is_mended_helps_at_once(here, sales, outbox, hook):
    outbox.prefer("alice", "webhook:http://127.0.0.1:1/", "immediately")
    sales.set(s1=("alice", 12_000))
    step(here)
    assert hook.posts == []
    outbox.prefer("alice", f"webhook:{hook.address}", "immediately")
    step(here)
    assert [body["subject"] for _, body in hook.posts] == ["Sale s1"]
    (letter,) = outbox.letters()
    assert letter["address"] == f"webhook:{hook.address}", "where it went"


def die_before_marking(settings: Settings) -> None:
    """In a process of its own: the letter is sent, and nobody lives to note it."""
    Outbox.sent = lambda self, letter: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore
    Sender(settings).once()


def test_killed_between_sending_and_noting_it(here, sales, outbox, smtp):
    """At least once, always as the same message: what the page promises, and no more."""
    outbox.prefer("alice", "smtp:alice@example.com", "immediately")
    sales.set(s1=("alice", 12_000), s2=("dora", 13_000))
    publisher = Publisher(here)
    while publisher.round():
        pass
    context = multiprocessing.get_context("forkserver")
    for _ in range(2):
        child = context.Process(target=die_before_marking, args=(here,))
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
    Sender(here).once()
    ids = Counter(str(mail["Message-ID"]) for _, mail in smtp.mails)
    assert len(ids) == 1
    assert {mail.get_content() for _, mail in smtp.mails} == {smtp.mails[0][1].get_content()}
    files = list((here.home / "notifications" / "dora").iterdir())
    assert len(files) == 1, "a file is written over itself: once"


def test_a_random_life_tells_everybody_the_truth(here, sales, outbox):
    """What each person's files say last of every sale is what live shows."""
    dice = random.Random(3)
    for _ in range(25):
        name = f"s{dice.randrange(6)}"
        what = dice.choice(["set", "set", "gone", "promote", "rollback"])
        value = (dice.choice(["ann", "ben"]), dice.randrange(10, 14) * 1000)
        if what == "set":
            sales.set(**{name: value})
        elif what == "gone" and name in sales.sales:
            sales.set(**{name: None})
        elif what == "promote":
            sales.promote({**sales.sales, name: value})
        elif what == "rollback" and sales.old is not None:
            sales.rollback()
        if dice.random() < 0.5:
            step(here)
    step(here)
    last: dict[tuple[str, str], str] = {}
    for made_at, body, who in outbox.run(
        "select made_at, body, recipient from letter order by made_at"
    ):
        assert made_at
        for sale, amount in _messages(body):
            last[who, sale] = amount
    told = {key: text for key, text in last.items() if text != "gone"}
    expected = {
        (who, name): f"{amount:,}" for name, (who, amount) in sales.sales.items() if name != "old"
    }
    assert told == expected


def _messages(body: str) -> Iterator[tuple[str, str]]:
    """Of which sale a letter says what."""
    gone = False
    for line in body.splitlines():
        found = re.fullmatch(r"(s\d): ([\d,]+) \$ by \w+", line)
        if found:
            yield found[1], "gone" if gone else found[2]
        gone = line == "This does not hold any more:"


def test_a_choice_of_one_thing_leaves_the_other(outbox):
    outbox.prefer("ann", None, "1 hour")
    assert outbox.recipients() == [{"recipient": "ann", "address": None, "every": "1 hour"}]
    outbox.prefer("ann", "smtp:ann@example.com", None)
    outbox.prefer("ann", None, "2 hours")
    (found,) = outbox.recipients()
    assert (found["address"], found["every"]) == ("smtp:ann@example.com", "2 hours")


def test_a_name_too_long_for_an_index_is_told_too(here, sales, outbox):
    """Random, because what repeats is packed small enough for an index."""
    long = random.Random(7).randbytes(4_000).hex()
    sales.set(s1=(long, 12_000))
    step(here)
    assert [one["recipient"] for one in outbox.letters()] == [long]


def test_an_outbox_of_before_is_brought_up_to_date(outbox, project):
    before = [
        "drop index notice_due_by",
        "create index notice_due on notice (recipient)",
        "delete from recipient",
        "alter table recipient alter column address set not null, alter column every set not null",
    ]
    for statement in before:
        outbox.run(statement)
    schema = (project / "infra" / "postgres" / "publisher.sql").read_text()
    for _ in range(2):
        outbox.run(schema)
    outbox.prefer("ann", None, "1 hour")
    found = {name for (name,) in outbox.run("select indexname from pg_indexes")}
    assert "notice_due_by" in found
    assert "notice_due" not in found
