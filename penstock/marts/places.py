"""Where the marts' things are: the project is only read; whatever dbt writes is in the home."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.errors import EnvironmentProblem
from penstock.location import Location
from penstock.platform.files import private_folder
from penstock.settings import Settings

__all__ = ["LAYER", "Places"]

LAYER = "marts"  # the schema, and the folder below the warehouse


@dataclass(frozen=True)
class Places:
    """Folders of one stack's marts."""

    project: Path
    tables: Location  # Delta tables of the marts
    target: Path  # what dbt compiles
    logs: Path
    site: Path  # the docs, one page

    @classmethod
    def of(cls, settings: Settings) -> Places:
        project = settings.project / "dbt_project"
        if not (project / "dbt_project.yml").is_file():
            raise EnvironmentProblem(
                f"there is no dbt project in {project}.", remedy="Restore it from the repository."
            )
        return cls(
            project=project,
            tables=settings.warehouse / LAYER,
            target=settings.run / "dbt",
            logs=settings.logs / "dbt",
            site=settings.home / "sites" / "dbt",
        )

    def make(self) -> None:
        self.tables.mkdir(parents=True, exist_ok=True)
        for folder in (self.target, self.logs):
            private_folder(folder)
