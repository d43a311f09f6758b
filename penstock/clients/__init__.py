"""For programs that write to Kafka and read from it. One page tells all: docs/clients.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.clients.group import GroupConsumer
from penstock.clients.partition import OwnPartition, murmur2
from penstock.clients.places import at_offsets, at_time, lag, seek_to_time
from penstock.clients.producer import StreamProducer
from penstock.clients.records import RecordProducer
from penstock.clients.standalone import StandaloneConsumer
from penstock.clients.stopping import Stopping
from penstock.clients.work import work

if TYPE_CHECKING:
    from penstock.clients.results import ResultsTable

__all__ = [
    "GroupConsumer",
    "OwnPartition",
    "RecordProducer",
    "ResultsTable",
    "StandaloneConsumer",
    "Stopping",
    "StreamProducer",
    "at_offsets",
    "at_time",
    "lag",
    "murmur2",
    "seek_to_time",
    "work",
]


def __getattr__(name: str) -> Any:
    """The results table when it is asked for: Arrow is 80 MB that most programs do not need."""
    if name == "ResultsTable":
        from penstock.clients.results import ResultsTable

        return ResultsTable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
