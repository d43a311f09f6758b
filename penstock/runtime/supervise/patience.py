"""Whether a revision runs, and how long what is new to it may wait."""

from __future__ import annotations

import datetime as dt

from penstock.model.definition import Table, waiting_time
from penstock.runtime.registry import Revision, State
from penstock.runtime.staging import Build, Candidate, How

__all__ = ["AT_ONCE", "LONGEST_HOLD", "SELDOM", "runs", "waits"]

AT_ONCE = dt.timedelta(0)
SELDOM = dt.timedelta(seconds=5)  # a topic nobody is in a hurry for
LONGEST_HOLD = dt.timedelta(seconds=10)  # of rows in memory: a crash has them read again


def runs(revision: Revision, candidate: Candidate | None) -> bool:
    """A candidate runs once its history is there, or from the beginning if it follows."""
    if revision.state != State.CANDIDATE:
        return True
    return candidate is not None and (candidate.how == How.FOLLOW or candidate.build == Build.BUILT)


def waits(revision: Revision, definition: Table) -> dt.timedelta | None:
    """How long new input may wait: as registered last, which may be after the bundle was made.

    Candidate and warm revisions run by themselves even where the table does not: they have to be
    there when they are wanted.
    """
    declared = waiting_time(revision.declared.get("freshness", definition.freshness))
    return SELDOM if declared is None and revision.state != State.LIVE else declared
