"""One letter that cannot be sent is noted as failed; the others go, and the sender lives on."""

from __future__ import annotations

import logging
import smtplib
import threading
from dataclasses import replace

import pytest
from click.testing import CliRunner

from penstock.cli.publish import notify
from penstock.errors import EnvironmentProblem, NotRunning, UsageError
from penstock.publish import outbox, send
from penstock.publish.outbox import Letter
from penstock.publish.run import Publisher
from penstock.publish.send import Sender
from penstock.publish.state import read_told
from penstock.settings import NotifySettings, Settings
from tests.integration.publish.sinks import HookSink, SmtpSink
from tests.live import wait_for


class Box:
    """An outbox with these letters, which remembers what became of them."""

    most = 50

    def __init__(self, *letters: Letter) -> None:
        self.letters = list(letters)
        self.taken: list[str] = []
        self.errors: dict[str, str] = {}
        self.broken: Exception | None = None

    def make_letters(self, default: str) -> int:
        if self.broken is not None:
            raise self.broken
        return 0

    def due(self, default: str, *, mail: bool = True) -> list[Letter]:
        waiting = [one for one in self.letters if one.id not in self.taken]
        known = [one for one in waiting if mail or not one.address.startswith("smtp:")]
        return known[: self.most]

    def sent(self, letter: Letter) -> None:
        self.taken.append(letter.id)

    def failed(self, letter: Letter, error: str) -> None:
        self.errors[letter.id] = error

    def close(self) -> None:
        pass


def letter(name: str, address: str, to: str = "") -> Letter:
    return Letter(name, to or name, address, f"subject {name}", "body", [])


@pytest.fixture
def sender_of(settings, monkeypatch):
    def make(box: Box, here: Settings = settings) -> Sender:
        monkeypatch.setattr(send, "Outbox", lambda _: box)
        return Sender(here)

    return make


@pytest.fixture
def smtp():
    sink = SmtpSink()
    yield sink
    sink.close()


@pytest.fixture
def hook():
    sink = HookSink()
    yield sink
    sink.close()


def test_after_a_letter_that_failed_its_reader_gets_no_later_one(sender_of, hook):
    there, nowhere = f"webhook:{hook.address}", "webhook:http://127.0.0.1:1/"
    box = Box(letter("1", nowhere, "ann"), letter("2", there, "ann"), letter("3", there, "ben"))
    sender_of(box).once()
    assert box.taken == ["3"]
    assert set(box.errors) == {"1"}, "the second was not tried, so it does not wait longer"


@pytest.mark.parametrize("url", ["http://a..b/", "http://xn--.com/", "http://[::1", "http://h:x/"])
def test_an_address_nobody_can_be_reached_at_stops_no_other_letter(sender_of, hook, url):
    box = Box(letter("bad", f"webhook:{url}"), letter("good", f"webhook:{hook.address}"))
    sender_of(box).once()
    assert box.taken == ["good"]
    assert set(box.errors) == {"bad"}


def test_a_mail_server_without_a_port_is_told_when_settings_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_PROJECT", str(tmp_path))
    file = tmp_path / "pyproject.toml"
    told = '[tool.penstock]\n[tool.penstock.notify]\nsmtp = "{}"\n'
    for wrong in ("mail.example.com", ":25", "mail:port", "mail:99999"):
        file.write_text(told.format(wrong))
        with pytest.raises(EnvironmentProblem, match="not host:port"):
            Settings.load()
    file.write_text(told.format("mail.example.com:25"))
    assert Settings.load().notify.smtp == "mail.example.com:25"


def test_a_server_that_took_the_mail_and_is_short_at_parting_took_it(settings, sender_of, smtp):
    smtp.parting = b"421 too busy to say goodbye\r\n"
    box = Box(letter("a", "smtp:alice@example.com"))
    sender_of(box, replace(settings, notify=NotifySettings(smtp=smtp.address))).once()
    assert len(smtp.mails) == 1
    assert (box.taken, box.errors) == (["a"], {})


def test_the_sender_outlives_what_nobody_foresaw_and_says_it(
    settings, monkeypatch, sender_of, hook
):
    box = Box(letter("a", f"webhook:{hook.address}"))
    box.broken = RuntimeError("nobody foresaw this")
    sender = sender_of(box)
    monkeypatch.setattr(send, "_LOOK_EVERY", 0.01)
    stopping = threading.Event()
    thread = threading.Thread(target=sender.run, args=[stopping])
    thread.start()
    wait_for("its error", lambda: "nobody foresaw this" in sender.error, 10)
    box.broken = None
    wait_for("the letter", lambda: box.taken == ["a"] and sender.error == "", 10)
    stopping.set()
    thread.join()


def test_that_letters_wait_is_told_to_those_who_look(settings, monkeypatch, sender_of):
    box = Box()
    box.broken = NotRunning("the outbox of notifications went away.")
    sender_of(box)
    monkeypatch.setattr(send, "_LOOK_EVERY", 0.01)
    monkeypatch.setattr(Publisher, "_notifies", True)
    settings.home.mkdir(parents=True)
    publisher = Publisher(settings, outlet=Closed())  # type: ignore[arg-type]
    stopping = threading.Event()
    thread = threading.Thread(target=publisher.run, args=[stopping])
    thread.start()
    try:
        wait_for("it", lambda: "went away" in read_told(settings).error, 20)  # type: ignore
    finally:
        stopping.set()
        thread.join()


class Closed:
    """No broker is needed where nothing goes to a topic."""

    def close(self) -> None:
        pass


SECRET = "T0K3N-of-the-hook"


