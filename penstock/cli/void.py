"""`penstock void`: records of a topic that should not count."""

from __future__ import annotations

import getpass
import json
import re

import click

from penstock.cli.asking import ask, manifest
from penstock.errors import UsageError
from penstock.settings import Settings

__all__ = ["void"]

_PLACE = re.compile(r"(\d{1,9}):(\d{1,18})(?:-(\d{1,18}))?")


@click.command()
@click.argument("stream")
@click.argument("places", nargs=-1, required=True, metavar="PARTITION:OFFSET[-OFFSET]...")
@click.option("--why", required=True, help="Why; kept with the record and in the commit.")
@click.option("--undo", is_flag=True, help="Take the mark away: the records count again.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def void(stream: str, places: tuple[str, ...], why: str, undo: bool, as_json: bool) -> None:
    """Let records of a topic not count, without losing a byte of them.

    Bronze keeps the records, marked with the reason. Whatever they had come to is taken back from
    every table that reads the stream, and from what reads those; the records themselves are in
    quarantine, as void. For tables with windows that are closed that is a late correction: see
    `penstock reconcile`.

    \b
    Examples:
      penstock void bronze.readings 0:1742 --why 'sensor s-7 was on the bench'
      penstock void bronze.readings 0:1700-1799 1:1650-1740 --why 'a test run'
      penstock void bronze.readings 0:1742 --undo --why 'it was not, after all'
    """
    settings = Settings.load()
    known = [e["name"] for e in manifest(settings)["tables"] if e["kind"] == "stream"]
    if stream not in known:
        raise UsageError(
            f"there is no stream {stream}.", remedy=f"There are: {', '.join(known) or 'none'}."
        )
    if not why.strip():
        raise UsageError("--why says nothing.", remedy="Say why, in a few words.")
    arguments = {
        "stream": stream,
        "ranges": ranges(places),
        "undo": undo,
        "why": why.strip(),
        "who": getpass.getuser(),
    }
    told = ask(settings, stream, "void", arguments, quiet=as_json)
    if as_json:
        click.echo(json.dumps(told, indent=1))
        return
    word = "count again" if undo else "are void now"
    click.echo(f"{stream}: {told['records']:,} records, of which {told['marked']:,} {word}.")
    if told["records"] == 0:
        click.echo("None of these places is in bronze (yet).")


def ranges(places: tuple[str, ...]) -> dict[str, list[tuple[int, int]]]:
    """Places as typed, by partition."""
    found: dict[str, list[tuple[int, int]]] = {}
    for place in places:
        match = _PLACE.fullmatch(place)
        first, last = (int(match[2]), int(match[3] or match[2])) if match else (1, 0)
        if match is None or last < first:
            raise UsageError(
                f"{place!r} is not a place in a topic.",
                remedy="Write PARTITION:OFFSET or PARTITION:FIRST-LAST, such as 0:1742 or 0:10-19.",
            )
        found.setdefault(match[1], []).append((first, last))
    return found
