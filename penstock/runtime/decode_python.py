"""The formats that Python decodes: one Arrow UDF from bytes to a row or a reason why not.

The work itself is in penstock.model.contract_wire, which knows no Spark: a worker imports only
that. The UDF is named by what it means, so that a changed decoder shows in the plan and with it in
the fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from penstock.model.formats import Custom, Debezium
from penstock.model.stream import Stream
from penstock.runtime.decode_types import once, spark_type
from penstock.runtime.fingerprint import meaning_of_function

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["read_python"]

_CHANGE = T.StructType(
    [
        T.StructField("op", T.StringType()),
        T.StructField("lsn", T.LongType()),
        T.StructField("committed_at", T.TimestampType()),
    ]
)


def read_python(bronze: DataFrame, stream: Stream) -> DataFrame:
    """Bronze rows with ``payload``, ``_reason`` and ``skipped``; ``change`` too of a Debezium one.

    ``schema_id`` is null: these formats carry none.
    """
    # Workers run in this environment, whatever `python3` is on the path.
    bronze.sparkSession.sparkContext.pythonExec = sys.executable
    read = once(bronze, "_read", _decoder(stream)(F.col("value")))
    columns = {
        "schema_id": F.lit(None).cast("long"),
        "payload": F.col("_read.payload"),
        "_reason": F.col("_read.reason"),
        "skipped": F.col("_read.skipped"),
    }
    if isinstance(stream.contract.format, Debezium):
        columns["change"] = F.col("_read.change")
    return read.withColumns(columns).drop("_read")


def _decoder(stream: Stream) -> Any:
    contract = stream.contract
    format_ = contract.format
    schema_json = contract.schema_json
    result = T.StructType(
        [
            T.StructField("payload", spark_type(contract.type)),
            T.StructField("change", _CHANGE),
            T.StructField("reason", T.StringType()),
            T.StructField("skipped", T.BooleanType()),
        ]
    )
    arrow: Any = to_arrow_type(result)

    def decode(values: pa.Array) -> pa.Array:
        from penstock.model.contract_wire import message_reader

        read = message_reader(schema_json, format_)
        found = [read(value) for value in values.to_pylist()]
        arrays = [
            pa.array([m.row for m in found], arrow.field("payload").type),
            pa.array([m.change for m in found], arrow.field("change").type),
            pa.array([m.error for m in found], pa.string()),
            pa.array([m.skipped for m in found], pa.bool_()),
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(arrow))

    decode.__name__ = f"decode_{format_.word}_{_meaning(stream)}"
    made: Any = F.arrow_udf(decode, returnType=result)  # type: ignore[attr-defined]
    return made


def _meaning(stream: Stream) -> str:
    format_ = stream.contract.format
    said = json.dumps(stream.contract.describe(), sort_keys=True)
    if isinstance(format_, Custom):
        said += meaning_of_function(format_.decoder)
    return hashlib.sha256(said.encode()).hexdigest()[:12]
