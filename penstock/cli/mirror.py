"""`penstock mirror`: topics of another Kafka cluster, copied into this stack's."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from penstock.cli.show import print_rows
from penstock.errors import UsageError
from penstock.settings import Settings

__all__ = ["mirror"]

_COLUMNS = ("name", "cluster_id", "bootstrap", "topics", "state")


@click.command()
@click.argument("name", required=False)
@click.option("--topics", metavar="A,B", help="Topics of the other cluster to copy.")
@click.option("--home", type=click.Path(path_type=Path), help="Another stack on this machine.")
@click.option("--bootstrap", metavar="HOST:PORT", help="Or the address of any other cluster,")
@click.option("--user", default="app", show_default=True, help="who reads there,")
@click.option("--password-file", type=click.Path(path_type=Path, exists=True), help="how,")
@click.option("--ca", default="", metavar="FILE", help="and who signed its certificates.")
@click.option("--remove", is_flag=True, help="Copy no more; what was copied stays.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def mirror(  # noqa: PLR0917 - each is an option
    name: str | None,
    topics: str | None,
    home: Path | None,
    bootstrap: str | None,
    user: str,
    password_file: Path | None,
    ca: str,
    remove: bool,
    as_json: bool,
) -> None:
    """Copy topics of another Kafka cluster into this one, with MirrorMaker; or list what is copied.

    The topic `readings` of the cluster called west becomes `mirror.west.readings` here; a stream
    that is declared on it has the other cluster's id in bronze.

    \b
    Examples:
      penstock mirror
      penstock mirror west --home /srv/west/.penstock --topics readings
      penstock mirror west --bootstrap kafka.west:9093 --password-file west.txt --ca west.pem \\
        --topics readings,trades
      penstock mirror west --remove
    """
    settings = Settings.load()
    if name is not None and remove:
        _remove(settings, name)
    elif name is not None:
        wanted = tuple(t.strip() for t in (topics or "").split(",") if t.strip())
        address, password = _reached(home, bootstrap, user, password_file)
        _add(
            settings, name, (address, user, password, wanted, str(Path(ca).resolve()) if ca else "")
        )
    _show(settings, as_json)


def _reached(
    home: Path | None, bootstrap: str | None, user: str, password_file: Path | None
) -> tuple[str, str]:
    """The address and the password."""
    if home is not None:
        other = Settings.of(home.expanduser().resolve())
        return other.kafka_bootstrap, other.secret(f"kafka-{user}")
    if bootstrap is None or password_file is None:
        raise UsageError(
            "it is not said how the other cluster is reached.",
            remedy="Give --home of another stack, or --bootstrap and --password-file.",
        )
    return bootstrap, password_file.read_text().strip()


def _add(settings: Settings, name: str, there: tuple[str, str, str, tuple[str, ...], str]) -> None:
    from penstock.cli.progress import steps
    from penstock.platform.mirror import copied, other_cluster
    from penstock.platform.stack import Stack

    address, user, password, topics, ca = there
    found, parts = other_cluster(name, address, user, password, topics=topics, ca=ca)
    stack = Stack(settings)
    with steps(quiet=True) as (_, report):
        stack.up(["kafka"], report)
        copied(settings, found, parts, password)
        stack.up(["connect"], report)


def _remove(settings: Settings, name: str) -> None:
    from penstock.platform.connect import Connect
    from penstock.platform.mirror import forget
    from penstock.platform.stack import Stack
    from penstock.runtime.ingest.mirrors import mirrors

    known = {m.name: m for m in mirrors(settings)}
    if name not in known:
        raise UsageError(
            f"there is no mirror {name}.", remedy=f"Mirrors: {', '.join(known) or 'none'}."
        )
    stack = Stack(settings)
    # Connect keeps its connectors in Kafka: one that is not dropped there copies on at its next
    # start, and by then nobody here would know of it.
    stack.up(["connect"])
    connect = stack.services["connect"]
    if isinstance(connect, Connect):
        connect.drop(known[name].connector)
    forget(settings, known[name])
    stack.up(["connect"])


def _show(settings: Settings, as_json: bool) -> None:
    from penstock.platform.connect import Connect
    from penstock.platform.stack import Stack
    from penstock.runtime.ingest.mirrors import mirrors

    connect = Stack(settings).services["connect"]
    rows = [
        {**asdict(m), "topics": ", ".join(m.copy_of(t) for t in m.topics),
         "state": connect.state_of(m.connector) if isinstance(connect, Connect) else ""}
        for m in mirrors(settings)
    ]  # fmt: skip
    if as_json:
        click.echo(json.dumps(rows))
    elif rows:
        print_rows(rows, _COLUMNS)
    else:
        click.echo("Nothing is mirrored. See `penstock mirror --help`.")
