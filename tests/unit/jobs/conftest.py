"""Running a table's transform as a plain Spark batch."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock.model.names import TableName
from tests.oracles.shapes import TABLES, decoded


@pytest.fixture
def table(jobs) -> Callable[[str], Any]:
    return lambda name: jobs.tables[TableName.parse(name)]


@pytest.fixture
def frame(spark) -> Callable[..., Any]:
    """A frame of rows that have the shape of a table, or of a decoded stream."""

    def build(rows: list[dict], shape: str) -> Any:
        schema = TABLES[shape] if shape in TABLES else decoded(shape)
        return spark.createDataFrame(pa.Table.from_pylist(rows, schema))

    return build


@pytest.fixture(params=[1, 2])
def dice(request) -> random.Random:
    return random.Random(request.param)
