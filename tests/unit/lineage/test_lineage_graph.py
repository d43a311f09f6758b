"""The graph of tables: as a tree of text, and as a picture that can be read."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from penstock.errors import EnvironmentProblem, NotRunning, UsageError
from penstock.lineage.graph import Graph, Node, read_manifest, tree
from penstock.lineage.picture import svg

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def graph():
    """Two topics; gold.z reads over several columns at once."""
    return Graph(
        [
            Node("bronze.a", "stream", (), topic='a & <b> "c"'),
            Node("bronze.b", "stream", (), topic="b"),
            Node("silver.a", "rows", ("bronze.a",), "a1"),
            Node("silver.b", "rows", ("bronze.b",), "b1"),
            Node("gold.x", "group", ("silver.a", "silver.b"), "x1"),
            Node("gold.y", "group", ("gold.x",), "y1"),
            Node("gold.z", "group", ("gold.y", "bronze.a", "silver.b"), "z1"),
            Node("quarantine.silver_a", "quarantine", ("silver.a",), of="silver.a"),
        ]
    )


def test_a_table_shows_what_it_is_made_from_and_who_reads_it(graph):
    assert list(tree(graph, "gold.x")) == [
        "gold.x  group, x1",
        "made from",
        "├─ silver.a  rows, a1",
        '│  └─ bronze.a  topic a & <b> "c"',
        "└─ silver.b  rows, b1",
        "   └─ bronze.b  topic b",
        "read by",
        "└─ gold.y  group, y1",
        "   └─ gold.z  group, z1",
    ]


def test_nothing_is_said_where_there_is_nothing(graph):
    assert list(tree(graph, "gold.z"))[-2:] == ["read by", "└─ nothing"]


def test_the_whole_graph_names_every_table_and_tells_a_branch_once(graph):
    lines = list(tree(graph))
    for name in graph.tables():
        assert any(name in line for line in lines)
    assert sum("gold.y" in line for line in lines) == 1
    assert any(line.endswith("gold.x  group, x1  …") for line in lines)
    assert not any("quarantine" in line for line in lines)


def test_around_a_table_is_all_above_and_all_below(graph):
    assert graph.around("gold.x") == [
        "bronze.a", "bronze.b", "silver.a", "silver.b", "gold.x", "gold.y", "gold.z"
    ]  # fmt: skip
    assert graph.around("silver.a") == ["bronze.a", "silver.a", "gold.x", "gold.y", "gold.z"]
    beside = graph.around("quarantine.silver_a")
    assert beside == ["bronze.a", "silver.a", "quarantine.silver_a"]


def test_a_table_stands_after_the_last_it_reads(graph):
    depths = graph.depths()
    assert depths["gold.z"] == 4
    for node in graph.nodes.values():
        assert all(depths[node.name] > depths[name] for name in graph.upstream(node.name))


def test_a_circle_ends(graph):
    round_about = Graph([Node("gold.a", "rows", ("gold.b",)), Node("gold.b", "rows", ("gold.a",))])
    assert set(round_about.depths()) == {"gold.a", "gold.b"}
    assert set(round_about.around("gold.a")) == {"gold.a", "gold.b"}


def test_json_names_both_directions(graph):
    told = {t["name"]: t for t in graph.as_dict()["tables"]}
    assert told["silver.b"]["reads"] == ["bronze.b"]
    assert told["silver.b"]["read_by"] == ["gold.x", "gold.z"]
    assert told["bronze.a"]["revision"] is None


def test_a_table_that_is_not_declared_any_more_is_said(graph):
    with pytest.raises(UsageError, match="not declared any more"):
        graph["gold.old"]


def test_the_manifest_may_be_missing_or_broken(settings):
    with pytest.raises(NotRunning, match="penstock up"):
        read_manifest(settings)
    settings.manifest.parent.mkdir(parents=True)
    for text in ("{", "[]", '{"tables": [1]}'):
        settings.manifest.write_text(text)
        with pytest.raises(EnvironmentProblem, match="penstock register"):
            read_manifest(settings)


def test_entries_become_nodes(settings):
    settings.manifest.parent.mkdir(parents=True)
    tables = [
        {"name": "bronze.a", "kind": "stream", "topic": "t"},
        {"name": "gold.a", "kind": "rows", "inputs": {"x": "bronze.a", "y": "bronze.a"},
         "revision": None},
        {"name": "late.gold_a", "kind": "late", "of": "gold.a"},
    ]  # fmt: skip
    settings.manifest.write_text(json.dumps({"tables": tables}))
    graph = Graph.of(read_manifest(settings))
    assert graph["gold.a"].reads == ("bronze.a",)
    assert graph["late.gold_a"].reads == ("gold.a",)
    assert graph.downstream("gold.a") == []


# --- the picture --------------------------------------------------------------------------------
def boxes(picture: str) -> dict[str, tuple[float, float, float, float]]:
    """Name -> left, top, right, bottom."""
    root = ElementTree.fromstring(picture)
    rects = [r for r in root.iter(f"{SVG}rect") if "box" in r.get("class", "")]
    names = [t.text for t in root.iter(f"{SVG}text") if t.get("class") == "name"]
    found = {}
    for name, rect in zip(names, rects, strict=True):
        x, y, w, h = (float(rect.get(word)) for word in ("x", "y", "width", "height"))
        found[name] = (x, y, x + w, y + h)
    return found


def test_every_table_is_a_box_and_every_reading_an_arrow(graph):
    picture = svg(graph.part(graph.tables()))
    assert set(boxes(picture)) == set(graph.tables())
    root = ElementTree.fromstring(picture)
    arrows = {p.find(f"{SVG}title").text for p in root.iter(f"{SVG}path") if p.get("marker-end")}
    assert arrows == {
        f"{read} → {name}" for name in graph.tables() for read in graph.upstream(name)
    }


def test_boxes_stand_apart_in_columns_from_left_to_right(graph):
    found = boxes(svg(graph.part(graph.tables())))
    for name, (left, top, right, bottom) in found.items():
        for other, (left2, top2, right2, bottom2) in found.items():
            if name < other:
                apart = right < left2 or right2 < left or bottom < top2 or bottom2 < top
                assert apart, f"{name} over {other}"
        for read in graph.upstream(name):
            assert found[read][2] < left


def test_a_long_arrow_passes_between_the_boxes(graph):
    part = graph.part(graph.tables())
    found = boxes(svg(part))
    root = ElementTree.fromstring(svg(part))
    flat = 0
    for path in root.iter(f"{SVG}path"):
        for x1, y, x2 in re.findall(r"([\d.]+) ([\d.]+) H([\d.]+)", path.get("d", "")):
            flat += 1
            for name, (left, top, right, bottom) in found.items():
                beside = float(x2) < left or float(x1) > right
                assert beside or not top <= float(y) <= bottom, f"a line behind {name}"
    assert flat >= 4, "bronze.a passes two columns and silver.b one, each with a flat part"


def test_text_fits_its_box_and_the_picture_its_frame(graph):
    picture = svg(graph.part(graph.tables()))
    root = ElementTree.fromstring(picture)
    width, height = float(root.get("width")), float(root.get("height"))
    for name, (left, top, right, bottom) in boxes(picture).items():
        assert right - left >= 8 * len(name) + 20
        assert 0 < left < right < width
        assert 0 < top < bottom < height


def test_names_are_escaped_and_the_table_asked_for_is_marked(graph):
    picture = svg(graph.part(graph.tables()), "gold.x")
    assert "a &amp; &lt;b&gt;" in picture
    root = ElementTree.fromstring(picture)
    marked = [r for r in root.iter(f"{SVG}rect") if "asked" in r.get("class", "")]
    assert len(marked) == 1
    assert root.find(f"{SVG}title").text == "Tables around gold.x"


def test_an_empty_graph_is_a_picture_too():
    ElementTree.fromstring(svg(Graph([])))
