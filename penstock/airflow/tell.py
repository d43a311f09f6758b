"""What commands come to, as short lists in Markdown that an operator can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.reprocess.followers import in_words
from penstock.settings import Settings

__all__ = [
    "comparison",
    "exported",
    "marts",
    "marts_failed",
    "plan",
    "quality",
    "rows_of",
    "small",
    "staged",
    "swap",
    "url_of",
]

_MOST = 12
_LONGEST = 200


def url_of(settings: Settings, page: str) -> str:
    """Where a report or a site is shown, beside the Airflow UI."""
    path = Path(page)
    for folder, word in ((settings.reports, "reports"), (settings.sites, "sites")):
        if path.is_relative_to(folder):
            return f"{settings.airflow_url}/penstock/{word}/{path.relative_to(folder)}"
    return page


def plan(found: Mapping[str, Any]) -> str:
    """Every table that would change: why, what it means to readers, what it costs."""
    lines = []
    for change in found.get("changes", []):
        lines.append(
            f"- {change['table']}: {change.get('live') or 'nothing'} → {change['declared']} "
            f"({change['category']}; {change['because']})"
        )
        read = ", ".join(f"{r['name']} {r['rows']:,} rows" for r in change.get("reads", []))
        lines.append(
            f"  - reads {read or 'nothing'}; adds about {change['adds_bytes']:,} bytes; "
            f"takes about {change['seconds']:.0f} s"
        )
        if change.get("followed_by"):
            lines.append(f"  - followed by {in_words(change['followed_by'])}")
    lines += [f"- broken, left out: {reason}" for reason in found.get("broken", [])]
    return "\n".join(lines) or "No change: the working tree means what is live."


def staged(found: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(
        f"- {s['table']}@{s['revision']}: {s['state']}, built by {s['how']}"
        + (f", from {s['since']} (partial)" if s.get("since") else "")
        for s in found
    )


def comparison(told: Mapping[str, Any], settings: Settings) -> str:
    lines = []
    for one in told["tables"]:
        counts = ", ".join(f"{k.replace('_', ' ')} {v:,}" for k, v in one["counts"].items())
        lines.append(f"- {one['table']}: {'within' if one['within'] else 'NOT within'}; {counts}")
    lines.append(f"- [the report]({url_of(settings, told['page'])})")
    return "\n".join(lines)


def quality(told: Mapping[str, Any] | None, settings: Settings) -> str:
    """Which expectations of which table failed, on how many rows, what is held, where to look."""
    if not told:
        return "nothing was checked"
    lines: list[str] = []
    for one in told.get("tables", []):
        if one["failures"]:
            page = Path(told.get("site") or "").parent / one["table"] / f"{told['run']}.html"
            lines.append(
                f"- {one['table']} version {one['version']}: FAILED "
                f"([which rows]({url_of(settings, str(page))}))"
            )
            lines += [f"  - {_failed(r)}" for r in one["results"] if _stops(r)]
        lines += [f"  - held: {name}; its stream goes on" for name in one.get("held", [])]
        lines += [f"- {name} passes again and goes on" for name in one.get("released", [])]
    lines += [f"- {one['table']}: its suite is broken" for one in told.get("broken", [])]
    fine = [t["table"] for t in told.get("tables", []) if not t["failures"]]
    lines += [f"- passed: {', '.join(fine)}"] if fine else []
    return "\n".join([*lines, f"- [Data Docs]({url_of(settings, told.get('site') or '')})"])


def _stops(result: Mapping[str, Any]) -> bool:
    return not result["success"] and result["severity"] == "blocking"


def _failed(result: Mapping[str, Any]) -> str:
    """An expectation with the number of rows that are not as expected."""
    count, of = result.get("unexpected_count"), result.get("element_count")
    why = f" ({result['why']})" if result.get("why") else ""
    if result.get("error"):
        return f"{result['check_name']}: could not be made{why}"
    if count is None:
        return f"{result['check_name']}: saw {result.get('observed')}{why}"
    return f"{result['check_name']}: {count:,} of {of or 0:,} rows{why}"


def marts(told: Mapping[str, Any], settings: Settings) -> str:
    """What was built, what was not, and where the docs are."""
    built = [m for m in told["models"] if m["kind"] != "view" and m["status"] == "success"]
    rows = sum(m["rows"] or 0 for m in built)
    lines = [
        f"- {len(built)} built, {rows:,} rows; {told['tests_passed']} tests passed; "
        f"{told['seconds']:.0f} s"
    ]
    failed = marts_failed(told)
    lines += [f"- FAILED: {failed}"] if failed else []
    lines += [f"- no data yet in {', '.join(told['empty'])}"] if told.get("empty") else []
    if told.get("docs"):
        lines.append(f"- [dbt docs]({url_of(settings, told['docs'])})")
    return "\n".join(lines)


def marts_failed(told: Mapping[str, Any]) -> str:
    """Models that were not built, tests that did not pass and on how many rows."""
    models = [f"{m['name']} ({m['status']})" for m in told["models"]
              if m["status"] in ("error", "skipped")]  # fmt: skip
    tests = [f"{t['name']} ({t['failures']:,} rows)" for t in told["tests"]
             if t["status"] not in ("warn", "skipped")]  # fmt: skip
    return ", ".join([*models, *tests])


def exported(told: Mapping[str, Any]) -> str:
    """Every table of each target: how it went, how many rows it has and how many were written."""
    lines = []
    for target in told["targets"]:
        lines.append(f"- {target['target']}: {len(target['tables'])} tables, {target['seconds']} s")
        ways: dict[str, list[str]] = {}
        for one in target["tables"]:
            ways.setdefault(one["mode"], []).append(_exported(one))
        lines += [f"  - {mode}: {', '.join(names)}" for mode, names in ways.items()]
    return "\n".join(lines)


def _exported(one: Mapping[str, Any]) -> str:
    if one.get("rows") is None:
        return f"{one['table']} ({one.get('reason') or 'no reason given'})"
    return f"{one['table']} {one['rows']:,} rows ({one['rows_written']:,} written)"


def swap(told: Mapping[str, Any]) -> str:
    lines = [
        f"- {t['table']}: {t.get('from')} → {t.get('to')}, version {t.get('version')}, "
        f"{t.get('changed', 0):,} rows changed"
        for t in told["tables"]
    ]
    lines += [f"- {t['table']} is still held: {t['still_held']}"
              for t in told["tables"] if "still_held" in t]  # fmt: skip
    return "\n".join([*lines, f"- live stood still for {told.get('held_seconds', 0):.2f} s"])


def rows_of(result: Any) -> str:
    """Any result, an item per entry: for commands whose results differ from table to table."""
    entries = result if isinstance(result, list) else [result]
    lines = [f"- {_line(entry)}" for entry in entries[:_MOST]]
    more = len(entries) - _MOST
    return "\n".join([*lines, f"- … and {more} more"] if more > 0 else lines)


def _line(entry: Any) -> str:
    if not isinstance(entry, Mapping):
        return str(entry)[:_LONGEST]
    told = [f"{k} {v}" for k, v in entry.items() if not isinstance(v, dict | list)]
    counted = [f"{len(v)} {k}" for k, v in entry.items() if isinstance(v, list) and v]
    return ", ".join([*told, *counted])[:_LONGEST]


def small(result: Any, most: int = 50) -> Any:
    """A result cut to what is worth keeping as the task's own: long lists and texts shortened."""
    if isinstance(result, Mapping):
        return {str(k): small(v, most) for k, v in result.items()}
    if isinstance(result, list):
        return [small(v, most) for v in result[:most]]
    return result[:2000] if isinstance(result, str) else result
