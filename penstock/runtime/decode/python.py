"""The formats that Python decodes: one function over Arrow from bytes to a row or a reason why not.

It runs in Spark's Python workers, as a UDF; or, for a few rows, right here: handing ten rows to two
workers costs 400 ms of CPU, reading them one. The work itself is in penstock.model.contract_wire,
which knows no Spark: a worker imports only that. The UDF is named by what it means, so that a
changed decoder shows in the plan and with it in the fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from penstock.model.formats import Avro, Custom, Debezium
from penstock.model.stream import Stream
from penstock.runtime.code.fingerprint import meaning_of_function
from penstock.runtime.decode.types import once, spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["read_here", "read_python"]

_READ = "_read"
_FEW = 2_000  # rows read here; more would hold up the other threads of this process

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
    if _READ in bronze.columns:
        read = bronze
    else:
        context = bronze.sparkSession.sparkContext
        if str(context.master).startswith("local"):
            # Workers run in this environment, whatever `python3` is on the path.
            context.pythonExec = sys.executable
        read = once(bronze, _READ, _udf(stream)(F.col("value")))
    columns = {
        "schema_id": F.lit(None).cast("long"),
        "payload": F.col("_read.payload"),
        "_reason": F.col("_read.reason"),
        "skipped": F.col("_read.skipped"),
    }
    if isinstance(stream.contract.format, Debezium):
        columns["change"] = F.col("_read.change")
    return read.withColumns(columns).drop(_READ)


def read_here(bronze: pa.Table, stream: Stream) -> pa.Table:
    """The rows with what ``read_python`` would read of each, where that is better done here.

    What somebody else wrote (a custom decoder) stays in a worker: there it can break nothing else.
    """
    format_ = stream.contract.format
    if isinstance(format_, Avro | Custom) or bronze.num_rows > _FEW:
        return bronze
    read = _reader(stream)(bronze["value"].combine_chunks())
    return bronze.append_column(_READ, read)


def _udf(stream: Stream) -> Any:
    decode = _reader(stream)
    decode.__name__ = f"decode_{stream.contract.format.word}_{_meaning(stream)}"
    made: Any = F.arrow_udf(decode, returnType=_result(stream))  # type: ignore[attr-defined]
    return made


def _result(stream: Stream) -> T.StructType:
    return T.StructType(
        [
            T.StructField("payload", spark_type(stream.contract.type)),
            T.StructField("change", _CHANGE),
            T.StructField("reason", T.StringType()),
            T.StructField("skipped", T.BooleanType()),
        ]
    )


def _reader(stream: Stream) -> Callable[[pa.Array], pa.Array]:
    format_ = stream.contract.format
    schema_json = stream.contract.schema_json
    arrow: Any = to_arrow_type(_result(stream))

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

    return decode


def _meaning(stream: Stream) -> str:
    format_ = stream.contract.format
    said = json.dumps(stream.contract.describe(), sort_keys=True)
    if isinstance(format_, Custom):
        said += meaning_of_function(format_.decoder)
    return hashlib.sha256(said.encode()).hexdigest()[:12]
