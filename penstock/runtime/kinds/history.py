"""A history computed elsewhere, taken over by the one who writes the table.

Whoever builds a candidate's history in batch is not its writer: it leaves data files in the
candidate's folder and, beside them in ``_build``, what they are: a *recipe* (which versions of the
inputs, cut where) and one *piece* after the other. Each is a small file created if absent, so a
builder that was killed goes on where it was, and two of them at once do no harm. When all pieces
are there the lease holder commits them at once, together with the input positions: that commit is
the exact hand-over from batch to stream, whatever the kind of the table.

A piece is of one recipe: its name says which. A candidate that is given up and staged again has the
same folder, and a builder of the first that still computes must leave nothing in the second.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from obstore.exceptions import AlreadyExistsError

from penstock.location import Location, creator, remove_tree
from penstock.runtime.delta.log import Action
from penstock.runtime.fates.outcomes import Outcome
from penstock.runtime.kinds.follow import TableContext

__all__ = ["BUILT", "Piece", "Recipe", "Workshop", "adopt_history"]

BUILT = "built"  # the position that says a history was taken over


@dataclass(frozen=True)
class Recipe:
    """What a history is made from."""

    inputs: dict[str, int]  # the version of each input
    clocks: dict[str, int]  # what else the commit must remember, such as a watermark
    edges: list[int]  # pieces are from one to the next, in microseconds; empty: one piece
    rows: dict[str, int]  # of each input, times the windows each row falls into
    since: int | None = None
    name: str = ""  # no other recipe has it; given when it is written

    @property
    def pieces(self) -> int:
        return max(1, len(self.edges) - 1)


@dataclass(frozen=True)
class Piece:
    """Files of one part of a history."""

    adds: list[Action]
    outcomes: list[Action] = field(default_factory=list)  # files of the outcomes table
    counted: dict[str, int] = field(default_factory=dict)
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0


class Workshop:
    """The folder where a history comes together."""

    def __init__(self, table: Location) -> None:
        self.folder = table / "_build"

    @property
    def recipe(self) -> Recipe | None:
        found = self._read("recipe")
        return None if found is None else Recipe(**found)

    def begin(self, recipe: Recipe) -> Recipe:
        """Write the recipe; if there is one already, that one holds."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write("recipe", replace(recipe, name=uuid.uuid4().hex))
        known = self.recipe
        assert known is not None  # noqa: S101
        return known

    def piece(self, recipe: Recipe, number: int) -> Piece | None:
        found = self._read(_piece(recipe, number))
        return None if found is None else Piece(**found)

    def put(self, recipe: Recipe, number: int, piece: Piece) -> bool:
        """Leave a piece; somebody else's, if it was there first, is as good.

        False if the recipe does not hold any more: it was taken over, or given up.
        """
        if self.recipe != recipe:
            return False
        self._write(_piece(recipe, number), piece)
        return True

    def complete(self, recipe: Recipe) -> bool:
        return all(self._path(_piece(recipe, n)).exists() for n in range(recipe.pieces))

    def clear(self) -> None:
        remove_tree(self.folder)

    def _path(self, name: str) -> Location:
        return self.folder / f"{name}.json"

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._path(name).read_text())
        except FileNotFoundError:
            return None
        return found

    def _write(self, name: str, what: Recipe | Piece) -> None:
        body = json.dumps(asdict(what), separators=(",", ":")).encode()
        try:
            creator(self.folder)(f"{name}.json", body)
        except AlreadyExistsError:
            return


def _piece(recipe: Recipe, number: int) -> str:
    return f"{recipe.name}{number:06d}"


def adopt_history(context: TableContext) -> None:
    """Take a finished history over, once: its files and its positions in one commit."""
    writer = context.writer
    shop = Workshop(writer.path)
    if writer.position(BUILT) is not None:
        shop.clear()  # a crash may have come before that: as a build it would hold its inputs' logs
        return
    recipe = shop.recipe
    if recipe is None or not shop.complete(recipe):
        return
    found = [shop.piece(recipe, number) for number in range(recipe.pieces)]
    pieces = [piece for piece in found if piece is not None]
    left = dict(recipe.rows)
    for piece in pieces:
        for name, rows in piece.counted.items():
            left[name] -= rows
    writer.adopt("outcomes", context.outcomes)
    writer.commit(
        [add for piece in pieces for add in piece.adds],
        {**recipe.inputs, **recipe.clocks, BUILT: 1},
        {
            "operation": "PENSTOCK BUILD",
            "rows_in": sum(piece.rows_in for piece in pieces),
            "since": recipe.since,
        },
        apart={"outcomes": [add for piece in pieces for add in piece.outcomes]},
        # What no piece counted has no time, or one before the history begins.
        tally=[[name, None, Outcome.FILTERED.value, rows] for name, rows in left.items() if rows],
    )
    shop.clear()
