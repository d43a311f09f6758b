from __future__ import annotations

from collections.abc import Callable

import pytest
from live_tables import LiveTable

from penstock.errors import EnvironmentProblem, UsageError
from penstock.model import names
from penstock.serve import catalog as module
from penstock.serve.catalog import Catalog, TableRef
from penstock.settings import Settings


def test_the_rules_for_names_are_the_models() -> None:
    """Repeated in the catalog for start-up's sake, so held equal here."""
    assert (*names.LAYERS, "marts") == module.LAYERS  # dbt's, not the engine's
    for text in ("trades", "t1", "_x", "1t", "Trades", "a-b", "a" * 63, "a" * 64, "", "a.b", "a/b"):
        assert bool(module._NAME.fullmatch(text)) == names.is_identifier(text), text


def test_declared_and_stored_tables_are_both_known(
    settings: Settings, gold: LiveTable, declare: Callable[..., None]
) -> None:
    declare("silver.trades", "gold.stats")
    catalog = Catalog.load(settings)
    assert list(catalog) == [TableRef("gold", "stats"), TableRef("silver", "trades")]
    assert catalog.has_data(TableRef("gold", "stats"))
    assert not catalog.has_data(TableRef("silver", "trades"))


def test_an_empty_log_folder_is_no_data(settings: Settings, live: Callable[[str], object]) -> None:
    live("gold.hollow")
    assert not Catalog.load(settings).has_data(TableRef("gold", "hollow"))


def test_names_that_would_leave_the_warehouse_are_nobodys_table(
    settings: Settings, declare: Callable[..., None]
) -> None:
    declare("gold.../../etc", "../etc.passwd", "gold.a/b", "gold", "gold.a.b", "gold.ok")
    assert [ref.label for ref in Catalog.load(settings)] == ["gold.ok"]


@pytest.mark.parametrize("typed", ["gold.stats", "GOLD.Stats", "Gold.STATS"])
def test_names_are_found_whatever_their_case(
    settings: Settings, gold: LiveTable, typed: str
) -> None:
    assert Catalog.load(settings).find(typed.split(".")) == TableRef("gold", "stats")


@pytest.mark.parametrize(
    ("typed", "remedy"),
    [
        ("gold.stat", "gold.stats"),
        ("stats", "gold.stats"),
        ("silver.stats", "gold.stats"),
        ("main.gold.stats", "gold.stats"),
        ("gold.entirely_else", "SHOW TABLES"),
        ("gold.stats@yesterday", "@version:17"),
        ("gold.../../../etc/passwd", "SHOW TABLES"),
    ],
)
def test_an_unknown_table_says_what_to_type_instead(
    settings: Settings, gold: LiveTable, typed: str, remedy: str
) -> None:
    with pytest.raises(UsageError) as caught:
        Catalog.load(settings).find(typed.split(".", 2))
    assert remedy in caught.value.remedy


def test_a_stack_without_tables_says_so(settings: Settings) -> None:
    with pytest.raises(UsageError, match="no tables yet") as caught:
        Catalog.load(settings).find(["gold", "x"])
    assert "penstock up" in caught.value.remedy


@pytest.mark.parametrize("text", ["{", '{"tables": 3}', '{"x": []}', '{"tables": [{}]}'])
def test_a_broken_manifest_is_one_clear_sentence(settings: Settings, text: str) -> None:
    settings.manifest.write_text(text)
    with pytest.raises(EnvironmentProblem, match=r"manifest\.json"):
        Catalog.load(settings)
