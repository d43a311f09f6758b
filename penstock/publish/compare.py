"""A whole table against a whole topic: what to send so that the topic says what the table does.

For the first load of a changelog (then the topic is empty), and whenever following the changes
would not be exact. Both sides are laid down in a DuckDB that spills to disk, so size does not
matter. Interrupted, it is simply done again: what was sent before is in the topic by then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from penstock.export.bench import Workbench
from penstock.publish.topics import read_whole

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["compare"]

Pair = tuple[bytes | None, bytes | None]
T = TypeVar("T")

_LAID_DOWN = 1000  # rows at a time
_MEMORY = "96MB"


@contextmanager
def compare(
    settings: Settings, topic: str, wanted: Iterable[Pair], scratch: Path
) -> Iterator[Iterator[Pair]]:
    """Gives what to send: keys with their values, with None where the table has them no more."""
    with Workbench(
        scratch.with_name(f"{scratch.name}-compare"), memory=_MEMORY, threads=1
    ) as bench:
        bench.run("CREATE TEMP TABLE wanted (k BLOB, v BLOB, digest BLOB)")
        bench.run("CREATE TEMP TABLE said (k BLOB, digest BLOB, part BIGINT, place BIGINT)")
        for some in _batches(wanted):
            bench.run(
                "INSERT INTO wanted SELECT unnest($1::BLOB[]), unnest($2::BLOB[]), "
                "unnest($3::BLOB[])",
                [[k for k, _ in some], [v for _, v in some], [_digest(v) for _, v in some]],
            )
        for said in _batches(_said(settings, topic)):
            bench.run(
                "INSERT INTO said SELECT unnest($1::BLOB[]), unnest($2::BLOB[]), "
                "unnest($3::BIGINT[]), unnest($4::BIGINT[])",
                [[row[place] for row in said] for place in range(4)],
            )
        yield _differing(bench)


def _said(settings: Settings, topic: str) -> Iterator[tuple[bytes, bytes | None, int, int]]:
    for message in read_whole(settings, topic):
        yield (
            message.key() or b"",
            _digest(message.value()),
            message.partition() or 0,
            message.offset() or 0,
        )


def _digest(value: bytes | None) -> bytes | None:
    return None if value is None else hashlib.sha256(value).digest()


def _differing(bench: Workbench) -> Iterator[Pair]:
    # A key lies in one partition, so its newest record is the one with the highest offset there.
    bench.run(
        "CREATE TEMP TABLE now AS SELECT k, arg_max_null(digest, place) AS digest FROM said "
        "GROUP BY k"
    )
    cursor = bench.duck.execute(
        "SELECT k, v FROM wanted LEFT JOIN now USING (k) "
        "WHERE now.digest IS DISTINCT FROM wanted.digest "
        "UNION ALL SELECT k, NULL FROM now ANTI JOIN wanted USING (k) WHERE now.digest IS NOT NULL"
    )
    while batch := cursor.fetchmany(_LAID_DOWN):
        yield from batch


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    source = iter(items)
    while some := list(islice(source, _LAID_DOWN)):
        yield some
