"""Runs `penstock` and kills it, with its whole process group, at a named step.

    python -m tests.chaos.doomed promote.table-committed supervise

Steps are patched in from here: what ships has no switch for dying. A step is named by what it
belongs to and where in it the process ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

SWAP = ("prepared", "standing", "table-before", "table-committed", "quarantine-committed",
        "late-committed", "outcomes-committed", "note-before", "noted")  # fmt: skip
STEPS = (
    "stage.registered", "stage.recipe", "stage.files", "stage.piece", "stage.built",
    "adopt.before", "adopt.decided", "adopt.committed",
    "mirror.before", "mirror.after",
    *(f"promote.{step}" for step in SWAP),
    *(f"rollback.{step}" for step in SWAP),
    "backfill.before", "backfill.committed",
    "abort.moved", "abort.deleted",
    "retire.moved", "retire.deleting",
)  # fmt: skip


def die() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


def before(owner: Any, name: str, when: Callable[..., bool] = lambda *a, **k: True) -> None:
    _wrap(owner, name, when, early=True)


def after(owner: Any, name: str, when: Callable[..., bool] = lambda *a, **k: True) -> None:
    _wrap(owner, name, when, early=False)


def _wrap(owner: Any, name: str, when: Callable[..., bool], *, early: bool) -> None:
    real = getattr(owner, name)

    def doomed(*args: Any, **kwargs: Any) -> Any:
        hit = when(*args, **kwargs)
        if hit and early:
            die()
        result = real(*args, **kwargs)
        if hit:
            die()
        return result

    setattr(owner, name, doomed)


def arm(step: str) -> None:
    """Patch the step in."""
    kind, _, where = step.partition(".")
    {
        "stage": _stage,
        "adopt": _adopt,
        "mirror": _mirror,
        "promote": _swap,
        "rollback": _swap,
        "backfill": _backfill,
        "abort": _abort,
        "retire": _retire,
    }[kind](where, kind)


def _stage(where: str, _: str) -> None:
    from penstock.reprocess import history
    from penstock.runtime.kinds.history import Workshop
    from penstock.runtime.staging import Staging

    {
        "registered": lambda: after(Staging, "add"),
        "recipe": lambda: after(Workshop, "begin"),
        "files": lambda: after(history, "spark_files"),
        "piece": lambda: after(Workshop, "put"),
        "built": lambda: before(Staging, "tell", lambda *a, **k: k.get("build") == "built"),
    }[where]()


def _operation(name: str) -> Callable[..., bool]:
    def test(self: Any, actions: Any, positions: Any, info: Any = None, **kw: Any) -> bool:
        return (info or {}).get("operation") == f"PENSTOCK {name}"

    return test


def _adopt(where: str, _: str) -> None:
    from penstock.runtime.delta.writer import RevisionWriter

    {
        "before": lambda: before(RevisionWriter, "commit", _operation("BUILD")),
        "decided": lambda: before(
            RevisionWriter, "take_over", lambda self, *a: self.name.layer == "outcomes"
        ),
        "committed": lambda: after(RevisionWriter, "commit", _operation("BUILD")),
    }[where]()


def _mirror(where: str, _: str) -> None:
    from penstock.runtime.delta.writer import RevisionWriter

    def gold(self: Any, *args: Any) -> bool:
        return str(self.name) == "gold.stock_stats"

    {"before": before, "after": after}[where](RevisionWriter, "_mirror", gold)


def _swap(where: str, verb: str) -> None:
    from penstock.runtime.supervise import exchange, operate

    def mine(part: str) -> Callable[..., bool]:
        def test(live: Any, new: Any, change: Any, keys: Any, info: Any) -> bool:
            layer = new.name.layer
            return info["verb"] == verb and (layer == part or (part == "table" and layer == "gold"))

        return test

    if where == "prepared":
        before(operate, "standing")
    elif where == "standing":
        before(exchange.Exchange, "swap_table", lambda own, *a: own.decision.verb == verb)
    elif where == "note-before":
        before(operate, "_note", lambda w, s, m, decision: decision.verb == verb)
    elif where == "noted":
        before(operate, "show_revision")
    else:
        part, _, point = where.partition("-")
        (before if point == "before" else after)(exchange, "swap", mine(part))


def _backfill(where: str, _: str) -> None:
    from penstock.runtime.delta.writer import RevisionWriter

    {"before": before, "committed": after}[where](RevisionWriter, "commit", _operation("BACKFILL"))


def _abort(where: str, _: str) -> None:
    from penstock.runtime.supervise import ends

    if where == "moved":
        from penstock.runtime.supervise.world import RunningWorld

        before(RunningWorld, "forget")
    else:
        after(ends, "delete_revision")


def _retire(where: str, _: str) -> None:
    from penstock.runtime.delta import upkeep
    from penstock.runtime.supervise import sweep

    sweep.KEEP_SECONDS = 0.0
    upkeep.CHORE_SECONDS = upkeep.LOOK_SECONDS = 0.5
    real = sweep.Sweep.__init__
    sweep.Sweep.__init__ = lambda self, s, t: real(self, s, t, 0.0)  # type: ignore[method-assign]
    if where == "deleting":
        after(sweep, "delete_revision")
    elif where == "moved":
        before(sweep, "delete_revision")


if __name__ == "__main__":
    arm(sys.argv[1])
    sys.argv = ["penstock", *sys.argv[2:]]
    from penstock.cli import main

    main()
