"""How long from a record's own time until its effect is in each live table, over a whole demo?

Usage: python tests/bench/freshness.py [--minutes 10]

Needs a running stack whose demo sends at the rate wanted (`penstock up --rate 130` is about 500
records a second). Nothing is added to it: afterwards the tables' logs are read as files, sharing no
code with the engine. Every commit says which versions of its inputs it holds, so for each record of
each topic the first commit of every table that holds it is known, through any number of tables in
between. The latency is that commit's time less the record's own. A record that the demo sent late,
or again, or from a machine that was offline, carries an old time and says in a header when it was
sent: that counts instead. Records that changed nothing in a table (filtered, or in
a window that is still open) were not late there, and went no further: they are left out too. What
closes a window is the record that moves time past its end; from there on that record's time counts.

Prints a line per table: what it declares, p50, p99, the slowest, how many records were later than
declared; then how busy each stream was. A continuous table has two seconds.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.duration import parse_duration
from penstock.settings import Settings

CONTINUOUS = 2.0  # seconds that a table has which is not told how many


@dataclass(frozen=True)
class Commit:
    version: int
    at: float  # seconds
    inputs: dict[str, int]
    since: dict[str, int]  # where the round began that made it
    files: list[str]
    changed: bool


def commits(folder: Path, since: float) -> Iterator[Commit]:
    """What a log has that is newer."""
    for file in sorted((folder / "_delta_log").glob("*.json")):
        if file.stat().st_mtime < since:
            continue
        info, files, changed = {}, [], False
        for line in file.read_text().splitlines():
            action = json.loads(line)
            info = action.get("commitInfo", info)
            changed = changed or bool({"add", "remove"} & action.keys())
            if "add" in action:
                files.append(action["add"]["path"])
        told = json.loads(info.get("userMetadata") or "{}")
        at = info["timestamp"] / 1000
        inputs, begun = told.get("inputs", {}), told.get("since", {})
        yield Commit(int(file.stem), at, inputs, begun, files, changed)


class Table:
    """One live revision's commits, and when each version of an input was in it."""

    def __init__(self, entry: dict, folder: Path, since: float) -> None:
        self.entry, self.name = entry, entry["name"]
        path = folder if entry["layer"] == "bronze" else folder / "_revisions" / entry["revision"]
        self.path = path
        self.commits = list(commits(path, since))
        self._reached: dict[str, list[int]] = {}

    def took_in(self, source: str, version: int) -> Commit | None:
        """The first commit that holds this version of an input."""
        if source not in self._reached:
            known = [-1, *(commit.inputs.get(source, -1) for commit in self.commits)]
            self._reached[source] = np.maximum.accumulate(known)[1:].tolist()
        reached = self._reached[source]
        place = bisect_left(reached, version)
        return self.commits[place] if place < len(reached) else None


def records(table: Table, until: float) -> Iterator[tuple[Commit, np.ndarray]]:
    """By commit of bronze: when each of its records was sent."""
    for commit in table.commits:
        if commit.at > until:
            return
        for file in commit.files:
            if (table.path / file).exists():  # else it was merged meanwhile
                rows = pq.read_table(table.path / file, columns=["timestamp", "headers"])
                yield commit, sent(rows)


def sent(rows: pa.Table) -> np.ndarray:
    """The records' own times, but for those that say when they were sent."""
    times = seconds(rows, "timestamp").copy()
    for place, headers in enumerate(rows["headers"].to_pylist()):
        for header in headers or ():
            if header["key"] == "sent":
                times[place] = dt.datetime.fromisoformat(header["value"].decode()).timestamp()
    return times


def seconds(rows: pa.Table, column: str) -> np.ndarray:
    found = rows[column].to_numpy()
    if found.dtype.kind != "M":
        return found
    return found.astype("datetime64[us]").astype(np.int64) / 1e6


def measure(tables: dict[str, Table], until: float) -> dict[str, dict]:
    """Latencies of every table, by the longest way from each of its topics."""
    readers: dict[str, list[Table]] = {}
    for table in tables.values():
        for source in table.entry.get("inputs", {}).values():
            readers.setdefault(source, []).append(table)
    found: dict[str, list[np.ndarray]] = {name: [] for name in tables}
    open_ones: dict[str, int] = dict.fromkeys(tables, 0)

    def down(name: str, commit: Commit, own: np.ndarray) -> None:
        for reader in readers.get(name, ()):
            taken = reader.took_in(name, commit.version)
            if taken is None:
                open_ones[reader.name] += len(own)
                continue
            if not taken.changed or commit.version <= taken.since.get(name, -1):
                continue  # it had no effect: not at all, or not by itself
            found[reader.name].append(taken.at - own)
            down(reader.name, taken, own)

    for table in tables.values():
        if table.entry["layer"] == "bronze":
            for commit, own in records(table, until):
                found[table.name].append(commit.at - own)
                down(table.name, commit, own)
    return {
        name: told(tables[name], np.concatenate(parts), open_ones[name])
        for name, parts in found.items()
        if any(map(len, parts))
    }


def told(table: Table, seconds: np.ndarray, never: int) -> dict:
    declared = table.entry.get("freshness")
    known = declared not in (None, "continuous")
    promised = parse_duration(declared).total_seconds() if known else CONTINUOUS
    return {
        "table": table.name,
        "declared": declared,
        "records": len(seconds),
        "p50": round(float(np.percentile(seconds, 50)), 2),
        "p99": round(float(np.percentile(seconds, 99)), 2),
        "max": round(float(seconds.max()), 2),
        "missed": int((seconds > promised).sum()),
        "not in yet": never,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    options = parser.parse_args()
    settings = Settings.load()
    before = streams()
    since = time.time()
    time.sleep(options.minutes * 60)
    until = time.time()
    after = streams()
    time.sleep(45)  # what was sent at the end is taken in
    manifest = json.loads((settings.home / "manifest.json").read_text())
    tables = {}
    for entry in manifest["tables"]:
        if entry["layer"] != "bronze" and "revision" not in entry:
            continue  # what lies beside a table comes with it
        folder = settings.home / "warehouse" / entry["layer"] / entry["name"].split(".")[1]
        tables[entry["name"]] = Table(entry, folder, since)
    for line in measure(tables, until).values():
        print(json.dumps(line))
    for name, stream in sorted(after.items()):
        earlier = before.get(name, {})
        spent = {k: stream.get(k, 0) - earlier.get(k, 0) for k in ("rounds", "busy_seconds")}
        print(json.dumps({"stream": name, **spent}))


def streams() -> dict[str, dict]:
    answer = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "streams", "--json"], capture_output=True, check=True
    )
    return {stream["stream"]: stream for stream in json.loads(answer.stdout)}


if __name__ == "__main__":
    main()
