"""Finding suites: the module of a table's suite lies at the same path as the table's own.

A module that cannot be loaded, or declares something else than its path says, disables itself and
is reported; every other suite goes on. A suite may import neither Spark nor the jobs: it is about
what a table holds, not about how it came to be.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from penstock.errors import DefinitionError, PenstockError
from penstock.model.names import TableName
from penstock.quality.suite import Suite

__all__ = ["BrokenSuite", "Loaded", "find_suite", "load_suites", "suite_names"]

_FORBIDDEN = ("pyspark", "spark_jobs")


@dataclass(frozen=True)
class Loaded:
    """A suite and the address of its text: results say by which suite they were made."""

    suite: Suite
    address: str


@dataclass(frozen=True)
class BrokenSuite:
    """A module that is switched off, and why; the reason names file and line."""

    table: str
    module: str
    reason: str


def suite_names(folder: Path) -> list[str]:
    """Tables that have a module in ``expectations/``, broken or not."""
    return [str(name) for name, _ in _modules(folder)]


def load_suites(folder: Path) -> tuple[dict[str, Loaded], list[BrokenSuite]]:
    """Every suite of a project by table, and what had to be left out."""
    good: dict[str, Loaded] = {}
    broken: list[BrokenSuite] = []
    for name, path in _modules(folder):
        found = _load(folder, name, path)
        if isinstance(found, Loaded):
            good[str(name)] = found
        else:
            broken.append(found)
    return good, broken


def find_suite(folder: Path, table: str) -> Loaded | BrokenSuite | None:
    """The suite of one table; None where it has none."""
    for name, path in _modules(folder):
        if str(name) == table:
            return _load(folder, name, path)
    return None


def _modules(folder: Path) -> Iterator[tuple[TableName, Path]]:
    for path in sorted(folder.glob("*/*.py")):
        if path.stem != "__init__":
            try:
                yield TableName.parse(f"{path.parent.name}.{path.stem}"), path
            except ValueError:
                continue  # helpers of the authors: no table is called that


def _load(folder: Path, name: TableName, path: Path) -> Loaded | BrokenSuite:
    shown = str(path.relative_to(folder.parent))
    try:
        text = path.read_bytes()
        _refuse_imports(text, shown)
        module = _imported(path, name)
    except Exception as error:
        return BrokenSuite(str(name), shown, _where(error, folder))
    suites = [value for value in vars(module).values() if isinstance(value, Suite)]
    if [one.table for one in suites] != [name]:
        listed = ", ".join(str(one.table) for one in suites) or "none"
        return BrokenSuite(
            str(name),
            shown,
            f"{shown}: it must declare one suite, of {name}; it declares {listed}.",
        )
    return Loaded(suites[0], hashlib.sha256(text).hexdigest()[:12])


def _refuse_imports(text: bytes, shown: str) -> None:
    for node in ast.walk(ast.parse(text, shown)):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in named or [alias.name for alias in node.names]:
            if name.split(".")[0] in _FORBIDDEN:
                raise DefinitionError(f"{shown}:{node.lineno}: a suite must not import {name}.")


def _imported(path: Path, name: TableName) -> ModuleType:
    """By its path, under a name of its own: ``expectations`` need not be a package."""
    title = f"_penstock_suite_{name.layer}_{name.name}"
    spec = importlib.util.spec_from_file_location(title, path)
    assert spec is not None  # noqa: S101
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


def _where(error: BaseException, folder: Path) -> str:
    """The author's own file and line, and the message, in one sentence."""
    if isinstance(error, PenstockError):
        return str(error)
    project = folder.parent
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename, project)}:{error.lineno}: {error.msg}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if str(folder) in f.filename]
    place = f"{_short(frames[-1].filename, project)}:{frames[-1].lineno}: " if frames else ""
    first = str(error).strip().splitlines()
    return f"{place}{type(error).__name__}: {' '.join(first[:4])[:400]}"


def _short(filename: str, project: Path) -> str:
    path = Path(filename)
    return str(path.relative_to(project)) if path.is_relative_to(project) else filename
