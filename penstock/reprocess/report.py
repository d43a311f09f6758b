"""The comparison as a page: something one looks at rather than reads. No script, no network."""

from __future__ import annotations

import datetime as dt
import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.settings import Settings

__all__ = ["render", "written"]

_COLOURS = {
    "equal": "#7fb069",
    "differs": "#e6a117",
    "only_old": "#8a6fb0",
    "only_new": "#3d85c6",
}
_WORDS = {
    "equal": "equal",
    "differs": "differ",
    "only_old": "only live",
    "only_new": "only candidate",
}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fafaf7; margin: 0; }
main { max-width: 1080px; margin: 0 auto; padding: 24px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { margin: 36px 0 8px; font-size: 21px; }
h3 { font-size: 15px; margin: 22px 0 6px; color: #555; font-weight: 600; }
.card { background: #fff; border: 1px solid #e4e2da; border-radius: 8px; padding: 18px 22px; }
.verdict { display: inline-block; padding: 3px 12px; border-radius: 999px; color: #fff; }
.ok { background: #4b8b3b; } .no { background: #b8432f; } .grey { color: #777; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; color: #777; font-weight: 500; border-bottom: 1px solid #ddd; }
td, th { padding: 4px 10px 4px 0; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.was { color: #8a6fb0; } .is { color: #2a6aa8; } code { font-size: 12.5px; }
.bar { height: 10px; border-radius: 5px; background: #eee; overflow: hidden; min-width: 160px; }
.bar span { display: block; height: 100%; background: #7fb069; }
.legend span { margin-right: 16px; } .legend i { display: inline-block; width: 11px; height: 11px;
border-radius: 3px; margin-right: 5px; vertical-align: -1px; }
.tiles { display: flex; gap: 12px; flex-wrap: wrap; margin: 12px 0; }
.tile { border: 1px solid #e4e2da; border-radius: 8px; padding: 8px 16px; background: #fdfdfb; }
.tile b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
"""


def written(settings: Settings, told: Mapping[str, Any], at: dt.datetime) -> dict[str, str]:
    """Write what a comparison came to, as a page and as JSON; returns where they are."""
    folder = settings.reports / told["release"]
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{at:%H%M%S}.html"
    places = {"page": str(page), "json": str(page.with_suffix(".json"))}
    page.write_text(render(told))
    page.with_suffix(".json").write_text(json.dumps({**told, **places}, indent=1, default=str))
    return places


def render(told: Mapping[str, Any]) -> str:
    """A whole page from what a comparison came to; every value from outside is escaped."""
    ok = bool(told["within"])
    body = [
        f"<h1>{_e(told['title'])}</h1>",
        f"<p class='grey'>release {_e(told['release'])} · compared {_e(told['at'])} by "
        f"{_e(told['who'])}</p>",
        f"<p><span class='verdict {'ok' if ok else 'no'}'>"
        f"{'within thresholds' if ok else 'not within thresholds'}</span></p>",
        *(_table(table) for table in told["tables"]),
    ]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f"<title>{_e(told['title'])}</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>"
    )


def _e(value: Any) -> str:
    return html.escape("" if value is None else str(value))


def _table(told: Mapping[str, Any]) -> str:
    counts = told["counts"]
    ok = told["within"]
    parts = [
        f"<h2>{_e(told['table'])} <span class='verdict {'ok' if ok else 'no'}'>"
        f"{_summary(told)}</span></h2><div class='card'>",
        f"<p class='grey'>live <code>{_e(told['old']['revision'])}</code> version "
        f"{_e(told['old']['version'])} against candidate <code>{_e(told['new']['revision'])}"
        f"</code> version {_e(told['new']['version'])}, {_e(told['method'])}"
        f"{' (' + _e(', '.join(told['keys'])) + ')' if told['keys'] else ''}; both have taken in "
        f"{_e(_inputs(told['old']['inputs']))}</p>",
    ]
    if told.get("since"):
        parts.append(f"<p><b>Partial:</b> its history begins {_e(told['since'])}.</p>")
    parts += [f"<p>{_e(note)}</p>" for note in told["notes"]]
    if counts:
        parts.append(_tiles(counts))
        parts.append(_stacked(counts))
    parts += [
        _columns(told["columns"]),
        _over_time(told["over_time"]),
        _per_column(told["per_column"]),
        _expected(told["expected"]),
        _worst(told["worst"]),
        _quarantine(told["quarantine"]),
        _quality(told["quality"]),
        _cost(told),
    ]
    return "".join(parts) + "</div>"


def _summary(told: Mapping[str, Any]) -> str:
    if told["method"] == "not comparable":
        return "not comparable"
    return f"{told['counts'].get('unexpected', 0):,} unexpected of {told['counts']['rows']:,} rows"


def _inputs(inputs: Mapping[str, int]) -> str:
    return ", ".join(f"{name} version {version}" for name, version in inputs.items())


def _tiles(counts: Mapping[str, int]) -> str:
    shown = [(_WORDS[name], counts[name]) for name in _WORDS]
    shown += [
        ("late pending", counts["set_apart"]),
        ("expected", counts["expected"]),
        ("unexpected", counts["unexpected"]),
    ]
    tiles = "".join(f"<div class='tile'><b>{n:,}</b>{word}</div>" for word, n in shown)
    return f"<div class='tiles'>{tiles}</div>"


def _stacked(counts: Mapping[str, int]) -> str:
    total, left, bars = max(1, counts["rows"]), 0.0, []
    for name, colour in _COLOURS.items():
        width = 1000 * counts[name] / total
        if counts[name]:
            width = max(width, 2.0)
        bars.append(f"<rect x='{left:.1f}' y='0' width='{width:.1f}' height='18' fill='{colour}'/>")
        left += width
    return (
        f"<svg viewBox='0 0 {max(left, 1000):.0f} 18' width='100%' height='18' "
        f"preserveAspectRatio='none'>{''.join(bars)}</svg>{_legend()}"
    )


def _legend() -> str:
    marks = "".join(
        f"<span><i style='background:{colour}'></i>{_WORDS[name]}</span>"
        for name, colour in _COLOURS.items()
    )
    return f"<p class='legend grey'>{marks}</p>"


def _columns(diff: Mapping[str, Sequence[str]]) -> str:
    said = [f"{word} {', '.join(names)}" for word, names in diff.items() if names]
    return f"<h3>Columns</h3><p>{_e('; '.join(said) or 'the same')}</p>"


def _over_time(steps: Sequence[Mapping[str, Any]]) -> str:
    if len(steps) < 2:
        return ""
    names = ("differs", "only_old", "only_new")
    tallest = max(sum(step[n] for n in names) for step in steps)
    if tallest == 0:
        return "<h3>Differences over time</h3><p>none</p>"
    wide, bars = 1000 / len(steps), []
    for number, step in enumerate(steps):
        top = 120.0
        for name in names:
            height = 110 * step[name] / tallest
            if not height:
                continue
            top -= height
            bars.append(
                f"<rect x='{number * wide:.1f}' y='{top:.1f}' width='{wide * 0.86:.1f}' "
                f"height='{height:.1f}' fill='{_COLOURS[name]}'><title>{_e(step['at'])}: "
                f"{step[name]} {_WORDS[name]}</title></rect>"
            )
    return (
        "<h3>Differences over time</h3><svg viewBox='0 0 1000 122' width='100%' height='140' "
        f"preserveAspectRatio='none'><line x1='0' y1='121' x2='1000' y2='121' stroke='#bbb'/>"
        f"{''.join(bars)}</svg><p class='grey'>{_e(steps[0]['at'])} to {_e(steps[-1]['at'])}; "
        f"the tallest bar is {tallest:,} rows</p>"
    )


def _per_column(columns: Sequence[Mapping[str, Any]]) -> str:
    if not columns:
        return ""
    rows = "".join(
        f"<tr><td>{_e(c['column'])}</td><td class='n'>{100 * c['rate']:.2f} %</td>"
        f"<td><div class='bar'><span style='width:{100 * c['rate']:.2f}%'></span></div></td>"
        f"<td class='n'>{c['both'] - c['equal']:,}</td>"
        f"<td class='n'>{_e(c['tolerance'] if c['tolerance'] is not None else 'exact')}</td></tr>"
        for c in columns
    )
    return (
        "<h3>Columns of rows that are on both sides</h3><table><tr><th>column</th>"
        "<th class='n'>equal</th><th></th><th class='n'>rows that differ</th>"
        f"<th class='n'>tolerance</th></tr>{rows}</table>"
    )


def _expected(expected: Sequence[Mapping[str, Any]]) -> str:
    if not expected:
        return ""
    rows = "".join(
        f"<tr><td><code>{_e(e['condition'])}</code></td><td>{_e(e['reason'])}</td>"
        f"<td class='n'>{e['rows']:,}</td></tr>"
        for e in expected
    )
    return (
        "<h3>Expected differences</h3><table><tr><th>condition</th><th>reason</th>"
        f"<th class='n'>rows</th></tr>{rows}</table>"
    )


def _worst(worst: Sequence[Mapping[str, Any]]) -> str:
    if not worst:
        return ""
    rows = []
    for row in worst:
        old, new = row["old"] or {}, row["new"] or {}
        changed = [n for n in {**old, **new} if old.get(n) != new.get(n)]
        values = ", ".join(
            f"{_e(n)} <span class='was'>{_e(_short(old.get(n)))}</span> → "
            f"<span class='is'>{_e(_short(new.get(n)))}</span>"
            for n in changed[:6]
        )
        key = ", ".join(f"{k}={_short(v)}" for k, v in row["key"].items())
        mark = " (expected)" if row["expected"] else " (late)" if row["set_apart"] else ""
        source = row.get("source", "")
        rows.append(
            f"<tr><td><code>{_e(key)}</code></td><td>{_WORDS[row['verdict']]}{mark}</td>"
            f"<td>{values}</td><td class='grey'>{_e(source)}</td></tr>"
        )
    return (
        "<h3>Rows that differ most</h3><table><tr><th>key</th><th></th><th>live → candidate</th>"
        f"<th>made from</th></tr>{''.join(rows)}</table>"
    )


def _short(value: Any) -> str:
    text = "null" if value is None else value if isinstance(value, str) else str(value)
    return text if len(text) <= 48 else text[:45] + "…"


def _quarantine(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "<h3>Quarantine</h3><p>empty on both sides</p>"
    lines = "".join(
        f"<tr><td>{_e(r['error_class'])}</td><td>{_e(_short(r['error']))}</td>"
        f"<td class='n'>{r['old']:,}</td><td class='n'>{r['new']:,}</td></tr>"
        for r in rows
    )
    return (
        "<h3>Quarantine</h3><table><tr><th>class</th><th>error</th><th class='n'>live</th>"
        f"<th class='n'>candidate</th></tr>{lines}</table>"
    )


def _quality(told: Mapping[str, Any]) -> str:
    """What the candidate's suite says; rows that fail are in quality.results."""
    if not told.get("results"):
        said = "; ".join(told.get("failures") or ()) or "no suite for this table"
        return f"<h3>Quality of the candidate</h3><p>{_e(said)}</p>"
    rows = "".join(
        f"<tr><td>{_e(r['check_name'])}</td><td>{_e(r['severity'])}</td>"
        f"<td>{'passed' if r['success'] else '<b>failed</b>'}</td>"
        f"<td class='n'>{_e(r['unexpected_count'])}</td><td class='n'>{_e(r['element_count'])}</td>"
        f"<td>{_e(r['scope'])}</td><td class='grey'>{_e(_short(r['error'] or r['why']))}</td></tr>"
        for r in told["results"]
    )
    return (
        "<h3>Quality of the candidate</h3><table><tr><th>check</th><th></th><th></th>"
        "<th class='n'>unexpected</th><th class='n'>of</th><th>looks at</th><th></th></tr>"
        f"{rows}</table>"
    )


def _cost(told: Mapping[str, Any]) -> str:
    old, new = told["old"], told["new"]
    return (
        "<h3>Cost</h3><table><tr><th></th><th class='n'>files</th><th class='n'>bytes</th></tr>"
        f"<tr><td>live</td><td class='n'>{old['files']:,}</td>"
        f"<td class='n'>{old['bytes']:,}</td></tr>"
        f"<tr><td>candidate</td><td class='n'>{new['files']:,}</td>"
        f"<td class='n'>{new['bytes']:,}</td></tr></table>"
        f"<p class='grey'>{_e(json.dumps(new.get('build', {})) if new.get('build') else '')}</p>"
    )
