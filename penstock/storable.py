"""Values as Postgres can keep them: whatever a row or somebody's error says has to be told.

It has no place for the character zero nor for half of a surrogate pair, and its JSON knows no
number that is none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["as_json", "storable"]

_NO_PLACE = re.compile("[\0\ud800-\udfff]")


def storable(text: str) -> str:
    """A text with the replacement character for each that cannot be kept."""
    return _NO_PLACE.sub("\N{REPLACEMENT CHARACTER}", text)


def as_json(value: Any) -> str:
    """Any value as JSON that can be kept; what JSON does not know is told as text."""
    return json.dumps(_kept(value), allow_nan=False)


def _kept(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, Mapping):
        return {_key(name): _kept(found) for name, found in value.items()}
    if isinstance(value, list | tuple):
        return [_kept(found) for found in value]
    return storable(str(value))


def _key(name: Any) -> Any:
    return name if name is None or isinstance(name, int) else storable(str(name))
