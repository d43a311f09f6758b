"""Small requests to our own services on loopback."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any

__all__ = ["Answer", "ask"]

# Loopback only: a proxy from the environment must not get between us and our own services.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Answer:
    """Status and JSON body; status 0 when nobody answered."""

    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self.body = body

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


def ask(
    url: str,
    *,
    method: str = "GET",
    body: Any = None,
    user: tuple[str, str] | None = None,
    timeout: float = 5.0,
) -> Answer:
    """Send a request; never raises for a service that is not there or says no."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method)  # noqa: S310 - our own address
    request.add_header("Content-Type", "application/json")
    if user is not None:
        token = base64.b64encode(":".join(user).encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
    try:
        with _OPENER.open(request, timeout=timeout) as response:
            return Answer(response.status, _decode(response.read()))
    except urllib.error.HTTPError as error:
        return Answer(error.code, _decode(error.read()))
    except (OSError, ValueError):
        return Answer(0, None)


def _decode(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")
