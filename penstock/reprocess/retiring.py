"""Retiring what is warm: the way back is closed, the bytes go later."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import UsageError
from penstock.runtime.registry import Registry, Revision, State
from penstock.runtime.staging import Promotion, Staging
from penstock.runtime.supervise.ends import referenced
from penstock.settings import Settings

__all__ = ["retired"]


def retired(
    settings: Settings, registry: Registry, staging: Staging, table: str
) -> list[dict[str, str]]:
    """Stop feeding the warm revision of a table, and of what reads it."""
    fed = registry.revisions()
    warm = [r for r in fed if r.table == table and r.state == State.WARM]
    if not warm:
        raise UsageError(f"{table} has no warm revision.", remedy="See `penstock releases`.")
    chosen, edge = [], list(warm)
    while edge:
        one = edge.pop()
        readers = [r for r in fed if r.inputs.get(one.table) == one.revision]
        bound = [r for r in readers if r.state != State.WARM]
        if bound:
            raise UsageError(
                f"{bound[0].table}@{bound[0].revision} is {bound[0].state} and reads it.",
                remedy=f"Promote or abort {bound[0].table} first.",
            )
        chosen.append(one)
        edge += [r for r in readers if r not in chosen]
    _require_unshown(settings, staging, chosen)
    for one in reversed(chosen):
        staging.move(one.table, one.revision, to=State.RETIRED)
    return [{"table": r.table, "revision": r.revision} for r in chosen]


def _require_unshown(settings: Settings, staging: Staging, revisions: Sequence[Revision]) -> None:
    """No live log shows them, whatever the registry says: it would stand still."""
    for one in revisions:
        if referenced(settings, one.table, one.revision):
            last = next((p for p in staging.promotions(one.table) if p.verb != "repair"), None)
            raise UsageError(
                f"live still shows files of {one.table}@{one.revision}: a swap of the table, "
                "or of what lies beside it, did not come to its end.",
                remedy=_finish(last),
            )


def _finish(last: Promotion | None) -> str:
    """By the release's name: the table's own may mean a newer one that is staged."""
    if last is None:
        return "See `penstock releases`."
    return f"Finish it first: `penstock {last.verb} --release {last.release} --why '...'`."
