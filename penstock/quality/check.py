"""Running a suite: Great Expectations' own verdict on every check, over frames that fit in memory.

Most expectations judge one row after the other. Their answers on slices add up exactly, so the
table goes by slice after slice, once for all of them. Uniqueness is judged on the rows that have
company, what is about a whole column on that column alone, what is about the table on its count or
its columns. The verdict on each frame is always that of Great Expectations; what is added up here
are its counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import duckdb

from penstock.errors import PenstockError, in_a_line
from penstock.quality.frames import Frames, Slice
from penstock.quality.suite import BLOCKING, Check, Suite

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SHOWN", "Outcome", "mute", "run_suite"]

SHOWN = 5  # failing rows that are kept of each check
_UNIQUE = ("expect_column_values_to_be_unique", "expect_compound_columns_to_be_unique")
# Judged row by row, but by what the other rows are.
_TOGETHER = (
    "expect_column_values_to_be_increasing",
    "expect_column_values_to_be_decreasing",
    "expect_column_value_z_scores_to_be_less_than",
    "expect_column_values_to_not_be_outliers",
)
_COUNTED = ("element_count", "unexpected_count", "missing_count")


@dataclass
class Outcome:
    """What one check came to."""

    check: Check
    scope: str
    success: bool = False
    element_count: int | None = None
    unexpected_count: int | None = None
    missing_count: int | None = None
    observed: Any = None
    values: list[Any] = field(default_factory=list)  # some that are not as expected
    named: list[dict[str, Any]] = field(default_factory=list)  # which rows these are
    failing: list[dict[str, Any]] = field(default_factory=list)  # the same, and where from
    error: str = ""
    seconds: float = 0.0

    @property
    def stops(self) -> bool:
        """A check that matters failed, or could not be made."""
        return not self.success and self.check.severity == BLOCKING

    @property
    def unexpected_percent(self) -> float | None:
        if self.unexpected_count is None:
            return None
        of = (self.element_count or 0) - (self.missing_count or 0)
        return 100 * self.unexpected_count / of if of else 0.0


def mute() -> None:
    """Before Great Expectations is imported: it must not report to anybody."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"


def run_suite(
    frames: Frames,
    suite: Suite,
    boundary: str,
    tell: Callable[[Check], None] = lambda check: None,
) -> list[Outcome]:
    """Every check of a suite; one that cannot be made does not keep the others from it."""
    engine = _engine()
    outcomes = {c.name: Outcome(c, suite.scope(c, boundary)) for c in suite.checks}
    together: list[Outcome] = []
    for check in suite.checks:
        outcome = outcomes[check.name]
        missing = [name for name in check.columns if name not in frames.types]
        if missing:
            outcome.error = (
                f"{frames.pinned.table} version {frames.pinned.version} has no column "
                f"{', '.join(missing)}; it has {', '.join(frames.types)}"
            )
        elif _additive(check) and not check.where and check.exact:
            together.append(outcome)
        else:
            tell(check)
            _guarded(outcome, partial(_alone, engine, frames, outcome))
    if together:
        try:
            _by_slices(engine, frames, together, tell)
        except duckdb.Error:  # one column cannot be computed: see whose it is
            for outcome in together:
                alone = outcomes[outcome.check.name] = Outcome(outcome.check, outcome.scope)
                _guarded(alone, partial(_alone, engine, frames, alone))
    return list(outcomes.values())


def _by_slices(
    engine: _Engine, frames: Frames, outcomes: Sequence[Outcome], tell: Callable[[Check], None]
) -> None:
    """The table goes by once; what reading a slice took is shared out among the checks."""
    started = time.perf_counter()
    for part in frames.shared([o.check for o in outcomes]):
        read = (time.perf_counter() - started) / len(outcomes)
        for outcome in outcomes:
            tell(outcome.check)
            outcome.seconds += read
            _guarded(outcome, partial(_add, engine, outcome, part))
        started = time.perf_counter()


def _guarded(outcome: Outcome, work: Callable[[], None]) -> None:
    started = time.perf_counter()
    try:
        work()
    except PenstockError as error:
        outcome.success, outcome.error = False, str(error)
    except Exception as error:  # an expectation that cannot be made must not stop the others
        outcome.success, outcome.error = False, f"{type(error).__name__}: {in_a_line(error)}"
    outcome.seconds += time.perf_counter() - started


