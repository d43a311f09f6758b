"""Values of keys: read from text, spelled back, bounded by statistics that may be rounded."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.serve.snapshot import Column
from penstock.serve.values import as_text, bound, parse

TZ = "TIMESTAMP WITH TIME ZONE"
KINDS = {
    "VARCHAR": st.text(),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "TINYINT": st.integers(-128, 127),
    "DECIMAL(38,10)": st.decimals(
        min_value=-(10**28) + 1, max_value=10**28 - 1, places=10, allow_nan=False
    ),
    "DECIMAL(5,0)": st.decimals(min_value=-99999, max_value=99999, places=0, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "BOOLEAN": st.booleans(),
    "DATE": st.dates(),
    TZ: st.datetimes(timezones=st.just(dt.UTC)),
    "TIMESTAMP": st.datetimes(),
    "BLOB": st.binary(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_survives_being_text(kind: str) -> None:
    column = Column("k", kind)

    @given(st.none() | KINDS[kind])
    def survives(value: object) -> None:
        assert parse(column, as_text(value)) == value

    survives()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("BIGINT", "1.0"), ("BIGINT", ""), ("BIGINT", " 1"), ("BIGINT", "9223372036854775808"),
        ("BIGINT", "1_000"), ("TINYINT", "128"), ("INTEGER", "0x10"), ("BIGINT", "\u0661"),
        ("DECIMAL(5,2)", "1.234"), ("DECIMAL(5,2)", "1000"), ("DECIMAL(5,2)", "."),
        ("DECIMAL(5,2)", "NaN"), ("DECIMAL(5,2)", "1e2"), ("DECIMAL(5,2)", ""),
        ("DOUBLE", "1;"), ("DOUBLE", "1_0"), ("DOUBLE", ""), ("DOUBLE", "inf; drop"),
        ("BOOLEAN", "True"), ("BOOLEAN", "1"), ("DATE", "2026-13-01"), ("DATE", "today"),
        (TZ, "2026-11-01T10:00:00.1234567Z"), (TZ, "now"), (TZ, "2026-11-01T10:00 01:00"),
        (TZ, "0001-01-01T00:00:00+05:00"), ("TIMESTAMP", "2026-11-01T10:00Z"),
        ("BLOB", "not base64!"), ("VARCHAR", "\ud800"),
    ],
)  # fmt: skip
def test_what_is_no_value_is_refused_with_the_form_it_should_have(kind: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(Column("k", kind), text)
    assert "k" in caught.value.message
    assert caught.value.remedy.startswith("Write k as ")
    caught.value.message.encode()  # can be printed, whatever was typed


def test_a_struct_is_nothing_to_look_up_by() -> None:
    with pytest.raises(UsageError, match="struct"):
        parse(Column("k", "STRUCT(a BIGINT)"), "1")


def test_the_same_moment_in_any_zone() -> None:
    column = Column("k", TZ)
    moments = {parse(column, t) for t in ("2026-11-01T10:00", "2026-11-01T10:00:00Z",
                                          "2026-11-01T11:00+01:00")}  # fmt: skip
    assert moments == {dt.datetime(2026, 11, 1, 10, tzinfo=dt.UTC)}


def test_null_and_the_string_that_looks_like_it() -> None:
    column = Column("k", "VARCHAR")
    assert parse(column, "\\N") is None
    assert parse(column, "\\\\N") == "\\N"
    assert parse(column, "\\n") == "\\n"
    assert parse(Column("k", "BLOB"), base64.b64encode(b"a\0").decode()) == b"a\0"


def test_bounds_are_never_narrower_than_the_rows() -> None:
    high = bound(Column("t", TZ), "2026-11-01T10:00:00.123Z", up=True)
    assert high >= dt.datetime(2026, 11, 1, 10, 0, 0, 123999, tzinfo=dt.UTC)
    exact = Decimal("123456789012345678.123456789")
    wide = Column("d", "DECIMAL(38,9)")
    told = Decimal(repr(float(exact)))  # as a writer that goes through floats has it
    assert bound(wide, told, up=False) <= exact <= bound(wide, told, up=True)
    assert bound(Column("d", "DECIMAL(5,2)"), Decimal("1.5"), up=True) == Decimal("1.5")


@pytest.mark.parametrize(
    ("kind", "raw"),
    [("BIGINT", "7"), ("BIGINT", True), ("VARCHAR", 7), (TZ, "soon"), ("DOUBLE", Decimal("1.5")),
     ("DECIMAL(5,2)", "x"), ("BLOB", "abc"), ("DATE", 7), (TZ, "9999-12-31T23:59:59.999Z")],
)  # fmt: skip
def test_a_doubtful_bound_is_none(kind: str, raw: object) -> None:
    assert bound(Column("k", kind), raw, up=True) is None
