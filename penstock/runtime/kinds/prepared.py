"""A transform planned once and run on every batch.

Purpose: of the 120 ms Spark takes for a small batch, 90 go into analysing, optimising and compiling
a plan that is the same every time. How it works: the plan is built once over inputs whose rows can
be exchanged. An input is one partition of an RDD; putting other rows there and running the RDD that
Spark made of the plan is a new batch, without any planning. Because inputs are one partition,
nothing needs a shuffle: where the plan has one, its rows are put together instead. What it does not
do: guess. A plan that keeps results of its own between runs (a broadcast, a sub-query, a cached
frame), or rows too many to be handed over this way, is built and run the ordinary way, and the
result is the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Prepared", "jobs_begun", "to_frame"]

MOST_BYTES = 4 << 20  # handed over through py4j; more is quicker through a socket
_BATCH_ROWS = 10_000  # of an Arrow batch, as Spark makes them
_GROUP = "spark.jobGroup.id"


def to_frame(session: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows in memory as Spark has them.

    In one chunk: Spark reads a table's chunks up to the first empty one, and loses the rest.
    """
    if rows.num_rows == 0:  # nor can it read nested columns that have no chunk at all
        return session.createDataFrame(rows.schema.empty_table())
    return session.createDataFrame(rows.combine_chunks() if _chunked(rows) else rows)


def _chunked(rows: pa.Table) -> bool:
    return any(column.num_chunks != 1 for column in rows.columns)


class Prepared:
    """One transform over inputs of rows in memory; for one thread at a time."""

    def __init__(
        self,
        session: SparkSession,
        schemas: Mapping[str, pa.Schema],
        build: Callable[..., DataFrame],
    ) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._session = session
        self._build = build
        self._inputs = {name: _Exchangeable(session, schema) for name, schema in schemas.items()}
        jvm: Any = session._jvm
        self._serve: Any = jvm.PythonRDD.collectAndServe
        # Plan nodes made in a thread that has no session of its own would have none either.
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
        self._results: Any = None  # an RDD of Arrow batches, as bytes; None: nothing to reuse
        with jobs_begun(session) as begun:
            frame = build(**{name: given.frame for name, given in self._inputs.items()})
        self._schema = to_arrow_schema(frame.schema)
        plan = _without_shuffles(session, frame._jdf.queryExecution().executedPlan())
        if not begun() and not _keeps_results(plan):
            results = frame._jdf.toArrowBatchRdd(plan)
            self._results = None if _keeps_rows(results) else results

    def run(self, **rows: pa.Table) -> pa.Table:
        """The transform's answer over these rows."""
        if self._results is None or sum(table.nbytes for table in rows.values()) > MOST_BYTES:
            fresh = {name: to_frame(self._session, table) for name, table in rows.items()}
            return self._build(**fresh).toArrow()
        for name, table in rows.items():
            self._inputs[name].put(table)
        batches = [pa.ipc.read_record_batch(b, self._schema) for b in self._collected()]
        return pa.Table.from_batches(batches, self._schema)

    def _collected(self) -> Iterator[bytes]:
        """Through a socket: py4j stalls for 40 ms on anything longer than a few kilobytes."""
        from pyspark.serializers import NoOpSerializer
        from pyspark.util import _load_from_socket

        served = self._serve(self._results)
        batches: Iterator[bytes] = _load_from_socket(served, NoOpSerializer())
        return batches


