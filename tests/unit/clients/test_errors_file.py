"""Undelivered records are kept, privately and whole, and can be sent again."""

from __future__ import annotations

import os

import pytest
from confluent_kafka import KafkaError

from penstock.clients.errors_file import ErrorsFile, Record, kind_of
from penstock.errors import EnvironmentProblem

RECORD = Record("t", b"\x00\xff", b"k", [("a", b"1"), ("b", None)], 1_794_961_839_981, 3)

TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KafkaError(KafkaError._MSG_TIMED_OUT), "retriable"),
        (KafkaError(KafkaError._PURGE_QUEUE), "retriable"),
        (KafkaError(KafkaError.NOT_ENOUGH_REPLICAS), "retriable"),
        (KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), "refused"),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "refused"),
        (KafkaError(KafkaError.UNKNOWN, "x", retriable=True), "retriable"),
        (KafkaError(KafkaError._FENCED, "x", fatal=True), "fatal"),
    ],
)
def test_who_must_act(error, kind):
    assert kind_of(error) == kind


def test_what_is_kept_comes_back_as_it_was(tmp_path):
    file = ErrorsFile(tmp_path / "new" / "errors.jsonl")
    assert list(file.records()) == []
    file.keep(RECORD, TIMED_OUT)
    file.keep(Record("u", None), KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))
    assert list(file.records()) == [RECORD, Record("u", None, headers=[])]
    timed_out, too_large = file.lines()
    assert (timed_out["error"], timed_out["perhaps_written"]) == ("_MSG_TIMED_OUT", True)
    assert (too_large["reason"], too_large["perhaps_written"]) == ("too large", False)


def test_only_its_owner_may_read_it(tmp_path):
    before = os.umask(0)
    try:
        file = ErrorsFile(tmp_path / "new" / "errors.jsonl")
        file.keep(RECORD, TIMED_OUT)
    finally:
        os.umask(before)
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700


def test_what_an_interrupted_attempt_left_goes_first(tmp_path):
    file = ErrorsFile(tmp_path / "errors.jsonl")
    file.keep(RECORD, TIMED_OUT)
    first = file.set_aside()
    file.keep(Record("later", None), TIMED_OUT)
    assert list(file.set_aside().records()) == [RECORD]
    first.path.unlink()
    assert [record.topic for record in file.set_aside().records()] == ["later"]


def test_what_cannot_even_be_kept_is_not_passed_over(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentProblem, match=r"cannot be kept in .* either"):
        ErrorsFile(tmp_path / "file" / "errors.jsonl").keep(RECORD, TIMED_OUT)
    small = ErrorsFile(tmp_path / "errors.jsonl", most_bytes=100)
    small.keep(RECORD, TIMED_OUT)
    with pytest.raises(EnvironmentProblem, match="more than 100 bytes"):
        small.keep(RECORD, TIMED_OUT)
    assert list(small.records()) == [RECORD]
