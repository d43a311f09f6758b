"""A revision carries its code: content-addressed bundles, each loaded in a namespace of its own.

Purpose: live and warm revisions keep running the code they were registered with, whatever happens
to the working tree (law 8). How it works: a bundle is a copy of the jobs package under a folder
named by the hash of its contents. Its modules get private names and a private ``__import__``, so
``from spark_jobs.shared import x`` inside a bundle finds the bundle's own copy, also when the
import runs later inside a function; cloudpickle is told to ship Python UDFs by value, so that no
worker imports the working tree. What it does not do:
freeze third-party packages; the hash of the lock file is part of the address, so another
dependency set is another bundle.
"""

from __future__ import annotations

import builtins
import hashlib
import os
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from penstock.errors import PenstockError
from penstock.model.catalog import Broken, Catalog
from penstock.model.definition import Table
from penstock.model.publication import Publication
from penstock.model.stream import Stream

__all__ = ["Bundle", "store_bundle", "tree_address"]

_SUFFIXES = {".py", ".avsc", ".sql", ".json", ".desc"}


def _files(root: Path, package: str) -> Iterator[Path]:
    for path in sorted((root / package).rglob("*")):
        if path.is_file() and path.suffix in _SUFFIXES and "__pycache__" not in path.parts:
            yield path.relative_to(root)


def _address(root: Path, package: str, lock: Path) -> str:
    digest = hashlib.sha256()
    if lock.is_file():
        digest.update(hashlib.sha256(lock.read_bytes()).digest())
    for path in _files(root, package):
        digest.update(str(path).encode() + b"\0" + (root / path).read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def tree_address(project: Path, package: str) -> str:
    """The address the tree would be stored under, as it is now; nothing is stored."""
    return _address(project, package, project / "requirements.lock")


def store_bundle(project: Path, package: str, bundles: Path) -> str:
    """Copy the jobs package as it is now into the store; returns its address."""
    bundles.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=bundles, prefix=".new-"))
    for path in _files(project, package):
        (staging / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(project / path, staging / path)
    # Of the copy, not of the tree: somebody may be editing it.
    address = _address(staging, package, project / "requirements.lock")
    try:
        os.rename(staging, bundles / address)  # complete or not there at all
    except OSError:
        shutil.rmtree(staging, ignore_errors=True)  # the same content is stored already
    return address


class Bundle:
    """One copy of the jobs package, loaded apart from every other copy and from the tree."""

    def __init__(self, root: Path, package: str) -> None:
        self.root = root
        self.package = package
        tag = hashlib.sha256(str(root).encode()).hexdigest()[:8]
        self._prefix = f"_penstock_bundle_{tag}_{re.sub(r'[^a-zA-Z0-9]', '_', root.name)}"
        self._modules: dict[str, ModuleType] = {}

    def catalog(self, skip: Sequence[str] = ("demo",)) -> Catalog:
        """Load every module and collect what they declare; a broken one disables only itself."""
        declared: dict[int, Stream | Table | Publication] = {}
        broken: list[Broken] = []
        for path in _files(self.root, self.package):
            if path.suffix != ".py" or any(part in skip for part in path.parts):
                continue
            name = _module_name(path)
            try:
                module = self.load(name)
            except Exception as error:
                broken.append(Broken(name, _where(error, self.root)))
                continue
            for value in _values(module):
                if isinstance(value, Stream | Table | Publication):
                    declared[id(value)] = value
        return Catalog.build(declared.values(), broken)

    def load(self, name: str) -> ModuleType:
        """Import ``name`` from this bundle, whatever the same name means elsewhere."""
        if name in self._modules:
            return self._modules[name]
        parent, _, leaf = name.rpartition(".")
        if parent:
            self.load(parent)
        path = self._source(name)
        module = ModuleType(f"{self._prefix}.{name}")
        module.__file__ = str(path)
        module.__package__ = (
            module.__name__ if path.name == "__init__.py" else (f"{self._prefix}.{parent}")
        )
        if path.name == "__init__.py":
            module.__path__ = [str(path.parent)]
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import}
        self._modules[name] = module
        # dataclasses look their module up by name; the name is ours alone, so nobody imports it.
        sys.modules[module.__name__] = module
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        try:
            # The author's own code, read from the project or from a bundle made of it.
            exec(compile(path.read_text(), str(path), "exec"), module.__dict__)  # noqa: S102
        except BaseException:
            del self._modules[name]
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
            del sys.modules[module.__name__]
            raise
        if parent:
            setattr(self._modules[parent], leaf, module)
        return module

    def _source(self, name: str) -> Path:
        base = self.root.joinpath(*name.split("."))
        for path in (base / "__init__.py", base.with_suffix(".py")):
            if path.is_file():
                return path
        if base.is_dir():
            raise ImportError(f"{base.name} has no __init__.py", name=name)
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def _import(
        self,
        name: str,
        globals_: Mapping[str, Any] | None = None,
        locals_: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """What ``import`` means inside the bundle."""
        if level:
            package = str((globals_ or {})["__package__"]).removeprefix(f"{self._prefix}.")
            parts = package.split(".")[: len(package.split(".")) - level + 1]
            name = ".".join([*parts, name] if name else parts)
        elif name.split(".")[0] != self.package:
            return builtins.__import__(name, globals_, locals_, fromlist or (), level)
        module = self.load(name)
        if not fromlist:
            return self._modules[name.split(".")[0]]
        for item in fromlist:
            if not hasattr(module, item) and hasattr(module, "__path__"):
                self.load(f"{name}.{item}")
        return module


def _values(module: ModuleType) -> Iterator[Any]:
    """What a module's names hold; a list of publications is as good as a name for each."""
    for value in list(vars(module).values()):
        yield value
        if isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, Publication))


def _module_name(path: Path) -> str:
    parts = list(path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _where(error: BaseException, root: Path) -> str:
    """The author's own file and line, and the message, in one sentence."""
    if isinstance(error, PenstockError):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename, root)}:{error.lineno}: {error.msg}"
    frames = [
        f for f in traceback.extract_tb(sys.exc_info()[2]) if f.filename.startswith(str(root))
    ]
    place = f"{_short(frames[-1].filename, root)}:{frames[-1].lineno}" if frames else "?"
    return f"{place}: {type(error).__name__}: {error}"


def _short(filename: str, root: Path) -> str:
    path = Path(filename)
    return str(path.relative_to(root)) if path.is_relative_to(root) else filename
