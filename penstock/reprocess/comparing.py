"""Comparing a release: both sides of each of its tables at their pins, and what its checks say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.errors import UsageError
from penstock.location import Location
from penstock.model.names import TableName
from penstock.model.windows import Timed
from penstock.quality.gate import check_candidate
from penstock.reprocess.compare import compare_table
from penstock.reprocess.comparison import Side, TableReport, Wishes
from penstock.reprocess.evidence import made_from
from penstock.reprocess.plan import meaning_of, same_rows
from penstock.runtime.code.bundle import Bundle
from penstock.runtime.delta.writer import revision_path
from penstock.runtime.registry import Registry, Revision
from penstock.runtime.staging import Candidate
from penstock.runtime.times import moment
from penstock.settings import Settings

__all__ = ["compared", "verdict_of"]


def compared(
    settings: Settings,
    registry: Registry,
    candidates: Sequence[Candidate],
    pins: Mapping[str, Any],
    wishes: Wishes,
) -> list[TableReport]:
    """A report per table; ``pins`` are versions of both sides with the same input."""
    _require_named(wishes, [c.table for c in candidates])
    known = {(r.table, r.revision): r for r in registry.revisions()}
    many = len(candidates) > 1
    return [_compared(settings, known, c, pins[c.table], wishes, many=many) for c in candidates]


def _require_named(wishes: Wishes, staged: Sequence[str]) -> None:
    """Expectations that name a table name one of these."""
    for one in wishes.expected:
        if one.table is not None and one.table not in staged:
            raise UsageError(
                f"an expectation is about {one.table}, which is not among what is compared.",
                remedy=f"That is: {', '.join(staged)}.",
            )


def _compared(
    settings: Settings,
    known: Mapping[tuple[str, str], Revision],
    candidate: Candidate,
    pin: Mapping[str, Any],
    wishes: Wishes,
    *,
    many: bool,
) -> TableReport:
    name = TableName.parse(candidate.table)
    sides = {
        word: _side(settings, name, known[candidate.table, pin[word]["revision"]], pin[word])
        for word in ("old", "new")
    }
    new = known[candidate.table, candidate.revision]
    old = known[candidate.table, pin["old"]["revision"]]
    bundle = Bundle(settings.bundles / new.bundle, settings.jobs)
    definition = bundle.catalog().tables[name]
    report = compare_table(
        candidate.table,
        sides["old"],
        sides["new"],
        keys=definition.keys,
        same_rows=same_rows(meaning_of(settings, old), definition.describe()),
        point=definition.kind.point if isinstance(definition.kind, Timed) else None,
        wishes=wishes,
        scratch=settings.run / "compare",
        one_of_many=many,
    )
    if candidate.since is not None:
        report.since = moment(candidate.since).isoformat()
    report.new["build"] = {k: v for k, v in candidate.told.items() if k != "error"}
    report.quality = check_candidate(
        settings, candidate.table, new.revision, pin["new"]["version"], definition.keys
    )
    if report.failures:
        report.notes.append(f"blocking checks failed: {', '.join(report.failures)}")
    for row in report.worst:
        row["source"] = made_from(settings.warehouse, definition, new, pin["new"], row)
    return report


def _side(settings: Settings, name: TableName, revision: Revision, pin: Mapping[str, Any]) -> Side:
    def beside(kind: str) -> tuple[Location, int]:
        table = getattr(name, kind)
        path = revision_path(settings.warehouse, table, revision.revision)
        return path, pin["beside"][kind]

    fields = revision.declared["schema"]["fields"]
    return Side(
        revision.revision,
        pin["version"],
        revision_path(settings.warehouse, name, revision.revision),
        {f["name"]: str(f["type"]) for f in fields},
        pin["inputs"],
        pin["watermark"],
        beside("quarantine"),
        beside("late"),
    )


def verdict_of(told: Mapping[str, Any], pins: Mapping[str, Any]) -> dict[str, Any]:
    """What the gates of a promotion ask of a comparison."""
    tables = told["tables"]
    return {
        "within": told["within"],
        "order": [t["table"] for t in tables],
        "live": {name: pin["old"]["revision"] for name, pin in pins.items()},
        "candidates": {name: pin["new"]["revision"] for name, pin in pins.items()},
        "unexpected": {t["table"]: t["counts"].get("unexpected", 0) for t in tables},
        "undecided": [t["table"] for t in tables if t["undecided"]],
        "alike": all(t["alike"] for t in tables),
        "quality": {t["table"]: t["quality"].get("failures", []) for t in tables},
    }
