"""What a table is. No Spark session, no input or output."""

from penstock.model.contract import Contract, Matches, OneOf, PlausibleTime, Range, avro_schema
from penstock.model.definition import EventTime, Stream, Table, stream, table
from penstock.model.kinds import Rows, Window, hopping, tumbling
from penstock.model.names import TableName

__all__ = [
    "Contract",
    "EventTime",
    "Matches",
    "OneOf",
    "PlausibleTime",
    "Range",
    "Rows",
    "Stream",
    "Table",
    "TableName",
    "Window",
    "avro_schema",
    "hopping",
    "stream",
    "table",
    "tumbling",
]
