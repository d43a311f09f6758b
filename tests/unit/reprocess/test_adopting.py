"""A history that was built is taken over once, wherever the one who does it is killed."""

from __future__ import annotations

import types
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.model.names import TableName
from penstock.runtime.delta.files import write_arrow
from penstock.runtime.delta.writer import RevisionWriter
from penstock.runtime.fates import late, outcomes, quarantine
from penstock.runtime.kinds.follow import TableContext
from penstock.runtime.kinds.history import Piece, Recipe, Workshop, adopt_history
from penstock.runtime.registry import Revision, State
from penstock.runtime.upkeep.needs import gather, pending

ROWS = pa.schema([("n", pa.int64())])
TABLE = TableName.parse("gold.x")
REVISION = Revision(str(TABLE), "r", State.CANDIDATE, "", {"silver.y": "s"})


def opened(folder: Path, token: int) -> TableContext:
    """What whoever starts the table runs it with."""

    def writer(name: TableName, schema: pa.Schema) -> RevisionWriter:
        return RevisionWriter(folder, name, "r", schema, token=token, live=False)

    return TableContext(
        None, types.SimpleNamespace(keys=()), "r", writer(TABLE, ROWS),
        writer(TABLE.quarantine, quarantine.SCHEMA), writer(TABLE.late, late.SCHEMA),
        writer(TABLE.outcomes, outcomes.SCHEMA), folder / "scratch",
    )  # fmt: skip


@pytest.fixture
def built(tmp_path: Path) -> Workshop:
    """A history of one piece."""
    path = opened(tmp_path, 1).writer.path
    shop = Workshop(path)
    recipe = shop.begin(Recipe({"silver.y": 7}, {}, [], {"silver.y": 3}))
    adds = write_arrow(pa.table({"n": [1, 2, 3]}, schema=ROWS), path)
    assert shop.put(recipe, 0, Piece(adds, counted={"silver.y": 3}, rows_in=3, rows_out=3))
    return shop


def build_needs(folder: Path) -> list[int]:
    source = folder / "silver" / "y" / "_revisions" / "s"
    needs = gather(folder, [REVISION]).of(source)
    return [need.version for need in needs if "the build of" in need.who]


def test_killed_before_the_workshop_is_cleared(built, tmp_path, monkeypatch):
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    assert build_needs(tmp_path) == [7]
    with monkeypatch.context() as patch:
        patch.setattr(Workshop, "clear", dies)
        with pytest.raises(KeyboardInterrupt):
            adopt_history(opened(tmp_path, 2))
    context = opened(tmp_path, 3)
    adopt_history(context)
    assert build_needs(tmp_path) == [], "its input's log would never be cleaned up"
    assert pending(tmp_path, REVISION) == set(), "the table would never be merged or vacuumed"
    rows = context.writer.log.snapshot().to_pyarrow_table()
    assert sorted(rows["n"].to_pylist()) == [1, 2, 3], "taken over once"


def test_killed_while_the_workshop_is_cleared(built, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Workshop, "clear", lambda shop: (shop.folder / "recipe.json").unlink())
        adopt_history(opened(tmp_path, 2))
    assert built.folder.exists()
    adopt_history(opened(tmp_path, 3))
    assert not built.folder.exists()


def test_a_history_that_is_not_complete_is_left_alone(tmp_path):
    context = opened(tmp_path, 1)
    shop = Workshop(context.writer.path)
    shop.begin(Recipe({"silver.y": 7}, {}, [], {"silver.y": 3}))
    adopt_history(context)
    assert build_needs(tmp_path) == [7]


def test_a_builder_of_a_history_that_was_given_up_leaves_nothing_in_the_next(tmp_path):
    """Aborted and staged again while it computed: its piece is of other versions of the inputs."""
    context = opened(tmp_path, 1)
    shop = Workshop(context.writer.path)
    given_up = shop.begin(Recipe({"silver.y": 7}, {}, [], {"silver.y": 3}))
    shop.clear()
    stale = Piece(write_arrow(pa.table({"n": [1]}, schema=ROWS), context.writer.path))
    assert not shop.put(given_up, 0, stale)
    assert not shop.folder.exists(), "the table would never be merged or vacuumed"
    fresh = shop.begin(Recipe({"silver.y": 7}, {}, [], {"silver.y": 3}))
    assert not shop.put(given_up, 0, stale)
    (shop.folder / f"{given_up.name}000000.json").write_text("{}")  # it had looked a moment before
    assert shop.piece(fresh, 0) is None
    adopt_history(context)
    assert context.writer.position("built") is None, "rows would be missing"
    adds = write_arrow(pa.table({"n": [1, 2, 3]}, schema=ROWS), context.writer.path)
    assert shop.put(fresh, 0, Piece(adds, counted={"silver.y": 3}, rows_in=3, rows_out=3))
    adopt_history(context)
    rows = context.writer.log.snapshot().to_pyarrow_table()
    assert sorted(rows["n"].to_pylist()) == [1, 2, 3]


def test_a_history_that_was_begun_before_recipes_had_names_goes_on(tmp_path):
    context = opened(tmp_path, 1)
    shop = Workshop(context.writer.path)
    shop.folder.mkdir()
    told = '{"inputs": {"silver.y": 7}, "clocks": {}, "edges": [], "rows": {"silver.y": 0}}'
    (shop.folder / "recipe.json").write_text(told)
    (shop.folder / "000000.json").write_text('{"adds": []}')
    adopt_history(context)
    assert context.writer.position("built") == 1
