"""Claims: what readers outside the supervisor still need of a live table.

An export, a copy in another database, a stream of somebody else's: whoever reads the change feed of
a live table commit by commit leaves a claim, one small file per reader and table under
``home/claims``, and moves it on as it goes. Maintenance keeps every commit after a claim, and the
files of the version it names, whatever the table's retention. A claim that nobody has moved for
``days`` is over: a reader that is gone must not keep history for ever.

    claims = Claims(settings.home)
    claims.hold("export-duckdb", "gold.stock_stats", version=1200)
    ...
    claims.let_go("export-duckdb", "gold.stock_stats")
"""

from __future__ import annotations

import json
import logging
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.errors import UsageError
from penstock.model.names import TableName

__all__ = ["Claim", "Claims"]

log = logging.getLogger("penstock.claims")

_WHO = re.compile(r"[a-z0-9][a-z0-9_-]{0,60}")
_DAY = 86_400.0


@dataclass(frozen=True)
class Claim:
    """A reader has taken in a live table up to a version, and will go on from there."""

    who: str
    table: str
    version: int
    claimed_at: float  # seconds
    days: float = 30.0

    @property
    def is_over(self) -> bool:
        return time.time() > self.claimed_at + self.days * _DAY


class Claims:
    """The claims of one stack."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "claims"

    def hold(self, who: str, table: str, version: int, *, days: float = 30.0) -> None:
        """Claim a version, or move the claim on.

        Raises:
            UsageError: a name that is none.
        """
        file = self._file(who, table)
        claim = Claim(who, str(TableName.parse(table)), version, time.time(), days)
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(claim)))
        draft.replace(file)

    def let_go(self, who: str, table: str) -> None:
        self._file(who, table).unlink(missing_ok=True)

    def all(self) -> list[Claim]:
        """Every claim, also those that are over.

        A file that cannot be read, as a full disk leaves one, claims all there is of its table.
        """
        files = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        return [claim for file in files if (claim := _read(file)) is not None]

    def _file(self, who: str, table: str) -> Path:
        if not _WHO.fullmatch(who):
            raise UsageError(
                f"{who!r} is no name of a reader.", remedy="Use small letters, digits and dashes."
            )
        return self._folder / f"{who}.{TableName.parse(table)}.json"


def _read(file: Path) -> Claim | None:
    """None: it was let go of this moment."""
    try:
        text, written = file.read_text(), file.stat().st_mtime
    except FileNotFoundError:
        return None
    try:
        return Claim(**json.loads(text))
    except (ValueError, TypeError) as error:
        log.warning("%s cannot be read as a claim, so it claims everything: %s", file, error)
    who, _, table = file.stem.partition(".")
    try:
        return Claim(who, str(TableName.parse(table)), 0, written)
    except ValueError:  # it names no table that could be kept for it
        return None