class _Exchangeable:
    """An input of one partition whose rows can be exchanged.

    Spark hands the partition's values to a task when it sends the task, not when it plans: whatever
    is there then is what the task reads.
    """

    def __init__(self, session: SparkSession, schema: pa.Schema) -> None:
        from pyspark.sql import DataFrame
        from pyspark.sql.pandas.serializers import ArrowStreamSerializer
        from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

        declared = from_arrow_schema(schema)
        self._schema = to_arrow_schema(declared)
        jvm: Any = session._jvm
        self._list = jvm.java.util.ArrayList  # looked up once: every dot is a round trip
        self._to_seq = jvm.PythonUtils.toSeq
        # As createDataFrame does it; but that would hand over no batch for no rows, and with no
        # batch there is no partition.
        none = pa.RecordBatch.from_arrays(
            [pa.array([], field.type) for field in self._schema], schema=self._schema
        )
        handed: Any = session.sparkContext._serialize_to_jvm(
            [none],
            ArrowStreamSerializer(),
            jvm.PythonSQLUtils.readArrowStreamFromFile,
            jvm.ArrowIteratorServer,
        )
        java = jvm.PythonSQLUtils.toDataFrame(handed, declared.json(), session._jsparkSession)
        plan = java.queryExecution().analyzed()
        self._partition = plan.rdd().dependencies().head().rdd().partitions()[0]
        self.frame = DataFrame(_in_one_partition(session, plan), session)

    def put(self, rows: pa.Table) -> None:
        """Exchange the rows."""
        batches = self._list()
        if rows.num_rows:
            whole = rows.combine_chunks() if _chunked(rows) else rows
            for batch in whole.cast(self._schema).to_batches(max_chunksize=_BATCH_ROWS):
                batches.add(bytearray(batch.serialize()))
        getattr(self._partition, "values_$eq")(self._to_seq(batches))


def _in_one_partition(session: SparkSession, plan: Any) -> Any:
    """The same rows, known to lie in one partition: what asks for rows together has them."""
    jvm: Any = session._jvm
    physical = jvm.org.apache.spark.sql.catalyst.plans.physical
    single = getattr(getattr(physical, "SinglePartition$"), "MODULE$")
    none = jvm.scala.Option.empty()
    java = session._jsparkSession
    leaf = jvm.org.apache.spark.sql.execution.LogicalRDD(
        plan.output(), plan.rdd(), single, plan.outputOrdering(), False, none, java, none, none
    )
    return jvm.org.apache.spark.sql.classic.Dataset.ofRows(java, leaf)


def _without_shuffles(session: SparkSession, plan: Any) -> Any:
    """The physical plan with all rows in one partition where it would spread them by key.

    One partition holds every key whole, so whatever asks for a shuffle is served; and the files of
    a shuffle would be used again by the next run, whatever its rows.
    """
    jvm: Any = session._jvm
    children, changed = [], False
    for child in _children(plan):
        rest = _without_shuffles(session, child)
        changed = changed or rest is not child
        children.append(rest)
    if plan.getClass().getSimpleName() == "ShuffleExchangeExec":
        return jvm.org.apache.spark.sql.execution.CoalesceExec(1, children[0])
    return plan.withNewChildren(jvm.PythonUtils.toSeq(children)) if changed else plan


def _keeps_results(plan: Any) -> bool:
    """True where a plan holds on to what an earlier run came to."""
    kept = ("Exchange", "InMemoryTableScan", "AdaptiveSparkPlan")
    named = any(word in name for name in _node_names(plan) for word in kept)
    return named or not plan.subqueriesAll().isEmpty()


def _node_names(plan: Any) -> Iterator[str]:
    yield plan.getClass().getSimpleName()
    for child in _children(plan):
        yield from _node_names(child)


def _children(plan: Any) -> list[Any]:
    children = plan.children()
    return [children.apply(index) for index in range(children.size())]


def _keeps_rows(rdd: Any) -> bool:
    """True where an RDD below keeps rows: shuffled (a limit does), cached or checkpointed ones."""
    if "Shuffle" in rdd.toDebugString():
        return True
    pending, seen = [rdd], set()
    while pending:
        one = pending.pop()
        if one.id() in seen:
            continue
        seen.add(one.id())
        if one.getStorageLevel().isValid() or one.checkpointData().isDefined():
            return True
        below = one.dependencies()
        pending += [below.apply(index).rdd() for index in range(below.size())]
    return False


@contextmanager
def jobs_begun(session: SparkSession) -> Iterator[Callable[[], bool]]:
    """Tells whether Spark ran anything meanwhile for this thread: a transform only describes."""
    context = session.sparkContext
    before = context.getLocalProperty(_GROUP)
    group = f"penstock-{uuid.uuid4()}"
    context.setLocalProperty(_GROUP, group)

    def any_begun() -> bool:
        with suppress(Exception):  # it learns of a job by a message that may still be on its way
            context._jsc.sc().listenerBus().waitUntilEmpty(1000)
        return bool(context.statusTracker().getJobIdsForGroup(group))

    try:
        yield any_begun
    finally:
        context.setLocalProperty(_GROUP, before)  # type: ignore[arg-type]
