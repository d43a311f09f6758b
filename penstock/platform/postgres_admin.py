"""Roles, databases and rights, brought to what ``infra/platform.toml`` says.

Passwords are turned into SCRAM verifiers here, so that no statement ever holds one in clear: a
statement can end up in a log or in ``pg_stat_activity``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterator
from contextlib import closing

import pg8000.dbapi

from penstock.database import said
from penstock.errors import ServiceFailed
from penstock.platform.files import infra_text, write_private
from penstock.platform.secrets import POSTGRES_SUPERUSER
from penstock.platform.spec import Database, PlatformSpec, Role
from penstock.settings import Settings

__all__ = ["connect", "provision", "scram_verifier", "server_answers"]

_ITERATIONS = 4096


def connect(settings: Settings, role: str, database: str) -> pg8000.dbapi.Connection:
    """A connection to this stack's Postgres as one of its roles; autocommit."""
    connection = pg8000.dbapi.connect(
        user=role,
        password=settings.secret(f"postgres-{role}"),
        host=settings.host("postgres"),
        port=settings.port("postgres"),
        database=database,
        timeout=10,
    )
    connection.autocommit = True
    return connection


def server_answers(settings: Settings) -> bool:
    """True when the super user gets in. A refused password is an error: waiting mends nothing."""
    try:
        connect(settings, POSTGRES_SUPERUSER, "postgres").close()
    except (pg8000.dbapi.Error, OSError) as error:
        if "28P01" in str(error):
            raise ServiceFailed(
                f"Postgres holds other passwords than {settings.home / 'secrets'}.",
                remedy="Restore that folder, or move the whole PENSTOCK_HOME away and start anew.",
            ) from None
        return False
    return True


def provision(settings: Settings, spec: PlatformSpec) -> None:
    """Make roles and databases; skipped as a whole when nothing changed since it last succeeded."""
    plan = _plan_hash(settings, spec)
    stamp = settings.data / "postgres" / "provisioned-by-penstock"
    if stamp.is_file() and stamp.read_text() == plan:
        return
    try:
        with closing(connect(settings, POSTGRES_SUPERUSER, "postgres")) as server:
            _roles(server, settings, spec)
            _databases(server, spec)
        for database in spec.databases:
            _fill(settings, database)
    except pg8000.dbapi.Error as error:
        raise ServiceFailed(
            f"Postgres refused its roles or databases: {said(error)}.",
            remedy=f"See {settings.logs / 'postgres.log'}; then run `penstock up` again.",
        ) from error
    write_private(stamp, plan)


def _plan_hash(settings: Settings, spec: PlatformSpec) -> str:
    digest = hashlib.sha256(repr((spec.roles, spec.databases)).encode())
    for role in spec.roles:
        digest.update(settings.secret(f"postgres-{role.name}").encode())
    for database in spec.databases:
        digest.update(_schema(settings, database).encode())
    return digest.hexdigest()


def _run(connection: pg8000.dbapi.Connection, statements: Iterator[str] | list[str]) -> None:
    with closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)


def _names(connection: pg8000.dbapi.Connection, query: str) -> set[str]:
    with closing(connection.cursor()) as cursor:
        cursor.execute(query)
        return {row[0] for row in cursor.fetchall()}


def _roles(server: pg8000.dbapi.Connection, settings: Settings, spec: PlatformSpec) -> None:
    existing = _names(server, "SELECT rolname FROM pg_roles")
    for role in spec.roles:
        verb = "ALTER" if role.name in existing else "CREATE"
        verifier = scram_verifier(settings.secret(f"postgres-{role.name}"))
        _run(server, [f"{verb} ROLE {role.name} {_attributes(role)} PASSWORD '{verifier}'"])
        read_only = "on" if role.read_only else "off"
        _run(server, [f"ALTER ROLE {role.name} SET default_transaction_read_only = {read_only}"])


def _attributes(role: Role) -> str:
    replication = "REPLICATION" if role.replication else "NOREPLICATION"
    return f"LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS {replication}"


def _databases(server: pg8000.dbapi.Connection, spec: PlatformSpec) -> None:
    existing = _names(server, "SELECT datname FROM pg_database")
    _run(server, ["REVOKE CONNECT ON DATABASE postgres FROM PUBLIC"])
    for database in spec.databases:
        name = database.name
        if name not in existing:
            _run(server, [f"CREATE DATABASE {name} OWNER {database.owner}"])
        _run(server, [f"REVOKE ALL ON DATABASE {name} FROM PUBLIC"])
        for reader in database.readers:
            _run(server, [f"GRANT CONNECT ON DATABASE {name} TO {reader}"])


def _fill(settings: Settings, database: Database) -> None:
    """Rights inside a database, then its schema, made by its owner: no super user owns a table."""
    with closing(connect(settings, POSTGRES_SUPERUSER, database.name)) as inside:
        _run(
            inside,
            [
                f"ALTER SCHEMA public OWNER TO {database.owner}",
                "REVOKE ALL ON SCHEMA public FROM PUBLIC",
                # A publication of a named table asks for CREATE on the database.
                f"GRANT ALL ON DATABASE {database.name} TO {database.owner}",
            ],
        )
    with closing(connect(settings, database.owner, database.name)) as own:
        if text := _schema(settings, database):
            _run(own, [text])
        for reader in database.readers:
            _run(own, list(_reading(database.owner, reader)))


def _schema(settings: Settings, database: Database) -> str:
    return infra_text(settings, f"postgres/{database.schema}") if database.schema else ""


def _reading(owner: str, reader: str) -> Iterator[str]:
    yield f"GRANT USAGE ON SCHEMA public TO {reader}"
    yield f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}"
    yield (
        f"ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public "
        f"GRANT SELECT ON TABLES TO {reader}"
    )


def scram_verifier(password: str, salt: bytes | None = None) -> str:
    """What Postgres stores for a password (RFC 5803); the password cannot be had back from it."""
    salt = salt or secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    client = hmac.digest(salted, b"Client Key", "sha256")
    stored = hashlib.sha256(client).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    encoded = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return "SCRAM-SHA-256${}:{}${}:{}".format(_ITERATIONS, *encoded)
