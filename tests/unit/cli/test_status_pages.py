"""`penstock status` names what was made for people, and only what is there."""

from __future__ import annotations

from penstock.cli.platform import _pages
from penstock.settings import Settings


def test_nothing_is_named_that_was_not_made(settings: Settings) -> None:
    assert _pages(settings, served=True) == {}


def test_pages_have_addresses_and_tables_have_paths(settings: Settings) -> None:
    for site in ("quality", "dbt"):
        (settings.sites / site).mkdir(parents=True)
        (settings.sites / site / "index.html").write_text("x")
    settings.reports.mkdir()
    (settings.warehouse / "marts").mkdir(parents=True)
    file = settings.home / "export" / "duckdb" / "live.duckdb"
    file.parent.mkdir(parents=True)
    file.touch()
    base = f"{settings.airflow_url}/penstock"
    made = {"marts": str(settings.warehouse / "marts"), "DuckDB": str(file)}
    assert _pages(settings, served=True) == {
        "Data Docs": f"{base}/sites/quality/",
        "dbt docs": f"{base}/sites/dbt/",
        "reports": f"{base}/",
        **made,
    }
    assert _pages(settings, served=False) == made
