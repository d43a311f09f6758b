"""Lines and their words as a plain batch."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from tests.oracles import in_order, logs, samples
from tests.oracles.shapes import TABLES, types

pytestmark = pytest.mark.spark


def test_every_line_is_in_one_of_two_branches(table, frame, dice):
    lines = logs.silver_app_logs(samples.sent(samples.app_logs(dice, 60)))
    rows = frame(lines, "silver.app_logs")
    errors = table("gold.error_events")(rows).toArrow()
    others = table("gold.other_events")(rows).toArrow()
    assert types(errors.schema) == types(TABLES["gold.error_events"])
    assert types(others.schema) == types(TABLES["gold.other_events"])
    assert in_order(errors.to_pylist()) == in_order(logs.error_events(lines))
    assert in_order(others.to_pylist()) == in_order(logs.other_events(lines))
    assert errors.num_rows + others.num_rows == len(lines)


WORDS = {
    "The cache answered in 7 ms": ["cache", "answered", "in", "ms"],
    "the THE tHe, then; other": ["then", "other"],
    "Can't reach host-7: it's o'clock": ["can't", "reach", "host", "it's", "o'clock"],
    "'quoted' 'n' rock'n'roll ''": ["quoted", "n", "rock'n'roll"],
    "GRÖSSE größe x2y Привет": ["grösse", "größe", "x", "y", "привет"],
    " ...42 -- ": [],
    "": [],
}


@pytest.mark.parametrize("message", WORDS)
def test_what_a_word_is(table, frame, message):
    line = {"log_id": "l-1", "service": "web", "host": "h", "level": "INFO", "message": message}
    lines = logs.silver_app_logs(samples.sent([{**line, "logged_at": samples.START}]))
    out = table("gold.word_counts")(frame(lines, "silver.app_logs")).toArrow().to_pylist()
    assert [row["word"] for row in out] == WORDS[message]
    counted = {row["word"]: row["occurrences"] for row in logs.word_counts(lines)}
    assert counted == {word: WORDS[message].count(word) for word in WORDS[message]}


def test_word_counts(table, frame, dice):
    lines = logs.silver_app_logs(samples.sent(samples.app_logs(dice, 60)))
    added = table("gold.word_counts")(frame(lines, "silver.app_logs"))
    out = added.groupBy("word").agg(F.sum("occurrences").alias("occurrences")).toArrow()
    assert types(out.schema) == types(TABLES["gold.word_counts"])
    assert in_order(out.to_pylist()) == in_order(logs.word_counts(lines))
