"""Writing the files of a stack: private, whole or not at all, and rendered from ``infra``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from string import Template

from penstock.errors import EnvironmentProblem
from penstock.settings import Settings

__all__ = ["infra_text", "private_folder", "render", "write_private"]


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner may enter, and so every folder made on the way to it."""
    if not path.parent.exists():
        private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    path.chmod(0o700)
    return path


def write_private(path: Path, text: str) -> Path:
    """Write a 0600 file through a temporary one, so that no reader ever sees half of it.

    The mode is set when the file is created, not afterwards: there is no moment at which another
    user could open it. A file that already says the same is left alone.
    """
    if path.is_file() and path.stat().st_mode & 0o777 == 0o600 and path.read_text() == text:
        return path
    private_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as out:
        out.write(text)
    temporary.replace(path)
    return path


def infra_text(settings: Settings, name: str) -> str:
    """A file of ``infra`` as it is."""
    source = settings.project / "infra" / name
    try:
        return source.read_text()
    except FileNotFoundError:
        raise EnvironmentProblem(
            f"{source} is missing.", remedy="Restore it from the repository."
        ) from None


def render(settings: Settings, template: str, values: Mapping[str, object]) -> str:
    """Fill ``infra/<template>``; a placeholder without a value is our mistake, said plainly."""
    try:
        return Template(infra_text(settings, template)).substitute(values)
    except (KeyError, ValueError) as error:
        raise EnvironmentProblem(
            f"infra/{template} has a placeholder that nothing fills: {error}.",
            remedy="Correct the file.",
        ) from error
