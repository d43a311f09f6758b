"""The fingerprint of a definition: of what it means, not of how it is written.

How it works: the transform is run over empty inputs and Spark's analysed plan is taken as its
meaning, with expression ids and lambda names normalised. Comments, formatting, local names and
moved code do not show in a plan; a changed literal, column, filter or window does. Python UDFs are
opaque to the plan, so their byte code is hashed with everything it reaches: constants, helpers,
closures, globals. The plan is built twice; if the two differ, or the plan is not deterministic,
the definition is refused. What it does not do: survive a Spark upgrade that prints plans
differently. An upgrade is a different lock, hence a different bundle, and shows up as changed
tables whose comparison finds no difference; it never alters what runs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.errors import DefinitionError
from penstock.model.definition import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["fingerprint", "meaning_of_function", "plan_text"]

_EXPRESSION_ID = re.compile(r"(?<=[\w)\]])#(\d+)L?\b")
_LAMBDA = re.compile(r"lambda ([A-Za-z_]\w*)#")
_QUERY_INPUT = re.compile(
    r"\b_pyspark_[0-9a-f]{32}\b"
)  # what a SQL text reads, named anew each time
_CLOCK = re.compile(
    r"\b(current_timestamp|current_date|localtimestamp|now|input_file_name|"
    r"current_user|uuid|rand|randn|shuffle|monotonically_increasing_id|spark_partition_id)\("
)


def fingerprint(
    table: Table, inputs: Mapping[str, DataFrame], upstream: Mapping[str, str], extra: Any = None
) -> str:
    """Twelve hex digits that change when, and only when, the table means something else.

    Args:
        inputs: empty frames of the inputs' types, by argument.
        upstream: revisions of the inputs this one is pinned to.
        extra: anything else that is part of the meaning, such as the contract.
    """
    with _called_udfs() as udfs:
        first = _build(table, inputs)
        second = _build(table, inputs)
    plan = plan_text(first, udfs)
    _refuse_clocks(table, first, plan)
    if plan != plan_text(second, udfs):
        raise DefinitionError(
            f"{table.place}: {table.name} builds a different plan each time it is called.",
            remedy="Make the function depend on its inputs alone.",
        )
    meaning = {
        "declared": table.describe(),
        "plan": plan,
        "upstream": dict(upstream),
        "extra": extra,
    }
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:12]


def _build(table: Table, inputs: Mapping[str, DataFrame]) -> DataFrame:
    try:
        built: DataFrame = table(**inputs)
    except DefinitionError:
        raise
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DefinitionError(
            f"{table.place}: {table.name} does not work on its inputs: {reason}",
            remedy="Mend the function; its inputs' columns are in the manifest.",
        ) from error
    return built


def plan_text(frame: DataFrame, udfs: Mapping[str, Any] | None = None) -> str:
    """Spark's analysed plan with everything taken out that differs from run to run.

    A Python UDF shows in a plan by its name alone: put what it does in the name's place.
    """
    with _whole_plans(frame.sparkSession):
        text = frame._jdf.queryExecution().analyzed().treeString()
    for name, function in (udfs or {}).items():
        text = text.replace(f"{name}(", f"udf_{meaning_of_function(function)}(")
    text = _LAMBDA.sub("lambda v#", text)
    text = _QUERY_INPUT.sub("query_input", text)
    seen: dict[str, str] = {}
    return _EXPRESSION_ID.sub(lambda m: seen.setdefault(m[1], f"#{len(seen)}"), text)


@contextmanager
def _whole_plans(session: SparkSession) -> Iterator[None]:
    """Spark cuts wide plans short when it prints them; only here is the whole of one needed."""
    key = "spark.sql.debug.maxToStringFields"
    before = session.conf.get(key) or "25"
    session.conf.set(key, "1000000")
    try:
        yield
    finally:
        session.conf.set(key, before)


def _refuse_clocks(table: Table, frame: DataFrame, plan: str) -> None:
    found = _CLOCK.search(plan)
    if found or not frame._jdf.queryExecution().analyzed().deterministic():
        what = f"{found[1]}()" if found else "something that differs from run to run"
        raise DefinitionError(
            f"{table.place}: {table.name} uses {what}; a replay would give other rows.",
            remedy="Take times from event_time or _ingested_at, and drop random values.",
        )


@contextmanager
def _called_udfs() -> Iterator[dict[str, Any]]:
    """Collect the Python function of every UDF that the transform puts into its plan, by name."""
    from pyspark.sql.udf import UserDefinedFunction

    functions: dict[str, Any] = {}
    original = UserDefinedFunction.__call__

    @functools.wraps(original)
    def record(self: Any, *args: Any, **kwargs: Any) -> Any:
        other = functions.setdefault(self._name, self.func)
        if other is not self.func:  # two lambdas, say: tell them apart by what they do
            functions[self._name] = (other, self.func)
        return original(self, *args, **kwargs)

    UserDefinedFunction.__call__ = record  # type: ignore[method-assign]
    try:
        yield functions
    finally:
        UserDefinedFunction.__call__ = original  # type: ignore[method-assign]


def meaning_of_function(function: Any) -> str:
    """A digest of a function's byte code and of all it reaches; names of locals do not matter."""
    return hashlib.sha256(json.dumps(_function(function, set())).encode()).hexdigest()