def test_what_is_secret_in_an_address_is_in_no_error_and_no_log(sender_of, hook, caplog):
    caplog.set_level(logging.INFO)
    url = hook.address.replace("/hook", f"/{SECRET}")
    box = Box(letter("taken", f"webhook:{url}"))
    sender_of(box).once()
    hook.status = 500
    box.letters = [
        letter("refused", f"webhook:{url}"),
        letter("nobody", f"webhook:http://127.0.0.1:1/{SECRET}"),
        letter("wrong", f"webhook:http://a..b/{SECRET}"),
        letter("worse", f"webhook:http://a:b/{SECRET}"),
    ]
    sender_of(box).once()
    assert set(box.errors) == {"refused", "nobody", "wrong", "worse"}
    assert box.errors["refused"] == "127.0.0.1 answered with status 500."
    assert SECRET not in f"{box.errors}{caplog.text}"


class People(Box):
    """Who chose what."""

    chosen = ("bob", f"webhook:https://example.com/{SECRET}", "immediately")

    def recipients(self) -> list[dict[str, str]]:
        return [dict(zip(("recipient", "address", "every"), self.chosen, strict=True))]

    def letters(self, most: int) -> list[dict[str, str]]:  # type: ignore[override]
        return [{"letter": "1", "recipient": "bob", "address": self.chosen[1]}]

    def waiting(self) -> int:
        return 0

    def prefer(self, *chosen: str) -> None:
        self.chosen = chosen  # type: ignore[assignment]


@pytest.fixture
def people(monkeypatch):
    box = People.__new__(People)
    monkeypatch.setattr(outbox, "Outbox", lambda _: box)
    return box


@pytest.mark.parametrize("way", [[], ["--json"]])
def test_people_are_listed_without_what_is_secret(people, way):
    shown = CliRunner().invoke(notify, way, catch_exceptions=False).output
    assert "webhook:https://example.com" in shown
    assert SECRET not in shown


def test_an_address_can_come_from_standard_input(people):
    address = f"webhook:https://other.example.com/{SECRET}"
    CliRunner().invoke(notify, ["bob", "--to", "-"], input=f"{address}\n", catch_exceptions=False)
    assert people.chosen == ("bob", address, None)
    with pytest.raises(UsageError) as refused:
        CliRunner().invoke(
            notify, ["bob", "--to", f"webhook:http://a..b/{SECRET}"], catch_exceptions=False
        )
    assert SECRET not in str(refused.value)


def test_somebody_is_shown_without_being_changed(people):
    before = people.chosen
    shown = CliRunner().invoke(notify, ["bob"], catch_exceptions=False)
    assert shown.exit_code == 0
    assert people.chosen is before
    CliRunner().invoke(notify, ["newcomer"], catch_exceptions=False)
    assert people.chosen is before


def test_how_often_says_nothing_about_where(people):
    CliRunner().invoke(notify, ["ann", "--every", "1 hour"], catch_exceptions=False)
    assert people.chosen == ("ann", None, "1 hour")
    shown = CliRunner().invoke(notify, ["--json"], catch_exceptions=False)
    assert '"address": null' in shown.output
    with pytest.raises(UsageError, match="every"):
        CliRunner().invoke(notify, ["ann", "--every", ""], catch_exceptions=False)


def test_a_mail_server_that_is_not_there_is_asked_once(settings, sender_of, hook, monkeypatch):
    asked = []

    def refused(host: str, port: int, timeout: float) -> None:
        asked.append(host)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(smtplib, "SMTP", refused)
    mails = [letter(str(n), "smtp:x@example.com", to=f"reader {n}") for n in range(5)]
    other = letter("w", f"webhook:{hook.address}")
    box = Box(*mails, other)
    sender = sender_of(box, replace(settings, notify=NotifySettings(smtp="mail.example.com:25")))
    sender.once()
    assert asked == ["mail.example.com"]
    assert box.taken == ["w"]
    assert list(box.errors) == ["0"], "those that were not tried do not wait longer"
    assert "mail.example.com:25 does not answer: [Errno 111]" in box.errors["0"]
    sender.once()
    assert len(asked) == 2, "the next look asks again"


def test_mails_that_wait_for_their_server_hold_up_nothing_else(settings, sender_of, hook):
    """However many they are: they fill what is looked at once, and those made later go."""
    mails = [letter(str(n), "smtp:x@example.com", to=f"reader {n}") for n in range(9)]
    box = Box(*mails, letter("w", f"webhook:{hook.address}"))
    box.most = 3
    sender = sender_of(box, replace(settings, notify=NotifySettings(smtp="127.0.0.1:1")))
    assert sender.once() == 1
    assert box.taken == ["w"]
    assert list(box.errors) == ["0"], "those that were not tried do not wait longer"


def test_nobody_whose_letter_failed_gets_a_later_one_in_the_second_look(settings, sender_of, hook):
    away = letter("2", "smtp:x@example.com", to="ben")
    box = Box(
        letter("1", "webhook:http://127.0.0.1:1/", "ann"),
        away,
        letter("3", f"webhook:{hook.address}", "ann"),
    )
    sender_of(box, replace(settings, notify=NotifySettings(smtp="127.0.0.1:1"))).once()
    assert box.taken == []


def test_who_is_told_to_stop_begins_no_other_letter(sender_of, hook, monkeypatch):
    """Somebody else may be sending them by now."""
    stopping = threading.Event()
    monkeypatch.setattr(send, "_LOOK_EVERY", 0.01)
    box = Box(*(letter(str(n), f"webhook:{hook.address}") for n in range(3)))
    sent = box.sent

    def stops(taken: Letter) -> None:
        sent(taken)
        stopping.set()

    box.sent = stops  # type: ignore[method-assign]
    sender_of(box).run(stopping)
    assert box.taken == ["0"]
