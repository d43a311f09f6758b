"""Two ways to a ClickHouse: embedded in this process (chdb), or a server.

**Embedded.** chdb lets one process at a time open a folder, for reading too, and reads a table's
files when a query needs them. So a folder that somebody reads is never changed: an export makes a
*generation*, a folder whose big files are hard links to those of the last one (parts of a MergeTree
table are never edited), changes that, and renames a pointer, the file ``current``. A reader takes a
generation of its own in the same way (``session``): any number of them, each with whole tables, for
no bytes but a few small files.

**A server** has its own ways to let readers be: every query keeps the parts it began with.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from penstock.errors import PenstockError, ServiceFailed, in_a_line
from penstock.export.claim import Claim
from penstock.export.clickhouse_types import Wire, quoted, text
from penstock.export.place import export_folder, synced

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["Embedded", "Engine", "Place", "Server", "session"]

_LINKED = (".bin", ".mrk", ".mrk2", ".mrk3", ".mrk4", ".cmrk", ".cmrk2", ".cmrk3", ".cmrk4")
_HIDDEN_TOO = "insert_allow_materialized_columns"
_SENT = "penstock.sent"
CLAIM = '{"checksum"'  # how the comment of an exported table begins


class Engine(Protocol):
    """A ClickHouse that takes SQL."""

    def run(self, sql: str) -> None: ...
    def rows(self, sql: str) -> list[dict[str, Any]]: ...
    def arrow(self, sql: str) -> pa.Table: ...
    def insert(self, table: str, wires: Sequence[Wire], file: Path) -> None: ...


class Place(Protocol):
    """Where the ClickHouse is, and how what was done there becomes visible."""

    place: str

    def open(self) -> Engine: ...
    def claims(self) -> dict[str, Claim]: ...
    def publish(self, claims: dict[str, Claim]) -> None: ...
    def close(self) -> None: ...


# --- embedded -----------------------------------------------------------------------------------
class _Chdb:
    """An engine in this process, on one folder."""

    def __init__(self, folder: Path) -> None:
        from chdb import session as chdb

        make: Any = chdb.Session  # it has no types
        try:
            self.session = make(str(folder))
        except RuntimeError as error:
            raise ServiceFailed(
                f"the embedded ClickHouse cannot open {folder}: {error}",
                remedy="Only one process may have it open.",
            ) from None

    def _ask(self, sql: str, form: str) -> bytes:
        try:
            answer: bytes = self.session.query(sql, form).bytes()
        except Exception as error:  # chdb raises what it likes
            raise _refused(error) from None
        return answer

    def run(self, sql: str) -> None:
        self._ask(sql, "Null")

    def rows(self, sql: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._ask(sql, "JSONEachRow").splitlines()]

    def arrow(self, sql: str) -> pa.Table:
        return _arrow(self._ask(sql, "ArrowStream"))

    def insert(self, table: str, wires: Sequence[Wire], file: Path) -> None:
        names = ", ".join(quoted(wire.name) for wire in wires)
        typed = ", ".join(f"{quoted(wire.name)} {wire.type}" for wire in wires)
        self.run(
            f"INSERT INTO {table} ({names}) SETTINGS {_HIDDEN_TOO} = 1 SELECT {names} "  # noqa: S608
            f"FROM file({text(str(file))}, Parquet, {text(typed)})"
        )


class Embedded:
    """Generations of a chdb folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._building = folder / ".building"
        self._pointer = folder / "current"
        self._engine: _Chdb | None = None
        self.place = str(folder)

    @property
    def current(self) -> Path | None:
        """The generation that is published."""
        try:
            return self._folder / self._pointer.read_text().strip()
        except FileNotFoundError:
            return None

    def claims(self) -> dict[str, Claim]:
        if self.current is None:
            return {}
        try:
            found = json.loads((self.current / "claims.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return {claim.table: claim for claim in map(Claim.of, found)}

    def open(self) -> Engine:
        if self._engine is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(self._building, ignore_errors=True)
            if self.current is not None and self.current.is_dir():
                linked(self.current, self._building)
            self._engine = _Chdb(self._building)
        return self._engine

    def publish(self, claims: dict[str, Claim]) -> None:
        if self._engine is None or not claims:
            return
        self._engine.session.close()
        self._engine = None
        told = json.dumps([json.loads(claim.to_json()) for claim in claims.values()])
        (self._building / "claims.json").write_text(told)
        last = self.current
        number = 1 + (int(last.name.removeprefix("g")) if last else 0)
        fresh = self._folder / f"g{number:06}"
        shutil.rmtree(fresh, ignore_errors=True)  # of an export that died before it was pointed at
        self._building.rename(fresh)
        pointer = self._pointer.with_name(".current.new")
        pointer.write_text(fresh.name)
        synced(pointer)
        pointer.replace(self._pointer)
        synced(self._folder)
        self._clean(keep={fresh.name, last.name if last else ""})

    def _clean(self, keep: set[str]) -> None:
        """The last generation stays for whoever is about to link it."""
        for folder in self._folder.glob("g[0-9]*"):
            if folder.name not in keep:
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.session.close()
            self._engine = None
        shutil.rmtree(self._building, ignore_errors=True)


def linked(source: Path, to: Path) -> None:
    """A folder like another: big files that never change are shared, small ones copied."""
    to.mkdir(parents=True)
    for entry in os.scandir(source):
        if entry.is_symlink():
            (to / entry.name).symlink_to(os.readlink(entry.path))
        elif entry.is_dir():
            linked(Path(entry.path), to / entry.name)
        elif entry.name.endswith(_LINKED):
            os.link(entry.path, to / entry.name)
        elif entry.name != "status":  # a lock, with who holds it
            shutil.copyfile(entry.path, to / entry.name)


@contextmanager
def session(settings: Settings) -> Iterator[Any]:
    """A chdb session on the exported tables, as of now, for this reader alone.

    Example:
        >>> with session(Settings.load()) as clickhouse:
        ...     print(clickhouse.query("SELECT count() FROM gold.sensor_5m"))
    """
    place = Embedded(export_folder(settings) / "clickhouse")
    if place.current is None:
        raise PenstockError(
            "nothing has been exported to the embedded ClickHouse yet.",
            remedy="Type `penstock export --to clickhouse`.",
        )
    with tempfile.TemporaryDirectory(prefix=".reader-", dir=place.place) as folder:
        mine = Path(folder) / "data"
        for last_try in (False, True):
            try:
                linked(place.current, mine)
                break
            except FileNotFoundError:  # two exports were published while we linked
                shutil.rmtree(mine)
                if last_try:
                    raise
        engine = _Chdb(mine)
        try:
            yield engine.session
        finally:
            engine.session.close()


# --- server -------------------------------------------------------------------------------------
class Server:
    """A ClickHouse reached over HTTP; also the engine itself."""

    def __init__(self, url: str, user: str, password: str) -> None:
        import clickhouse_connect
        from clickhouse_connect.driver.exceptions import ClickHouseError

        self.place = url
        try:
            self._client = clickhouse_connect.get_client(
                dsn=url, username=user, password=password, compress=False
            )
        except ClickHouseError as error:
            raise ServiceFailed(
                f"ClickHouse at {url} does not answer: {str(error).splitlines()[0]}",
                remedy="Start it, or correct [tool.penstock.export] clickhouse.",
            ) from None

    def open(self) -> Engine:
        return self

    def _ask(self, sql: str, form: str) -> bytes:
        with _said_plainly():
            return bytes(self._client.raw_query(sql, fmt=form))

    def run(self, sql: str) -> None:
        with _said_plainly():
            self._client.command(sql)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._ask(sql, "JSONEachRow").splitlines()]

    def arrow(self, sql: str) -> pa.Table:
        return _arrow(self._ask(sql, "ArrowStream"))

    def insert(self, table: str, wires: Sequence[Wire], file: Path) -> None:
        """By way of a table without hidden columns: these take rows from a SELECT only."""
        names = ", ".join(quoted(wire.name) for wire in wires)
        typed = ", ".join(f"{quoted(wire.name)} {wire.type}" for wire in wires)
        self.run(f"DROP TABLE IF EXISTS {_SENT} SYNC")
        self.run(f"CREATE TABLE {_SENT} ({typed}) ENGINE = MergeTree ORDER BY ()")
        with _said_plainly():
            self._client.raw_insert(
                _SENT, [wire.name for wire in wires], file.read_bytes(), fmt="Parquet"
            )
        self.run(
            f"INSERT INTO {table} ({names}) SETTINGS {_HIDDEN_TOO} = 1 "  # noqa: S608
            f"SELECT {names} FROM {_SENT}"
        )
        self.run(f"DROP TABLE {_SENT} SYNC")

    def claims(self) -> dict[str, Claim]:
        found = self.rows(
            "SELECT comment FROM system.tables "  # noqa: S608
            f"WHERE startsWith(comment, {text(CLAIM)}) AND NOT endsWith(name, '__next')"
        )
        claims = [Claim.from_json(row["comment"]) for row in found]
        return {claim.table: claim for claim in claims}

    def publish(self, claims: dict[str, Claim]) -> None:
        """Each table was visible as soon as it was exchanged."""

    def close(self) -> None:
        self._client.close()


@contextmanager
def _said_plainly() -> Iterator[None]:
    from clickhouse_connect.driver.exceptions import ClickHouseError

    try:
        yield
    except ClickHouseError as error:
        raise _refused(error) from None


def _refused(error: Exception) -> ServiceFailed:
    return ServiceFailed(f"ClickHouse: {in_a_line(error, 300)}")


def _arrow(stream: bytes) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