def _function(function: Any, seen: set[int]) -> Any:
    function = getattr(function, "func", function) if _is_udf(function) else function
    code = getattr(function, "__code__", None)
    if code is None:
        return _value(function, seen)
    if id(function) in seen:
        return "recursion"
    seen = seen | {id(function)}
    cells = [_value(cell.cell_contents, seen) for cell in function.__closure__ or ()]
    scope = function.__globals__
    # Code names attributes as it names globals: `type(x).__name__` is not this module's own, which
    # is another one in every bundle.
    named = [n for n in sorted(_names(code)) if n in scope and not n.startswith("__")]
    reached = {name: _value(scope[name], seen) for name in named}
    defaults = [_value(value, seen) for value in function.__defaults__ or ()]
    keywords = {k: _value(v, seen) for k, v in (function.__kwdefaults__ or {}).items()}
    return [_code(code, seen), cells, reached, defaults, keywords]


def _names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _code(code: types.CodeType, seen: set[int]) -> Any:
    constants = list(code.co_consts)
    if constants and isinstance(constants[0], str):
        constants[0] = None  # the docstring, or an unused slot: it means nothing
    return [
        code.co_code.hex(),
        [_value(constant, seen) for constant in constants],
        list(code.co_names),
        code.co_argcount,
    ]


def _value(value: Any, seen: set[int]) -> Any:  # noqa: PLR0911 - one line per type
    if isinstance(value, types.CodeType):
        return _code(value, seen)
    if isinstance(value, types.ModuleType):
        return ["module", value.__name__.rsplit(".", 1)[-1]]
    if isinstance(value, types.FunctionType) or _is_udf(value):
        return _function(value, seen)
    if isinstance(value, type):
        return ["class", value.__qualname__, _class_body(value, seen)]
    if isinstance(value, list | tuple):
        return [type(value).__name__, [_value(item, seen) for item in value]]
    if isinstance(value, set | frozenset):
        return ["set", sorted(json.dumps(_value(item, seen)) for item in value)]
    if isinstance(value, dict):
        return ["dict", [[_value(k, seen), _value(v, seen)] for k, v in value.items()]]
    return [type(value).__name__, _stable_repr(value)]


def _class_body(value: type, seen: set[int]) -> Any:
    """Our own classes by their methods; library classes by name alone."""
    if not value.__module__.startswith("_penstock_bundle_") or id(value) in seen:
        return None
    seen = seen | {id(value)}
    return {
        name: _value(member, seen)
        for name, member in sorted(vars(value).items())
        if not name.startswith("__") or name in ("__init__", "__call__")
    }


def _stable_repr(value: Any) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _is_udf(value: Any) -> bool:
    return hasattr(value, "func") and hasattr(value, "evalType")
