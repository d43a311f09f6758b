"""The examples of docs/clients.md run as they stand there, one after the other."""

from __future__ import annotations

import os
import re
import signal
import threading
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.settings import Settings

pytestmark = pytest.mark.platform
_SAID = (
    "\ndelivered: ",
    "waited for",
    "not delivered: 1 ['TOPIC_AUTHORIZATION_FAILED']",
    "not delivered: 0",
    "mine now:",
    "working on",
    "new records:",
)
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_page(project, at, read_all, monkeypatch, capsys):
    monkeypatch.setattr(Settings, "load", lambda: at)
    names: dict[str, Any] = {}
    for block in _BLOCK.findall((project / "docs" / "clients.md").read_text()):
        told = threading.Timer(4, os.kill, [os.getpid(), signal.SIGTERM])
        if "Stopping()" in block:
            told.start()
        exec(compile(block, "docs/clients.md", "exec"), names)
    said = capsys.readouterr().out
    for line in _SAID:
        assert line in f"\n{said}", line
    orders = [message.value() for message in read_all("app.orders")]
    assert sorted(orders) == sorted([b"1", b"2", b"3", *[b"5"] * 4, b"6", b'{"id":"7"}'])
    assert b"6" in [message.value() for message in read_all("app.invoices")]
    sums: pa.Table = DeltaTable(str(at.home / "app" / "sums")).to_pyarrow_table()
    assert sums.num_rows > 0
