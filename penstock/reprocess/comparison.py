"""What a comparison is asked for, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.location import Location
from penstock.runtime.delta.swap import files_at

__all__ = ["Expected", "Rollup", "Side", "TableReport", "Wishes", "column_diff"]


def column_diff(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, list[str]]:
    """Columns, by name and type, that came, went or changed their type."""
    return {
        "added": [name for name in new if name not in old],
        "dropped": [name for name in old if name not in new],
        "retyped": [f"{n}: {old[n]} -> {new[n]}" for n in new if n in old and old[n] != new[n]],
    }


_MOST_APART = 0.5  # a candidate wrong in every row has more than that apart, or the rest tells


@dataclass(frozen=True)
class Expected:
    """Differences that are meant: a condition on ``old`` and ``new``, and why.

    Without a table it is said of every table of the release that has the columns it names.
    """

    condition: str
    reason: str
    table: str | None = None


@dataclass(frozen=True)
class Rollup:
    """What to compare when rows are not the same things any more."""

    by: str
    values: str


@dataclass(frozen=True)
class Wishes:
    """What the one who compares says about it."""

    threshold: float = 0.0  # share of rows that may differ unexpectedly
    tolerances: Mapping[str, float] = field(default_factory=dict)
    expected: Sequence[Expected] = ()
    rollup: Rollup | None = None


@dataclass(frozen=True)
class Side:
    """One revision at one version, and what lies beside it."""

    revision: str
    version: int
    path: Location
    columns: dict[str, str]  # name -> type, as declared
    inputs: dict[str, int] = field(default_factory=dict)
    watermark: int | None = None
    quarantine: tuple[Location, int] | None = None
    late: tuple[Location, int] | None = None

    def files(self) -> dict[str, dict[str, Any]]:
        return files_at(self.path, self.version)


@dataclass
class TableReport:
    """What comparing one table came to."""

    table: str
    old: dict[str, Any]
    new: dict[str, Any]
    columns: dict[str, list[str]]
    method: str  # by key, as bags, by roll-up, not comparable
    keys: list[str]
    counts: dict[str, int] = field(default_factory=dict)
    expected: list[dict[str, Any]] = field(default_factory=list)
    per_column: list[dict[str, Any]] = field(default_factory=list)
    over_time: list[dict[str, Any]] = field(default_factory=list)
    worst: list[dict[str, Any]] = field(default_factory=list)
    quarantine: list[dict[str, Any]] = field(default_factory=list)
    quality: dict[str, Any] = field(default_factory=dict)  # what the candidate's suite says
    threshold: float = 0.0
    since: str | None = None
    notes: list[str] = field(default_factory=list)
    one_of_many: bool = False  # others are compared with it, and what was said is about them too

    @property
    def unexpected(self) -> int:
        return self.counts.get("unexpected", 0)

    @property
    def share(self) -> float:
        return self.unexpected / max(1, self.counts.get("rows", 0))

    @property
    def undecided(self) -> bool:
        """Too much differs where late rows are pending to tell anything by the rest.

        One late row sets its whole window apart: a candidate that is wrong everywhere would pass if
        each window had one.
        """
        apart = self.counts.get("set_apart", 0) / max(1, self.counts.get("rows", 0))
        return apart > max(self.threshold, _MOST_APART)

    @property
    def alike(self) -> bool:
        """No more differences than there may be, as far as anybody can tell."""
        few = self.share <= self.threshold and not self.undecided
        return self.method != "not comparable" and few

    @property
    def failures(self) -> list[str]:
        """Blocking checks that the candidate fails."""
        return list(self.quality.get("failures", ()))

    @property
    def within(self) -> bool:
        return self.alike and not self.failures

    def as_dict(self) -> dict[str, Any]:
        told = asdict(self)
        said = {name: getattr(self, name) for name in ("share", "undecided", "alike", "within")}
        return {**told, **said}
