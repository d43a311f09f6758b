"""Maintenance of a table under test, of its inputs and of its candidates, at its most eager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.registry import Revision, State
from penstock.runtime.supervise.compact import commit_merge
from penstock.runtime.supervise.tasks import VERBS
from penstock.runtime.upkeep.maintain import Maintenance, Pace

if TYPE_CHECKING:
    from penstock.testing.kit import Kit

__all__ = ["AT_ONCE", "maintained"]

AT_ONCE = Pace(retention=0, internal=0, min_age=0, safe_age=0, share=1.0, least=1)


def maintained(kit: Kit) -> dict[str, Any]:
    """Returns, by table, what was done."""
    kits = {kit.revision: kit, **{c.revision: c for c in kit.candidates}}
    for one in kits.values():
        one.follower.settle(now=True)  # files that wait for their commit are nobody's yet

    def ask(table: str, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if table not in kit.feeds:
            revision = arguments.get("revision", kit.revision)
            return VERBS[verb](kits[revision].follower, arguments)
        source = kit.feeds[table].source
        if verb == "mark" and isinstance(source, RevisionWriter):
            return {"marked": source.mark()}
        return commit_merge(source, arguments["note"])

    revisions = [*_inputs(kit), *(_revision(one, kit) for one in kits.values())]
    done = Maintenance(kit.folder, revisions, ask, pace=AT_ONCE).run()
    problems = [problem for one in done for problem in one.problems]
    if problems:
        raise AssertionError(problems)
    return {one.table: one.as_dict() for one in done}


def _inputs(kit: Kit) -> list[Revision]:
    if kit.stream is not None:
        return []
    return [Revision(name, kit.revision, State.LIVE, "", {}) for name in kit.feeds]


def _revision(one: Kit, kit: Kit) -> Revision:
    pin = "" if kit.stream is not None else kit.revision
    return Revision(
        str(one.table.name),
        one.revision,
        State.LIVE if one is kit else State.CANDIDATE,
        "",
        dict.fromkeys(kit.feeds, pin),
        {"meaning": one.table.describe()},
    )
