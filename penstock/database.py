"""Connections to databases of the platform's Postgres.

**How it works.** ``connect`` opens one. ``Database`` keeps one, opened when it is needed: a role
owns the database of its name; its password is a generated secret. A server that is away, starts,
stops or has no room for us is ``NotRunning``, and the next call connects again. One that is there
and does not let us in is ``ServiceFailed``, for waiting does not help. A statement that the server
refuses is a mistake of ours and is raised as it is; within a transaction nothing runs after it.

**What it does not do.** Try again by itself: whoever calls knows what may be done twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pg8000.native

from penstock.errors import NotRunning, ServiceFailed

if TYPE_CHECKING:
    from penstock.settings import Settings

__all__ = ["Database", "connect", "said"]

_AWAY = (pg8000.native.InterfaceError, OSError)
# Classes of SQLSTATE: starting or stopping; out of connections, disk or memory; no connection.
_NO_SERVICE = ("57", "53", "08")


def connect(
    settings: Settings, role: str, database: str, *, what: str, timeout: float = 10
) -> pg8000.native.Connection:
    """A new connection.

    Args:
        what: as people are told of it, such as ``the registry database``.

    Raises:
        NotRunning: nobody answers there.
        ServiceFailed: the server does not let us in.
    """
    try:
        return pg8000.native.Connection(
            role,
            host=settings.host("postgres"),
            port=settings.port("postgres"),
            database=database,
            password=settings.secret(f"postgres-{role}"),
            timeout=timeout,
        )
    except (*_AWAY, pg8000.native.DatabaseError) as error:
        # A server that starts, recovers or stops refuses in words, as one does that knows us not.
        if isinstance(error, pg8000.native.DatabaseError) and not _is_away(error):
            raise ServiceFailed(
                f"{what} does not let {role} in: {said(error)}.",
                remedy="Is it the Postgres of this stack? See `penstock status`.",
            ) from error
        raise NotRunning(
            f"{what} does not answer.",
            remedy="Start it: `penstock up`; then look at `penstock status`.",
        ) from error


def said(error: Exception) -> str:
    """What the server said, without the codes around it."""
    told = error.args[0] if error.args else error
    return str(told.get("M", told)) if isinstance(told, dict) else str(told)


class Database:
    """What a role owns; for one thread at a time.

    Args:
        role: who asks, and the name of the database.
        what: as people are told of it, such as ``the registry database``.
    """

    def __init__(self, settings: Settings, role: str, what: str) -> None:
        self._settings = settings
        self._role = role
        self._what = what
        self._connection: pg8000.native.Connection | None = None
        self._within = self._broken = False  # a transaction; one of which a statement failed

    def run(self, sql: str, **values: Any) -> list[Any]:
        """One statement; values by name, never by pasting.

        Raises:
            NotRunning: the server is away; what was begun is undone.
            ServiceFailed: it does not let us in.
            pg8000.native.DatabaseError: it refused the statement; what was begun is undone.
            ServiceFailed: it was the rest of a transaction that is undone already.
        """
        if self._broken:
            # Whoever passed over the error must not go on outside any transaction.
            raise ServiceFailed(
                f"{self._what}: an earlier statement of this transaction failed.",
                remedy="Nothing of it counts. Do its work again.",
            )
        try:
            return self._ran(sql, **values)
        except BaseException:
            self._broken = self._within
            raise

    def _ran(self, sql: str, **values: Any) -> list[Any]:
        connection = self._connect()
        try:
            return connection.run(sql, **values) or []
        except _AWAY as error:
            if _is_ours(error):
                raise
            raise self._away() from error
        except pg8000.native.DatabaseError as error:
            if _is_away(error):
                raise self._away() from error
            self._undo(connection)
            raise
        except BaseException:
            self.close()  # an answer may be left unread: the next question would be given it
            raise

    def _undo(self, connection: pg8000.native.Connection) -> None:
        try:
            connection.run("rollback")
        except BaseException as error:
            self.close()
            if not isinstance(error, Exception):
                raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing of what runs within.

        Raises:
            ServiceFailed: a statement failed, and somebody within passed over it.
        """
        self.run("begin")
        self._within = True
        try:
            yield
            self.run("commit")
        except BaseException:
            self.close()
            raise
        finally:
            self._within = self._broken = False

    def close(self) -> None:
        """Undo what was begun and let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _connect(self) -> pg8000.native.Connection:
        if self._connection is None:
            self._connection = connect(self._settings, self._role, self._role, what=self._what)
        return self._connection

    def _away(self) -> NotRunning:
        self.close()
        return NotRunning(f"{self._what} went away.", remedy="Look at `penstock status`.")


def _code(error: pg8000.native.DatabaseError) -> str:
    """The SQLSTATE of a server's complaint."""
    told = error.args[0] if error.args else {}
    return str(told.get("C", "")) if isinstance(told, dict) else ""


def _is_away(error: pg8000.native.DatabaseError) -> bool:
    """Whether a server that complains will do better by itself."""
    return _code(error)[:2] in _NO_SERVICE


def _is_ours(error: Exception) -> bool:
    """Whether values do not fit their statement: told before the server hears of it."""
    return isinstance(error, pg8000.native.InterfaceError) and "placeholder" in str(error)
