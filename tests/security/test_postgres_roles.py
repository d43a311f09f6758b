"""Who may do what in Postgres."""

from __future__ import annotations

import pg8000.dbapi
import pytest

from penstock.platform.postgres_admin import connect
from penstock.platform.stack import Stack
from penstock.settings import HOST

pytestmark = pytest.mark.platform


def run(stack: Stack, role: str, database: str, *statements: str) -> tuple:
    with connect(stack.settings, role, database) as connection:
        cursor = connection.cursor()
        for sql in statements:
            cursor.execute(sql)
        return cursor.fetchall() if cursor.description else ()


def test_each_role_enters_its_own_databases_only(stack: Stack) -> None:
    for role in stack.spec.roles:
        for database in [*stack.spec.databases]:
            may = role.name == database.owner or role.name in database.readers
            if may:
                assert run(stack, role.name, database.name, "SELECT 1") == ([1],)
            else:
                with pytest.raises((pg8000.dbapi.Error, OSError)):
                    run(stack, role.name, database.name, "SELECT 1")


@pytest.mark.parametrize("reader", ["analyst", "debezium"])
@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO users VALUES (99, 'x', 'x', 'XX')",
        "UPDATE users SET name = 'x'",
        "DELETE FROM users",
        "TRUNCATE users",
        "DROP TABLE users",
        "ALTER TABLE users ADD COLUMN x int",
        "CREATE TABLE mine (a int)",
        "CREATE SCHEMA mine",
        "COPY users TO PROGRAM 'cat'",
        "COPY users TO '/tmp/x'",
        "ALTER ROLE analyst SUPERUSER",
        "SELECT rolpassword FROM pg_authid",
        "SELECT pg_read_file('/etc/passwd')",
        "ALTER SYSTEM SET wal_level = minimal",
        "CREATE PUBLICATION mine FOR ALL TABLES",
    ],
)
def test_readers_read_and_do_nothing_else(stack: Stack, reader: str, sql: str) -> None:
    assert run(stack, reader, "shop", "SELECT count(*) FROM users")[0][0] >= 5
    # The analyst's transactions are read-only to begin with; that is a help, not the barrier.
    with pytest.raises(pg8000.dbapi.Error, match=r"permission denied|must be|Only roles"):
        run(stack, reader, "shop", "SET default_transaction_read_only = off", sql)


def test_only_debezium_may_replicate(stack: Stack) -> None:
    sql = "SELECT rolname FROM pg_roles WHERE rolreplication AND NOT rolsuper"
    assert run(stack, "postgres", "postgres", sql) == (["debezium"],)
    powers = "rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls"
    sql = f"SELECT rolname FROM pg_roles WHERE {powers}"
    assert run(stack, "postgres", "postgres", sql) == (["postgres"],)


def test_a_table_made_later_can_be_read_too(stack: Stack) -> None:
    run(stack, "shop", "shop", "CREATE TABLE IF NOT EXISTS later AS SELECT 1 AS a")
    assert run(stack, "analyst", "shop", "SELECT a FROM later") == ([1],)
    run(stack, "shop", "shop", "DROP TABLE later")


def test_passwords_are_asked_for_and_stored_as_scram(stack: Stack) -> None:
    for password in ("", "wrong"):
        with pytest.raises((pg8000.dbapi.Error, OSError)):
            pg8000.dbapi.connect("shop", host=HOST, port=stack.settings.port("postgres"),
                                 database="shop", password=password)  # fmt: skip
    stored = run(
        stack, "postgres", "postgres", "SELECT rolpassword FROM pg_authid WHERE rolcanlogin"
    )
    assert all(row[0].startswith("SCRAM-SHA-256$") for row in stored)
