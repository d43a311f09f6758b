"""Answers while the table is appended to, rewritten, swapped, compacted, checkpointed and cleaned.

The oracle is a Python dictionary per version, kept by the one who writes. Every answer has to equal
what the dictionary of the version it claims holds, and that version has to be no older than what
was committed when the question was asked.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from live_tables import removal
from looked_up import KeyedTable, rows

from penstock.serve.asked import Ask
from penstock.serve.key_index import KeyIndex
from penstock.serve.limits import Gone
from penstock.serve.lookup import Reader
from penstock.settings import Settings

SCHEMA = pa.schema([("shop", pa.string()), ("item", pa.int64()), ("n", pa.int64())])
SHOPS = ("a", "b'", "c/d")
SECONDS = 3.0
Key = tuple[str, int]


class Writer:
    """Commits at random, and knows what every version holds."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.chance = random.Random(seed)
        self.table = KeyedTable(settings, "gold.stock", ["shop", "item"]).create(SCHEMA)
        self.files: dict[str, tuple[dict[str, Any], dict[Key, int]]] = {}
        self.versions: dict[int, dict[Key, int]] = {0: {}}
        self.dead: list[tuple[int, dict[str, Any]]] = []
        self.done: list[str] = []
        self.committed = 0

    def holds(self) -> dict[Key, int]:
        return {key: n for _, held in self.files.values() for key, n in held.items()}

    def step(self) -> None:
        verb = self.chance.choices(
            [self.append, self.update, self.swap, self.compact, self.checkpoint, self.vacuum],
            [6, 5, 1, 1, 1, 2],
        )[0]
        verb()
        self.done.append(verb.__name__)

    def append(self) -> None:
        known = self.holds()
        fresh = {self._key(): self._value() for _ in range(self.chance.randint(1, 5))}
        self._commit([], [{key: n for key, n in fresh.items() if key not in known}])

    def update(self) -> None:
        if self.files:
            path = self.chance.choice(list(self.files))
            held = {key: self._value() for key in self.files[path][1] if self.chance.random() < 0.9}
            self._commit([path], [held])

    def swap(self) -> None:
        """Every file out, other ones in, with other values."""
        changed = {key: self._value() for key in self.holds() if self.chance.random() < 0.9}
        keys = list(changed)
        halves = keys[::2], keys[1::2]
        self._commit(list(self.files), [{k: changed[k] for k in half} for half in halves])

    def compact(self) -> None:
        some = list(self.files)[:4]
        self._commit(some, [{k: n for path in some for k, n in self.files[path][1].items()}])

    def checkpoint(self) -> None:
        """And the log before it is cleaned up, sometimes with the newest commits alone left."""
        DeltaTable(str(self.table.folder)).create_checkpoint()
        if self.chance.random() < 0.5:
            for commit in (self.table.folder / "_delta_log").glob("*.json"):
                if int(commit.stem) < self.table.version:
                    commit.unlink()

    def vacuum(self) -> None:
        """All at once, without the week a real one leaves."""
        dead, self.dead = self.dead, []
        self.table.vacuum([add for _, add in dead])

    def _commit(self, gone: list[str], held: list[dict[Key, int]]) -> None:
        adds = []
        for part in filter(None, held):
            listed = [{"shop": s, "item": i, "n": n} for (s, i), n in part.items()]
            adds.append((self.table.write(pa.Table.from_pylist(listed, SCHEMA)), part))
        removed = [self.files.pop(path)[0] for path in gone]
        for add, part in adds:
            self.files[add["path"]] = (add, part)
        self.versions[self.table.version + 1] = self.holds()  # before anybody can see it
        self.table.commit(*map(removal, removed), *({"add": add} for add, _ in adds))
        self.committed = self.table.version
        self.dead += [(self.table.version, add) for add in removed]

    def _key(self) -> Key:
        return self.chance.choice(SHOPS), self.chance.randint(0, 60)

    def _value(self) -> int:
        return self.chance.randint(0, 10**9)


def point(reader: Reader, writer: Writer, chance: random.Random) -> int:
    shop, item = chance.choice(SHOPS), chance.randint(0, 60)
    found = reader.look(Ask("gold.stock", (shop, str(item))))
    held = writer.versions[found.opened.state.version]
    assert {row["n"] for row in rows(found)} == {n for k, n in held.items() if k == (shop, item)}
    assert len(found.rows) <= 1
    return found.opened.state.version


def prefix(reader: Reader, writer: Writer, chance: random.Random) -> int:
    shop, low = chance.choice(SHOPS), chance.randint(0, 50)
    ask = Ask("gold.stock", (shop,), start=str(low), end=str(low + 20))
    found = reader.look(ask)
    held = writer.versions[found.opened.state.version]
    wanted = sorted(k for k in held if k[0] == shop and low <= k[1] < low + 20)
    assert [(r["shop"], r["item"], r["n"]) for r in rows(found)] == [(*k, held[k]) for k in wanted]
    return found.opened.state.version


def paged(reader: Reader, writer: Writer, chance: random.Random) -> int:
    shop = chance.choice(SHOPS)
    seen, cursor, version = [], None, None
    while True:
        try:
            page = reader.look(Ask("gold.stock", (shop,), limit=7, cursor=cursor))
        except Gone:
            assert cursor is not None  # only a version that was promised can be gone
            return writer.committed
        version = page.opened.state.version if version is None else version
        assert page.opened.state.version == version
        seen += [(row["shop"], row["item"]) for row in rows(page)]
        cursor = page.next
        if cursor is None:
            assert seen == sorted(k for k in writer.versions[version] if k[0] == shop)
            return version


@pytest.mark.parametrize("seed", [1, 2])
def test_every_answer_is_what_its_version_holds(settings: Settings, seed: int) -> None:
    writer = Writer(settings, seed)
    writer.append()
    stop, problems, looks = threading.Event(), [], []

    def ask(reader: Reader, look: Callable[..., int], chance: random.Random) -> None:
        while not stop.is_set():
            committed = writer.committed
            try:
                version = look(reader, writer, chance)
                assert version >= committed, "an answer older than the question"
                looks.append(version)
            except Exception as error:
                problems.append(error)
                return

    with Reader(settings, KeyIndex(1 << 20, lambda: 1 << 40)) as reader:
        threads = [
            threading.Thread(target=ask, args=(reader, look, random.Random(seed * 10 + number)))
            for number, look in enumerate((point, point, prefix, paged))
        ]
        for thread in threads:
            thread.start()
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and not problems:
            writer.step()
            time.sleep(0.01)
        stop.set()
        for thread in threads:
            thread.join()
    if problems:
        raise problems[0]
    assert len(set(looks)) > 20, "the readers saw hardly any change"
    assert {"append", "update", "swap", "compact", "checkpoint", "vacuum"} <= set(writer.done)
    assert writer.holds() == writer.versions[writer.table.version]
