"""What must hold of every bronze table, whatever its topic: the raw records and their places."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.quality.suite import Check, blocking, warning

__all__ = ["records"]


def records(topic: str) -> list[Check]:
    """Checks of the records of one topic, as bronze keeps them."""
    gxe: Any = importlib.import_module("great_expectations.expectations")
    return [
        blocking(
            gxe.ExpectCompoundColumnsToBeUnique(column_list=["topic_id", "partition", "offset"]),
            "a record is kept once; twice would count it twice in everything made from it",
        ),
        blocking(
            gxe.ExpectColumnValuesToBeInSet(column="topic", value_set=[topic]),
            "a record of another topic would be decoded by the wrong contract",
        ),
        blocking(gxe.ExpectColumnValuesToBeBetween(column="offset", min_value=0)),
        *(
            blocking(
                gxe.ExpectColumnValuesToNotBeNull(column=name),
                "without it a record could not be found again",
            )
            for name in ("topic_id", "partition", "offset", "ingested_at")
        ),
        warning(
            gxe.ExpectColumnValuesToNotBeNull(column="timestamp", mostly=0.999),
            "records without a time cannot be placed in a window",
        ),
    ]
