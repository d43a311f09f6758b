"""What commands come to, in a few lines that an operator can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.settings import Settings

__all__ = ["comparison", "plan", "quality", "rows_of", "small", "staged", "swap", "url_of"]

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
            f"{change['table']}: {change.get('live') or 'nothing'} -> {change['declared']} "
            f"({change['category']}; {change['because']})"
        )
        read = ", ".join(f"{r['name']} {r['rows']:,} rows" for r in change.get("reads", []))
        lines.append(
            f"  reads {read or 'nothing'}; adds about {change['adds_bytes']:,} bytes; "
            f"takes about {change['seconds']:.0f} s"
        )
    lines += [f"broken, left out: {reason}" for reason in found.get("broken", [])]
    return "\n".join(lines) or "No change: the working tree means what is live."


def staged(found: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(
        f"{s['table']}@{s['revision']}: {s['state']}, built by {s['how']}"
        + (f", from {s['since']} (partial)" if s.get("since") else "")
        for s in found
    )


def comparison(told: Mapping[str, Any], settings: Settings) -> str:
    lines = []
    for one in told["tables"]:
        counts = ", ".join(f"{k.replace('_', ' ')} {v:,}" for k, v in one["counts"].items())
        lines.append(f"{one['table']}: {'within' if one['within'] else 'NOT within'}; {counts}")
    lines.append(f"Report: {url_of(settings, told['page'])}")
    return "\n".join(lines)


def quality(told: Mapping[str, Any] | None, settings: Settings) -> str:
    """Which checks of which table failed, and where to look."""
    if not told:
        return "nothing was checked"
    failures = told.get("failures") or {}
    lines = [f"{table}: FAILED {', '.join(names)}" for table, names in failures.items()]
    fine = [t["table"] for t in told.get("tables", []) if t["table"] not in failures]
    lines += [f"passed: {', '.join(fine)}"] if fine else []
    lines += [f"{one['table']}: its suite is broken" for one in told.get("broken", [])]
    return "\n".join([*lines, f"Data Docs: {url_of(settings, told.get('site') or '')}"])


def swap(told: Mapping[str, Any]) -> str:
    lines = [
        f"{t['table']}: {t.get('from')} -> {t.get('to')}, version {t.get('version')}, "
        f"{t.get('changed', 0)} rows changed"
        for t in told["tables"]
    ]
    return "\n".join([*lines, f"Live stood still for {told.get('held_seconds', 0):.2f} s."])


def rows_of(result: Any) -> str:
    """Any result, a line per entry: for commands whose results differ from table to table."""
    entries = result if isinstance(result, list) else [result]
    lines = [_line(entry) for entry in entries[:_MOST]]
    more = len(entries) - _MOST
    return "\n".join([*lines, f"... and {more} more"] if more > 0 else lines)


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
