"""The last runs as pages: Great Expectations' Data Docs of every table, and one index over them.

The pages are rendered by Great Expectations and framed here. Its own frame loads scripts and
styles from elsewhere and its templates do not escape values; ours has no script and nothing from
elsewhere, and values from rows are made harmless before anybody renders them. Only the newest
pages of each table are kept.
"""

from __future__ import annotations

import fcntl
import html
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.quality.check import Outcome
from penstock.quality.results import Occasion

if TYPE_CHECKING:
    from penstock.quality.gate import Checked
    from penstock.settings import Settings

__all__ = ["KEPT", "harmless", "publish"]

KEPT = 10  # pages of each table
_LONGEST = 200
_RISKY = set("<>&\"'`$\\{}")
_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fafaf7; margin: 0; }}
main {{ max-width: 1080px; margin: 0 auto; padding: 24px; }}
h1 {{ font-size: 26px; margin: 0 0 4px; }} h2, h5 {{ font-size: 18px; margin: 26px 0 8px; }}
h6 {{ font-size: 14px; color: #555; margin: 12px 0 4px; }} a {{ color: #2a6aa8; }}
.grey {{ color: #777; }} .verdict {{ padding: 2px 12px; border-radius: 999px; color: #fff; }}
.ok {{ background: #4b8b3b; }} .no {{ background: #b8432f; }} .warn {{ background: #c98a10; }}
table {{ border-collapse: collapse; width: 100%; font-size: 13.5px; background: #fff; }}
td, th {{ text-align: left; vertical-align: top; padding: 5px 10px; border: 1px solid #e4e2da; }}
code {{ font-size: 12.5px; }} .badge {{ background: #eee; border-radius: 4px; padding: 0 5px; }}
.ge-section {{ background: #fff; border: 1px solid #e4e2da; border-radius: 8px; margin: 14px 0;
padding: 4px 18px 16px; }} .fa-check-circle::before {{ content: "passed"; color: #4b8b3b; }}
.fa-times::before {{ content: "failed"; color: #b8432f; }}
.fa-exclamation-triangle::before {{ content: "not made"; color: #b8432f; }}
</style></head><body><main>"""
_FOOT = "</main></body></html>"


def harmless(value: Any) -> Any:
    """A value that no template, page or terminal can take for anything but text."""
    if isinstance(value, dict):
        return {harmless(str(key)): harmless(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [harmless(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    safe = "".join(c if c.isprintable() and c not in _RISKY else _spelt(c) for c in text[:_LONGEST])
    return safe + ("…" if len(text) > _LONGEST else "")


def _spelt(character: str) -> str:
    return f"(u{ord(character):04x})"


def publish(settings: Settings, checked: Sequence[Checked], occasion: Occasion) -> Path:
    """Add pages for what was checked, drop the oldest, write the index; returns the index."""
    site = settings.sites / "quality"
    site.mkdir(parents=True, exist_ok=True)
    with _alone(settings):
        for told in checked:
            folder = site / told.table
            folder.mkdir(exist_ok=True)
            _write(folder / f"{occasion.run}.html", _page(told, occasion))
            _write(folder / f"{occasion.run}.json", json.dumps(_summary(told, occasion)))
            _prune(folder)
        index = site / "index.html"
        _write(index, _index(site))
    return index


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """One at a time: the index is made from all pages."""
    settings.run.mkdir(parents=True, exist_ok=True)
    with (settings.run / "quality-site.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _write(path: Path, text: str) -> None:
    """Whole or not at all: somebody may be reading it."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text)
    part.replace(path)


def _prune(folder: Path) -> None:
    for page in sorted(folder.glob("*.html"))[:-KEPT]:
        page.unlink(missing_ok=True)
        page.with_suffix(".json").unlink(missing_ok=True)


def _summary(told: Checked, occasion: Occasion) -> dict[str, Any]:
    warned = [o.check.name for o in told.outcomes if not o.success and not o.stops]
    return {
        "run": occasion.run,
        "at": f"{occasion.at:%Y-%m-%d %H:%M:%S}Z",
        "table": told.table,
        "boundary": told.boundary,
        "state": told.state,
        "revision": told.revision,
        "version": told.version,
        "rows": told.rows,
        "checks": len(told.outcomes),
        "blocking": told.failures,
        "warnings": warned,
        "held": told.held,
    }


# --- the index ----------------------------------------------------------------------------
def _index(site: Path) -> str:
    parts = [_HEAD.format(title="Quality"), "<h1>Quality</h1><p class='grey'>The newest runs of "
             "every table. All of them: <code>penstock query \"select * from quality.results\""
             "</code></p>"]  # fmt: skip
    for folder in sorted(path for path in site.iterdir() if path.is_dir()):
        runs = [json.loads(p.read_text()) for p in sorted(folder.glob("*.json"), reverse=True)]
        if runs:
            parts.append(f"<h2>{_e(folder.name)} {_verdict(runs[0])}</h2>{_listed(runs)}")
    return "".join(parts) + _FOOT


def _listed(runs: Sequence[dict[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td><a href='{_e(r['table'])}/{_e(r['run'])}.html'>{_e(r['at'])}</a></td>"
        f"<td>{_verdict(r)}</td><td>{_e(r['boundary'])}</td>"
        f"<td>{_e(r['state'])} <code>{_e(r['revision'])}</code> version {_e(r['version'])}</td>"
        f"<td>{r['rows']:,}</td><td>{_e(', '.join([*r['blocking'], *r['warnings']]))}</td></tr>"
        for r in runs
    )
    return (
        "<table><tr><th>run</th><th></th><th>boundary</th><th>checked</th><th>rows</th>"
        f"<th>failed</th></tr>{rows}</table>"
    )


def _verdict(told: dict[str, Any]) -> str:
    if told["blocking"]:
        return f"<span class='verdict no'>{len(told['blocking'])} blocking</span>"
    if told["warnings"]:
        return f"<span class='verdict warn'>{len(told['warnings'])} warnings</span>"
    return "<span class='verdict ok'>passed</span>"


def _e(value: Any) -> str:
    return html.escape("" if value is None else str(value))


# --- one page -----------------------------------------------------------------------------
def _page(told: Checked, occasion: Occasion) -> str:
    about = _summary(told, occasion)
    return "".join(
        [
            _HEAD.format(title=_e(f"{told.table}: quality")),
            "<p><a href='../index.html'>all tables</a></p>",
            f"<h1>{_e(told.table)} {_verdict(about)}</h1>",
            f"<p class='grey'>{_e(about['at'])}, boundary {_e(told.boundary)}: {_e(told.state)} "
            f"<code>{_e(told.revision)}</code> version {_e(told.version)}, {told.rows:,} rows; "
            f"run {_e(occasion.run)}, suite {_e(told.suite)}</p>",
            *(f"<p>{_e(name)} is held.</p>" for name in told.held),
            _scopes(told.outcomes),
            _sections(told, occasion),
            _failing(told.outcomes),
            _FOOT,
        ]
    )


def _scopes(outcomes: Sequence[Outcome]) -> str:
    rows = "".join(
        f"<tr><td>{_e(o.check.name)}</td><td>{_e(o.check.severity)}</td>"
        f"<td>{_e('passed' if o.success else 'failed')}</td><td>{_e(o.scope)}</td>"
        f"<td>{_e(o.check.why)}</td></tr>"
        for o in outcomes
    )
    return (
        "<table><tr><th>check</th><th></th><th></th><th>looks at</th><th>why</th></tr>"
        f"{rows}</table>"
    )


def _failing(outcomes: Sequence[Outcome]) -> str:
    parts = []
    for outcome in outcomes:
        if not outcome.success and (outcome.failing or outcome.error):
            parts.append(f"<h2>{_e(outcome.check.name)}</h2>")
            if outcome.error:
                parts.append(f"<p>could not be made: {_e(harmless(outcome.error))}</p>")
            rows = "".join(
                f"<tr><td><code>{_e(json.dumps(harmless(one['row'])))}</code></td>"
                f"<td><code>{_e('; '.join(map(_record, one['records'])))}</code></td></tr>"
                for one in outcome.failing
            )
            parts.append(f"<table><tr><th>row</th><th>made from</th></tr>{rows}</table>")
    return "".join(parts)


def _record(told: dict[str, Any]) -> str:
    last = "" if told["first"] == told["last"] else f"-{told['last']}"
    return str(harmless(f"{told['topic']} {told['partition']}/{told['first']}{last}"))


def _sections(told: Checked, occasion: Occasion) -> str:
    """What Great Expectations makes of the results, without its frame."""
    from great_expectations.core.expectation_validation_result import (
        ExpectationSuiteValidationResult,
    )
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view.view import DefaultJinjaSectionView

    good = sum(o.success for o in told.outcomes)
    result = ExpectationSuiteValidationResult(
        success=good == len(told.outcomes),
        results=[_as_result(outcome) for outcome in told.outcomes],
        suite_name=told.table,
        statistics={
            "evaluated_expectations": len(told.outcomes),
            "successful_expectations": good,
            "unsuccessful_expectations": len(told.outcomes) - good,
            "success_percent": 100 * good / max(1, len(told.outcomes)),
        },
        meta={"run_id": {"run_name": occasion.run, "run_time": occasion.at.isoformat()}},
    )
    renderer: Any = ValidationResultsPageRenderer
    document = renderer().render(result).to_json_dict()
    view: Any = DefaultJinjaSectionView()
    # The first section repeats what stands above, with links to pages that are not there.
    return "".join(
        view.render({"section": section, "section_loop": {"index": number}})
        for number, section in enumerate(document["sections"][1:], 1)
    )


def _as_result(outcome: Outcome) -> Any:
    from great_expectations.core.expectation_validation_result import ExpectationValidationResult

    told: dict[str, Any] = {"observed_value": harmless(outcome.observed)}
    if outcome.unexpected_count is not None:
        percent = outcome.unexpected_percent
        told = {
            "element_count": outcome.element_count,
            "unexpected_count": outcome.unexpected_count,
            "unexpected_percent": percent,
            "unexpected_percent_total": percent,
            "unexpected_percent_nonmissing": percent,
            "missing_count": outcome.missing_count or 0,
            "partial_unexpected_list": harmless(outcome.values),
        }
    raised = {
        "raised_exception": bool(outcome.error),
        "exception_message": harmless(outcome.error) if outcome.error else None,
        "exception_traceback": "",
    }
    return ExpectationValidationResult(
        success=outcome.success,
        expectation_config=outcome.check.expectation.configuration,
        result={} if outcome.error else told,
        exception_info=raised,
    )
