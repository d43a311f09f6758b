"""How notifications leave: ``[tool.penstock.notify]`` of ``pyproject.toml``, checked when read."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import EnvironmentProblem

__all__ = ["FROM_START", "NO_TLS", "STARTTLS", "NotifySettings"]

NO_TLS, STARTTLS, FROM_START = "none", "starttls", "from-start"
_WAYS = (NO_TLS, STARTTLS, FROM_START)


@dataclass(frozen=True)
class NotifySettings:
    """The mail server and those who chose nothing. The password is a secret, so it is not here.

    Raises:
        EnvironmentProblem: no mail could be sent so, or a password would be sent in the clear.
    """

    smtp: str = ""  # host:port of a mail server
    sender: str = "penstock@localhost"
    default: str = "file"  # where those are reached who chose nothing
    tls: str = NO_TLS
    ca: str = ""  # a file of certificates to trust instead of this machine's
    user: str = ""  # empty: the server takes our mail without a login

    def __post_init__(self) -> None:
        _, _, port = self.smtp.rpartition(":")
        if self.smtp and not (self.host and port.isdecimal() and 0 < int(port) < 65_536):
            raise _wrong(
                f"smtp is {self.smtp!r}, not host:port",
                'Write it with its port, such as smtp = "127.0.0.1:25".',
            )
        if self.tls not in _WAYS:
            raise _wrong(f"tls is {self.tls!r}", f"Write one of {', '.join(_WAYS)}.")
        if self.user and self.tls == NO_TLS and not _is_loopback(self.host):
            raise _wrong(
                f"there is a user but no TLS: anybody on the way to {self.smtp or 'the server'} "
                "could read the password",
                f'Write tls = "{STARTTLS}" (port 587) or tls = "{FROM_START}" (port 465).',
            )

    @property
    def host(self) -> str:
        return self.smtp.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.smtp.rpartition(":")[2])

    @classmethod
    def read(cls, declared: Mapping[str, Any]) -> NotifySettings:
        """From ``[tool.penstock]``.

        Raises:
            EnvironmentProblem: it says something else, or something that cannot be.
        """
        told = declared.get("notify", {})
        if set(told) - set(cls.__dataclass_fields__):
            known = ", ".join(cls.__dataclass_fields__)
            raise _wrong(f"it has {', '.join(told)}; it takes {known}", _READ_MORE)
        return cls(**{name: str(value) for name, value in told.items()})


_READ_MORE = "Correct it: docs/publishing.md."


def _wrong(what: str, remedy: str) -> EnvironmentProblem:
    where = "[tool.penstock.notify] of pyproject.toml"
    return EnvironmentProblem(f"{where}: {what}.", remedy=remedy)


def _is_loopback(host: str) -> bool:
    """Only an address says so, or the one name that is reserved for it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
