"""Parquet files with a manifest, for warehouses that load files.

```
parquet/gold.sensor_5m/
  latest -> 00000000000000000042
  00000000000000000042/
    manifest.json   written last: files, rows, checksums, schema, Delta version
    part-0.parquet  all rows of that version
    changes.parquet what changed since the version exported before, where that can be told
```
A folder holds one version, whole, and is never changed. It appears with its manifest in it, then
``latest`` is pointed at it. The newest folders are kept (``KEPT``), so that a load in progress can
end. ``changes.parquet`` has ``_change_type``: delete what is told as ``delete``, then insert what
is told as ``insert``; a warehouse that has version ``since`` then has this one.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

from penstock.export.bench import Workbench, listed
from penstock.export.claim import Claim, Sum
from penstock.export.feed import COUNT, NET, Net
from penstock.export.live import Live
from penstock.export.place import point, synced
from penstock.serve.snapshot import literal

__all__ = ["KEPT", "ParquetFiles"]

KEPT = 3
_CHANGES = "changes.parquet"
_VERSION = re.compile(r"\d{20}(-\d+)?")


class ParquetFiles:
    """The target ``parquet``."""

    name = "parquet"
    whole = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.place = str(folder)
        self._ready: list[tuple[Path, int]] = []  # what was made, and of which version
        self._changed = False
        self._changes: dict[str, Any] | None = None

    def claims(self) -> dict[str, Claim]:
        found = {}
        for table in sorted(self._folder.glob("*.*")):
            try:
                told = json.loads((table / "latest" / "manifest.json").read_text())
            except (FileNotFoundError, NotADirectoryError):
                continue
            found[table.name] = Claim.of(told["claim"])
        return found

    # --- writing --------------------------------------------------------------------------
    def begin(self, bench: Workbench, live: Live) -> None:
        self._changed, self._changes = False, None
        shutil.rmtree(self._building(live), ignore_errors=True)

    def _building(self, live: Live) -> Path:
        return self._folder / live.table / ".building"

    def replace(self, bench: Workbench, live: Live) -> None:
        folder = self._building(live)
        folder.parent.mkdir(parents=True, exist_ok=True)
        files = bench.write_parquet(bench.scan(live.columns, live.parts), folder)
        if not files:  # an empty table still has columns
            folder.mkdir(exist_ok=True)
            empty = f"SELECT * FROM ({bench.scan(live.columns, ())})"  # noqa: S608
            bench.run(
                f"COPY ({empty}) TO {literal(str(folder / 'part-0.parquet'))} (FORMAT parquet)"
            )
        self._changed = True

    def apply(self, bench: Workbench, live: Live, net: Net) -> tuple[str, ...]:
        """A version is always written whole; its change goes beside it."""
        self.replace(bench, live)
        file = self._building(live) / _CHANGES
        kind = f"CASE WHEN {COUNT} > 0 THEN 'insert' ELSE 'delete' END AS _change_type"
        bench.run(
            f"COPY (SELECT {listed(net.columns)}, {kind} FROM "  # noqa: S608
            f"(SELECT *, unnest(range(abs({COUNT}))) FROM {NET})) "
            f"TO {literal(str(file))} (FORMAT parquet, COMPRESSION zstd)"
        )
        since = self.claims()[live.table].delta_version
        self._changes = {"since": since, "inserted": net.added, "deleted": net.gone,
                         "columns_changed": bool(net.steps), **_described(file)}  # fmt: skip
        return ()

    def _parts(self, live: Live) -> list[Path]:
        folder = self._building(live)
        if not self._changed:
            folder = self._folder / live.table / "latest"
        return sorted(folder.glob("part-*.parquet"))

    def measured(self, bench: Workbench, live: Live) -> Sum:
        files = ", ".join(literal(str(path)) for path in self._parts(live))
        return bench.sum_of(f"read_parquet([{files}])", live.columns)

    def prove(self, bench: Workbench, live: Live) -> None:
        """Nothing more to do: ``measured`` hashes every column of every row."""

    def keep(self, bench: Workbench, live: Live, claim: Claim) -> None:
        if not self._changed:
            return  # the folder is of the version it names; it stays the latest
        folder = self._building(live)
        names = [column.name for column in live.columns]
        manifest = {
            "table": claim.table,
            "delta_version": claim.delta_version,
            "revision": claim.revision,
            "rows": claim.rows,
            "checksum": claim.checksum,
            "checksum_by": claim.scheme,
            "exported_at": claim.exported_at,
            "columns": [{"name": c.name, "type": c.type} for c in live.columns],
            "keys": [key for key in live.keys if key in names],
            "files": [_described(path) for path in self._parts(live)],
            "changes": self._changes,
            "claim": json.loads(claim.to_json()),
        }
        path = folder / "manifest.json"
        path.write_text(json.dumps(manifest, indent=1))
        for file in folder.iterdir():
            synced(file)
        self._ready.append((folder, live.version))

    def drop(self, bench: Workbench, live: Live) -> None:
        shutil.rmtree(self._building(live), ignore_errors=True)

    def publish(self, bench: Workbench) -> None:
        for folder, version in self._ready:
            final = _free(folder.parent, version)
            folder.rename(final)
            synced(final.parent)
            point(final.with_name("latest"), final.name)
            for old in _versions(final.parent)[:-KEPT]:
                shutil.rmtree(old, ignore_errors=True)
        self._ready = []

    def close(self) -> None:
        for folder, _ in self._ready:
            shutil.rmtree(folder, ignore_errors=True)


def _free(folder: Path, version: int) -> Path:
    """A name for a version; one that was exported before has another after it."""
    names = [f"{version:020d}", *(f"{version:020d}-{again}" for again in range(2, 1000))]
    return next(path for path in map(folder.joinpath, names) if not path.exists())


def _versions(folder: Path) -> list[Path]:
    """In the order they were made."""
    found = [path for path in folder.iterdir() if _VERSION.fullmatch(path.name)]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)


def _described(path: Path) -> dict[str, Any]:
    import pyarrow.parquet as pq

    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    rows = pq.read_metadata(path).num_rows
    return {"path": path.name, "rows": rows, "bytes": path.stat().st_size, "sha256": digest}
