"""Names with a suffix: which state of a table a query means."""

from __future__ import annotations

import datetime as dt

import pytest

from penstock.errors import UsageError
from penstock.serve.catalog import Catalog, TableRef
from penstock.serve.moments import Moment, read, spell


@pytest.mark.parametrize(
    ("sql", "spelt"),
    [
        ("select 1", "select 1"),
        ("from gold.x@candidate", 'from gold."x@candidate"'),
        ("from GOLD.X@Warm w, b", 'from GOLD."X@Warm" w, b'),
        ("from gold.x@version:17)", 'from gold."x@version:17")'),
        ("from gold.x@2026-11-01T10:00Z", 'from gold."x@2026-11-01T10:00Z"'),
        ("select 'gold.x@warm'", "select 'gold.x@warm'"),
        ("select 'it''s gold.x@warm'", "select 'it''s gold.x@warm'"),
        ('select "gold.x@warm"', 'select "gold.x@warm"'),
        ("-- gold.x@warm\nselect 1", "-- gold.x@warm\nselect 1"),
        ("/* gold.x@warm */ select 1", "/* gold.x@warm */ select 1"),
        ("select a@b from t", "select a@b from t"),
    ],
)
def test_only_names_are_spelt_anew(sql, spelt):
    assert spell(sql) == spelt


def test_what_a_suffix_means():
    assert read("candidate") == Moment("candidate")
    assert read("version:17") == Moment(version=17)
    when = dt.datetime(2026, 11, 1, 10, tzinfo=dt.UTC)
    assert read("2026-11-01T10:00Z") == Moment(time=when)
    for bad in ("yesterday", "version:x", "version:-1", "revision:../../etc", ""):
        with pytest.raises(UsageError, match="names no moment"):
            read(bad)


def test_a_suffix_names_a_revision_of_a_known_table(tmp_path):
    known = {("gold.x", "warm"): "abc123"}
    catalog = Catalog(tmp_path, [TableRef("gold", "x")], lambda t, s: known.get((t, s)))
    warm = catalog.find(["gold", "x@warm"])
    assert catalog.folder(warm) == tmp_path / "gold" / "x" / "_revisions" / "abc123"
    assert warm.label == "gold.x@warm"
    assert catalog.find(["gold", "x@live"]).revision == ""
    assert catalog.find(["gold", "x@version:3"]).version == 3
    with pytest.raises(UsageError, match="no candidate revision"):
        catalog.find(["gold", "x@candidate"])
    with pytest.raises(UsageError, match="no table named"):
        catalog.find(["gold", "y@warm"])
