"""The writer schemas met in a stream so far: a plan names every one it can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from penstock.model.stream import Stream
from penstock.runtime.decode.schemas import SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["KnownSchemas"]


class KnownSchemas:
    """Looked up once each; fails, to be tried again, while the registry does not answer."""

    def __init__(self, stream: Stream, schemas: SchemaRegistry) -> None:
        self._registered = stream.contract.format.registered
        self._schemas = schemas
        self.writers: dict[int, str] = {}

    def learn(self, rows: pa.Table) -> bool:
        """Look up what stands in the headers of bronze rows; True if there was something new."""
        if not self._registered:
            return False
        heads = pc.unique(pc.binary_slice(rows["value"], 0, 5)).to_pylist()
        return self._look_up(
            {int.from_bytes(h[1:], "big") for h in heads if h and len(h) == 5 and h[0] == 0}
        )

    def learn_from(self, bronze: DataFrame) -> bool:
        """The same from rows that Spark holds."""
        if not self._registered:
            return False
        ids = F.conv(F.hex(F.substring("value", 2, 4)), 16, 10).cast("long")
        framed = bronze.where((F.length("value") >= 5) & (F.substring("value", 1, 1) == b"\x00"))
        return self._look_up({row[0] for row in framed.select(ids).distinct().collect()})

    def _look_up(self, ids: set[int]) -> bool:
        before = len(self.writers)
        for schema_id in ids - set(self.writers):
            writer = self._schemas.writer(schema_id)
            if writer is not None:
                self.writers = {**self.writers, schema_id: writer}
        return len(self.writers) > before
