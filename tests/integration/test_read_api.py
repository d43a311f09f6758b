"""The read API as the platform runs it: started, asked, kept to loopback, stopped."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock.platform.stack import Stack
from penstock.settings import Settings


@pytest.fixture
def running(settings: Settings) -> Iterator[Stack]:
    """The API alone: it needs none of the other services."""
    rows = pa.table({"model": ["runner", "walker"], "pairs": [3, 4]})
    write_deltalake(settings.warehouse / "gold" / "shoes", rows)
    entry = {"name": "gold.shoes", "kind": "group", "keys": ["model"], "revision": "r1"}
    settings.manifest.write_text(json.dumps({"tables": [entry]}))
    stack = Stack(settings)
    try:
        stack.up(only=["api"])
        yield stack
    finally:
        stack.down()


def test_the_service_answers_whoever_has_the_token(running: Stack) -> None:
    settings = running.settings
    assert {s.name: s.state for s in running.status() if s.state != "stopped"} == {"api": "running"}
    token = settings.home / "secrets" / "api-bearer"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    with httpx.Client(base_url=settings.api_url, trust_env=False) as client:
        assert client.get("/health").json()["status"] == "ok"
        assert client.get("/tables").status_code == 401
        client.headers["Authorization"] = f"Bearer {settings.secret('api-bearer')}"
        answer = client.get("/tables/gold.shoes/rows", params={"key": "walker"})
        assert answer.json()["rows"] == [{"model": "walker", "pairs": 4}]
        assert answer.json()["behind"] is None  # nobody is there who would know
        write_deltalake(
            settings.warehouse / "gold" / "shoes",
            pa.table({"model": ["sprinter"], "pairs": [5]}),
            mode="append",
        )
        after = client.get("/tables/gold.shoes/rows", params={"key": "sprinter"})
        assert (after.json()["version"], len(after.json()["rows"])) == (1, 1)

    (process,) = running.services["api"].pid_file.read().members()  # type: ignore[union-attr]
    listening = [c.laddr for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
    assert [tuple(address) for address in listening] == [("127.0.0.1", settings.port("api"))]
    told = " ".join(process.cmdline()) + str(process.environ()) + log_of(running).read_text()
    assert settings.secret("api-bearer") not in told
    assert "walker" not in log_of(running).read_text()

    assert running.down() == ["api"]
    assert not psutil.pid_exists(process.pid) or process.status() == psutil.STATUS_ZOMBIE
    assert "Traceback" not in log_of(running).read_text()


def log_of(stack: Stack) -> Path:
    return stack.services["api"].log
