"""Which marts are made from which tables, as the files of the dbt project say.

dbt knows it too, but takes seconds to start and writes what it parsed; a plan does neither. A test
holds the two equal for our project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

__all__ = ["marts_by_table"]

_QUOTED = r"['\"](\w+)['\"]"
_SOURCE = re.compile(rf"\bsource\(\s*{_QUOTED}\s*,\s*{_QUOTED}")
_REF = re.compile(rf"\bref\(\s*(?:['\"]\w+['\"]\s*,\s*)?{_QUOTED}")
_REMARK = re.compile(r"\{#.*?#\}", re.DOTALL)  # dbt reads what stands in a remark of SQL, not these


def marts_by_table(project: Path) -> dict[str, list[str]]:
    """Marts and snapshots by the live tables they are made from, through any number of models.

    Args:
        project: the folder of the dbt project; nothing is made from anything where there is none.
    """
    models = {path.stem: path for path in (project / "models").rglob("*.sql")}
    snapshots = dict(_snapshots(project / "snapshots"))
    calls = {name: _calls(path.read_text()) for name, path in models.items()} | snapshots
    marts = [name for name, path in models.items() if (project / "models/marts") in path.parents]
    found: dict[str, list[str]] = {}
    for mart in sorted([*marts, *snapshots]):
        for table in _tables(mart, calls):
            found.setdefault(table, []).append(mart)
    return found


def _snapshots(folder: Path) -> Iterator[tuple[str, set[str]]]:
    """What each snapshot is of; a file that cannot be read is dbt's to complain of."""
    for path in folder.rglob("*.yml"):
        for told in _listed(path):
            if isinstance(told, Mapping) and "name" in told:
                yield str(told["name"]), _calls(str(told.get("relation")))


def _listed(path: Path) -> Iterable[Any]:
    try:
        return list(yaml.safe_load(path.read_text())["snapshots"])
    except (yaml.YAMLError, KeyError, TypeError):
        return ()


def _calls(text: str) -> set[str]:
    """Tables, which have a dot, and other models, which have none."""
    code = _REMARK.sub("", text)
    tables = {f"{layer}.{name}" for layer, name in _SOURCE.findall(code)}
    return tables | set(_REF.findall(code))


def _tables(mart: str, calls: Mapping[str, set[str]]) -> set[str]:
    seen, edge = {mart}, [mart]
    while edge:
        new = calls.get(edge.pop(), set()) - seen
        seen |= new
        edge += new
    return {name for name in seen if "." in name}
