"""dbt in our session, as it is: the same settings, so the same results as the jobs'.

dbt-spark's own session method sets its parameters anew before every statement, and
``spark.sql.ansi.enabled`` to false among them, whatever the profile says: casts that fail in a job
would give null in a mart. Here a statement is given to the session we built, and nothing else is
done to it. Only the connection class is exchanged, and only while dbt runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dbt.adapters.spark import session as theirs
from dbt_common.exceptions import DbtRuntimeError
from pyspark.errors import PySparkException

from penstock.errors import in_a_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["owned"]


class _Cursor(theirs.Cursor):
    """One statement in the session it is given."""

    def __init__(self, session: SparkSession) -> None:
        super().__init__()
        self._session = session

    def execute(self, sql: str, *parameters: Any) -> None:
        try:
            self._df = self._session.sql(sql % parameters if parameters else sql)
        except PySparkException as error:
            raise DbtRuntimeError(str(error)) from error

    def fetchall(self) -> Any:
        try:
            return super().fetchall()
        except PySparkException as error:
            raise DbtRuntimeError(in_a_line(error)) from error


@contextmanager
def owned(session: SparkSession) -> Iterator[None]:
    """While inside, dbt's session method means this session."""

    class Connection(theirs.Connection):
        def cursor(self) -> _Cursor:
            return _Cursor(session)

    before = theirs.Connection
    theirs.Connection = Connection  # type: ignore[misc]
    try:
        yield
    finally:
        theirs.Connection = before  # type: ignore[misc]
