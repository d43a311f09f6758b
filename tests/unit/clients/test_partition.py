"""Keys go where Java puts them, and heavy ones where nobody else is."""

from __future__ import annotations

import pytest

from penstock.clients import OwnPartition, murmur2
from penstock.clients.partition import murmur2_partition
from penstock.errors import UsageError

# Printed by org.apache.kafka.common.utils.Utils.murmur2 of kafka-clients 4.3.1; the text ones are
# in Kafka's own UtilsTest too. Every length modulo four, and bytes above 127.
JAVA = {
    b"": 275646681,
    b"21": -973932308,
    b"abc": 479470107,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    bytes.fromhex("99"): 1288378381,
    bytes.fromhex("1834"): -1042682160,
    bytes.fromhex("5a94c9"): -313141582,
    bytes.fromhex("390b7702"): 612225306,
    bytes.fromhex("09d32a595d"): 99467382,
    bytes.fromhex("41f4b3e59247"): -1134459280,
    bytes.fromhex("05194bb55dcab3"): -1772457477,
    bytes.fromhex("0016175aa147e1f3"): 1440785583,
    bytes.fromhex("e98ee81edf7fae40bf"): 731806385,
}
# (toPositive(murmur2(key)) % 7) of the same run.
IN_SEVEN = {"99": 3, "1834": 0, "5a94c9": 4, "390b7702": 0, "41f4b3e59247": 6, "05194bb55dcab3": 2}


@pytest.mark.parametrize("key", JAVA)
def test_murmur2_is_javas(key):
    assert murmur2(key) == JAVA[key] % 2**32


def test_partitions_are_javas():
    found = {key: murmur2_partition(bytes.fromhex(key), 7) for key in IN_SEVEN}
    assert found == IN_SEVEN


def test_heavy_keys_are_alone_and_the_rest_shares_the_rest():
    place = OwnPartition(["acme", b"globex"])
    assert (place(b"acme", 6), place(b"globex", 6)) == (5, 4)
    others = [f"customer-{number}".encode() for number in range(200)]
    assert {place(key, 6) for key in others} == {0, 1, 2, 3}
    assert all(place(key, 6) == murmur2_partition(key, 4) for key in others)
    assert [place(None, 6) for _ in range(5)] == [0, 1, 2, 3, 0]


def test_a_topic_too_small_for_them_is_named():
    with pytest.raises(UsageError, match=r"2 keys .* the topic has 2"):
        OwnPartition(["a", "b"])(b"c", 2)
