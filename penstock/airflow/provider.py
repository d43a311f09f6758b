"""What Airflow is told about this package: who understands our assets' addresses."""

from __future__ import annotations

from typing import Any

__all__ = ["provider_info"]


def provider_info() -> dict[str, Any]:
    return {
        "package-name": "penstock",
        "name": "Penstock",
        "description": "Tables of Penstock as assets.",
        "asset-uris": [
            {
                "schemes": ["penstock"],
                "handler": "penstock.airflow.assets.require_address",
                "to_openlineage_converter": "penstock.airflow.lineage.dataset_of",
            }
        ],
    }
