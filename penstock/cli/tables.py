"""`penstock tables` and `penstock register`: what is declared, and what runs of it."""

from __future__ import annotations

import json
from typing import Any

import click

from penstock.cli.announcing import announce_new, live_before
from penstock.cli.asking import manifest
from penstock.cli.show import print_rows
from penstock.settings import Settings

__all__ = ["register", "tables"]


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also quarantine, late and outcomes.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def tables(everything: bool, as_json: bool) -> None:
    """List the tables: kind, live revision, what they read, and what is wrong with them.

    \b
    Examples:
      penstock tables
      penstock tables --json | jq '.tables[].name'
    """
    found = manifest(Settings.load())
    if as_json:
        click.echo(json.dumps(found, indent=1))
    else:
        _show(found, everything=everything)


def _show(found: dict[str, Any], *, everything: bool = False) -> None:
    rows = [
        {
            "table": entry["name"],
            "kind": entry["kind"],
            "reads": ", ".join(entry.get("inputs", {}).values())
            or entry.get("topic")
            or entry["of"],
            "keys": ", ".join(entry.get("keys", [])),
            "freshness": entry.get("freshness"),
            "live_revision": entry.get("revision"),
            "owner": entry.get("owner"),
            "note": "edited since: stage it to go live" if entry.get("changed") else "",
        }
        for entry in found["tables"]
        if everything or "of" not in entry
    ]
    print_rows(
        rows, ("table", "kind", "reads", "keys", "freshness", "live_revision", "owner", "note")
    )
    for broken in found["broken"]:
        click.secho(f"disabled: {broken['what']}: {broken['reason']}", fg="red", err=True)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def register(as_json: bool) -> None:
    """Read the declarations of the working tree again and write the manifest.

    New tables go live and start to run; a changed table keeps its live revision and is marked.
    Exits with 3 when a declaration is broken.

    \b
    Example:
      penstock register && penstock tables
    """
    from penstock.runtime.declared.register import register as run
    from penstock.runtime.registry import Registry
    from penstock.spark.session import build_session

    settings = Settings.load()
    before = live_before(settings)
    registry = Registry(settings)
    registry.create()
    for topic in _provision(settings):
        click.echo(f"made topic {topic}", err=True)
    session = build_session(settings, "penstock-register", memory="1g", quiet=True, plans_only=True)
    try:
        found = run(session, settings, registry)
    finally:
        session.stop()
    written = manifest(settings)
    if as_json:
        click.echo(json.dumps(written, indent=1))
    else:
        _show(written)
    announce_new(settings, before)
    if found.broken:
        raise click.exceptions.Exit(3)


def _provision(settings: Settings) -> list[str]:
    """Subjects and topics of the streams the tree declares; a schema that breaks stops it all."""
    from penstock.platform.kafka_admin import provision_streams
    from penstock.platform.spec import PlatformSpec
    from penstock.runtime.code.bundle import Bundle
    from penstock.runtime.ingest.subjects import ensure_subjects

    streams = list(Bundle(settings.project, settings.jobs).catalog().streams.values())
    ensure_subjects(settings, streams)
    topics = [stream.topic for stream in streams]
    return provision_streams(settings, PlatformSpec.load(settings.project), topics)
