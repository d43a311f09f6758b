"""Avro in Confluent's framing, decoded by Spark: one branch per writer schema.

What Spark's decoder does not do by itself: refuse bytes after the record, text that is not UTF-8,
decimals of more digits than declared (it keeps their last 64 bits), and lengths no message can
have (it allocates them first). A known run of bytes is put after every body and read back as one
more field: only a body that ends exactly where its record does gives it back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from penstock.model.contract_changes import misread_decimals
from penstock.model.stream import Stream
from penstock.runtime.decode.types import once, sound, spark_type
from penstock.runtime.kafka import MAX_RECORD_BYTES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["limit_avro", "read_avro"]

_TAIL = "_penstock_tail"
_TAIL_BYTES = b"penstock-row-end"
_TAIL_TYPE = {"type": "fixed", "name": "Tail", "namespace": "penstock", "size": len(_TAIL_BYTES)}
_LIMITS = ("bytes", "string", "collectionItems")
_limited: set[int] = set()


def read_avro(bronze: DataFrame, stream: Stream, writers: Mapping[int, str]) -> DataFrame:
    """Bronze rows with ``schema_id``, ``payload``, and in ``_reason`` why there is none."""
    limit_avro(bronze.sparkSession)
    readable, unreadable = _sorted_out(stream, writers)
    framed = (F.length("value") >= 5) & (F.substring("value", 1, 1) == F.lit(b"\x00"))
    with_id = bronze.withColumn(
        "schema_id",
        F.when(framed, F.conv(F.hex(F.substring("value", 2, 4)), 16, 10).cast("long")),
    )
    wide = once(with_id, "_wide", _wide(stream, readable))
    type_ = stream.contract.type
    whole = F.col(f"_wide.{_TAIL}") == F.lit(_TAIL_BYTES)
    holdable = sound(F.col("_wide"), type_)
    target = spark_type(type_)
    # Cast only what was seen to fit: under ANSI a cast that does not fit would raise.
    ok = whole if holdable is None else whole & holdable
    fields = [F.col(f"_wide.{name}").alias(name) for name in stream.contract.columns]
    reason = F.concat(
        F.lit("the body does not decode by schema id "), F.col("schema_id").cast("string")
    )
    for schema_id, why in unreadable.items():
        reason = F.when(F.col("schema_id") == schema_id, F.lit(why)).otherwise(reason)
    payload = F.when(ok, F.struct(*fields).cast(target))
    return once(wide, "payload", payload).withColumn("_reason", reason).drop("_wide")


def _sorted_out(
    stream: Stream, writers: Mapping[int, str]
) -> tuple[dict[int, str], dict[int, str]]:
    """Writer schemas Spark can plan with, and why not of the others."""
    readable: dict[int, str] = {}
    unreadable: dict[int, str] = {}
    for schema_id, text in sorted(writers.items()):
        try:
            writer = json.loads(text)
        except ValueError:
            writer = None
        if not isinstance(writer, dict) or writer.get("type") != "record":
            unreadable[int(schema_id)] = f"schema id {schema_id} is not an Avro record"
            continue
        misread = misread_decimals(writer, stream.contract.type)
        if misread:
            unreadable[int(schema_id)] = f"schema id {schema_id}: {misread}"
            continue
        readable[int(schema_id)] = _with_tail(writer)
    return readable, unreadable


def _with_tail(schema: Mapping[str, Any]) -> str:
    fields = [*schema["fields"], {"name": _TAIL, "type": _TAIL_TYPE}]
    return json.dumps({**schema, "fields": fields})


def _wide(stream: Stream, writers: Mapping[int, str]) -> Column:
    """The record with decimals as wide as they come, so that too many digits can be seen."""
    own = json.loads(stream.contract.schema_json)
    reader = _with_tail(_widened(own))
    body = F.concat(F.expr("substring(value, 6)"), F.lit(_TAIL_BYTES))

    def read(writer: str) -> Column:
        return from_avro(body, writer, {"mode": "PERMISSIVE", "avroSchema": reader})

    # With no writer known yet the column still needs its type: read nothing with our own schema.
    column = F.when(F.lit(False), read(_with_tail(own)))
    for schema_id, writer in writers.items():
        column = column.when(F.col("schema_id") == schema_id, read(writer))
    return column


def _widened(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_widened(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("logicalType") == "decimal" and schema.get("type") == "bytes":
        return {**schema, "precision": 38}
    return {
        key: _widened(value) if key in ("type", "items", "values", "fields") else value
        for key, value in schema.items()
    }


def avro_limits() -> dict[str, str]:
    """Properties of a JVM: Avro allocates no more than a whole record could hold.

    By default a nine-byte message can ask for two gigabytes, and the JVM dies of it.
    """
    return {f"org.apache.avro.limits.{n}.maxLength": str(MAX_RECORD_BYTES) for n in _LIMITS}


def limit_avro(session: SparkSession) -> None:
    """Set the limits in the driver; executors of a cluster are started with them."""
    jvm: Any = session._jvm
    if id(jvm) in _limited:
        return
    for name, most in avro_limits().items():
        jvm.java.lang.System.setProperty(name, most)
    # Avro read its limits when it was loaded, which may have been before us.
    limits = jvm.java.lang.Class.forName("org.apache.avro.SystemLimitException")
    gateway: Any = session.sparkContext._gateway
    reset = limits.getDeclaredMethod("resetLimits", gateway.new_array(jvm.java.lang.Class, 0))
    reset.setAccessible(True)
    reset.invoke(None, gateway.new_array(jvm.java.lang.Object, 0))
    _limited.add(id(jvm))
