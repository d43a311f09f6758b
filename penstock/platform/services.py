"""Which class runs which service of ``infra/platform.toml``."""

from __future__ import annotations

from penstock.platform.airflow import Airflow
from penstock.platform.api import Api
from penstock.platform.connect import Connect
from penstock.platform.demo import Demo
from penstock.platform.kafka import Kafka
from penstock.platform.postgres import Postgres
from penstock.platform.publisher import Publisher
from penstock.platform.registry import SchemaRegistry
from penstock.platform.service import Service
from penstock.platform.supervisor import Supervisor

__all__ = ["SERVICES"]

SERVICES: dict[str, type[Service]] = {
    service.name: service
    for service in (
        Postgres,
        Kafka,
        SchemaRegistry,
        Connect,
        Airflow,
        Supervisor,
        Api,
        Publisher,
        Demo,
    )
}
