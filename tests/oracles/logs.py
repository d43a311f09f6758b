"""Lines of logs, their two branches, and the words in them."""

from __future__ import annotations

import datetime as dt
from collections import Counter

from tests.oracles import Row, first_taken_in

__all__ = ["error_events", "other_events", "silver_app_logs", "word_counts"]

_LINE = ("log_id", "service", "host", "level", "message", "logged_at")


def silver_app_logs(rows: list[Row]) -> list[Row]:
    """Each line once."""
    return [
        {
            **{column: row[column] for column in _LINE},
            "partition": row["_partition"],
            "offset": row["_offset"],
        }
        for row in first_taken_in(rows, ("log_id",), dt.timedelta(hours=1))
    ]


def error_events(lines: list[Row]) -> list[Row]:
    kept = [column for column in _LINE if column != "level"]
    return [{c: line[c] for c in kept} for line in lines if line["level"] == "ERROR"]


def other_events(lines: list[Row]) -> list[Row]:
    return [{c: line[c] for c in _LINE} for line in lines if line["level"] != "ERROR"]


def word_counts(lines: list[Row]) -> list[Row]:
    seen = Counter(word for line in lines for word in _words(line["message"]))
    del seen["the"]
    return [{"word": word, "occurrences": times} for word, times in seen.items()]


def _words(message: str) -> list[str]:
    """Runs of letters; an apostrophe belongs to a word if it has letters on both sides."""
    text = f" {message.lower()} "
    kept = [
        char
        if char.isalpha() or (char == "'" and text[n - 1].isalpha() and text[n + 1].isalpha())
        else " "
        for n, char in enumerate(text)
    ]
    return "".join(kept).split()
