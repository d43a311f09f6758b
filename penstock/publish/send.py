"""Sending letters: by SMTP, to a webhook, into a file.

**What is promised.** A letter is sent at least once, and always with the same id and the same text.
Between sending and noting that it was sent there is a moment in which a kill makes it be sent
again; then a mail has the same ``Message-ID``, a webhook gets the same ``Idempotency-Key``, and a
file is written over itself. So a file is exactly once, and the others are for who receives them.

**In which order.** One person's letters go as they were made: a correction never before what it
corrects. A letter that is not taken holds up that person's later ones, and nobody else's.

**Where to.** Addresses are what people chose (``penstock notify``), never something out of a row.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from penstock.errors import PenstockError, ServiceFailed, in_a_line
from penstock.publish.addresses import checked_address, shortened
from penstock.publish.mail import TIMEOUT, NoMailServer, mail_server
from penstock.publish.outbox import Letter, Outbox

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["Sender"]

log = logging.getLogger("penstock.publish")
for _theirs in ("httpx", "httpcore"):  # each request with its whole address, at INFO
    logging.getLogger(_theirs).setLevel(logging.WARNING)

_LOOK_EVERY = 1.0
_SECRETS = re.compile(r"webhook:\w+://(?:([^@/]*)@)?[^/?#]*[/?#]?(.*)", re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")


class Sender:
    """Makes letters of what is due, and sends them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._outbox = Outbox(settings)
        self.error = ""

    def run(self, stopping: threading.Event) -> None:
        """Until told to stop; a database or a server that is away is waited for.

        Nothing else ends it either: nobody would notice that letters wait. ``error`` says so.
        """
        while not stopping.wait(_LOOK_EVERY):
            try:
                self.once(stopping)
                self.error = ""
            except PenstockError as error:
                self.error = in_a_line(error)
            except Exception as error:
                log.exception("letters cannot be sent")
                self.error = f"{type(error).__name__}: {in_a_line(error)}"
        self._outbox.close()

    def once(self, stopping: threading.Event | None = None) -> int:
        """Send what is due; returns how many letters were taken.

        A mail server that is not there is asked once, not for every letter, each of which would
        wait for it. The mails stay due and are passed over: enough of them would hide the others.

        Args:
            stopping: no other letter is begun once it is set: a successor may be sending them.
        """
        default = self._settings.notify.default
        self._outbox.make_letters(default)
        stopping = stopping or threading.Event()
        waiting: set[str] = set()
        taken: list[str] = []
        try:
            self._send_all(self._outbox.due(default), waiting, taken, stopping)
        except NoMailServer:
            self._send_all(self._outbox.due(default, mail=False), waiting, taken, stopping)
        return len(taken)

    def _send_all(
        self, letters: list[Letter], waiting: set[str], taken: list[str], stopping: threading.Event
    ) -> None:
        """Send letters, each noted as sent or as failed.

        Args:
            waiting: whose letter failed: a correction must not come before what it corrects.
            taken: the letters that were sent, noted here.
        """
        for letter in letters:
            if stopping.is_set():
                return
            if letter.recipient in waiting:
                continue
            try:
                self._send(letter)
            except Exception as error:  # whatever it was, it is this letter's, not the next one's
                told = _told(error, letter.address)
                log.warning("letter %s to %s: %s", letter.id, letter.recipient, told)
                self._outbox.failed(letter, told)
                waiting.add(letter.recipient)
                if isinstance(error, NoMailServer):
                    raise
                continue
            self._outbox.sent(letter)
            taken.append(letter.id)

    def _send(self, letter: Letter) -> None:
        scheme, _, rest = checked_address(letter.address).partition(":")
        if scheme == "smtp":
            self._mail(letter, rest)
        elif scheme == "webhook":
            self._post(letter, rest)
        else:
            self._write(letter)

    def _mail(self, letter: Letter, to: str) -> None:
        mail = EmailMessage()
        mail["From"], mail["To"] = self._settings.notify.sender, to
        mail["Subject"] = " ".join(letter.subject.split())
        mail["Date"] = formatdate()
        mail["Message-ID"] = f"<{letter.id}@penstock>"
        mail.set_content(letter.body)
        with mail_server(self._settings) as server:
            server.send_message(mail)

    def _post(self, letter: Letter, url: str) -> None:
        told = {
            "id": letter.id,
            "recipient": letter.recipient,
            "subject": letter.subject,
            "text": letter.body,
            "notices": letter.notices,
        }
        headers = {"Idempotency-Key": letter.id}
        answer = httpx.post(url, json=told, headers=headers, timeout=TIMEOUT)
        if not answer.is_success:
            host = answer.request.url.host
            raise ServiceFailed(f"{host} answered with status {answer.status_code}.")

    def _write(self, letter: Letter) -> None:
        folder = self._settings.home / "notifications" / _folder_of(letter.recipient)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _written(folder / f"{letter.id}.txt", f"{letter.subject}\n\n{letter.body}\n")


def _told(error: Exception, address: str) -> str:
    """What happened, without what is secret in a webhook's address."""
    text = in_a_line(error)
    found = _SECRETS.fullmatch(address)
    if found is not None and any(part and part in text for part in found.groups()):
        return f"{shortened(address)}: {type(error).__name__}"
    return text


def _folder_of(recipient: str) -> str:
    """A recipient is a value of a row: one that is no plain word gets a folder by its digest."""
    if _PLAIN_NAME.fullmatch(recipient):
        return recipient
    return f"other-{hashlib.sha256(recipient.encode()).hexdigest()[:16]}"


def _written(file: Path, text: str) -> None:
    draft = file.with_name(f".{file.name}.draft")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(file)
