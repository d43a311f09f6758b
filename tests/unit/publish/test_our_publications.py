"""Everything we publish ourselves, from rows of its table to what a reader decodes.

No broker and no registry: real live tables and the publisher's own work, into memory.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from penstock.model.catalog import Catalog
from penstock.model.names import TableName
from penstock.publish import notify, records, work
from penstock.publish.declared import Published, declared
from penstock.publish.notify import NotifyWork
from penstock.publish.work import TopicWork
from penstock.runtime.delta.change import Change
from penstock.runtime.delta.files import removal, write_arrow, write_changes
from penstock.runtime.delta.swap import files_at
from penstock.runtime.delta.writer import RevisionWriter
from penstock.settings import Settings
from tests.oracles import Row
from tests.oracles.shapes import TABLES
from tests.unit.publish.memory_outlet import MemoryOutlet

DAY = dt.datetime(2026, 11, 1, 9, 30, tzinfo=dt.UTC)
LATER = DAY + dt.timedelta(minutes=5, microseconds=7)

# Whatever we declare stands here too: kind, table, topic or name, format, corrections, keys.
OURS = [
    ("changelog", "gold.inventory", "out.gold.inventory", "avro", None, ("model", "size")),
    ("changelog", "gold.sensor_5m", "out.gold.sensor_5m", "json", None,
     ("sensor_id", "window_start")),
    ("events", "gold.big_sales", "out.big_sales", "avro", False, ("sale_id",)),
    ("events", "gold.card_fraud", "out.card_decisions", "avro", True, ("payment_id",)),
    ("events", "gold.error_events", "out.errors_high", "avro", False, ("log_id",)),
    ("events", "gold.other_events", "out.others_low", "avro", False, ("log_id",)),
    ("notification", "gold.big_sales", "big_sale", None, None, ("sale_id",)),
]  # fmt: skip
TOPICS = [target for kind, _, target, *_ in OURS if kind != "notification"]

_LINE = {"log_id": "l-1", "service": "web", "host": "h-1", "message": "Größe ''", "logged_at": DAY}
_PAYMENT = {
    "payment_id": "pay-1", "card_id": "card-0001", "card_kind": "debit", "merchant": "grocer",
    "amount": Decimal("19.99"), "paid_at": LATER, "payments": 7, "km": 850, "kmh": 10200,
    "decision": "deny", "reasons": "velocity,travel", "rules_from": DAY,
}  # fmt: skip
_SALE = {
    "sale_id": "sal-1", "model": "boot", "size": "42.5", "quantity": 5,
    "revenue": Decimal("12345.60"), "sold_at": LATER, "salesperson": "bruno",
}  # fmt: skip
_STOCK = {"model": "boot", "size": "42.5", "stock": -3, "money": Decimal("-99999999999999999.01"),
          "transactions": 4}  # fmt: skip
_FIVE = {
    "sensor_id": "boiler-1", "window_start": DAY, "window_end": DAY + dt.timedelta(minutes=5),
    "min_value": -0.5, "max_value": 1e6, "mean_value": 0.1, "p95_value": 7.25, "readings": 43,
}  # fmt: skip

# Of each table: a row that stays but changes, one that goes, one that comes; and what changes.
ROWS: dict[str, tuple[Row, Row, Row, Row]] = {
    "gold.error_events": (_LINE, _LINE | {"log_id": "l-2"}, _LINE | {"log_id": "l-3"},
                          {"message": "", "logged_at": LATER}),
    "gold.other_events": (_LINE | {"level": "INFO"}, _LINE | {"log_id": "l-2", "level": "DEBUG"},
                          _LINE | {"log_id": "l-3", "level": "WARN"}, {"host": "h-2"}),
    "gold.card_fraud": (_PAYMENT, _PAYMENT | {"payment_id": "pay-2"},
                        _PAYMENT | {"payment_id": "pay-3"},
                        {"decision": "approve", "reasons": "", "rules_from": None}),
    "gold.big_sales": (_SALE, _SALE | {"sale_id": "sal-2"}, _SALE | {"sale_id": "sal-3"},
                       {"revenue": Decimal("10000.01")}),
    "gold.inventory": (_STOCK, _STOCK | {"size": "41"}, _STOCK | {"model": "runner"},
                       {"stock": 0, "money": Decimal("0.00"), "transactions": 5}),
    "gold.sensor_5m": (_FIVE, _FIVE | {"sensor_id": "boiler-2"},
                       _FIVE | {"window_start": LATER},
                       {"mean_value": float("nan"), "readings": 44}),
}  # fmt: skip


class Registry:
    """Gives schemas numbers, and a reader the schema of a number."""

    known: list[tuple[str, str]]  # the subject and the schema of each

    def __init__(self, _: str) -> None:
        pass

    def versions(self, subject: str) -> list[str]:
        return [schema for name, schema in self.known if name == subject]

    def register(self, subject: str, schema: str) -> int:
        self.known.append((subject, schema))
        return len(self.known) - 1

    def compatibility(self, _: str) -> None:
        return None

    def hold_to(self, subject: str, level: str) -> None:
        assert level == "FULL_TRANSITIVE"


class Live:
    """One of our tables, live, with rows as the engine writes them."""

    def __init__(self, settings: Settings, name: str, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self.writer = RevisionWriter(
            settings.warehouse, TableName.parse(name), "r1", TABLES[name], token=1, live=True
        )

    def _table(self, rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(rows, self.writer.schema)

    def begin(self, rows: list[Row]) -> None:
        came = self._table(rows)
        self.writer.commit(write_arrow(came, self.writer.path), {"n": 1}, change=Change(came))

    def replace(self, old: list[Row], new: list[Row]) -> None:
        """All rows anew; the change file tells those that differ."""
        files = files_at(self.writer.path, self.writer.log.version)
        out = [removal(path, add["size"]) for path, add in files.items()]
        came, gone = ([row for row in a if row not in b] for a, b in ((new, old), (old, new)))
        change = Change(self._table(came), self._table(gone))
        fresh = write_arrow(self._table(new), self.writer.path)
        told = write_changes(change, self.keys, self.writer.path)
        self.writer.commit([*out, *fresh, *told], {"n": 1}, change=change)


@pytest.fixture
def ours(settings: Settings, jobs: Catalog) -> list[Published]:
    """What the publisher reads in the manifest of our working tree."""
    tables = [
        {"name": str(name), "kind": "rows", "keys": list(table.keys), "revision": "r1"}
        for name, table in jobs.tables.items()
    ]
    told = {"tables": tables, "published": [one.describe() for one in jobs.published]}
    settings.warehouse.mkdir(parents=True)
    settings.manifest.write_text(json.dumps({**told, "broken": []}))
    return declared(settings)


@pytest.fixture
def publish(
    settings: Settings, ours: list[Published], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[Live, TopicWork, MemoryOutlet]]:
    @contextmanager
    def all_differs(_: Any, __: Any, wanted: Iterable[Any], ___: Any) -> Iterator[Any]:
        yield iter(list(wanted))  # nothing is in the topic when it is compared

    monkeypatch.setattr(work, "compare", all_differs)
    monkeypatch.setattr(Registry, "known", [], raising=False)
    monkeypatch.setattr(records, "SchemaRegistry", Registry)

    def start(topic: str) -> tuple[Live, TopicWork, MemoryOutlet]:
        (published,) = (one for one in ours if one.topic == topic)
        outlet = MemoryOutlet()
        made = TopicWork(settings, published, outlet, settings.home / "scratch")  # type: ignore[arg-type]
        return Live(settings, published.table, published.keys), made, outlet

    return start


def decoded(body: bytes | None, subject: str, format_: str) -> Row | None:
    """As a reader has it, who knows the topic, its format and the registry."""
    if body is None:
        return None
    if format_ == "json":
        return dict(json.loads(body))
    magic, number = struct.unpack(">bI", body[:5])
    assert magic == 0
    name, schema = Registry.known[number]
    assert name == subject
    row = fastavro.schemaless_reader(io.BytesIO(body[5:]), json.loads(schema))
    assert isinstance(row, dict)
    return row


def as_told(row: Row | None, format_: str) -> Row | None:
    """A row as its topic should have it; JSON's words are spelled out here, not taken from us."""
    if row is None or format_ == "avro":
        return row
    return {name: _in_json(value) for name, value in row.items()}


