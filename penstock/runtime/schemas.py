"""Writer schemas from the registry, each looked up once.

Three answers matter and must not be mixed up: the schema; "there is no such id", which condemns
the row; and no answer at all, which condemns nobody and is tried again.
"""

from __future__ import annotations

import threading
import time

import httpx

from penstock.errors import ServiceFailed

__all__ = ["SchemaRegistry"]

_ASK_AGAIN = (
    30.0  # seconds a denied id stays denied: a flood of bad ids must not flood the registry
)
_MOST_DENIED = 10_000


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
        """Register a schema; the registry refuses what breaks compatibility."""
        answer = self._send("POST", f"/subjects/{subject}/versions", json={"schema": schema})
        if answer.status_code >= 400:
            raise ServiceFailed(
                f"the schema registry refused {subject}: {answer.text[:300]}",
                remedy="Make the change compatible (a new field needs a default).",
            )
        return int(answer.json()["id"])

    def _get(self, path: str):  # type: ignore[no-untyped-def]
        answer = self._send("GET", path)
        if answer.status_code == 404 and _says_no_such_schema(answer):
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


def _says_no_such_schema(answer: httpx.Response) -> bool:
    """The registry's own word for it; a 404 of anything in between is no verdict."""
    try:
        return int(answer.json().get("error_code", 0)) == 40403
    except ValueError:
        return False
