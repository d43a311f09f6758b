"""A transform planned once and run on every batch.

Purpose: a small batch takes Spark some 50 ms to run, but building its plan from Python, call by
call, with an analysis at each, takes several times that. How it works: the plan is built once over
empty inputs that carry markers; for each batch the marked leaves are replaced by the batch's
rows under the same attributes, and Spark goes on from there. What it does not do: guess. Where the
plan's shape is not one it knows (a leaf inside a sub-query, rows too many for a local relation) it
builds the plan the ordinary way, and the result is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.java_gateway import is_instance_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Prepared", "to_frame"]

_MARKER = "penstock_batch_"
_UNARY = "org.apache.spark.sql.catalyst.plans.logical.UnaryNode"


def to_frame(session: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows in memory as Spark has them.

    In one chunk: Spark reads a table's chunks up to the first empty one, and loses the rest.
    """
    if rows.num_rows == 0:  # nor can it read nested columns that have no chunk at all
        return session.createDataFrame(rows.schema.empty_table())
    return session.createDataFrame(rows.combine_chunks() if _chunked(rows) else rows)


def _chunked(rows: pa.Table) -> bool:
    return any(column.num_chunks != 1 for column in rows.columns)


@dataclass(frozen=True)
class _Node:
    """A plan node above a marked leaf, or the leaf itself (``children`` is None)."""

    plan: Any
    children: list[Any] | None = None  # _Node where a leaf is below, the plan itself elsewhere
    output: Any = None
    unary: bool = False
    argument: str = ""


class Prepared:
    """One transform over inputs of rows in memory."""

    def __init__(
        self,
        session: SparkSession,
        schemas: Mapping[str, pa.Schema],
        build: Callable[..., DataFrame],
    ) -> None:
        self._session = session
        self._build = build
        # Looked up once: through py4j every dot of a Java name is a round trip.
        jvm: Any = session._jvm
        self._gateway = session.sparkContext._gateway
        self._relation = jvm.org.apache.spark.sql.catalyst.plans.logical.LocalRelation
        self._dataset = jvm.org.apache.spark.sql.classic.Dataset
        self._to_seq = jvm.PythonUtils.toSeq
        self._nothing = jvm.scala.Option.empty()
        empty = {
            argument: session.createDataFrame(schema.empty_table()).alias(_MARKER + argument)
            for argument, schema in schemas.items()
        }
        plan = build(**empty)._jdf.queryExecution().analyzed()
        leaves: list[_Node] = []
        self._root = self._index(plan, leaves)
        self._whole = plan.treeString().count(f"SubqueryAlias {_MARKER}") == len(leaves) > 0

    def frame(self, **rows: pa.Table) -> DataFrame:
        """The transform over these rows, ready to run."""
        fresh = {argument: to_frame(self._session, table) for argument, table in rows.items()}
        plans = {
            argument: frame._jdf.queryExecution().analyzed() for argument, frame in fresh.items()
        }
        local = all(p.getClass().getSimpleName() == "LocalRelation" for p in plans.values())
        if not self._whole or not local:
            return self._build(**fresh)
        from pyspark.sql import DataFrame

        data = {argument: plan.data() for argument, plan in plans.items()}
        bound = self._bind(self._root, data)
        dataset = self._dataset.ofRows(self._session._jsparkSession, bound)
        return DataFrame(dataset, self._session)

    def _index(self, plan: Any, leaves: list[_Node]) -> _Node | None:
        """The part of the plan that leads to marked leaves; None where there is none below."""
        if plan.getClass().getSimpleName() == "SubqueryAlias" and plan.alias().startswith(_MARKER):
            argument = plan.alias().removeprefix(_MARKER)
            leaf = _Node(plan, output=plan.output(), argument=argument)
            leaves.append(leaf)
            return leaf
        below = plan.children()
        plans = [below.apply(index) for index in range(below.size())]
        nodes = [self._index(child, leaves) for child in plans]
        if not any(nodes):
            return None
        children = [node or child for node, child in zip(nodes, plans, strict=True)]
        return _Node(plan, children, unary=is_instance_of(self._gateway, plan, _UNARY))

    def _bind(self, node: Any, data: Mapping[str, Any]) -> Any:
        if node.children is None:
            return self._relation(node.output, data[node.argument], False, self._nothing)
        fresh = [self._bind(c, data) if isinstance(c, _Node) else c for c in node.children]
        if len(fresh) == 1 and node.unary:
            return node.plan.withNewChildInternal(fresh[0])
        return node.plan.withNewChildren(self._to_seq(fresh))