def _in_json(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def published_all(made: TopicWork, outlet: MemoryOutlet) -> list[tuple[Row | None, Row | None]]:
    """What was sent now, decoded."""
    before, one = len(outlet.sent), made.published
    while made.step():
        pass
    assert {topic for topic, _ in outlet.places} <= {one.topic}
    return [
        (decoded(key, f"{one.topic}-key", one.format),
         decoded(value, f"{one.topic}-value", one.format))
        for key, value in outlet.sent[before:]
    ]  # fmt: skip


def by_key(told: Iterable[tuple[Row | None, Row | None]]) -> dict[str, Row | None]:
    pairs = list(told)
    found = {repr(key): value for key, value in pairs}
    assert len(found) == len(pairs), "one record for each key"
    return found


# --- the list -------------------------------------------------------------------------------------
def test_what_we_publish_is_listed_here(ours, jobs):
    """A new publication needs rows of its table in this module, and a line in the list."""
    found = [
        (p.kind, p.table, p.target, p.format if p.topic else None,
         p.corrections if p.kind == "events" else None, p.keys)
        for p in ours
    ]  # fmt: skip
    assert sorted(found, key=str) == sorted(OURS, key=str)
    assert jobs.broken == ()
    assert set(ROWS) == {table for _, table, *_ in OURS}


@pytest.mark.parametrize(("kind", "table", "target"), [row[:3] for row in OURS])
def test_what_it_speaks_of_is_in_its_table(jobs, kind, table, target):
    (one,) = (p for p in jobs.published if p.target == target)
    keys = jobs.tables[TableName.parse(table)].keys
    assert one.problems(keys, TABLES[table].names) == []
    assert set(keys) <= set(TABLES[table].names)


def test_the_page_names_each_of_ours(project: Path):
    text = (project / "docs" / "publishing.md").read_text().partition("Our own events")[2]
    for kind, table, target, *_ in OURS:
        assert f"`{table if kind == 'notification' else target}`" in text


# --- topics ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("topic", TOPICS)
def test_rows_come_out_of_the_topic_as_they_are(publish, topic):
    live, made, outlet = publish(topic)
    stays, goes, comes, change = ROWS[made.published.table]
    live.begin([stays, goes])
    keys, how = made.published.keys, made.published.format

    def told(row: Row, value: Row | None) -> tuple[Row | None, Row | None]:
        return as_told({key: row[key] for key in keys}, how), as_told(value, how)

    first = published_all(made, outlet)
    assert by_key(first) == by_key(told(row, row) for row in (stays, goes))

    changed = {**stays, **change}
    live.replace([stays, goes], [changed, comes])
    second = by_key(published_all(made, outlet))
    if made.published.kind == "changelog":
        wanted = [told(changed, changed), told(goes, None), told(comes, comes)]
    elif made.published.corrections:
        wanted = [told(changed, changed), told(goes, goes), told(comes, comes)]
    else:
        wanted = [told(comes, comes)]
    assert second == by_key(wanted)


def test_a_revised_decision_says_that_it_is(publish):
    live, made, outlet = publish("out.card_decisions")
    stays, goes, comes, change = ROWS["gold.card_fraud"]
    live.begin([stays, goes])
    published_all(made, outlet)
    live.replace([stays, goes], [{**stays, **change}, comes])
    sent = published_all(made, outlet)
    headers = [told["penstock-change"].decode() for _, told in outlet.places]
    assert headers[:2] == ["insert", "insert"]
    kinds = {key["payment_id"]: kind for (key, _), kind in zip(sent, headers[2:], strict=True)}
    assert kinds == {"pay-1": "update", "pay-2": "delete", "pay-3": "insert"}


# --- the notification -----------------------------------------------------------------------------
class Notices:
    """The outbox, as far as a notification writes to it."""

    said: list[tuple[str, str, str, bool]]
    unsaid: list[str]

    def __init__(self, _: Settings) -> None:
        self._position: dict[str, Any] | None = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        yield

    def position(self, _: str) -> dict[str, Any] | None:
        return self._position

    def keep(self, _: str, position: str) -> None:
        self._position = json.loads(position)

    def say(self, about: dict[str, str], subject: str, body: str, *, known: bool) -> None:
        assert about["notification"] == "big_sale"
        assert about["every"] == "immediately"
        self.said.append((about["recipient"], subject, body, known))

    def unsay(self, about: dict[str, str]) -> bool:
        self.unsaid.append(about["recipient"])
        return True


@pytest.fixture
def notices(monkeypatch: pytest.MonkeyPatch) -> type[Notices]:
    monkeypatch.setattr(Notices, "said", [], raising=False)
    monkeypatch.setattr(Notices, "unsaid", [], raising=False)
    monkeypatch.setattr(notify, "Outbox", Notices)
    return Notices


@pytest.fixture
def told_of(settings, ours, notices) -> tuple[Live, Callable[[], None]]:
    """The table of big sales, and its notification begun over one row that is history."""
    (published,) = (one for one in ours if one.name == "big_sale")
    live = Live(settings, published.table, published.keys)
    live.begin([_SALE])
    made = NotifyWork(settings, published, settings.home / "scratch")

    def take_in() -> None:
        while made.step():
            pass

    take_in()
    assert notices.said == [], "what is there when it begins is history"
    return live, take_in


def test_the_text_of_a_big_sale(told_of, notices):
    live, take_in = told_of
    new = {**_SALE, "sale_id": "sal-9", "revenue": Decimal("1234567.80")}
    live.replace([_SALE], [_SALE, new])
    take_in()
    subject = "A sale of 1,234,567.80 $"
    text = "5 pairs of boot, size 42.5, for 1,234,567.80 $ (sal-9, 01 November, 09:35 UTC)"
    assert notices.said == [("bruno", subject, text, False)]


def test_a_big_sale_that_changes_is_known_and_one_that_goes_is_withdrawn(told_of, notices):
    live, take_in = told_of
    live.replace([_SALE], [{**_SALE, "quantity": 4}])
    take_in()
    ((who, _, text, known),) = notices.said
    assert (who, known) == ("bruno", True)
    assert text.startswith("4 pairs of boot, size 42.5, for 12,345.60 $ (sal-1, ")
    live.replace([{**_SALE, "quantity": 4}], [])
    take_in()
    assert notices.unsaid == ["bruno"]


@pytest.mark.spark
def test_who_hears_of_a_sale_of_more_than_ten_thousand(spark, jobs, told_of, notices):
    """The table's own query decides, so this one runs it."""
    live, take_in = told_of
    people = {"runner": "ines", "boot": "bruno", "sandal": "sol", "loafer": "lotte",
              "clog": "manager"}  # fmt: skip
    sales = [
        {"sale_id": f"{model} {revenue}", "model": model, "size": "41", "quantity": 1,
         "revenue": Decimal(revenue), "sold_at": DAY}
        for model in people
        for revenue in ("9999.99", "10000.00", "10000.01")
    ]  # fmt: skip
    frame = spark.createDataFrame(pa.Table.from_pylist(sales, TABLES["silver.sales"]))
    big = jobs.tables[TableName.parse("gold.big_sales")](frame).toArrow().to_pylist()
    live.replace([_SALE], [_SALE, *big])
    take_in()
    text = "1 pairs of {0}, size 41, for 10,000.01 $ ({0} 10000.01, 01 November, 09:30 UTC)"
    assert sorted(notices.said) == sorted(
        (who, "A sale of 10,000.01 $", text.format(model), False) for model, who in people.items()
    )
