"""Which partition a key goes to: Java's murmur2, and a partition of its own for a heavy key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import count

from penstock.errors import UsageError

__all__ = ["OwnPartition", "Partitioner", "murmur2", "murmur2_partition"]

# Takes a key and the number of partitions; None leaves the choice to librdkafka.
Partitioner = Callable[[bytes | None, int], int | None]

_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash of org.apache.kafka.common.utils.Utils.murmur2, as an unsigned number."""
    whole = len(data) & ~3
    value = (_SEED ^ len(data)) & _MASK
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    if len(data) > whole:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


@lru_cache(maxsize=65_536)  # a producer sees the same keys again and again
def murmur2_partition(key: bytes, partitions: int) -> int:
    """Where Java's default partitioner, and librdkafka's murmur2, put a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class OwnPartition:
    """Gives each of a few heavy keys a partition of its own, and all other keys the rest.

    The last partitions are the heavy keys', in the order given; the others go by murmur2 over
    those before them, records without a key in turn. One customer who sends most of all records
    then delays nobody else. Like any change of partitioner or partition count it moves keys: order
    across the change holds only if readers are through with what was sent before it.

    Example:
        >>> RecordProducer(settings, user="app", partitioner=OwnPartition(["acme"]))
    """

    def __init__(self, heavy: Iterable[str | bytes]) -> None:
        keys = [key.encode() if isinstance(key, str) else key for key in heavy]
        self._from_end = {key: place for place, key in enumerate(dict.fromkeys(keys), start=1)}
        self._turn = count()

    def __call__(self, key: bytes | None, partitions: int) -> int:
        shared = partitions - len(self._from_end)
        if shared < 1:
            raise UsageError(
                f"{len(self._from_end)} keys are to have a partition of their own, and the topic "
                f"has {partitions}: none is left for the others.",
                remedy="Give the topic more partitions, or name fewer keys.",
            )
        if key is None:
            return next(self._turn) % shared
        place = self._from_end.get(key)
        return murmur2_partition(key, shared) if place is None else partitions - place