def _additive(check: Check) -> bool:
    from great_expectations.expectations.expectation import (
        ColumnMapExpectation,
        ColumnPairMapExpectation,
        MulticolumnMapExpectation,
    )

    rowwise = (ColumnMapExpectation, ColumnPairMapExpectation, MulticolumnMapExpectation)
    return isinstance(check.expectation, rowwise) and check.type not in (*_UNIQUE, *_TOGETHER)


def _alone(engine: _Engine, frames: Frames, outcome: Outcome) -> None:
    import pandas as pd

    check = outcome.check
    if _additive(check):
        for part in frames.slices(check):
            _add(engine, outcome, part)
    elif check.type in _UNIQUE:
        part, rows = frames.repeated(check)
        _add(engine, outcome, part)
        outcome.element_count = rows
        outcome.success = _enough(outcome)
    elif check.type.startswith("expect_table_row_count"):
        _add(engine, outcome, (pd.DataFrame(index=range(frames.count(check))), None))
    elif not check.columns:
        _add(engine, outcome, (pd.DataFrame(columns=frames.pinned.columns), None))
    else:
        part = frames.whole(check)
        if len(part[0]):
            _add(engine, outcome, part)
        else:  # no rows have no mean, and nothing wrong with it
            outcome.success, outcome.element_count = True, 0


def _add(engine: _Engine, outcome: Outcome, part: tuple[pd.DataFrame, Any] | Slice) -> None:
    """One more frame's verdict. What failed on one cannot be judged by the others."""
    if outcome.error:
        return
    frame, names = part
    first = outcome.element_count is None
    judged = engine.validate(frame[outcome.check.columns] if names is not None else frame, outcome)
    if judged is None:
        outcome.success = False
        return
    told = judged.result
    for word in _COUNTED:
        if told.get(word) is not None:
            setattr(outcome, word, (getattr(outcome, word) or 0) + int(told[word]))
    outcome.observed = _plain(told.get("observed_value"))
    room = SHOWN - len(outcome.values)
    outcome.values += [_plain(value) for value in told.get("partial_unexpected_list", ())][:room]
    if names is not None and names.num_columns:
        listed = told.get("partial_unexpected_index_list") or ()
        for position in list(listed)[:room]:
            outcome.named += names.slice(int(position), 1).to_pylist()
    outcome.success = bool(judged.success) if first else _enough(outcome)


def _enough(outcome: Outcome) -> bool:
    """By the counts of all frames, as Great Expectations decides by those of one."""
    if not outcome.unexpected_count:
        return True
    of = (outcome.element_count or 0) - (outcome.missing_count or 0)
    mostly = float(outcome.check.arguments.get("mostly", 1))
    return of > 0 and (of - outcome.unexpected_count) / of >= mostly


def _plain(value: Any) -> Any:
    """Numbers and lists as Python has them, not as numpy does."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    return value


@cache
def _engine() -> _Engine:
    """One for the process: making it takes a tenth of a second."""
    return _Engine()


class _Engine:
    """Great Expectations over one frame after the other; nothing of it is kept on disk."""

    def __init__(self) -> None:
        mute()
        import great_expectations as gx
        from great_expectations.data_context.types.base import (
            DataContextConfig,
            InMemoryStoreBackendDefaults,
        )

        # Its own pages would lie in a folder under /tmp; ours are made in ``site``.
        nowhere = InMemoryStoreBackendDefaults(init_temp_docs_sites=False)
        config = DataContextConfig(store_backend_defaults=nowhere)
        context = gx.get_context(mode="ephemeral", project_config=config)
        # A plain mapping is what it looks into, whatever its annotation says.
        context.variables.progress_bars = {"globally": False}  # type: ignore[assignment]
        source = context.data_sources.add_pandas("penstock")
        asset = source.add_dataframe_asset("rows")
        self._rows = asset.add_batch_definition_whole_dataframe("all")

    def validate(self, frame: pd.DataFrame, outcome: Outcome) -> Any:
        """Its result; None, with the reason in the outcome, when it could not be judged.

        The frame holds the check's columns and no others: each validation hashes all it is given.
        """
        batch = self._rows.get_batch(batch_parameters={"dataframe": frame})
        judged = batch.validate(outcome.check.expectation, result_format="SUMMARY")
        reason = _raised(judged.exception_info)
        if reason:
            outcome.error = reason
            return None
        return judged


def _raised(told: Mapping[str, Any] | None) -> str:
    """What went wrong inside Great Expectations, in one line; it nests this in two ways."""
    for info in (told or {}, *(v for v in (told or {}).values() if isinstance(v, Mapping))):
        if info.get("raised_exception"):
            return in_a_line(
                Exception(str(info.get("exception_message") or "it could not be made"))
            )
    return ""
