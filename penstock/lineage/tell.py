"""A trace in words: the row, its file, code and commit, and below that a tree of inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.lineage.commits import Offsets, Span
from penstock.lineage.origins import COMMIT, DECIDED, EVERYTHING, ROWS, Origin, RowOrigin, Trace
from penstock.lineage.revisions import UNKNOWN
from penstock.serve.render import cell

__all__ = ["told"]

_SHOWN_PARTITIONS = 8
_SHOWN_LETTERS = 80  # of a value: a message may be a megabyte


def told(trace: Trace) -> Iterator[str]:
    """The lines of a trace."""
    for number, origin in enumerate(trace.rows):
        if number:
            yield ""
        yield from _row(trace, origin)


def _row(trace: Trace, origin: RowOrigin) -> Iterator[str]:
    yield trace.table
    values = "  ".join(f"{name}={_short(cell(value))}" for name, value in origin.row.items())
    yield _line("row", values)
    yield _line("file", origin.file)
    if origin.revision:
        state = "state unknown" if origin.state == UNKNOWN else origin.state
        yield _line("revision", f"{origin.revision}, {state}")
    if origin.code:
        yield _line("code", origin.module or f"bundles/{origin.code}")
    yield _line("commit", _commit(origin))
    if origin.rewritten_in is not None:
        yield _line("", f"its file was written again in version {origin.rewritten_in}")
    for offsets in origin.offsets:
        yield _line("records", _partition(offsets))
    if origin.inputs:
        yield "  made from"
        yield from _branches(origin.inputs, "  ", first=True)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_LETTERS else f"{text[: _SHOWN_LETTERS - 1]}…"


def _line(word: str, text: str) -> str:
    return f"  {word:<9} {text}"


def _commit(origin: RowOrigin) -> str:
    if origin.version is None:
        return "not known: the log no longer goes back so far"
    said = [f"version {origin.version}", origin.time]
    if origin.operation.startswith("PENSTOCK "):
        said.append(origin.operation.removeprefix("PENSTOCK ").lower())
    if origin.rows_in is not None:
        said.append(f"{_count(origin.rows_in, 'row')} taken in")
    return ", ".join(said)


def _branches(origins: Sequence[Origin], lead: str, *, first: bool = False) -> Iterator[str]:
    for number, origin in enumerate(origins):
        last = number == len(origins) - 1
        below = lead + ("   " if last else "│  ")
        name = f"{origin.table}@{origin.revision}" if origin.revision else origin.table
        yield f"{lead}{'└─' if last else '├─'} {name}: {_which(origin)}"
        for line in _details(origin, first=first):
            yield below + line
        yield from _branches(origin.inputs, below)


def _which(origin: Origin) -> str:
    if not origin.versions:
        return f"no row {origin.which}"
    versions = _versions(origin.versions)
    if origin.basis == ROWS:
        return f"{_count(origin.rows or 0, 'row')} {origin.which}, {versions}"
    if origin.basis == DECIDED:
        return f"decided in {versions}"
    if origin.basis == COMMIT:
        return f"what was taken in, {versions}"
    return f"everything up to version {origin.versions[-1][1]}"


def _versions(spans: Sequence[Span]) -> str:
    first, last = spans[0][0], spans[-1][1]
    if first == last:
        return f"version {first}"
    commits = sum(end - start + 1 for start, end in spans)
    if len(spans) == 1:
        return f"versions {first} to {last}"
    return f"{commits} of the versions {first} to {last}"


def _details(origin: Origin, *, first: bool) -> Iterator[str]:
    if origin.since and origin.basis != EVERYTHING:
        same = origin.since == origin.until
        yield f"committed {origin.since if same else f'{origin.since} to {origin.until}'}"
    if first and origin.taken and origin.basis != COMMIT:
        yield f"the commit itself took in {_versions(origin.taken)}"
    if origin.note:
        yield origin.note
    if origin.revision or not (origin.records or origin.offsets):
        return
    lines = [
        f"partition {partition}: {_count(count, 'record')} in offsets {low:,} to {high:,}"
        for partition, low, high, count in origin.records
    ] or [_partition(offsets) for offsets in origin.offsets]
    lead = f"topic {origin.topic}, " if origin.topic else ""
    for line in lines[:_SHOWN_PARTITIONS]:
        yield lead + line
    if len(lines) > _SHOWN_PARTITIONS:
        yield f"and {len(lines) - _SHOWN_PARTITIONS} more partitions"


def _partition(offsets: Offsets) -> str:
    end = f"{offsets.end - 1:,}"
    if offsets.start is None:
        return f"partition {offsets.partition}: offsets up to {end}"
    return f"partition {offsets.partition}: offsets {offsets.start:,} to {end}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
