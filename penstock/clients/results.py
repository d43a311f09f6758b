"""Results of a reader, and how far it has read, in one Delta commit.

**Why.** Results written here and offsets committed there can be parted by a crash: rows twice, or
never. In one commit they cannot. **How it works.** Every commit carries, per partition, a txn
action with the offset of the next record; a reader begins there. Rows that are in already are left
out, and a commit is made only if nobody moved those offsets meanwhile, so a record that is read
twice, by this process or by one that was thought dead, counts once. A recreated topic has
another id and so another position. **What it does not do.** Share a table with Penstock's own
tables: those are written by the supervisor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicCollection
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from penstock.clients.commits import Partition
from penstock.clients.reading import next_offset, partition_of
from penstock.errors import ServiceFailed
from penstock.runtime.delta.files import conform, write_arrow
from penstock.runtime.delta.log import DeltaLog, append_at
from penstock.runtime.kafka import client_options
from penstock.settings import Settings

__all__ = ["ResultsTable", "Rows"]

Rows = Callable[[Sequence[Message]], pa.Table]

_TIMEOUT = 30.0
_CHECKPOINT_EVERY = 100  # commits; what opening the table has to read at most


class ResultsTable:
    """A Delta table of one application's results.

    Args:
        name: of the reader; two readers with names of their own may fill one table.
        schema: of the rows; the table is made if it is not there.
    """

    def __init__(
        self, settings: Settings, path: Path, schema: pa.Schema, *, user: str, name: str
    ) -> None:
        DeltaLog.create(path, schema)
        self.path = path
        self._schema = schema
        self._name = name
        self._admin = AdminClient(client_options(settings, user) | {"log_level": 0})
        self._ids: dict[str, str] = {}

    def start(self, kafka: Consumer, partitions: list[Place]) -> list[Place]:
        """Where the table stands: give this to a consumer as its ``start``."""
        self._ask_ids({part.topic for part in partitions})
        table = DeltaTable(str(self.path))
        placed = []
        for part in partitions:
            position = table.transaction_version(self._txn((part.topic, part.partition)))
            offset = OFFSET_BEGINNING if position is None else position
            placed.append(Place(part.topic, part.partition, offset))
        return placed

    def append(self, messages: Sequence[Message], rows: Rows) -> int:
        """Add the rows of those records that are not in yet; returns how many records that were."""
        asked = False
        while True:
            begins = self._positions({partition_of(message) for message in messages})
            fresh = [m for m in messages if next_offset(m) > (begins[partition_of(m)] or 0)]
            if len(fresh) < len(messages) and not asked:
                # Seen before, or a topic that was made anew and counts from nought.
                asked = True
                if self._ask_ids({name for name, _ in begins}):
                    continue
            if not fresh or self._commit(fresh, begins, rows):
                return len(fresh)

    def _commit(
        self, fresh: list[Message], begins: dict[Partition, int | None], rows: Rows
    ) -> bool:
        ends = {partition_of(message): next_offset(message) for message in fresh}
        adds = write_arrow(conform(rows(fresh), self._schema), self.path)
        positions = {self._txn(name): (begins[name], end) for name, end in ends.items()}
        version = append_at(self.path, adds, positions, {"reader": self._name})
        if version is None:
            for action in adds:
                (self.path / action["add"]["path"]).unlink(missing_ok=True)
            return False
        if version % _CHECKPOINT_EVERY == 0:
            DeltaTable(str(self.path)).create_checkpoint()
        return True

    def _positions(self, partitions: set[Partition]) -> dict[Partition, int | None]:
        unknown = {topic for topic, _ in partitions} - self._ids.keys()
        if unknown:
            self._ask_ids(unknown)
        table = DeltaTable(str(self.path))
        return {name: table.transaction_version(self._txn(name)) for name in partitions}

    def _txn(self, partition: Partition) -> str:
        topic, number = partition
        return f"reader:{self._name}:{topic}:{self._ids[topic]}:{number}"

    def _ask_ids(self, topics: set[str]) -> bool:
        """Ask for the ids of topics; true if one is another than before."""
        asked = self._admin.describe_topics(
            TopicCollection(sorted(topics)), request_timeout=_TIMEOUT
        )
        before = dict(self._ids)
        for topic, future in asked.items():
            try:
                self._ids[topic] = str(future.result().topic_id)
            except KafkaException as error:
                raise ServiceFailed(
                    f"Kafka does not tell about topic {topic}: {error.args[0].str()}.",
                    remedy="Look at `penstock status`, and at what this user may read.",
                ) from None
        return any(before.get(topic, self._ids[topic]) != self._ids[topic] for topic in topics)
