"""Tables in an object store by name, and a mart made of one there; run as a process of its own.

A session with a metastore cannot be had beside the one the other tests share.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock.marts.places import LAYER
from penstock.marts.register import register_live
from penstock.settings import Settings
from penstock.spark.session import build_session


def main(out: Path) -> None:
    settings = Settings.load()
    session = build_session(settings, "far-marts", memory="1g", quiet=True, metastore=True)
    first = register_live(session, settings, {})
    again = register_live(session, settings, {})
    place = settings.warehouse / LAYER / "per_ticker"
    session.sql(
        f"create table {LAYER}.per_ticker using delta location '{place}' as "
        "select ticker, sum(trades) as trades from gold.stock_stats group by 1"
    )
    session.sql(f"insert into {LAYER}.per_ticker values ('NONE', 0)")
    told = {"tables": first.tables, "changed again": again.changed}
    out.write_text(json.dumps({**told, "commands": _commands()}))
    session.stop()


def _commands() -> str:
    """What everybody on the machine sees of the processes."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append((process / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
