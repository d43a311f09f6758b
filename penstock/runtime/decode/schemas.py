"""Writer schemas from the registry, each looked up once.

Three answers matter and must not be mixed up: the schema; "there is no such id", which condemns
the row; and no answer at all, which condemns nobody and is tried again.
"""

from __future__ import annotations

import threading
import time
from typing import Any
from urllib.parse import quote

import httpx

from penstock.errors import DefinitionError, ServiceFailed

__all__ = ["SchemaRegistry"]

_ASK_AGAIN = (
    30.0  # seconds a denied id stays denied: a flood of bad ids must not flood the registry
)
_MOST_DENIED = 10_000
_REFUSED = (409, 422)  # incompatible, invalid
# Error codes of a 404 that are the registry's answer.
_NO_SCHEMA = (40403,)
_NO_SUBJECT = tuple(range(40401, 40500))  # no subject, no version, no level of its own


class SchemaRegistry:
    """The registry's Confluent-compatible API, as far as reading and registering need it."""

    def __init__(self, url: str, timeout: float = 5.0) -> None:
        self._url = url
        self._client = httpx.Client(base_url=url, timeout=timeout)
        self._writers: dict[int, str] = {}
        self._denied: dict[int, float] = {}
        self._lock = threading.Lock()

    def writer(self, schema_id: int) -> str | None:
        """The schema of an id, or None when the registry says there is none.

        Raises ServiceFailed while the registry does not answer.
        """
        with self._lock:
            if schema_id in self._writers:
                return self._writers[schema_id]
            if time.monotonic() - self._denied.get(schema_id, -_ASK_AGAIN) < _ASK_AGAIN:
                return None
        entry = self._get(f"/schemas/ids/{schema_id}")
        if entry is None:
            with self._lock:
                if len(self._denied) >= _MOST_DENIED:
                    self._denied.clear()
                self._denied[schema_id] = time.monotonic()
            return None
        with self._lock:
            return self._writers.setdefault(schema_id, str(entry["schema"]))

    def register(self, subject: str, schema: str) -> int:
        """Register a schema and return its id, or that of the same one registered before.

        Raises DefinitionError when the registry refuses it.
        """
        answer = self._send("POST", f"{_at(subject)}/versions", json={"schema": schema})
        if answer.status_code in _REFUSED:
            raise DefinitionError(
                f"the schema registry refused {subject}: {answer.text[:300]}",
                remedy="Make the change compatible both ways (a new field needs a default).",
            )
        if answer.status_code >= 400:
            raise ServiceFailed(
                f"the schema registry answered {answer.status_code} to the schema of {subject}: "
                f"{answer.text[:300]}"
            )
        return int(answer.json()["id"])

    def versions(self, subject: str) -> list[str]:
        """Every schema of a subject, oldest first; none where there is no such subject."""
        listed = self._get(f"{_at(subject)}/versions", none=_NO_SUBJECT)
        found = []
        for version in sorted(map(int, listed or ())):
            entry = self._get(f"{_at(subject)}/versions/{version}", none=_NO_SUBJECT)
            if entry is not None:  # deleted since it was listed
                found.append(str(entry["schema"]))
        return found

    def compatibility(self, subject: str) -> str | None:
        """The level a subject is held to, or None where it has none of its own."""
        entry = self._get(f"/config/{_quoted(subject)}", none=_NO_SUBJECT)
        return None if entry is None else str(entry.get("compatibilityLevel") or "") or None

    def hold_to(self, subject: str, level: str) -> None:
        """Have the registry refuse what breaks this level."""
        path = f"/config/{_quoted(subject)}"
        answer = self._send("PUT", path, json={"compatibility": level})
        if answer.status_code >= 400:
            raise ServiceFailed(
                f"the schema registry answered {answer.status_code} to {path}: {answer.text[:300]}"
            )

    def _get(self, path: str, none: tuple[int, ...] = _NO_SCHEMA) -> Any:
        answer = self._send("GET", path)
        if answer.status_code == 404 and _code(answer) in none:
            return None
        if answer.status_code >= 400:
            raise ServiceFailed(f"the schema registry answered {answer.status_code} to {path}.")
        return answer.json()

    def _send(self, method: str, path: str, **options: object) -> httpx.Response:
        try:
            return self._client.request(method, path, **options)  # type: ignore[arg-type]
        except httpx.HTTPError as error:
            raise ServiceFailed(
                f"the schema registry at {self._url} does not answer ({type(error).__name__}).",
                remedy="Look at `penstock status`; rows wait for it, none is lost.",
            ) from error


def _code(answer: httpx.Response) -> int:
    """The registry's own word for it; a 404 of anything in between is no verdict."""
    try:
        return int(answer.json().get("error_code", 0))
    except (ValueError, AttributeError):
        return 0


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _at(subject: str) -> str:
    return f"/subjects/{_quoted(subject)}"
