"""A member of a consumer group: confluent-kafka's consumer, and when to commit what.

**How it works.** Read with `consume`, say what is `done`, `commit` (or `commit_async`) now and
then. When a partition goes to another member, what was done of it is committed first, so that the
other one begins where this one stopped; when it was lost without notice nothing is committed,
because the other one has begun already. Everything else is confluent-kafka's own: `.kafka`.

**What it does not do.** Make doubles impossible: a member that is killed leaves what it did after
its last commit to be done again. Where that matters use a transaction (RecordProducer) or commit
offsets with results (ResultsTable).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait

from confluent_kafka import Consumer, Message, TopicPartition

from penstock.clients.commits import Commits, Partition
from penstock.clients.options import Options, consumer_options, opened
from penstock.clients.places import Start, lag, seek
from penstock.clients.reading import Reading, next_offset, partition_of
from penstock.errors import ServiceFailed, UsageError
from penstock.settings import Settings

__all__ = ["GroupConsumer", "OnChange"]

OnChange = Callable[[list[Partition]], None]

_LOG = logging.getLogger("penstock.clients")
_COMMIT_WITHIN = 10.0  # seconds a rebalance waits for a commit: all other members wait too


class GroupConsumer:
    """Reads some topics together with the other members of its group.

    Args:
        topics: names, or patterns that begin with ^: topics made later are found too.
        on_assigned: called with partitions that came, before the first record of them.
        on_revoked: called with partitions that go, before what was `done` of them is committed.
        on_lost: called with partitions that are another's already.
        start: where partitions begin (at_time, at_offsets, ResultsTable.start); otherwise where
            the group stopped, or else as auto.offset.reset says.
        options: librdkafka's settings, over those of penstock.clients.options.
    """

    def __init__(
        self,
        settings: Settings,
        group: str,
        topics: Iterable[str],
        *,
        user: str,
        on_assigned: OnChange | None = None,
        on_revoked: OnChange | None = None,
        on_lost: OnChange | None = None,
        start: Start | None = None,
        options: Options | None = None,
    ) -> None:
        chosen = consumer_options(settings, user, group, options)
        self.kafka = opened(Consumer, chosen)
        self.max_poll_seconds = int(chosen["max.poll.interval.ms"]) / 1000
        # Java's new protocol has no strategy of the client's, and is always cooperative.
        strategy = chosen.get("partition.assignment.strategy", "cooperative-sticky")
        self._incremental = strategy == "cooperative-sticky"
        self._start = start
        self._told = (on_assigned, on_revoked, on_lost)
        self._commits = Commits(
            group, lambda offsets: self.kafka.commit(offsets=offsets, asynchronous=False)
        )
        self._reading = Reading(self.kafka)
        self._mine: set[Partition] = set()
        # Offsets of the next record to read: done, and done with a commit perhaps under way.
        self._done: dict[Partition, int] = {}
        self._sent: dict[Partition, int] = {}
        self._seen: dict[Partition, tuple[int, int]] = {}  # first and last that were handed out
        self._base: dict[Partition, int] = {}  # where a failed transaction goes back to
        self._busy: tuple[Future[object], Sequence[Message]] | None = None
        self.in_transaction = False
        self.kafka.subscribe(
            list(topics), on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
        )

    # --- reading ----------------------------------------------------------------------------------
    def consume(self, most: int = 500, timeout: float = 1.0) -> list[Message]:
        """Up to so many records; fewer, or none, when the time is over."""
        if self.in_transaction:
            raise UsageError(
                "records were asked for within a transaction.",
                remedy="Read before it begins: partitions may change hands while reading.",
            )
        taken = self._reading.take(most, timeout)
        # A partition may go while records of it are being taken: the next owner reads those.
        messages = [message for message in taken if partition_of(message) in self._mine]
        for message in messages:
            name, offset = partition_of(message), next_offset(message)
            first, _ = self._seen.setdefault(name, (offset, offset))
            self._seen[name] = (min(first, offset), offset)
            self._base.setdefault(name, offset - 1)
        return messages

    def done(self, messages: Iterable[Message]) -> None:
        """These, and all before them in their partitions, need not be read again.

        Records of a partition that went to another member meanwhile do not count.
        """
        for message in messages:
            name, offset = partition_of(message), next_offset(message)
            first, last = self._seen.get(name, (0, -1))
            if first <= offset <= last:
                self._done[name] = offset

    # --- committing -------------------------------------------------------------------------------
    def commit(self, offsets: Mapping[Partition, int] | None = None) -> None:
        """Commit what is done, or these offsets (of the next record to read), and wait."""
        wanted = dict(offsets) if offsets is not None else self._sent | self._done
        self._commits.now(wanted)
        self._settled(wanted)

    def commit_async(self) -> None:
        """Commit what is done, without waiting; an older commit never overwrites a newer one."""
        if self._done:
            self._commits.later(self._done)
            self._sent |= self._done
            self._done = {}

    def _settled(self, partitions: Iterable[Partition]) -> None:
        for name in partitions:
            self._done.pop(name, None)
            self._sent.pop(name, None)

    def done_offsets(self) -> list[TopicPartition]:
        """What is done and not committed, for a transaction to commit."""
        return [TopicPartition(*name, offset) for name, offset in self._done.items()]

    def committed_elsewhere(self) -> None:
        """A transaction has committed what was done."""
        self._base |= self._done
        self._done = {}

    def rewind(self) -> None:
        """Go back to what the last transaction committed, to read again what came after it."""
        self._done = {}
        self._reading.drop(self._base)
        for part in self.kafka.assignment():
            name = (part.topic, part.partition)
            if name in self._base:
                seek(self.kafka, TopicPartition(*name, self._base[name]))

    # --- rebalances -------------------------------------------------------------------------------
    def _assign(self, kafka: Consumer, partitions: list[TopicPartition]) -> None:
        names = _names(partitions)
        if self._told[0] is not None and names:
            self._told[0](names)
        placed = self._start(kafka, partitions) if self._start and partitions else partitions
        if self._incremental:
            kafka.incremental_assign(placed)
        else:
            kafka.assign(placed)
        self._mine |= set(names)
        if self._busy is not None:
            kafka.pause(partitions)

    def _revoke(self, kafka: Consumer, partitions: list[TopicPartition]) -> None:
        names = _names(partitions)
        self._finish_work()
        if self._told[1] is not None and names:
            self._told[1](names)
        finished = self._sent | self._done
        try:
            self._commits.now(
                {name: finished[name] for name in names if name in finished}, _COMMIT_WITHIN
            )
        except ServiceFailed as error:
            _LOG.warning("%s", error.message)
        self._give_up(kafka, partitions)

    def _lose(self, kafka: Consumer, partitions: list[TopicPartition]) -> None:
        names = _names(partitions)
        if self._told[2] is not None and names:
            self._told[2](names)
        self._give_up(kafka, partitions)

    def _give_up(self, kafka: Consumer, partitions: list[TopicPartition]) -> None:
        names = _names(partitions)
        self._settled(names)
        self._mine -= set(names)
        for name in names:
            self._seen.pop(name, None)
            self._base.pop(name, None)
        self._commits.forget(names)
        self._reading.drop(names)
        if self._incremental:
            kafka.incremental_unassign(partitions)
        else:
            kafka.unassign()

    # --- work in another thread -------------------------------------------------------------------
    def keep_polling(self, work: Future[object], messages: Sequence[Message]) -> None:
        """Stay in the group while somebody works on records, without reading more.

        Partitions that go meanwhile wait for the work, up to half of max.poll.interval.ms.
        """
        self._busy = (work, messages)
        try:
            self.kafka.pause(self.kafka.assignment())
            while not work.done():
                self._reading.poll(0.1)
        finally:
            self._busy = None
            self.kafka.resume(self.kafka.assignment())

    def _finish_work(self) -> None:
        if self._busy is None:
            return
        work, messages = self._busy
        wait([work], timeout=self.max_poll_seconds / 2)
        if work.done() and work.exception() is None:
            self.done(messages)

    # --- the rest ---------------------------------------------------------------------------------
    def lag(self) -> dict[Partition, int]:
        """How far each of this member's partitions is behind its end."""
        return lag(self.kafka)

    def close(self) -> None:
        """Commit what is done and leave the group, so that others take over at once."""
        try:
            self.commit()
        finally:
            self._commits.close()
            self.kafka.close()

    def __enter__(self) -> GroupConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _names(partitions: Iterable[TopicPartition]) -> list[Partition]:
    return [(part.topic, part.partition) for part in partitions]
