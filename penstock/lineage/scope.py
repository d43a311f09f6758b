"""Which input rows a row was made from, as far as its kind tells without running the transform.

A row of a window was made from input rows with its key whose time lies in the window; a row of a
group from the rows of that group; and so on (docs/how-it-works.md, "Touched scopes"). Put as tests
between an input row ``i`` and a row ``s`` of the table. Where the table renamed a column, or reads
bytes that are not decoded yet, there is no test: then versions have to do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.lineage.look import PLACE
from penstock.serve.snapshot import identifier

__all__ = ["Match", "match", "telling"]

_WINDOW = ("window_start", "window_end")


@dataclass(frozen=True)
class Match:
    """Tests that an input row has to pass, and the same in words."""

    tests: tuple[str, ...]
    words: str
    optional: bool = False  # a row may have none: a join that found nothing


def match(
    entry: Mapping[str, Any], argument: str, has: Collection[str], given: Collection[str]
) -> Match | None:
    """How to find the rows of one input.

    Args:
        entry: what the table declares.
        argument: which input, by the name its transform gives it.
        has: columns of the table's rows.
        given: columns of the input's rows.
    """
    rule = _RULES.get(str(entry.get("kind")))
    return rule(_Asked(entry, argument, frozenset(has), frozenset(given))) if rule else None


def telling(entry: Mapping[str, Any]) -> list[str]:
    """Columns of a table's rows that a match may need, where it has them."""
    named = [*entry.get("keys", ()), *entry.get("by", ()), *_WINDOW, *PLACE]
    named += [entry[word] for word in ("on", "right_on") if entry.get(word)]
    return list(dict.fromkeys(map(str, named)))


@dataclass(frozen=True)
class _Asked:
    """One question: a table, an input, and the columns of both."""

    entry: Mapping[str, Any]
    argument: str
    has: frozenset[str]
    given: frozenset[str]

    @property
    def first(self) -> bool:
        """The input is the one whose rows become rows: the facts, the left side."""
        return bool(next(iter(self.entry["inputs"])) == self.argument)

    @property
    def by(self) -> list[str]:
        return [str(name) for name in self.entry.get("by", ())]

    def shared(self, names: Collection[str]) -> bool:
        return bool(names) and set(names) <= self.has & self.given

    def micros(self, name: str) -> str:
        return f"to_microseconds({int(self.entry[f'{name}_us'])})"


def _equal(names: Collection[str]) -> tuple[str, ...]:
    return tuple(f"i.{identifier(n)} is not distinct from s.{identifier(n)}" for n in names)


def _joined(names: Collection[str]) -> tuple[str, ...]:
    """Equal as a join has it: nothing is equal to null."""
    return tuple(f"i.{identifier(n)} = s.{identifier(n)}" for n in names)


def _by_place(asked: _Asked) -> Match | None:
    """Tables that keep the place of a record name exactly one."""
    if not asked.shared(PLACE):
        return None
    return Match(_joined(PLACE), "at the same place in the topic")


def _by_key(asked: _Asked) -> Match | None:
    if not asked.shared(asked.by):
        return None
    return Match(_equal(asked.by), f"with its {_and(asked.by)}")


def _latest(asked: _Asked) -> Match | None:
    return _by_place(asked) or _by_key(asked)


def _window(asked: _Asked) -> Match | None:
    on = str(asked.entry["on"])
    if on not in asked.given or "window_start" not in asked.has:
        return None
    keys = [k for k in asked.entry.get("keys", ()) if k not in _WINDOW and asked.shared([k])]
    at, start = f"i.{identifier(on)}", "s.window_start"
    tests = (f"{at} >= {start}", f"{at} < {start} + {asked.micros('size')}")
    words = f"with its {_and(keys)} and a {on}" if keys else f"with a {on}"
    return Match((*_equal(keys), *tests), f"{words} in its window")


def _session(asked: _Asked) -> Match | None:
    on = str(asked.entry["on"])
    if not asked.shared(asked.by) or on not in asked.given or not set(_WINDOW) <= asked.has:
        return None
    at = f"i.{identifier(on)}"
    tests = (f"{at} >= s.window_start", f"{at} < s.window_end")
    return Match((*_equal(asked.by), *tests), f"with its {_and(asked.by)} and a {on} in its span")


def _sliding(asked: _Asked) -> Match | None:
    on = str(asked.entry["on"])
    if not asked.shared(asked.by) or on not in asked.given or "window_end" not in asked.has:
        return None
    at, end = f"i.{identifier(on)}", "s.window_end"
    tests = (f"{at} > {end} - {asked.micros('size')}", f"{at} <= {end}")
    return Match((*_equal(asked.by), *tests), f"with its {_and(asked.by)} and a {on} in its window")


def _interval_join(asked: _Asked) -> Match | None:
    on = str(asked.entry["on"])
    if not asked.shared(asked.by) or on not in asked.has:
        return None
    if asked.first:
        return Match(_equal([*asked.by, on]), f"with its {_and([*asked.by, on])}")
    moment = f"s.{identifier(on)}"
    at = f"i.{identifier(str(asked.entry['right_on']))}"
    near = (f"{at} >= {moment} - {asked.micros('before')}",
            f"{at} <= {moment} + {asked.micros('after')}")  # fmt: skip
    words = f"with its {_and(asked.by)}, near it in time"
    return Match((*_joined(asked.by), *near), words, optional=True)


def _enrich(asked: _Asked) -> Match | None:
    keys = [str(key) for key in asked.entry.get("keys", ())]
    if asked.first:
        return Match(_equal(keys), f"with its {_and(keys)}") if asked.shared(keys) else None
    if not asked.shared(asked.by):
        return None
    on, tests = str(asked.entry["on"]), _joined(asked.by)
    words = f"with its {_and(asked.by)}"
    if on in asked.has and {"valid_from", "valid_to"} <= asked.given:
        at = f"s.{identifier(on)}"
        # Null at the start means from the beginning, at the end until now.
        tests += (f"coalesce(i.valid_from <= {at}, true)", f"coalesce(i.valid_to > {at}, true)")
        words += f", valid at its {on}"
    return Match(tests, words, optional=True)


_RULES: dict[str, Callable[[_Asked], Match | None]] = {
    "rows": _by_place,
    "latest": _latest,
    "history": _by_key,
    "totals": _by_key,
    "group": _by_key,
    "enrich": _enrich,
    "window": _window,
    "session": _session,
    "sliding": _sliding,
    "interval_join": _interval_join,
    "quarantine": _by_place,
}


def _and(names: Collection[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last
