"""What the smaller DAGs do: one command, its result as the task's, its summary as a note."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from penstock.airflow import tell
from penstock.airflow.assets import mart_sources
from penstock.airflow.command import Answer, CommandFailed, CommandRefused, option, penstock
from penstock.airflow.days import day_of, interval_of, no_days, why_not
from penstock.airflow.manifest import known
from penstock.airflow.notes import note
from penstock.airflow.notify import alert
from penstock.runtime import heartbeat
from penstock.settings import Settings

__all__ = [
    "asked_of_stream",
    "audit_all",
    "built_marts",
    "checked",
    "checked_layer",
    "command",
    "days_of",
    "exported",
    "held_or_released",
    "marts_over",
    "one_table",
    "recompute",
    "replayed",
    "rolled_back",
]

Context = Mapping[str, Any]
QUALITY_FAILED = 13  # exit code: a blocking check failed
_MARTS_PATIENCE = 1800  # seconds
BACKFILL_TABLES = "penstock_backfill_tables"  # an Airflow variable: names, with commas between


def command(
    context: Context, title: str, *arguments: str, accept: Sequence[int] = (0,), quiet: bool = False
) -> Any:
    """Run a command; its result, small enough to keep. Scheduled ones leave no note."""
    answer = penstock(*arguments, accept=accept)
    if not quiet:
        note(context, title, tell.rows_of(answer.result))
    return tell.small(answer.result)


def asked_by(context: Context) -> str:
    """Who started the run; a schedule has no name."""
    return str(getattr(context["dag_run"], "triggering_user_name", None) or "Airflow")


# --- forms of one table ---------------------------------------------------------------------------
def one_table(context: Context, title: str, verb: str, *options: str) -> Any:
    """A command about the form's table; its reason is in the note."""
    asked = context["params"]
    (table,) = known().require([asked["table"]])
    return command(context, f"{table} {title}: {asked['reason']}", verb, table, *options)


def rolled_back(context: Context) -> Any:
    asked = context["params"]
    (table,) = known().require([asked["table"]])
    told = penstock(
        "rollback", table, option("why", asked["reason"]), option("as", asked_by(context))
    ).result
    note(context, f"rolled back: {asked['reason']}", tell.swap(told))
    return tell.small(told)


def held_or_released(context: Context) -> Any:
    asked = context["params"]
    if asked["action"] == "release":
        return one_table(context, "goes on", "release")
    options = (option("why", asked["reason"]), option("as", asked_by(context)))
    return one_table(context, "is held", "hold", *options)


def replayed(context: Context) -> Any:
    """Row ids come after `--`: none can be taken for an option."""
    asked = context["params"]
    (table,) = known().require([asked["table"]])
    tree = ["--with-tree"] if asked["with_tree"] else []
    rows = asked["rows"] or []
    told = penstock("quarantine", "replay", "--json", *tree, "--", table, *rows, as_json=False)
    note(context, f"{table} replayed: {asked['reason']}", tell.rows_of(told.result))
    return tell.small(told.result)


def asked_of_stream(context: Context) -> Any:
    asked = context["params"]
    found = known()
    streams = {*found.streams, *(f"{t}@{r}" for t, r in found.revisions.items())}
    if asked["stream"] not in streams:
        raise AirflowFailException(f"there is no stream {asked['stream']} any more.")
    title = f"{asked['stream']}: {asked['action']} ({asked['reason']})"
    return command(context, title, "streams", asked["action"], asked["stream"])


# --- quality and exports --------------------------------------------------------------------------
def checked(context: Context, boundary: str, names: Sequence[str] = (), *more: str) -> Any:
    """Expectations at a boundary, of these tables or of all it has; a blocking failure fails.

    What failed, and where to look, is on the run's page either way.
    """
    told = penstock("quality", *names, f"--boundary={boundary}", *more, accept=(0, QUALITY_FAILED))
    note(context, f"quality, {boundary}", tell.quality(told.result, Settings.load()))
    if told.code:
        raise CommandRefused(told.reason)
    return tell.small(told.result)


def checked_layer(context: Context, boundary: str) -> Any:
    """The form's tables of one layer; all of it when none was chosen."""
    asked = known().require(context["params"]["tables"] or ())
    names = [n for n in asked if boundary == "export" or n.startswith(f"{boundary}.")]
    if asked and not names:
        raise AirflowSkipException(f"none of these tables is {boundary}")
    return checked(context, boundary, names)


