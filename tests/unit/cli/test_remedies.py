"""What an error says to type can be typed: with the options the command has, and all it needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
from click import Context

from penstock.cli import COMMANDS, cli

TYPED = re.compile(r"`penstock ([a-z]+)([^`]*)`")


def remedies(project: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((project / "penstock").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "remedy":
                yield f"{path.name}:{node.value.lineno}", spelt(node.value)


def spelt(value: ast.expr) -> str:
    """Its words; what is put in is a word too."""
    if isinstance(value, ast.JoinedStr):
        return "".join(spelt(part) for part in value.values)
    if isinstance(value, ast.BinOp):
        return spelt(value.left) + spelt(value.right)
    if isinstance(value, ast.IfExp):
        return spelt(value.body) + spelt(value.orelse)
    return value.value if isinstance(value, ast.Constant) else "something"


def lacking(verb: str, rest: str) -> list[str]:
    verb = "promote" if verb == "something" else verb  # promote or rollback
    command = cli.get_command(Context(cli), verb)
    if command is None or isinstance(command, click.Group):
        return [] if verb in COMMANDS else [verb]
    options = [p for p in command.params if isinstance(p, click.Option)]
    known = {name for option in options for name in option.opts}
    given = set(re.findall(r"(?<= )--[a-z-]+", rest))
    needed = {option.opts[0] for option in options if option.required}
    return sorted(needed - given) + sorted(given - known)


def test_what_a_remedy_says_to_type_can_be_typed(project):
    wrong = [
        (where, match[0], found)
        for where, text in remedies(project)
        for match in TYPED.finditer(text)
        if (found := lacking(match[1], match[2]))
    ]
    assert wrong == []
