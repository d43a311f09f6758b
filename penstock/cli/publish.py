"""`penstock publish` and `penstock notify`: what leaves the house, and how people are told."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import click

from penstock.cli.show import print_rows
from penstock.errors import UsageError
from penstock.settings import Settings

__all__ = ["notify", "publish"]

_COLUMNS = ("kind", "table", "target", "state", "version", "behind", "records", "failures", "error")
_TROUBLE = ("waiting", "parked")


@click.command()
@click.option("--once", is_flag=True, help="Publish what there is now, and leave.")
@click.option("--follow", is_flag=True, help="Publish until stopped: what the service does.")
@click.option(
    "--go-on",
    metavar="TARGET",
    help="Let events or a notification that lost their place go on from now.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def publish(*, once: bool, follow: bool, go_on: str | None, as_json: bool) -> None:
    """What is published of live tables, how far it is, and what is wrong.

    The service `publisher` does the work. Exits with 1 when a publication is in trouble.

    \b
    Examples:
      penstock publish
      penstock publish --json | jq '.publications[] | select(.behind > 0)'
      penstock publish --once
      penstock publish --go-on out.errors_high
    """
    settings = Settings.load()
    if go_on is not None:
        _go_on(settings, go_on)
        return
    if follow:
        _follow(settings)
        return
    found = _publish_once(settings) if once else _found(settings)
    if as_json:
        click.echo(json.dumps(found, indent=1))
    else:
        print_rows(found["publications"], _COLUMNS)
        for line in _notes(found):
            click.echo(line, err=True)
    if found["error"] or any(one["state"] in _TROUBLE for one in found["publications"]):
        raise click.exceptions.Exit(1)


def _publish_once(settings: Settings) -> dict[str, Any]:
    from penstock.publish.run import Publisher, publishing_alone

    with publishing_alone(settings):
        return {"error": "", "publications": Publisher(settings).once()}


def _follow(settings: Settings) -> None:
    from penstock.clients.stopping import Stopping
    from penstock.publish.run import Publisher, publishing_alone

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with Stopping() as stopping, publishing_alone(settings, patience=5.0):
        Publisher(settings).run(stopping)


def _found(settings: Settings) -> dict[str, Any]:
    """As the publisher last said it, and what is declared but not begun."""
    from penstock.publish.declared import declared
    from penstock.publish.state import STALE_AFTER, read_told

    told = read_told(settings)
    known = {(one["kind"], one["target"]): one for one in (told.publications if told else ())}
    listed = [
        known.get((item.kind, item.target))
        or {"kind": item.kind, "table": item.table, "target": item.target, "state": "not begun"}
        for item in declared(settings)
    ]
    age = told.age_seconds if told else None
    running = age is not None and age < STALE_AFTER
    error = told.error if told else ""
    return {"running": running, "told_seconds_ago": age, "error": error, "publications": listed}


def _notes(found: dict[str, Any]) -> list[str]:
    if not found["publications"]:
        return ["Nothing is declared to be published: docs/publishing.md."]
    notes = [found["error"]] if found["error"] else []
    if not found.get("running", True):
        notes += ["The publisher does not run; this is what it last said. Start it: `penstock up`."]
    return notes


def _go_on(settings: Settings, target: str) -> None:
    from penstock.publish.declared import CHANGELOG, declared
    from penstock.publish.run import go_on_wish

    known = {item.target: item for item in declared(settings) if item.kind != CHANGELOG}
    if target not in known:
        raise UsageError(
            f"no events and no notification go to {target!r}.",
            remedy=f"There is {', '.join(sorted(known)) or 'nothing at all'}. A changelog finds "
            "its place by itself.",
        )
    wish = go_on_wish(settings, target)
    wish.parent.mkdir(parents=True, exist_ok=True)
    wish.touch()
    click.echo(f"{target} goes on from now, if it has lost its place: see `penstock publish`.")


# --- people -------------------------------------------------------------------------------------
@click.command()
@click.argument("recipient", required=False)
@click.option(
    "--to", "address", help="file, smtp:<mailbox>, webhook:<address>, or - to read it from stdin."
)
@click.option("--every", help='"immediately", or how long messages are collected: "30 minutes".')
@click.option("--letters", default=20, show_default=True, help="How many letters to list.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def notify(
    *, recipient: str | None, address: str | None, every: str | None, letters: int, as_json: bool
) -> None:
    """Who is told where and how often, and the newest letters; or set it for one person.

    \b
    Examples:
      penstock notify
      penstock notify alice --to smtp:alice@example.com --every "30 minutes"
      penstock notify bob --to webhook:https://example.com/hook --every immediately
      penstock notify bob --to - < bob-hook.txt

    Of a webhook's address only scheme and host are shown: whoever knows the rest can write there.
    """
    from penstock.publish.outbox import Outbox

    if address == "-":
        address = sys.stdin.read().strip()
    outbox = Outbox(Settings.load())
    try:
        wanted = address is not None or every is not None
        if recipient is not None and wanted:
            _prefer(outbox, recipient, address, every)
        elif wanted:
            raise UsageError("whose?", remedy="penstock notify NAME --to ... --every ...")
        found: dict[str, Any] = {
            "recipients": _shown(outbox.recipients()),
            "waiting": outbox.waiting(),
            "letters": _shown(outbox.letters(letters)),
        }
    finally:
        outbox.close()
    if as_json:
        click.echo(json.dumps(found, indent=1, default=str))
        return
    print_rows(found["recipients"], ("recipient", "address", "every"))
    print_rows(found["letters"], ("letter", "recipient", "address", "subject", "made_at", "sent_at",
                                  "attempts", "error"))  # fmt: skip
    click.echo(f"{found['waiting']} messages wait to be collected into letters.", err=True)


def _shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from penstock.publish.addresses import shortened

    return [
        {**row, "address": shortened(row["address"]) if row["address"] else None} for row in rows
    ]


def _prefer(outbox: Any, recipient: str, address: str | None, every: str | None) -> None:
    from penstock.model.duration import parse_duration
    from penstock.model.publication import IMMEDIATELY
    from penstock.publish.addresses import checked_address

    try:
        if every is not None and every != IMMEDIATELY:
            parse_duration(every)
    except ValueError as error:
        raise UsageError(f"every: {error}.") from None
    outbox.prefer(recipient, None if address is None else checked_address(address), every)
