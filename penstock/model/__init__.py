"""What a table is. No Spark session, no input or output."""

from penstock.model.contract import Contract, Matches, OneOf, PlausibleTime, Range, avro_schema
from penstock.model.contract_time import LocalTime
from penstock.model.definition import BATCH, CONTINUOUS, Dedupe, Table, sql_table, table
from penstock.model.formats import Avro, Custom, Debezium, Json, Protobuf, Xml
from penstock.model.guards import Guards
from penstock.model.kinds import Enrich, Group, History, Kind, Latest, Rows, Totals
from penstock.model.names import TableName
from penstock.model.publication import (
    Changelog,
    Events,
    Notification,
    Publication,
    changelog,
    events,
    notification,
)
from penstock.model.stream import EventTime, Stream, stream
from penstock.model.windows import (
    IntervalJoin,
    Session,
    Sliding,
    Timed,
    Window,
    hopping,
    interval_join,
    session,
    sliding,
    tumbling,
)

__all__ = [
    "BATCH",
    "CONTINUOUS",
    "Avro",
    "Changelog",
    "Contract",
    "Custom",
    "Debezium",
    "Dedupe",
    "Enrich",
    "EventTime",
    "Events",
    "Group",
    "Guards",
    "History",
    "IntervalJoin",
    "Json",
    "Kind",
    "Latest",
    "LocalTime",
    "Matches",
    "Notification",
    "OneOf",
    "PlausibleTime",
    "Protobuf",
    "Publication",
    "Range",
    "Rows",
    "Session",
    "Sliding",
    "Stream",
    "Table",
    "TableName",
    "Timed",
    "Totals",
    "Window",
    "Xml",
    "avro_schema",
    "changelog",
    "events",
    "hopping",
    "interval_join",
    "notification",
    "session",
    "sliding",
    "sql_table",
    "stream",
    "table",
    "tumbling",
]
