"""Every service but the streams: change capture, Airflow, no secret out of place, a clean stop."""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer

from penstock.platform.http import ask
from penstock.platform.postgres_admin import connect
from penstock.platform.secrets import secret_names
from penstock.platform.stack import Stack
from penstock.runtime.kafka import client_options
from penstock.settings import Settings

pytestmark = [pytest.mark.platform, pytest.mark.slow]


@pytest.fixture(scope="module")
def whole(base_settings: Settings) -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="penstock-whole-") as folder:
        settings = replace(base_settings, home=Path(folder).resolve(), port_offset=7700)
        stack = Stack(settings)
        try:
            stack.up(without=["supervisor", "demo"])
            yield stack
        finally:
            stack.down()


def _processes(stack: Stack) -> list[psutil.Process]:
    recorded = [service.pid_file.read() for service in stack.services.values()]
    return [process for record in recorded if record for process in record.members()]


def test_a_change_in_the_shop_arrives_with_before_and_after(whole: Stack) -> None:
    consumer = Consumer(
        client_options(whole.settings, "supervisor")
        | {"group.id": f"penstock-{uuid.uuid4().hex}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["shop.public.users"])
    with connect(whole.settings, "shop", "shop") as shop:
        shop.cursor().execute("UPDATE users SET tier = 'gold' WHERE user_id = 3")
        shop.cursor().execute("DELETE FROM users WHERE user_id = 4")
    seen: list[tuple[str, str | None, str | None]] = []
    deadline = time.monotonic() + 60
    while len(seen) < 8 and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None or message.error():
            continue
        value = json.loads(message.value()) if message.value() else None
        tiers = [(value[side] or {}).get("tier") for side in ("before", "after")] if value else []
        seen.append((value["op"], *tiers) if value else ("tombstone", None, None))
    consumer.close()
    assert [row[0] for row in seen].count("r") == 5
    assert ("u", "basic", "gold") in seen
    assert ("d", "basic", None) in seen
    assert ("tombstone", None, None) in seen


def test_an_idle_shop_does_not_hold_the_log_back(whole: Stack) -> None:
    """The heartbeat moves the slot on, although nobody writes to the shop."""
    query = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'penstock_shop'"
    with connect(whole.settings, "postgres", "shop") as server:
        cursor = server.cursor()
        cursor.execute(query)
        before = cursor.fetchone()[0]
        deadline = time.monotonic() + 40
        after = before
        while after == before and time.monotonic() < deadline:
            time.sleep(1)
            cursor.execute(query)
            after = cursor.fetchone()[0]
    assert after != before


def test_connect_asks_for_a_password(whole: Stack) -> None:
    url = f"http://127.0.0.1:{whole.settings.port('connect')}/connectors"
    assert ask(url).status == 401
    shown = ask(f"{url}/shop/config", user=("penstock", whole.settings.secret("connect-rest")))
    assert shown.body["database.password"].startswith("${file:")


def test_airflow_lets_in_who_has_the_password_and_shows_the_dag(whole: Stack) -> None:
    url = whole.settings.airflow_url
    wrong = ask(f"{url}/auth/token", method="POST", body={"username": "admin", "password": "x"})
    assert wrong.status == 401
    assert ask(f"{url}/api/v2/dags").status == 401
    password = whole.settings.secret("airflow-admin")
    right = ask(
        f"{url}/auth/token", method="POST", body={"username": "admin", "password": password}
    )
    assert right.status == 201
    with connect(whole.settings, "airflow", "airflow") as database:
        cursor = database.cursor()
        deadline = time.monotonic() + 60
        rows: tuple = ()
        while not rows and time.monotonic() < deadline:
            cursor.execute("SELECT dag_id, is_paused FROM dag WHERE dag_id = 'stream_watch'")
            rows = cursor.fetchall()
            time.sleep(1)
    assert rows == (["stream_watch", False],)


def test_everything_listens_on_loopback_only(whole: Stack) -> None:
    addresses = set()
    for process in _processes(whole):
        with suppress(psutil.NoSuchProcess):  # Airflow's tasks come and go
            addresses |= {
                connection.laddr.ip.removeprefix("::ffff:")
                for connection in process.net_connections("inet")
                if connection.status == psutil.CONN_LISTEN
            }
    assert addresses == {"127.0.0.1"}


def test_no_secret_in_a_log_on_a_command_line_or_in_an_environment(whole: Stack) -> None:
    secrets = {name: whole.settings.secret(name).encode() for name in secret_names(whole.spec)}
    places = [path for path in whole.settings.logs.rglob("*") if path.is_file()]
    for process in _processes(whole):
        places += [Path(f"/proc/{process.pid}/{what}") for what in ("cmdline", "environ")]
    for place in places:
        try:
            content = place.read_bytes()
        except (FileNotFoundError, ProcessLookupError):  # Airflow's tasks come and go
            continue
        assert [name for name, value in secrets.items() if value in content] == [], place
    for path in whole.settings.home.rglob("*"):
        if path.is_file() and any(value in path.read_bytes() for value in secrets.values()):
            assert path.stat().st_mode & 0o077 == 0, path


def test_down_leaves_no_process_and_all_data(whole: Stack) -> None:
    processes = _processes(whole)
    assert len(processes) > 10
    whole.down()
    alive = [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    assert alive == []
    assert (whole.settings.data / "postgres" / "PG_VERSION").is_file()
    assert (whole.settings.data / "kafka" / "meta.properties").is_file()
