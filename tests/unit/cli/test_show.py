"""What people typed is shown as they typed it."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from penstock.cli import platform
from penstock.cli.progress import Progress
from penstock.cli.show import print_rows
from penstock.platform.stack import Event

TEXTS = ["paths [/data/x] moved", "[ticket-1] asked for", "[red]not red[/red]", "a \\[b]"]


@pytest.mark.parametrize("text", TEXTS)
def test_square_brackets_in_a_row_are_text(text, capsys):
    print_rows([{"table": "gold.x", "why": text}], ("table", "why"))
    assert text in capsys.readouterr().out


@pytest.mark.parametrize("text", TEXTS)
def test_square_brackets_in_what_a_service_says_are_text(text, capsys):
    service = SimpleNamespace(
        name="kafka", state="running", pid=1, ports={}, memory_bytes=0, detail=text
    )
    platform._show([service], [])
    assert text in capsys.readouterr().out


@pytest.mark.parametrize("text", TEXTS)
def test_square_brackets_in_a_step_are_text(text):
    progress, shown = Progress(), io.StringIO()
    progress.record(Event("kafka", "failed", text))
    progress.record(Event("", "working", f"note {text}"))
    Console(file=shown, width=200).print(progress)
    assert shown.getvalue().count(text) == 2
