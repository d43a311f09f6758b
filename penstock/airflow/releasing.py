"""The steps of the `reprocess` DAG: each runs one command and says what it came to.

A step takes its input from the form and from what earlier steps returned, so clearing one and
letting it run again does the same again: staging goes on with what is staged, comparing compares
anew. What was approved is a release by its name: one that is live already is done, one that was
given up or taken back since is refused, and another one staged meanwhile is not meant.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from penstock.airflow import tell
from penstock.airflow.command import CommandFailed, CommandRefused, TaskStopped, option, penstock
from penstock.airflow.manifest import known
from penstock.airflow.notes import note
from penstock.airflow.notify import alert
from penstock.airflow.operations import asked_by, checked
from penstock.airflow.streams import StreamsStale, require_fresh
from penstock.airflow.watch import breaches
from penstock.runtime import heartbeat
from penstock.settings import Settings

__all__ = ["abort", "compare", "gate", "plan", "promote", "stage", "verdict", "watched"]

Context = Mapping[str, Any]
_WITHIN, _NOT_WITHIN = 0, 12
_IN_ITS_NAME = option("as", "Airflow")
_SILENCE = dt.timedelta(minutes=5)  # in which a supervisor that died is there again
_ANOTHER_TRY = 30.0  # seconds


def plan(context: Context) -> dict[str, Any]:
    """What would change, in the log and as a note on the run."""
    chosen = known().require(context["params"]["tables"])
    found = penstock("plan", *(chosen if len(chosen) == 1 else [])).result
    note(context, "plan", tell.plan(found))
    if not found["changes"]:
        raise AirflowFailException("the working tree means what is live: there is nothing to do.")
    return dict(tell.small(found))


def stage(context: Context) -> dict[str, Any]:
    """Build candidates and let them catch up; goes on with what is staged or being built."""
    asked = context["params"]
    chosen = known().require(asked["tables"])
    options = [
        option("from", asked["start"]),
        option("share", asked["share"]),
        option("why", asked["reason"]),
        option("as", asked_by(context)),
        *(["--partial"] if asked["partial"] else []),
    ]
    found: list[dict[str, Any]] = []
    for table in chosen:
        if table not in {s["table"] for s in found}:  # else it was staged with an earlier one
            told = penstock("stage", table, *options).result
            mine = {s["release"] for s in told if s["table"] == table}
            found += [s for s in told if s["release"] in mine]
    note(context, "staged", tell.staged(found))
    releases: dict[str, list[str]] = {}
    for status in found:
        releases.setdefault(status["release"], []).append(status["table"])
    partial = [s["table"] for s in found if s["since"] is not None]
    return {"releases": releases, "tables": [s["table"] for s in found], "partial": partial}


def gate(context: Context, staged: Mapping[str, Any]) -> Any:
    """Quality of the candidates; a blocking failure stops here, before anybody is asked."""
    return checked(context, "promote", staged["tables"], "--at=candidate")


def compare(context: Context, staged: Mapping[str, Any]) -> dict[str, Any]:
    """Candidates against live; more differences than allowed stop here, unless accepted."""
    asked, settings = context["params"], Settings.load()
    options = [
        option("threshold", asked["threshold"]),
        *(option("tolerance", text) for text in asked["tolerances"] or ()),
        *(option("expect", text) for text in asked["expected"] or ()),
        *([option("rollup", asked["rollup"])] if asked["rollup"] else []),
    ]
    texts, pages, within = [], [], True
    for tables in staged["releases"].values():
        answer = penstock("compare", tables[0], *options, accept=(_WITHIN, _NOT_WITHIN))
        if answer.result is None:
            raise CommandFailed(answer.reason)
        within = within and answer.code == _WITHIN
        texts.append(tell.comparison(answer.result, settings))
        pages.append(tell.url_of(settings, answer.result["page"]))
    text = "\n".join(texts)
    note(context, "comparison", text)
    if staged["partial"] and not asked["accept_differences"]:
        raise CommandRefused(
            f"the history of {', '.join(staged['partial'])} is partial: rows from before it would "
            "go. The candidates are kept. Start again and say why that may be, or abort."
        )
    if not within and not asked["accept_differences"]:
        raise CommandRefused(
            "more rows differ than may. The candidates are kept. Look at "
            f"{' '.join(pages)}; then start again with what is expected, or abort."
        )
    body = f"{text}\n\nReason: {asked['reason']}"
    subject = f"Promote {', '.join(staged['tables'])}?"
    question = {"subject": subject, "body": body, "hours": asked["approval_hours"]}
    return {"within": within, "pages": pages, "question": question}


def promote(
    context: Context, staged: Mapping[str, Any], approval: Mapping[str, Any]
) -> dict[str, Any]:
    """Let live show the candidates, in the name of who approved it; nobody's name, no promote."""
    if not approval or not approval.get("approved"):
        raise AirflowFailException("nobody approved this: nothing is promoted.")
    asked = context["params"]
    options = [option("why", asked["reason"]), option("as", approval["who"])]
    if asked["accept_differences"]:
        options.append(option("accept-differences", asked["accept_differences"]))
    told = [
        penstock("promote", option("release", name), *options).result for name in staged["releases"]
    ]
    text = "\n".join(tell.swap(one) for one in told)
    note(context, f"promoted, approved by {approval['who']}", text)
    return {
        "at": dt.datetime.now(dt.UTC).isoformat(),
        "tables": {t["table"]: t["to"] for one in told for t in one["tables"]},
        "swaps": tell.small(told),
    }


