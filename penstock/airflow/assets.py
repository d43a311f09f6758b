"""Tables, marts and exports as Airflow assets, under addresses that never change."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import SplitResult

from airflow.sdk import Asset

from penstock.airflow.manifest import Known

__all__ = [
    "SCHEME",
    "asset_of",
    "assets_of",
    "export_asset",
    "layer_asset",
    "mart_assets",
    "mart_names",
    "mart_sources",
    "quality_asset",
    "require_address",
]

SCHEME = "penstock"


def asset_of(table: str) -> Asset:
    """A table: penstock://warehouse/gold/sensor_5m."""
    layer, _, name = table.partition(".")
    return Asset(name=table, uri=f"{SCHEME}://warehouse/{layer}/{name}", group="table")


def assets_of(tables: Iterable[str]) -> list[Asset]:
    return [asset_of(table) for table in tables]


def layer_asset(layer: str) -> Asset:
    """All tables of a layer together: it moved when one of them did."""
    return Asset(name=f"{layer} tables", uri=f"{SCHEME}://warehouse/{layer}", group="layer")


def export_asset(target: str) -> Asset:
    """What was exported to DuckDB, ClickHouse or Parquet, all tables together."""
    return Asset(name=f"export.{target}", uri=f"{SCHEME}://exports/{target}", group="export")


def mart_names(known: Known) -> tuple[str, ...]:
    """The dbt models in the project's marts; their files are named after them."""
    folder = known.project / "dbt_project" / "models" / "marts"
    return tuple(sorted(path.stem for path in folder.rglob("*.sql")))


def mart_sources(known: Known) -> set[str]:
    """The live tables that marts read."""
    import yaml

    file = known.project / "dbt_project" / "models" / "sources.yml"
    try:
        listed = yaml.safe_load(file.read_text())["sources"]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return set()
    return {f"{one['name']}.{table['name']}" for one in listed for table in one["tables"]}


def mart_assets(known: Known) -> list[Asset]:
    """One asset per mart."""
    names = mart_names(known) or ("all",)
    return [Asset(name=f"mart.{n}", uri=f"{SCHEME}://marts/{n}", group="mart") for n in names]


def quality_asset(boundary: str) -> Asset:
    """The results of the expectations at a boundary."""
    return Asset(name=f"quality.{boundary}", uri=f"{SCHEME}://quality/{boundary}", group="quality")


def require_address(uri: SplitResult) -> SplitResult:
    """Airflow asks this for every address of our scheme: a place and a path, nothing else."""
    if not uri.netloc or not uri.path.strip("/") or uri.query or uri.fragment:
        raise ValueError("an asset of penstock is penstock://<place>/<path>")
    return uri
