"""Change capture on real parts: whatever is done to the source, the table is its copy.

The judge is `penstock audit`, and Postgres itself asked in SQL; what audit finds wrong is planted.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pg8000.dbapi
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.cli.asking import ask
from penstock.platform.postgres_admin import connect
from penstock.runtime.ingest.connectors import Connector, source_database
from penstock.runtime.ingest.slots import Ledger, look_at
from penstock.runtime.ingest.topics import describe_topic
from penstock.runtime.kafka import client_options
from penstock.runtime.mend.audit import Audit
from penstock.runtime.mend.audit_rows import Report
from tests.live import PROJECT, Supervised, read, started, wait_for

pytestmark = pytest.mark.platform

TOPIC, SLOT = "shop.public.users", "penstock_shop"
SERVICES = ["postgres", "kafka", "registry", "connect"]
KEPT = {
    "bronze": {"__init__.py", "users.py"},
    "silver": {"__init__.py", "users.py"},
    "gold": {"__init__.py"},
    "contracts": {"__init__.py", "users.avsc"},
}
COLUMNS = ("user_id", "name", "email", "country", "tier", "updated_at", "zip_code")


class Shop:
    """The source database, its connector, and a supervisor that copies its users."""

    def __init__(self, stack, supervised: Supervised) -> None:
        self.stack, self.supervised = stack, supervised
        self.settings = supervised.settings
        self.connector = Connector(self.settings, "shop")

    def sql(self, *statements: str, role: str = "shop") -> list:
        """The statements, in one transaction."""
        with closing(connect(self.settings, role, "shop")) as database:
            database.autocommit = False
            cursor = database.cursor()
            for statement in statements:
                cursor.execute(statement)
            found = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
            database.commit()
        return found

    def add(self, *ids: int, tier: str = "basic") -> None:
        rows = ", ".join(f"({n}, 'N{n}', 'n{n}@example.org', 'DE', '{tier}')" for n in ids)
        self.sql(f"INSERT INTO users (user_id, name, email, country, tier) VALUES {rows}")

    def source(self) -> set[tuple]:
        return set(self.sql(f"SELECT {', '.join(COLUMNS)} FROM users"))

    def history(self, user_id: int | None = None) -> list[dict]:
        rows = read(self.settings, "silver", "users").to_pylist()
        rows.sort(key=lambda row: (row["user_id"], row["valid_from"]))
        return [row for row in rows if user_id in (None, row["user_id"])]

    def copy(self) -> set[tuple]:
        current = [row for row in self.history() if row["valid_to"] is None]
        assert len({row["user_id"] for row in current}) == len(current), "a key once"
        return {tuple(row[name] for name in COLUMNS) for row in current}

    def settle(self) -> None:
        wait_for("the table to be the source", lambda: self.copy() == self.source())

    def audit(self) -> Report:
        def advance() -> None:
            ask(self.settings, "silver.users", "run", quiet=True)

        return Audit(self.settings, "silver.users", advance=advance).run()

    def command(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(  # noqa: PLW1510 - the code is looked at
            [sys.executable, "-m", "penstock.cli", *arguments],
            env={
                **os.environ,
                "PENSTOCK_HOME": str(self.settings.home),
                "PENSTOCK_PROJECT": str(self.settings.project),
                "PENSTOCK_PORT_OFFSET": str(self.settings.port_offset),
                "PENSTOCK_JARS": str(self.settings.jars),
            },
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code in (0, 1) else done.stderr

    def alarm(self) -> str:
        beat = self.supervised.registry.heartbeat()
        entry = next(s for s in beat.streams if s["stream"] == "bronze.users")
        return entry.get("alarm", "")

    def capture_on(self) -> None:
        started(self.stack, SERVICES)
        wait_for("the connector", lambda: self.connector.read().state in ("RUNNING", "FAILED"))

    def capture_off(self) -> None:
        self.stack.services["connect"].stop()

        def unread() -> bool:
            with source_database(self.settings, "shop") as database:
                return not look_at(database, SLOT).active

        wait_for("nobody to read the slot", unread)


def _only_users(folder: str, names: list[str]) -> list[str]:
    kept = KEPT.get(Path(folder).name)
    return [n for n in names if n == "__pycache__" or (kept is not None and n not in kept)]


@pytest.fixture(scope="module")
def shop(stack, tmp_path_factory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("users-project")
    for name in ("pyproject.toml", "requirements.lock"):
        shutil.copy(PROJECT / name, folder)
    shutil.copytree(PROJECT / "spark_jobs", folder / "spark_jobs", ignore=_only_users)
    shutil.copytree(PROJECT / "infra", folder / "infra")
    supervised = Supervised(replace(stack.settings, project=folder))
    shop = Shop(stack, supervised)
    try:
        shop.capture_on()
        supervised.start()
        yield shop
        assert supervised.stop(supervised.processes[-1]) == 0
    finally:
        supervised.kill_all()
        _leave_as_found(shop)


def _leave_as_found(shop: Shop) -> None:
    """Other tests share the stack: no connector, no slot, no users table to run, the five users."""
    shop.connector._send("DELETE", "")
    shop.capture_off()
    with closing(connect(shop.settings, "postgres", "shop")) as database:
        database.cursor().execute(
            f"SELECT pg_drop_replication_slot('{SLOT}') FROM pg_replication_slots "
            f"WHERE slot_name = '{SLOT}'"
        )
    shop.sql("DELETE FROM users", (PROJECT / "infra/postgres/shop.sql").read_text())
    with closing(connect(shop.settings, "penstock", "penstock")) as registry:
        cursor = registry.cursor()
        cursor.execute("DELETE FROM revision WHERE table_name = 'silver.users'")
        cursor.execute("DELETE FROM slot_look")
        cursor.execute("DELETE FROM cdc_alarm")


def test_a_snapshot_becomes_the_table(shop):
    shop.settle()
    report = shop.audit()
    assert report.equal, report
    assert report.rows == len(shop.source()) >= 5
    assert report.columns == list(COLUMNS)
    assert report.not_compared == {"only_in_source": [], "only_in_table": []}
    assert shop.alarm() == ""


def test_every_operation_on_rows(shop):
    shop.add(101, 102, 103, 104, 105, 106)
    shop.sql("UPDATE users SET tier = 'gold' WHERE user_id = 101")
    shop.sql("DELETE FROM users WHERE user_id = 102")
    shop.sql("UPDATE users SET user_id = 203 WHERE user_id = 103")
    again = "INSERT INTO users VALUES (104, 'again', 'a@example.org', 'FR', 'plus')"
    shop.sql("DELETE FROM users WHERE user_id = 104", again)
    shop.sql("UPDATE users SET tier = 'plus' WHERE user_id = 105",
             "UPDATE users SET tier = 'gold' WHERE user_id = 105")  # fmt: skip
    with pytest.raises(pg8000.dbapi.Error, match="division by zero"):
        shop.sql("UPDATE users SET name = 'never' WHERE user_id = 106", "SELECT 1/0")
    shop.settle()
    assert shop.audit().equal
    versions = {n: [(r["name"], r["tier"]) for r in shop.history(n)] for n in range(101, 107)}
    assert versions[101] == [("N101", "basic"), ("N101", "gold")]
    assert [row["valid_to"] is None for row in shop.history(102)] == [False]
    assert [row["valid_to"] is None for row in shop.history(103)] == [False], "its key changed"
    (moved,) = shop.history(203)
    assert moved["valid_from"] == shop.history(103)[0]["valid_to"], "at one moment"
    assert versions[104] == [("N104", "basic"), ("again", "plus")]
    assert versions[105] == [("N105", "basic"), ("N105", "gold")], "a transaction is one moment"
    assert versions[106] == [("N106", "basic")], "what was rolled back never was"


def test_truncate_ends_every_row(shop):
    kept = shop.sql(f"SELECT {', '.join(COLUMNS)} FROM users WHERE user_id < 6")
    shop.sql("TRUNCATE users")
    wait_for("nothing", lambda: shop.copy() == set())
    empty = shop.audit()
    assert empty.equal
    assert empty.rows == 0
    shop.sql("TRUNCATE users", "INSERT INTO users VALUES (7, 'Seven', 's@example.org', 'IT')")
    with closing(connect(shop.settings, "shop", "shop")) as database:
        marks = ", ".join(["%s"] * len(COLUMNS))
        database.cursor().executemany(f"INSERT INTO users VALUES ({marks})", kept)
    shop.settle()
    report = shop.audit()
    assert report.equal, report
    assert report.rows == 1 + len(kept)


def test_an_audit_is_exact_while_the_source_is_written(shop):
    done, dice = threading.Event(), random.Random(20261116)
    ids = list(range(300, 340))
    shop.add(*ids)
    shop.settle()

    def write() -> None:
        while not done.is_set():
            one, two = dice.sample(ids, 2)
            values = f"({one}, 'again', 'x@example.org', 'NL', 'plus')"
            choices = [
                [f"UPDATE users SET name = '{dice.random()}' WHERE user_id in ({one}, {two})"],
                [f"DELETE FROM users WHERE user_id = {one}"],
                [f"INSERT INTO users VALUES {values} ON CONFLICT DO NOTHING"],
                [f"UPDATE users SET tier = 'gold' WHERE user_id = {one}",
                 "SELECT pg_sleep(0.3)",  # commits well after it wrote
                 f"UPDATE users SET tier = 'basic' WHERE user_id = {two}"],
            ]  # fmt: skip
            shop.sql(*dice.choice(choices))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        report = shop.audit()
    finally:
        done.set()
        writer.join()
    assert report.equal, report
    assert report.changed_since > 0, "or nothing is shown"
    shop.settle()


def test_columns_come_go_and_are_renamed(shop):
    shop.sql("ALTER TABLE users ADD COLUMN nickname text DEFAULT 'none'")
    shop.add(401, 402)
    shop.settle()
    assert shop.audit().not_compared["only_in_source"] == ["nickname"]
    shop.sql("ALTER TABLE users DROP COLUMN nickname")
    shop.sql("UPDATE users SET tier = 'gold' WHERE user_id = 401")
    shop.settle()

    shop.sql("ALTER TABLE users RENAME COLUMN country TO region")
    shop.sql("UPDATE users SET tier = 'plus' WHERE user_id = 402")

    def set_apart() -> list:
        rows = read(shop.settings, "quarantine", "silver_users").to_pylist()
        return [row for row in rows if "country: is missing" in (row["error"] or "")]

    wait_for("the change without a country", set_apart)
    renamed = shop.audit()
    assert renamed.not_compared == {"only_in_source": ["region"], "only_in_table": ["country"]}
    assert [(d.key, d.columns) for d in renamed.examples] == [
        ({"user_id": 402}, {"tier": ("plus", "basic")})
    ], "a row in quarantine is a difference"
    shop.sql("ALTER TABLE users RENAME COLUMN region TO country")
    shop.sql("UPDATE users SET user_id = user_id WHERE user_id = 402")  # tells it again, whole
    shop.settle()


def test_messages_that_come_twice_change_nothing(shop):
    before = shop.history()
    options = client_options(shop.settings, "admin") | {"log_level": 0}
    topic = describe_topic(shop.settings, TOPIC)
    producer = Producer(options)
    with closing(Consumer(options | {"group.id": uuid.uuid4().hex})) as consumer:
        for part, end in topic.latest.items():
            consumer.assign([TopicPartition(TOPIC, part, topic.earliest[part])])
            while consumer.position([TopicPartition(TOPIC, part)])[0].offset < end:
                message = consumer.poll(0.2)
                if message is not None and not message.error() and _is_change(message.value()):
                    producer.produce(TOPIC, message.value(), message.key(), partition=part)
            consumer.unassign()
    assert producer.flush(30) == 0
    report = shop.audit()
    assert report.equal, report
    told = [{k: v for k, v in row.items() if k != "offset"} for row in shop.history()]
    assert told == [{k: v for k, v in row.items() if k != "offset"} for row in before]


def _is_change(value: bytes | None) -> bool:
    """A row of a snapshot that comes twice splits its first version in two of the same content."""
    return value is None or json.loads(value)["op"] != "r"


def test_a_strangers_message_in_the_log_stops_nothing(shop):
    """Any role may emit one; Debezium would want a topic for it that nobody made."""
    shop.sql("SELECT pg_logical_emit_message(true, 'stranger', 'hello')", role="analyst")
    shop.add(501)
    shop.settle()


def test_a_transaction_in_flight_while_a_snapshot_is_taken_counts(shop):
    with closing(connect(shop.settings, "shop", "shop")) as database:
        database.autocommit = False
        database.cursor().execute("UPDATE users SET name = 'in flight' WHERE user_id = 2")
        before = max(row["lsn"] for row in shop.history())
        shop.command("audit", "silver.users", "--resnapshot")
        wait_for("the snapshot", lambda: shop.history(2)[-1]["lsn"] > before)
        database.commit()
    try:
        report = wait_for("an audit", shop.audit)
        assert report.equal, report
    finally:
        shop.sql("UPDATE users SET user_id = user_id WHERE user_id = 2")
        shop.settle()


def test_a_lost_slot_is_raised_and_what_it_lost_is_named(shop):
    shop.capture_off()
    shop.sql(f"SELECT pg_drop_replication_slot('{SLOT}')", role="postgres")
    shop.sql("DELETE FROM users WHERE user_id = 1")
    shop.sql("UPDATE users SET tier = 'plus' WHERE user_id = 7")
    shop.add(601)
    shop.sql(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')", role="postgres")
    shop.capture_on()
    wait_for("an alarm", shop.alarm)
    assert "penstock audit" in shop.alarm()
    assert "ERROR penstock.slots" in _log(shop)
    wait_for("the connector to refuse", lambda: shop.connector.read().state == "FAILED")
    assert "connector shop is failed" in shop.command("audit", "silver.users", code=6)

    shop.command("audit", "silver.users", "--resnapshot")
    wait_for("the rows of the snapshot", lambda: any(row[0] == 601 for row in shop.copy()))
    wait_for("the connector", lambda: shop.connector.read().state == "RUNNING")
    told = json.loads(shop.command("audit", "silver.users", "--json", code=1))
    assert (told["missing"], told["surplus"], told["differing"]) == (0, 1, 0)
    assert told["examples"] == [{"key": {"user_id": 1}, "problem": "surplus", "columns": {}}]
    assert told["alarms"]
    assert shop.alarm(), "it stands while they differ"

    ghost = "INSERT INTO users VALUES (1, 'ghost', 'g@example.org', 'XX')"
    shop.sql(ghost, "DELETE FROM users WHERE user_id = 1")  # nobody saw it, the log did
    told = json.loads(shop.command("audit", "silver.users", "--json"))
    assert told["equal"]
    assert told["alarms_closed"]
    wait_for("the alarm to go", lambda: not shop.alarm())


def test_a_slot_dropped_and_not_made_again_is_raised_and_can_be_accepted(shop):
    shop.capture_off()
    shop.sql(f"SELECT pg_drop_replication_slot('{SLOT}')", role="postgres")
    wait_for("an alarm", lambda: "the slot is gone" in shop.alarm())
    shop.command("audit", "silver.users", "--accept")
    wait_for("the alarm to go", lambda: "the slot is gone" not in shop.alarm())
    with closing(Ledger(shop.settings)) as ledger:
        assert ledger.open_alarms(TOPIC) == []
    refused = shop.command("audit", "silver.users", code=7)
    assert "Kafka Connect does not answer" in refused
    assert "penstock up" in refused


def _log(shop: Shop) -> str:
    return (shop.settings.logs / "supervisor-test-0.log").read_text()
