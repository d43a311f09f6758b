"""Where names of tables are kept for Spark: the metastore, in this stack's Postgres.

**Purpose.** ``gold.stock_stats`` means the same live path in every Spark session that asks for the
metastore, in as many processes at once as there are. (Spark's own default, embedded Derby, lets one
process in.)

**How it works.** The session speaks to Postgres itself: Hive's client is part of Spark. It finds
address and password in a ``hive-site.xml`` on its class path, a 0600 file of this stack. As Spark
settings they would be arguments of the JVM, for everybody's ``ps`` to read. The tables inside the
database are made with it (``infra/postgres/metastore.sql``), never by a session.

**What it does not do.** Hold a schema of ours: Delta tables keep theirs in their log, the metastore
only knows where that is. A name never goes stale when a table is promoted with other columns.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

import pg8000.dbapi

from penstock.errors import EnvironmentProblem, NotRunning
from penstock.platform.files import private_folder, write_private
from penstock.platform.postgres_admin import connect
from penstock.settings import Settings

__all__ = ["ROLE", "client_folder", "one_at_a_time", "require"]

ROLE = "metastore"  # the role and the database it owns

_CLIENT = {
    "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
    "datanucleus.schema.autoCreateAll": "false",
    "hive.metastore.schema.verification": "true",
    # Hive opens two pools of ten each by default; a hundred connections serve the whole stack.
    "datanucleus.connectionPoolingType": "HikariCP",
    "datanucleus.connectionPool.maxPoolSize": "2",
    # Ten attempts of half a minute each, by default, if Postgres goes away in the middle.
    "hive.hmshandler.retry.attempts": "1",
    # Columns are the Delta log's matter; Hive would refuse a table that is replaced by another.
    "hive.metastore.disallow.incompatible.col.type.changes": "false",
}


def require(settings: Settings) -> None:
    """Say plainly, before a JVM is started, that there is no metastore to be had."""
    try:
        with closing(connect(settings, ROLE, ROLE)) as connection:
            cursor = connection.cursor()
            cursor.execute("""SELECT to_regclass('public."VERSION"') IS NOT NULL""")
            (made,) = cursor.fetchone()
    except (pg8000.dbapi.Error, OSError):
        raise NotRunning(
            f"Postgres does not answer at {settings.host('postgres')}:"
            f"{settings.port('postgres')}; Spark's metastore is in it.",
            remedy="Start it: penstock up",
        ) from None
    if not made:
        raise EnvironmentProblem(
            "the metastore's database is empty: this stack was started by an older Penstock.",
            remedy="Run `penstock up`; it adds what is missing and leaves the rest alone.",
        )


def client_folder(settings: Settings) -> Path:
    """The folder to put on a session's class path."""
    server = f"{settings.host('postgres')}:{settings.port('postgres')}"
    values = _CLIENT | {
        "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://{server}/{ROLE}",
        "javax.jdo.option.ConnectionUserName": ROLE,
        "javax.jdo.option.ConnectionPassword": settings.secret(f"postgres-{ROLE}"),
        "hive.metastore.warehouse.dir": str(settings.home / "spark-warehouse"),
    }
    body = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in sorted(values.items())
    )
    folder = private_folder(settings.home / "etc" / "metastore")
    write_private(folder / "hive-site.xml", f"<configuration>\n{body}</configuration>\n")
    return folder


@contextmanager
def one_at_a_time(settings: Settings) -> Iterator[None]:
    """Hive's client adds the database ``default`` when it first looks; two at once would clash."""
    door = private_folder(settings.home / "etc" / "metastore") / "door.lock"
    with door.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
