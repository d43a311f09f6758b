"""The way to the mail server: TLS and a login, where they are set.

**What is promised.** Certificates are always checked, and a server that offers no TLS where it is
set gets no mail. A password is sent over TLS only, or on loopback (``NotifySettings``). It is read
from its file for every connection, so a new one is taken at once, and it is in no error: of a login
that was refused only the number is told, for the server's words may repeat what it was given.

**Whom it concerns.** Whatever is wrong on the way is wrong for all mails: it is a NoMailServer, and
the sender asks with one mail a second, not with all that wait.

*What it does not do:* wait longer after a refused login than after any other failure. A server that
locks an account after some of them will lock this one.
"""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.errors import PenstockError, ServiceFailed, UsageError, in_a_line
from penstock.publish.settings import FROM_START, STARTTLS, NotifySettings

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["PASSWORD", "TIMEOUT", "NoMailServer", "mail_server"]

TIMEOUT = 10.0
PASSWORD = "smtp-password"  # noqa: S105 - the name of the secret's file


class NoMailServer(ServiceFailed):
    """Nobody takes any mail there."""


@contextmanager
def mail_server(settings: Settings) -> Iterator[smtplib.SMTP]:
    """A connection that mail can be sent over.

    Raises:
        UsageError: there is no mail server.
        NoMailServer: it does not answer, is not who it should be, or does not let us in.
    """
    known = settings.notify
    if not known.smtp:
        raise UsageError(
            "there is no mail server.",
            remedy='Name it: smtp = "host:25" in [tool.penstock.notify] of pyproject.toml.',
        )
    password = _password(settings) if known.user else ""
    try:
        server = _reached(known)
    except OSError as error:  # smtplib's and TLS's own are such, too
        raise NoMailServer(f"{known.smtp} does not answer: {in_a_line(error)}") from error
    try:
        _let_in(server, known, password)
    except BaseException:
        server.close()  # without a parting word: nobody knows what the server would make of it
        raise
    try:
        yield server
    finally:
        with suppress(smtplib.SMTPException, OSError):  # it took the mail, or did not, before
            server.quit()
        server.close()


def _reached(known: NotifySettings) -> smtplib.SMTP:
    if known.tls == FROM_START:
        return smtplib.SMTP_SSL(known.host, known.port, timeout=TIMEOUT, context=_checking(known))
    return smtplib.SMTP(known.host, known.port, timeout=TIMEOUT)


def _let_in(server: smtplib.SMTP, known: NotifySettings, password: str) -> None:
    try:
        if known.tls == STARTTLS:
            server.starttls(context=_checking(known))
        if known.user:
            server.login(known.user, password)
    except smtplib.SMTPAuthenticationError as error:
        # Without its cause: that one holds the server's words.
        raise NoMailServer(
            f"{known.smtp} refused the login of {known.user} ({error.smtp_code})."
        ) from None
    except OSError as error:
        raise NoMailServer(f"{known.smtp} cannot be used: {in_a_line(error)}") from error


def _checking(known: NotifySettings) -> ssl.SSLContext:
    """TLS that checks who the server is; by default against what this machine trusts."""
    try:
        return ssl.create_default_context(cafile=known.ca or None)
    except OSError as error:
        raise NoMailServer(f"the certificates in {known.ca} cannot be read: {error}.") from None


def _password(settings: Settings) -> str:
    path = settings.secrets_folder / PASSWORD
    try:
        private = not path.stat().st_mode & 0o077
        password = settings.secret(PASSWORD) if private else ""
    except (PenstockError, OSError, UnicodeError):
        raise NoMailServer(
            f"the password of {settings.notify.user} at {settings.notify.smtp} cannot be read.",
            remedy=f"Write it into {path}, a file that only you can read (0600).",
        ) from None
    if not private:
        raise NoMailServer(
            f"others may read {path}, which holds a password.", remedy=f"Run: chmod 600 {path}"
        )
    if not (password and password.isascii()):
        raise NoMailServer(
            f"the password in {path} is empty, or has letters that a login by SMTP cannot carry.",
            remedy="Choose one of ASCII letters, digits and signs.",
        )
    return password
