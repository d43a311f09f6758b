"""Where OpenLineage events are sent: ``openlineage_url`` of the project file.

Airflow's configuration is made from it too, so this imports nothing big.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.errors import EnvironmentProblem

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.settings import Settings

__all__ = ["address", "events_file", "shown"]

_ENDPOINT = "/api/v1/lineage"  # where OpenLineage's servers listen


def events_file(settings: Settings) -> Path:
    """Where events are kept if nobody named a server."""
    return settings.home / "lineage" / "events.jsonl"


def address(settings: Settings) -> str | None:
    """The server's address with its path; None: events are kept in a file.

    Raises:
        EnvironmentProblem: what the project file has there is no address.
    """
    with (settings.project / "pyproject.toml").open("rb") as handle:
        declared = tomllib.load(handle).get("tool", {}).get("penstock", {})
    url = declared.get("openlineage_url")
    if url is None:
        return None
    if not isinstance(url, str) or not _is_address(url):
        raise EnvironmentProblem(  # not shown: one that is mistyped may have a password in it
            "openlineage_url in pyproject.toml is not an address.",
            remedy='Write it as openlineage_url = "http://127.0.0.1:5000", or leave it out.',
        )
    parts = urlsplit(url)
    return parts._replace(path=_ENDPOINT).geturl() if parts.path in ("", "/") else url


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port that is no number
        return False


def shown(url: str) -> str:
    """An address as it may be printed: without the places where a password or a token can be."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="", fragment="").geturl()
