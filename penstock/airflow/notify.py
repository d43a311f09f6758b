"""The one place alerts leave by: a line in ``alerts.jsonl``, a line in the log, and a webhook.

The webhook is ``alert_url`` in ``[tool.penstock]`` of the project file; without it there is none.

To have alerts go elsewhere, change `alert`. An alert that cannot be delivered is never a reason for
a task to fail: it is in the file in any case.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
from typing import Any
from urllib.parse import urlsplit

from penstock.settings import Settings

__all__ = ["alert"]

_log = logging.getLogger(__name__)
_TIMEOUT_SECONDS = 5.0


def alert(settings: Settings, what: str, text: str, **facts: Any) -> dict[str, Any]:
    """Tell whoever is on duty.

    Args:
        what: the kind of alert, such as stream_lag; alerts of one kind can be routed together.
        text: one sentence for people.
        facts: what it is about, for programs.
    """
    told = {"at": dt.datetime.now(dt.UTC).isoformat(), "what": what, "text": text, **facts}
    _log.warning("ALERT %s: %s", what, text)
    _keep(settings, told)
    if settings.alert_url:
        _post(settings.alert_url, told)
    return told


def _keep(settings: Settings, told: dict[str, Any]) -> None:
    line = json.dumps(told, default=str) + "\n"
    # One write to a file opened for appending: two tasks at once do not mix their lines.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    handle = os.open(settings.home / "alerts.jsonl", flags, 0o600)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def _post(address: str, told: dict[str, Any]) -> None:
    import httpx

    host = urlsplit(address).hostname  # the rest of the address may hold a token: it is not logged
    try:
        answer = httpx.post(address, json=json.loads(json.dumps(told, default=str)),
                            timeout=_TIMEOUT_SECONDS, trust_env=False)  # fmt: skip
        if not answer.is_success:
            _log.error("%s refused an alert: status %s", host, answer.status_code)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        _log.error("%s did not take an alert: %s", host, type(error).__name__)
