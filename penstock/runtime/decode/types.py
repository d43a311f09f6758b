"""A contract's types as Spark's, and what Avro's decoder lets through that no table can hold."""

from __future__ import annotations

from decimal import Context, Decimal
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.model.contract_types import Type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["once", "sound", "spark_type"]

_PLAIN: dict[str, T.DataType] = {
    "string": T.StringType(),
    "uuid": T.StringType(),
    "enum": T.StringType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "boolean": T.BooleanType(),
    "bytes": T.BinaryType(),
    "fixed": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "local_timestamp": T.TimestampNTZType(),
}
# Python, Arrow and Parquet readers end at these years; Avro's integers do not.
_FIRST, _LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"


def spark_type(type_: Type) -> T.DataType:
    """The column type `from_avro` gives, all of it nullable."""
    if type_.kind == "decimal":
        return T.DecimalType(type_.precision, type_.scale)
    if type_.kind == "record":
        return T.StructType([T.StructField(f.name, spark_type(f.type)) for f in type_.fields])
    if type_.kind in ("array", "map"):
        assert type_.items is not None  # noqa: S101
        inner = spark_type(type_.items)
        return T.ArrayType(inner) if type_.kind == "array" else T.MapType(T.StringType(), inner)
    return _PLAIN[type_.kind]


def once(frame: DataFrame, name: str, column: Column) -> DataFrame:
    """Add a column that is computed once a row, however many filters and columns use it.

    Spark pushes a filter below the column it reads and computes it there again, as often as the
    filter names it: for a decoded payload that is many times. It pushes nothing below an explode.
    """
    return frame.select("*", F.explode(F.array(column)).alias(name))


def sound(column: Column, type_: Type) -> Column | None:
    """False where a value is none: bad UTF-8, too many digits, a time beyond the calendar.

    Null counts as sound. None where the type has nothing that needs looking at.
    """
    if type_.kind in ("string", "uuid"):
        return F.coalesce(F.is_valid_utf8(column), F.lit(True))
    if type_.kind == "decimal":
        # At the same scale: a comparison that rounds would refuse the largest number there is.
        most = F.lit(Decimal(10**type_.precision - 1).scaleb(-type_.scale, Context(prec=40)))
        most = most.cast(T.DecimalType(38, type_.scale))
        return F.coalesce(column.between(-most, most), F.lit(True))
    if type_.kind in ("timestamp", "local_timestamp", "date"):
        kind = {"timestamp": "timestamp", "date": "date"}.get(type_.kind, "timestamp_ntz")
        first, last = F.lit(_FIRST).cast(kind), F.lit(_LAST).cast(kind)
        return F.coalesce(column.between(first, last), F.lit(True))
    return _sound_within(column, type_)


def _sound_within(column: Column, type_: Type) -> Column | None:
    if type_.kind == "record":
        found = [sound(column.getField(f.name), f.type) for f in type_.fields]
        parts = [part for part in found if part is not None]
        return reduce(lambda a, b: a & b, parts) if parts else None
    if type_.kind == "array":
        assert type_.items is not None  # noqa: S101
        return _all_sound(column, type_.items)
    if type_.kind == "map":
        assert type_.items is not None  # noqa: S101
        keys = _all_sound(F.map_keys(column), Type("string"))
        values = _all_sound(F.map_values(column), type_.items)
        return keys if values is None or keys is None else keys & values
    return None


def _all_sound(column: Column, items: Type) -> Column | None:
    if sound(F.lit(None), items) is None:
        return None

    def holds(item: Column) -> Column:
        inner = sound(item, items)
        return F.lit(True) if inner is None else inner

    return F.coalesce(F.forall(column, holds), F.lit(True))
