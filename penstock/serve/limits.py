"""What one look-up may take, and how it is refused beyond that."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb

from penstock.errors import QueryRefused, UsageError
from penstock.serve import sandbox
from penstock.serve.live_log import LiveFile

__all__ = ["MEMORY", "Gone", "TooWide", "gone", "patience", "require_narrow"]

MEMORY = "256MB"  # of the engine, for all questions at once
_MOST_BYTES, _MOST_FILES = 512 << 20, 2_000  # that one range may touch
_PATIENCE_S = 10.0


class TooWide(QueryRefused):
    """A range that is a report: it touches too much of the table."""


class Gone(QueryRefused):
    """A version that was cleaned up since it was asked for."""


def require_narrow(label: str, files: Sequence[LiveFile]) -> None:
    """Refuse a range that is a report.

    Raises:
        TooWide: it touches too many files, or too big ones.
    """
    size = sum(file.size for file in files)
    if size > _MOST_BYTES or len(files) > _MOST_FILES:
        raise TooWide(
            f"this touches {len(files)} files with {size / 2**20:.0f} MB of {label}: "
            "that is a report, not a look-up.",
            remedy="Give more of the keys or a narrower range, or use `penstock query`.",
        )


def gone(label: str, version: int) -> Gone:
    """What to say of a version whose log or files are not there any more."""
    return Gone(
        f"version {version} of {label} is cleaned up, its rows cannot be read.",
        remedy="Ask again without a cursor and without @: the newest version is always there.",
    )


@contextmanager
def patience(cursor: duckdb.DuckDBPyConnection, label: str, *, watched: bool) -> Iterator[None]:
    """Stop what takes too long; a few small files cannot, and a watch would cost them."""
    watch = threading.Timer(_PATIENCE_S, cursor.interrupt)
    watch.daemon = True
    if watched:
        watch.start()
    began = time.monotonic()
    try:
        with sandbox.ctrl_c():
            yield
    except duckdb.InterruptException:
        raise TooWide(
            f"reading {label} was stopped after {time.monotonic() - began:.0f} s.",
            remedy="Give more of the keys or a narrower range, or use `penstock query`.",
        ) from None
    except duckdb.OutOfMemoryException:
        raise TooWide(
            f"this needs more than the {MEMORY} a look-up has.",
            remedy="Give more of the keys or a narrower range, or use `penstock query`.",
        ) from None
    except (duckdb.ConversionException, duckdb.InvalidInputException) as error:
        raise UsageError(
            f"{label} cannot be asked this: {str(error).splitlines()[0]}",
            remedy="Look at the keys and their types with `penstock tables --json`.",
        ) from None
    finally:
        watch.cancel()
