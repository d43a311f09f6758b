"""Every kind, in random lives: the stream's table is the batch's in the end."""

from __future__ import annotations

import pytest

from tests.parity.kinds import CASES
from tests.parity.law import check, live

pytestmark = pytest.mark.spark

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CASES)
def test_stream_is_batch(spark, tmp_path, name, seed):
    check(live(spark, tmp_path, CASES[name], seed))