def exported(
    context: Context,
    names: Sequence[str] = (),
    targets: Sequence[str] = ("duckdb", "clickhouse"),
    *,
    full: bool = False,
) -> Any:
    """These tables, or all that are exported; what did not change costs next to nothing."""
    told: dict[str, Any] = {}
    modes: set[str] = set()
    for target in targets:
        options = [option("to", target), *(["--full"] if full else [])]
        answer = penstock("export", *names, *options, accept=(0, 1))
        if answer.result is None:
            raise CommandFailed(answer.reason)
        note(context, "exported", tell.exported(answer.result))
        told[target] = answer.result
        modes |= {one["mode"] for part in answer.result["targets"] for one in part["tables"]}
    if "failed" in modes:
        raise CommandFailed("some tables could not be exported; the others are. See the note.")
    if "blocked" in modes:  # held until its data or its suite is mended: no use in trying again
        raise CommandRefused(
            "tables that their quality checks hold were not exported and stay as they were; the "
            "others are exported. See the note."
        )
    return tell.small(told)


def built_marts(context: Context, names: Sequence[str] = (), *, docs: bool = False) -> Any:
    """Marts built and tested, all or some, and their docs in the same JVM.

    What failed is on the run's page: which models, which tests, on how many rows.
    """
    options = [option("select", name) for name in names] + (["--docs"] if docs else [])
    # Somebody may be building them by hand; the slot of the pool only knows about tasks.
    told = penstock("marts", "run", *options, option("wait", _MARTS_PATIENCE), accept=(0, 1))
    if told.result is None:
        raise CommandFailed(told.reason)
    note(context, "marts", tell.marts(told.result, Settings.load()))
    if told.code:
        raise CommandFailed(f"marts: {tell.marts_failed(told.result)}")
    return tell.small(told.result, most=20)


def marts_over(context: Context, tables: Sequence[str]) -> Any:
    """The marts that are made from these tables, with all else they are made of; docs too."""
    read = [name for name in tables if name in mart_sources(known())]
    if not read:
        raise AirflowSkipException(f"no mart is made from {', '.join(tables)}")
    return built_marts(context, [f"@source:{name}" for name in read], docs=True)


# --- schedules ------------------------------------------------------------------------------------
def audit_all(context: Context) -> list[dict[str, Any]]:
    """Every captured table against its source; all are compared before any difference is told.

    One that could not be compared, because the connector takes a snapshot or a service is away, is
    no difference: the task is tried again.
    """
    settings, told, later = Settings.load(), [], []
    for table in known().captured:
        answer: Answer = penstock("audit", table, accept=(0, 1))
        if answer.result is None:
            later.append(f"{table}: {answer.reason}")
            continue
        result = dict(tell.small(answer.result))
        told.append({**result, "equal": answer.code == 0})
        if answer.code:
            text = f"{table} is not what its source is: {answer.reason or tell.rows_of(result)}"
            alert(settings, "audit", text, table=table)
    if not later:
        nothing = "- no table copies another database"
        note(context, "audit", tell.rows_of(told) if told else nothing)
    wrong = [str(one["table"]) for one in told if not one["equal"]]
    if wrong:
        raise AirflowFailException(f"not what their sources are: {', '.join(wrong)}. See the log.")
    if later:
        raise CommandFailed("; ".join(later))
    return told


def days_of(context: Context) -> list[str]:
    """The tables a backfill run is about: its form's, else those of the variable."""
    found = known()
    asked = context["params"]["tables"]
    if not asked:
        listed = str(Variable.get(BACKFILL_TABLES, default=""))
        asked = [name.strip() for name in listed.split(",") if name.strip()]
    if not asked:
        raise AirflowSkipException(
            "no table was named: give tables in the run's configuration, or set the variable "
            f"{BACKFILL_TABLES}."
        )
    return found.require(asked)


def recompute(context: Context, table: str) -> Any:
    """Compute one day of one table again; a day that cannot be is skipped and says why."""
    now, run, asked = dt.datetime.now(dt.UTC), context["dag_run"], context["params"]
    found = known()
    found.require([table])
    day = day_of(getattr(run, "partition_key", None), asked["day"] or "", now)
    if table in found.timeless:
        note(context, f"{table} {day}", no_days(table))
        raise AirflowSkipException(no_days(table))
    streams = heartbeat.streams(Settings.load())
    reason = why_not(table, found.revisions[table], day, streams, now)
    if reason is not None:
        raise AirflowSkipException(reason)
    start, end = interval_of(day)
    answer = penstock(
        "backfill",
        table,
        option("from", start),
        option("to", end),
        option("why", asked["reason"] or f"backfill of {day}"),
    )
    told = dict(tell.small(answer.result))
    note(context, f"{table} {day}", tell.rows_of(told))
    if told.get("rows_in") == 0 and not told.get("changed"):
        raise AirflowSkipException(f"{table} has no data for {day}")
    return told