def abort(context: Context, staged: Mapping[str, Any], approval: Mapping[str, Any]) -> Any:
    """Give the candidates up, because somebody said no."""
    told = [penstock("abort", option("release", name)).result for name in staged["releases"]]
    dropped = "\n".join(f"- {d['table']}@{d['revision']}" for one in told for d in one["dropped"])
    note(context, f"rejected by {approval['who']}; given up", dropped)
    return tell.small(told)


def watched(context: Context, promoted: Mapping[str, Any]) -> list[str] | None:
    """What speaks against the promoted tables; [] when the time is over, None to look again.

    Without a supervisor nobody knows: its last words may be of before it died. One that only starts
    anew is no reason to go back, so the last look is put off; one that stays away is a breach.
    """
    settings, asked = Settings.load(), context["params"]
    until = dt.datetime.fromisoformat(promoted["at"])
    until += dt.timedelta(minutes=asked["watch_minutes"])
    now = dt.datetime.now(dt.UTC)
    try:
        beat = require_fresh(heartbeat.read(settings))
    except StreamsStale as error:
        return [str(error)] if now >= until + _SILENCE else None
    found = breaches(beat.streams, promoted["tables"], _held(settings), asked["most_behind"])
    return found if found or now >= until else None


def _held(settings: Settings) -> dict[str, str]:
    from penstock.runtime.registry import Registry
    from penstock.runtime.staging import Staging

    with closing(Registry(settings)) as registry:
        return {table: hold.reason for table, hold in Staging(registry).holds().items()}


def verdict(
    context: Context,
    staged: Mapping[str, Any],
    promoted: Mapping[str, Any],
    found: list[str],
) -> str:
    """After the watch: quality of what is live now; a breach rolls back if the form says so."""
    settings = Settings.load()
    if not found:
        answer = penstock("quality", *promoted["tables"], "--boundary=export", accept=range(256))
        if answer.code != 0:
            found = [f"quality: {answer.reason}"]
    if not found:
        note(context, "watched", "Nothing speaks against what is live now.")
        return "fine"
    text = "; ".join(found)
    alert(settings, "promoted_breach", text, tables=list(promoted["tables"]))
    if not context["params"]["automatic_rollback"]:
        note(context, "watched", text)
        typed = (f"`penstock rollback --release {n} --why '...'`" for n in staged["releases"])
        raise AirflowFailException(f"{text}. To go back: the rollback DAG, or {', '.join(typed)}.")
    refused = _taken_back(staged, f"watch after promote: {text}"[:400])
    note(context, "watched, rolled back", "\n".join([text, *refused]))
    if refused:
        raise AirflowFailException(f"{text}. Of it not rolled back: {'; '.join(refused)}")
    raise AirflowFailException(f"rolled back: {text}")


def _taken_back(staged: Mapping[str, Any], why: str) -> list[str]:
    """Roll back each release by its name; what speaks against one of them is told, not raised.

    A newer release of the same tables is somebody else's decision.
    """
    refused = []
    for name in staged["releases"]:
        try:
            _take_back(name, why)
        except TaskStopped:
            raise
        except (CommandFailed, CommandRefused) as error:
            refused.append(f"{name}: {error}")
    return refused


def _take_back(name: str, why: str) -> None:
    """Roll one release back; what fails is tried once more, as this task itself never is."""
    asked = (option("release", name), option("why", why), _IN_ITS_NAME)
    try:
        penstock("rollback", *asked)
    except TaskStopped:
        raise
    except CommandFailed:
        time.sleep(_ANOTHER_TRY)
        penstock("rollback", *asked)
