"""A transform planned once and run on every batch.

Purpose: a small batch takes Spark some 50 ms to run, but building its plan from Python, call by
call, with an analysis at each, takes several times that. How it works: the plan is built once over
an empty input that carries a marker; for each batch the marked leaves are replaced by the batch's
rows under the same attributes, and Spark goes on from there. What it does not do: guess. Where the
plan's shape is not one it knows (a leaf inside a sub-query, rows too many for a local relation) it
builds the plan the ordinary way, and the result is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.java_gateway import is_instance_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Prepared"]

_MARKER = "penstock_batch"
_UNARY = "org.apache.spark.sql.catalyst.plans.logical.UnaryNode"


@dataclass(frozen=True)
class _Node:
    """A plan node above a marked leaf, or the leaf itself (``children`` is None)."""

    plan: Any
    children: list[Any] | None = None  # _Node where a leaf is below, the plan itself elsewhere
    output: Any = None
    unary: bool = False


class Prepared:
    """One transform over one input of rows in memory."""

    def __init__(
        self,
        session: SparkSession,
        schema: pa.Schema,
        build: Callable[[DataFrame], DataFrame],
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
        marked = build(session.createDataFrame(schema.empty_table()).alias(_MARKER))
        plan = marked._jdf.queryExecution().analyzed()
        leaves: list[_Node] = []
        self._root = self._index(plan, leaves)
        self._whole = plan.treeString().count(f"SubqueryAlias {_MARKER}") == len(leaves) > 0

    def frame(self, rows: pa.Table) -> DataFrame:
        """The transform over these rows, ready to run."""
        fresh = self._session.createDataFrame(rows)
        plan = fresh._jdf.queryExecution().analyzed()
        if not self._whole or plan.getClass().getSimpleName() != "LocalRelation":
            return self._build(fresh)
        from pyspark.sql import DataFrame

        bound = self._bind(self._root, plan.data())
        dataset = self._dataset.ofRows(self._session._jsparkSession, bound)
        return DataFrame(dataset, self._session)

    def _index(self, plan: Any, leaves: list[_Node]) -> _Node | None:
        """The part of the plan that leads to marked leaves; None where there is none below."""
        if plan.getClass().getSimpleName() == "SubqueryAlias" and plan.alias() == _MARKER:
            leaf = _Node(plan, output=plan.output())
            leaves.append(leaf)
            return leaf
        below = plan.children()
        plans = [below.apply(index) for index in range(below.size())]
        nodes = [self._index(child, leaves) for child in plans]
        if not any(nodes):
            return None
        children = [node or child for node, child in zip(nodes, plans, strict=True)]
        return _Node(plan, children, unary=is_instance_of(self._gateway, plan, _UNARY))

    def _bind(self, node: Any, data: Any) -> Any:
        if node.children is None:
            return self._relation(node.output, data, False, self._nothing)
        fresh = [self._bind(c, data) if isinstance(c, _Node) else c for c in node.children]
        if len(fresh) == 1 and node.unary:
            return node.plan.withNewChildInternal(fresh[0])
        return node.plan.withNewChildren(self._to_seq(fresh))
