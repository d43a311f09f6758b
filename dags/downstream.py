"""What follows the tables: quality at each boundary, dbt marts, OLAP exports; woken by assets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import AssetAny, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from penstock.airflow import (
    JVM,
    assets_of,
    export_asset,
    forms,
    known,
    layer_asset,
    mart_assets,
    mart_names,
    quality_asset,
)

KNOWN = known()
SILVER, GOLD = KNOWN.layer("silver"), KNOWN.layer("gold")
MODELS = mart_names(KNOWN)
HEAVY: dict[str, Any] = {"pool": JVM, "retries": 1, "execution_timeout": timedelta(hours=2)}
COMMON: dict[str, Any] = {
    "start_date": datetime(2026, 1, 1, tzinfo=UTC),
    "catchup": False,
    "max_active_runs": 1,
    "tags": ["downstream"],
}


def when_moved(tables: tuple[str, ...], *layers: str) -> AssetAny:
    """A run when any of these moved.

    Layers are assets of their own, told with their tables: those exist before any table is
    registered, so the first news of a fresh stack finds somebody who waits for it.
    """
    return AssetAny(*(layer_asset(layer) for layer in layers), *assets_of(tables))


@dag(
    schedule=when_moved(KNOWN.tables, "silver", "gold"),
    **COMMON,
    params={"tables": forms.tables(KNOWN.tables, "None chosen: all of them.", least=0)},
)
def quality() -> None:
    """Suites of expectations at each boundary; a blocking failure holds the live table."""

    def boundary(layer: str, names: tuple[str, ...]) -> None:
        @task(task_id=layer, inlets=assets_of(names), outlets=[quality_asset(layer)], **HEAVY)
        def check() -> Any:
            from penstock.airflow.operations import checked_layer

            return checked_layer(get_current_context(), layer)

        check()

    boundary("silver", SILVER)
    boundary("gold", GOLD)


@dag(
    schedule=when_moved(GOLD, "gold"),
    **COMMON,
    params={"models": forms.some(MODELS, "Models", "None chosen: all of them.")},
)
def marts() -> None:
    """dbt builds and tests the marts over live tables, then writes their documentation."""

    @task(inlets=assets_of(GOLD), outlets=mart_assets(KNOWN), **HEAVY)
    def run() -> Any:
        from penstock.airflow.operations import built_marts

        context = get_current_context()
        # With what they are made of: on a fresh stack nothing of it is there yet.
        chosen = [f"+{name}" for name in context["params"]["models"] or ()]
        return built_marts(context, chosen, docs=True)

    run()


@dag(
    schedule=when_moved(KNOWN.tables, "silver", "gold"),
    **COMMON,
    params={
        "tables": forms.tables(KNOWN.tables, "None chosen: all of them.", least=0),
        "targets": forms.targets(),
        "full": forms.flag(False, "Full", "Write everything again, not only what changed."),
    },
)
def export_olap() -> None:
    """Live tables go to where analysts query, as net changes; tables that fail quality stay."""

    @task(**HEAVY)
    def gate() -> Any:
        from penstock.airflow.operations import checked_layer

        return checked_layer(get_current_context(), "export")

    before = gate()

    def target(name: str) -> None:
        @task(
            task_id=name,
            inlets=assets_of(KNOWN.tables),
            outlets=[export_asset(name)],
            trigger_rule="all_done",  # tables that failed are held and left out, the others go
            **HEAVY,
        )
        def export() -> Any:
            from penstock.airflow.operations import exported

            context = get_current_context()
            if name not in context["params"]["targets"]:
                raise AirflowSkipException("not asked for")
            full = context["params"]["full"]
            chosen = known().require(context["params"]["tables"] or ())
            return exported(context, chosen, (name,), full=full)

        before >> export()

    for one in forms.TARGETS:
        target(one)


quality()
marts()
export_olap()
