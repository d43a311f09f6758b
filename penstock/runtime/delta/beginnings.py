"""Reading a table from its beginning when the log does not go back that far any more.

**Purpose.** A new reader takes in everything its input holds, in order, and may be killed half way:
its position is a version, whether commits or files stand for it.

**How it works.** The oldest version the log can show is the *base*. Where rows only ever came, each
file of the base stands for the commits that brought its rows: one, or the span that a merged file
has in its name. No commit is split between two files that are merged, so the spans lie one after
the other, and reading them in order is reading the commits in order: after each a reader stands at
a version. Where rows also went, the base is taken as one: its rows as they are.

**What it does not do.** Tell rows that came and went before the base: nobody can any more.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.location import Location
from penstock.runtime.delta.archive import Archive
from penstock.runtime.delta.log import Action
from penstock.runtime.delta.log_files import LogFiles, files_at

__all__ = ["Base", "Segment", "base_of", "merged_name", "merged_span"]

_MERGED = re.compile(r"merged-(\d+)-(\d+)-")


def merged_name(first: int, last: int) -> str:
    """How the name begins of a file that holds the rows of these commits."""
    return f"merged-{first}-{last}"


def merged_span(path: str) -> tuple[int, int] | None:
    """First and last commit of a merged file, by its name; None: it is not one."""
    found = _MERGED.match(Path(path).name)
    return (int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True)
class Segment:
    """Files that stand for the commits ``first`` to ``last``."""

    first: int
    last: int
    adds: tuple[Action, ...]

    @property
    def rows(self) -> int:
        return int(sum(json.loads(add["stats"])["numRecords"] for add in self.adds))

    @property
    def size(self) -> int:
        return int(sum(add["size"] for add in self.adds))


@dataclass(frozen=True)
class Base:
    """The oldest version of a table that can be read, as something to begin with."""

    path: Location
    version: int
    segments: tuple[Segment, ...]
    whole: bool  # rows went too: it can only be taken as one

    def after(self, version: int) -> Iterator[Segment]:
        """What a reader that stands at a version has to read of it.

        Raises:
            PenstockError: it stands where the log is gone.
        """
        inside = any(s.first <= version < s.last for s in self.segments)
        if (version >= 0 and self.whole) or inside:
            raise PenstockError(
                f"version {version + 1} of {self.path.name} is no longer in its log: the reader "
                "fell behind further than the log is kept.",
                remedy="Stage the table anew from its input's history.",
            )
        yield from (s for s in self.segments if s.last > version)

    def at(self, version: int) -> list[Action]:
        """The files of a version before the base, of a table that only grew."""
        if self.whole:
            raise FileNotFoundError(f"version {version} of {self.path} is gone")
        return [add for s in self.segments if s.last <= version for add in s.adds]


def base_of(path: Location) -> Base:
    """The base of a table whose log was cleaned up."""
    return _base(path, LogFiles.listed(path).start)


@lru_cache(maxsize=8)
def _base(path: Location, version: int) -> Base:
    files = files_at(path, version)
    brought, grew = Archive(path).brought()
    segments = _segments(files, brought) if grew else None
    if segments is None:
        everything = Segment(0, version, tuple(sorted(files.values(), key=_came)))
        return Base(path, version, (everything,), whole=True)
    return Base(path, version, tuple(segments), whole=False)


def _segments(files: dict[str, Any], brought: dict[str, int]) -> list[Segment] | None:
    """One after the other; None: they cannot be told apart."""
    spans: dict[tuple[int, int], list[Action]] = {}
    for path, add in files.items():
        span = merged_span(path)
        if span is None:
            if path not in brought:
                return None
            span = (brought[path], brought[path])
        spans.setdefault(span, []).append(add)
    ordered = sorted(spans)
    if any(a[1] >= b[0] for a, b in itertools.pairwise(ordered)):
        return None
    return [Segment(*span, tuple(spans[span])) for span in ordered]


def _came(add: Action) -> tuple[str, int]:
    """When the rows of a file came, as far as it tells."""
    lows = json.loads(add["stats"])["minValues"]
    return str(lows.get("ingested_at", "")), int(add["modificationTime"])
