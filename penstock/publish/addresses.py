"""Addresses that letters go to, as people choose them: ``file``, a mailbox, a webhook."""

from __future__ import annotations

import re

import httpx

from penstock.errors import UsageError

__all__ = ["FILE", "checked_address", "shortened"]

FILE = "file"
_MAILBOX = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+")
_MOST_PORT = 65_535


def checked_address(text: str) -> str:
    """An address as it is kept: ``file``, ``smtp:<mailbox>`` or ``webhook:<http address>``.

    Raises:
        UsageError: it is none.
    """
    scheme, _, rest = text.partition(":")
    if text == FILE or (scheme == "smtp" and _MAILBOX.fullmatch(rest)):
        return text
    reason = _wrong_with(rest) if scheme == "webhook" else ""
    if scheme == "webhook" and not reason:
        return text
    raise UsageError(
        f"{_mentioned(text)} is no address{reason}.",
        remedy="Write file, smtp:somebody@example.com or webhook:https://example.com/hook.",
    )


def shortened(address: str) -> str:
    """An address as it may be shown: the rest of a webhook's is what lets one write there."""
    scheme, _, url = address.partition(":")
    if scheme != "webhook":
        return address
    try:
        made = httpx.URL(url)
        port = f":{made.port}" if made.port else ""
        return f"webhook:{made.scheme}://{made.host}{port}"
    except (httpx.InvalidURL, ValueError):
        return "webhook:..."


def _mentioned(text: str) -> str:
    """A text that is no address, as an error may name it.

    It may be a webhook's without its ``webhook:``, so only what can be no secret is repeated: a
    mailbox, for instance one that somebody forgot ``smtp:`` before.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "webhook":
        return "'webhook:...'"
    mailbox = rest if scheme.lower() == "smtp" else text
    return repr(text) if _MAILBOX.fullmatch(mailbox) and "/" not in mailbox else "that"


def _wrong_with(url: str) -> str:
    """Why nobody could be reached there, found out as whoever sends would; nothing: all is well."""
    try:
        made = httpx.URL(url)
        made.host.encode("idna")  # which is what resolving its name begins with
    except (httpx.InvalidURL, ValueError) as error:  # idna's errors are ValueErrors
        return f": {type(error).__name__}"  # not its words: they quote pieces, secret ones too
    if made.scheme not in ("http", "https") or not made.host:
        return ": it does not begin with http://host or https://host"
    if "%" in made.host or (made.port or 0) > _MOST_PORT:
        return ": it has no such host or port"
    return ""
