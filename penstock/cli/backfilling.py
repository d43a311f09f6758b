"""What `penstock backfill` does, step by step."""

from __future__ import annotations

import datetime as dt
import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.cli.asking import ask
from penstock.cli.change import Shown, releases_of
from penstock.errors import UsageError
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.reprocess.backfill import Backfill

__all__ = ["backfill_all", "backfill_interval"]


@contextmanager
def _backfill(*, quiet: bool) -> Iterator[Backfill]:
    from penstock.reprocess.backfill import Backfill
    from penstock.runtime.registry import Registry
    from penstock.spark.session import build_session

    settings = Settings.load()
    registry = Registry(settings)
    registry.create()

    def through(table: str, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return ask(settings, table, verb, arguments, quiet=quiet)

    opened: list[SparkSession] = []

    def spark() -> SparkSession:
        opened.append(
            build_session(settings, "penstock-backfill", memory="2g", quiet=True, modest=True)
        )
        return opened[0]

    try:
        yield Backfill(spark, settings, registry, through)
    finally:
        for session in opened:
            session.stop()


def backfill_interval(
    table: str, start: str, end: str, *, on: str | None, why: str, quiet: bool
) -> dict[str, Any]:
    """An interval of a table."""
    first, last = _moment(start, "--from"), _moment(end, "--to")
    with _backfill(quiet=quiet) as backfill:
        return backfill.interval(table, first, last, who=getpass.getuser(), why=why, on=on)


def _moment(text: str, option: str) -> dt.datetime:
    try:
        at = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is not a moment.", remedy="Write it as 2026-11-01T00:00Z."
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=dt.UTC)


def backfill_all(table: str, *, why: str, share: float, quiet: bool) -> dict[str, Any]:
    """A whole table, and what reads it, as another generation."""
    from penstock.reprocess.comparison import Wishes

    who, shown = getpass.getuser(), Shown(quiet)
    with _backfill(quiet=quiet) as backfill:
        release = backfill.stage_again(table, who=who, why=why, share=share)
        backfill.build(release, shown.built, shown.waiting)
    shown.end()
    releases = releases_of(quiet=quiet)
    compared = releases.compare(None, Wishes(threshold=1.0), release=release)
    told: dict[str, Any] = releases.promote(
        None, why=why, accept="a backfill", keep_warm=dt.timedelta(hours=24), release=release
    )
    return {**told, "report": compared["page"]}
