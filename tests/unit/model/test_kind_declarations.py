"""Declarations of every kind: what is kept of them, what is refused, and how that is said."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from penstock.errors import DefinitionError
from penstock.model import (
    Dedupe,
    Enrich,
    Group,
    History,
    Kind,
    Latest,
    Rows,
    Table,
    Totals,
    hopping,
    interval_join,
    session,
    sliding,
    sql_table,
    table,
    tumbling,
)

A = {"a": "silver.a"}
AB = {"a": "silver.a", "b": "silver.b"}
JOIN = {"by": ("k",), "on": "t", "right_on": "u"}


def declare(kind: Kind, inputs: dict[str, str] = A, **options: Any) -> Table:
    """A table whose function takes what a table of this kind is given."""
    namespace: dict[str, Any] = {}
    exec(f"def f({', '.join(kind.arguments(list(inputs)))}): return None", namespace)
    return table("gold.x", inputs=inputs, kind=kind, **options)(namespace["f"])


# --- what is right ------------------------------------------------------------------------------
SOUND = {
    "rows": (Rows(), A, ()),
    "enrich": (Enrich(by=("k",), on="t"), AB, ("n",)),
    "group": (Group(by=("k",)), AB, ("k", "side")),
    "totals": (Totals(by=("k",)), AB, ()),
    "latest": (Latest(by=("k",), order=("t",), deleted="_deleted"), A, ()),
    "history": (History(by=("k",), order=("lsn",), since="t", snapshot="_snapshot"), A, ()),
    "window": (hopping("4 seconds", every="2 seconds", on="t"), A, ("k", "window_start")),
    "session": (session("3 seconds", by=("k",), on="t"), A, ("k", "window_start")),
    "sliding": (sliding("3 seconds", by=("k",), on="t"), A, ("k", "window_end")),
    "interval_join": (interval_join(**JOIN, after="1 hour"), AB, ("n", "other")),
}


@pytest.mark.parametrize("word", SOUND)
def test_a_sound_table_of_every_kind(word):
    kind, inputs, keys = SOUND[word]
    declared = declare(kind, inputs, keys=keys)
    told = declared.describe()
    assert (told["kind"], told["inputs"]) == (word, inputs)
    assert kind.problems() == []


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (Totals(by=("model", "size")), ("model", "size")),
        (Latest(by=("k",), order=("t",)), ("k",)),
        (History(by=("k",), order=("t",)), ("k", "valid_from")),
    ],
)
def test_keyed_tables_know_their_keys(kind, keys):
    assert declare(kind).keys == keys
    assert declare(kind, keys=keys).keys == keys
    with pytest.raises(DefinitionError, match="leave keys out, or name exactly these"):
        declare(kind, keys=("other",))


def test_what_the_runtime_joins_is_not_an_argument():
    """A function that is not given the right side cannot join it in a way of its own."""
    for kind in (Enrich(by=("k",), on="t"), interval_join(**JOIN)):
        assert kind.arguments(["a", "b"]) == ["a"]
        with pytest.raises(DefinitionError, match=r"takes \(a, b\) but should take \(a\)"):
            table("gold.x", inputs=AB, kind=kind, keys=("n",))(lambda a, b: a)
    for kind in (Group(by=("k",)), Totals(by=("k",))):
        assert kind.arguments(["a", "b"]) == ["a", "b"]


def test_columns_that_only_say_something_are_not_kept():
    kind = History(
        by=("k",), order=("n",), deleted="gone", truncated="cut", snapshot="snap", since="t"
    )
    assert kind.flags == ("gone", "cut", "snap")
    assert Latest(by=("k",), order=("n",), deleted="gone").flags == ("gone",)


def test_lengths_of_time_mean_the_same_however_they_are_written():
    one, other = (
        hopping(size, every=every, on="t", lateness=late)
        for size, every, late in (("1 hour", "1 minute", "2 hours"),
                                  ("60 minutes", "60 seconds", "120 minutes"))
    )  # fmt: skip
    assert one.describe() == other.describe()
    assert (one.panes, tumbling("1 minute", on="t").panes) == (60, 1)


def test_a_result_belongs_to_one_column_of_time():
    assert tumbling("1 minute", on="t").point == "window_start"
    assert session("1 minute", by=("k",), on="t").point == "window_start"
    assert sliding("1 minute", by=("k",), on="t").point == "window_end"
    assert interval_join(**JOIN).point == "t"


# --- what is wrong ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (Enrich(by=("k",), on="t"), {"inputs": AB}, "an enriched table has keys"),
        (Enrich(by=("k",), on="t"), {"keys": ("n",)}, "reads 2 to 8 inputs, not 1"),
        (Enrich(by=("a-b",), on="t"), {"inputs": AB, "keys": ("n",)}, "by lists 'a-b'"),
        (Group(by=("k",)), {"keys": ("other",)}, r"groups among its keys: \['k'\]"),
        (Group(by=("K",)), {"keys": ("K",)}, "by lists 'K', which is not a column name"),
        (Latest(by=("k",)), {}, "order says which row of a key is newer"),
        (Latest(by=("k",), order=("t",), deleted="is gone"), {}, "flags lists 'is gone'"),
        (History(by=("k",), order=("t",), since="from when"), {}, "since lists 'from when'"),
        (Rows(), {"inputs": AB}, "a rows table reads 1 input, not 2"),
        (tumbling("1 minute", on="t"), {"inputs": AB, "keys": ("window_start",)}, "not 2"),
        (tumbling("0 seconds", on="t"), {"keys": ("window_start",)}, "size must be longer than"),
        (tumbling("1 minute", on="a b"), {"keys": ("window_start",)}, "on lists 'a b'"),
        (
            tumbling("1 minute", on="t", updatable_for="a while"),
            {"keys": ("window_start",)},
            "window updatable_for: 'a while' is not a length of time",
        ),
        (
            tumbling("1 minute", on="t", reconcile_within="for ever"),
            {"keys": ("window_start",)},
            "window reconcile_within: 'for ever'",
        ),
        (session("3 seconds", by=(), on="t"), {"keys": ("window_start",)}, "a session has a key"),
        (
            session("3 seconds", by=("k",), on="t"),
            {"keys": ("window_start",)},
            "its keys must have k among them",
        ),
        (sliding("3 seconds", by=("k",), on="t"), {"keys": ("k",)}, "must have window_end among"),
        (sliding("3 seconds", by=(), on="t"), {"keys": ("window_end",)}, "window has a key"),
        (interval_join(**JOIN), {"inputs": AB}, "an interval join has keys"),
        (interval_join(**JOIN), {"keys": ("n",)}, "reads 2 inputs, not 1"),
        (
            interval_join(by=(), on="t", right_on="u"),
            {"inputs": AB, "keys": ("n",)},
            "an interval join has a key",
        ),
        (
            interval_join(**JOIN, how="outer"),  # type: ignore[arg-type]
            {"inputs": AB, "keys": ("n",)},
            "how is 'left' or 'inner', not 'outer'",
        ),
        (
            interval_join(by=("k",), on="t", right_on=""),
            {"inputs": AB, "keys": ("n",)},
            "right_on lists ''",
        ),
        (
            Group(by=("k",)),
            {"inputs": {"a": "silver.a", "b": "silver.a"}, "keys": ("k",)},
            "two arguments name the same input",
        ),
    ],
)
def test_what_is_refused(kind, options, said):
    with pytest.raises(DefinitionError, match=said) as caught:
        declare(kind, **options)
    assert "test_kind_declarations.py:" in str(caught.value)


def test_sessions_are_written_once():
    with pytest.raises(TypeError):
        session("3 seconds", by=("k",), on="t", updates=True)  # type: ignore[call-arg]
    from penstock.model import Session

    kind = Session("t", gap="3 seconds", by=("k",), updates=True, updatable_for="1 minute")
    assert kind.problems() == [
        "sessions have no updates: they are written when final",
        "sessions have no updatable_for: they are written when final",
    ]


def test_everything_wrong_is_said_at_once():
    with pytest.raises(DefinitionError) as caught:
        table(
            "bronze.x",
            inputs={},
            kind=hopping("5 seconds", every="2 seconds", on="t"),
            freshness="soon",
        )(lambda: None)
    said = str(caught.value)
    for problem in ("multiple of the advance", "window_start among", "silver or gold",
                    "reads nothing", "freshness is"):  # fmt: skip
        assert problem in said


# --- dedupe and freshness -----------------------------------------------------------------------
def test_dedupe_is_part_of_the_meaning_and_freshness_is_not():
    plain = declare(Rows())
    deduped = declare(Rows(), dedupe=Dedupe(key=("id",), within="1 hour"))
    assert deduped.describe()["dedupe"] == {"key": ["id"], "within_us": 3_600_000_000}
    assert plain.describe() == declare(Rows(), freshness="5 minutes").describe()
    assert plain.describe() != deduped.describe()


@pytest.mark.parametrize(
    ("kind", "keys", "dedupe", "said"),
    [
        (Rows(), (), Dedupe(key=()), "dedupe needs a key"),
        (Rows(), (), Dedupe(key=("id",), within="a bit"), "dedupe within: 'a bit'"),
        (Group(by=("k",)), ("k",), Dedupe(key=("id",)), "not for group tables"),
        (tumbling("1 minute", on="t"), ("window_start",), Dedupe(key=("id",)), "not for window"),
    ],
)
def test_dedupe_that_is_refused(kind, keys, dedupe, said):
    with pytest.raises(DefinitionError, match=said):
        declare(kind, keys=keys, dedupe=dedupe)


@pytest.mark.parametrize(
    ("freshness", "every"),
    [
        ("continuous", dt.timedelta(0)),
        ("5 minutes", dt.timedelta(minutes=5)),
        ("batch", None),
    ],
)
def test_freshness(freshness, every):
    assert declare(Rows(), freshness=freshness).every == every


@pytest.mark.parametrize(
    ("freshness", "said"),
    [
        ("hourly", "freshness is 'continuous', 'batch' or a length of time"),
        ("0 seconds", "write 'continuous'"),
    ],
)
def test_freshness_that_is_refused(freshness, said):
    with pytest.raises(DefinitionError, match=said):
        declare(Rows(), freshness=freshness)


def test_how_long_quarantine_keeps_bytes_is_no_part_of_the_meaning():
    assert declare(Rows()).quarantine_for == "90 days"
    shorter = declare(Rows(), quarantine_for="1 week")
    assert shorter.describe() == declare(Rows()).describe()
    with pytest.raises(DefinitionError, match="quarantine_for: 'a while' is not a length of time"):
        declare(Rows(), quarantine_for="a while")


# --- SQL ----------------------------------------------------------------------------------------
def sql(query: str, inputs: dict[str, str] = A, kind: Kind | None = None) -> Table:
    kind = kind or Group(by=("k",))
    return sql_table("gold.x", inputs=inputs, kind=kind, keys=("k",), query=query, doc="By k.")


def test_a_query_is_a_table_like_any_other():
    declared = sql("select k, count(*) as n from {a} group by k")
    assert declared.query is not None
    assert declared.doc == "By k."
    assert declared.describe() == declare(Group(by=("k",)), keys=("k",)).describe()


class Frame:
    """What a query needs of a DataFrame: a session that takes the text and the frames by name."""

    @property
    def sparkSession(self) -> Frame:
        return self

    def sql(self, query: str, **frames: Frame) -> tuple[str, dict[str, Frame]]:
        return query, frames


def test_a_query_is_called_as_a_function_is():
    """The runtime calls by position where it joins or cuts windows, by name elsewhere."""
    query, frame = "select k, t from {a}", Frame()
    declared = sql(query, AB, Enrich(by=("k",), on="t"))
    assert declared(frame) == declared(a=frame) == (query, {"a": frame})


@pytest.mark.parametrize(
    ("query", "inputs", "said"),
    [
        ("select 1 as k", A, r"the query reads nothing, but its inputs are \{a\}"),
        ("select k from {a} join {c}", AB, r"reads \['a', 'c'\], but its inputs are \{a\}, \{b\}"),
        ("select k from {a", A, "braces do not match"),
    ],
)
def test_a_query_names_its_inputs_and_no_others(query, inputs, said):
    with pytest.raises(DefinitionError, match=said):
        sql(query, inputs)


def test_a_query_is_not_given_what_the_runtime_joins():
    kind = Enrich(by=("k",), on="t")
    assert sql("select k, t, b.colour from {a}", AB, kind)
    with pytest.raises(DefinitionError, match=r"its inputs are \{a\}"):
        sql("select * from {a} join {b} using (k)", AB, kind)


def test_retention_is_declared_and_is_not_part_of_the_meaning():
    assert declare(Rows()).retention == "7 days"
    shorter = declare(Rows(), retention="2 days")
    assert shorter.describe() == declare(Rows()).describe()
    with pytest.raises(DefinitionError, match="retention: 'a while' is not a length of time"):
        declare(Rows(), retention="a while")
    with pytest.raises(DefinitionError, match="retention is at least an hour"):
        declare(Rows(), retention="5 minutes")
