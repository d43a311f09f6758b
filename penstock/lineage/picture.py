"""The graph of tables as a picture: SVG written by hand, in columns from left to right.

A table stands one column after the last table it reads. An edge over several columns passes each
of them at a place of its own, so no line runs behind a box.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

from penstock.lineage.graph import Graph

__all__ = ["svg"]

_BOX_HEIGHT = 44
_ROW = 62  # from one box to the next below it
_GAP = 76  # between two columns, for the lines
_MARGIN = 24
_NAME_LETTER = 8.8  # width of a letter, on the safe side: the widest of the fonts named below
_ABOUT_LETTER = 7.0
_SWEEPS = 6  # then the order no longer changes in graphs of some dozens of tables

_STYLE = """
    text { font-family: system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328; }
    .name { font-size: 13px; font-weight: 600; }
    .about { font-size: 11px; fill: #57606a; }
    .paper { fill: #ffffff; }
    .box { fill: #f6f8fa; stroke: #8c959f; stroke-width: 1.2; }
    .bronze { fill: #f5e6d8; stroke: #b87333; }
    .silver { fill: #e6eaee; stroke: #7d8994; }
    .gold { fill: #faf0c8; stroke: #c19a1b; }
    .quarantine, .late, .outcomes { fill: #fbe6e6; stroke: #c25757; }
    .asked { stroke: #0b5cad; stroke-width: 3; }
    .line { fill: none; stroke: #57606a; stroke-width: 1.4; }
    .tip { fill: #57606a; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .about { fill: #a5afba; }
      .paper { fill: #0d1117; }
      .box { fill: #161b22; stroke: #6e7681; }
      .bronze { fill: #38281b; stroke: #c98b55; }
      .silver { fill: #272d34; stroke: #9aa5b1; }
      .gold { fill: #373012; stroke: #d9b53d; }
      .quarantine, .late, .outcomes { fill: #3a1f22; stroke: #e07b7b; }
      .asked { stroke: #6cb6ff; }
      .line { stroke: #a5afba; }
      .tip { fill: #a5afba; }
    }
"""


@dataclass(frozen=True)
class _Stop:
    """A place in a column: a table, or where a longer edge passes by."""

    column: int
    name: str
    edge: tuple[str, str] | None = None


class _Layout:
    """Where everything stands."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        depths = graph.depths()
        self.stop_of = {name: _Stop(depth, name) for name, depth in depths.items()}
        self.columns: list[list[_Stop]] = [[] for _ in range(max(depths.values(), default=0) + 1)]
        for stop in self.stop_of.values():
            self.columns[stop.column].append(stop)
        self.ways = [
            self._way(reader, read) for reader in depths for read in graph.upstream(reader)
        ]
        self._before: dict[_Stop, list[_Stop]] = {}
        self._after: dict[_Stop, list[_Stop]] = {}
        for way in self.ways:
            for one, next_one in pairwise(way):
                self._after.setdefault(one, []).append(next_one)
                self._before.setdefault(next_one, []).append(one)
        self._order()
        self.middle = self._middles()
        self.left, self.widths = self._lefts()

    def _way(self, reader: str, read: str) -> list[_Stop]:
        start, end = self.stop_of[read], self.stop_of[reader]
        passed = [_Stop(c, read, (read, reader)) for c in range(start.column + 1, end.column)]
        for stop in passed:
            self.columns[stop.column].append(stop)
        return [start, *passed, end]

    def _order(self) -> None:
        """Everything near what it is joined to: by the mean place of its neighbours, in turns."""
        for sweep in range(_SWEEPS):
            forward = sweep % 2 == 0
            near = self._before if forward else self._after
            rank = {s: n for column in self.columns for n, s in enumerate(column)}
            for column in self.columns if forward else reversed(self.columns):
                column.sort(key=lambda s: _mean([rank[o] for o in near.get(s, [])], rank[s]))
                rank |= {s: n for n, s in enumerate(column)}

    def _middles(self) -> dict[_Stop, float]:
        """Heights: each as near as may be to what it reads, in its column's order."""
        middle: dict[_Stop, float] = {}
        for column in self.columns:
            floor = _MARGIN + _BOX_HEIGHT / 2
            for stop in column:
                wanted = _mean([middle[o] for o in self._before.get(stop, [])], floor)
                middle[stop] = max(floor, wanted)
                floor = middle[stop] + _ROW
        return middle

    def _lefts(self) -> tuple[list[float], list[float]]:
        widths = []
        for column in self.columns:
            nodes = [self.graph.nodes[stop.name] for stop in column if stop.edge is None]
            texts = [max(len(n.name) * _NAME_LETTER, len(n.about) * _ABOUT_LETTER) for n in nodes]
            widths.append(max(texts, default=0.0) + 24)
        lefts, at = [], float(_MARGIN)
        for width in widths:
            lefts.append(at)
            at += width + _GAP
        return lefts, widths

    @property
    def width(self) -> float:
        return self.left[-1] + self.widths[-1] + _MARGIN

    @property
    def height(self) -> float:
        return max(self.middle.values(), default=0.0) + _BOX_HEIGHT / 2 + _MARGIN


def svg(graph: Graph, asked: str | None = None) -> str:
    """The graph as an SVG document; ``asked`` is the table it is about, drawn with a thick edge."""
    layout = _Layout(graph)
    width, height = f"{layout.width:.0f}", f"{layout.height:.0f}"
    title = f"Tables around {asked}" if asked else "Tables and what they read"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-labelledby="title">',
        f'  <title id="title">{escape(title)}</title>',
        f"  <style>{_STYLE}  </style>",
        '  <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path class="tip" d="M0 0 L8 4 L0 8 Z"/></marker></defs>',
        f'  <rect class="paper" width="{width}" height="{height}"/>',
        *_lines(layout),
        *_boxes(layout, asked),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _lines(layout: _Layout) -> Iterator[str]:
    for way in layout.ways:
        right = layout.left[way[0].column] + layout.widths[way[0].column]
        path = [f"M{right:.0f} {layout.middle[way[0]]:.0f}"]
        at = (right, layout.middle[way[0]])
        for stop in way[1:]:
            to = (layout.left[stop.column], layout.middle[stop])
            half = (at[0] + to[0]) / 2
            path.append(f"C{half:.0f} {at[1]:.0f} {half:.0f} {to[1]:.0f} {to[0]:.0f} {to[1]:.0f}")
            if stop.edge is not None:
                to = (to[0] + layout.widths[stop.column], to[1])
                path.append(f"H{to[0]:.0f}")
            at = to
        ends = f"{way[0].name} → {way[-1].name}"
        yield (
            f'  <path class="line" d="{" ".join(path)}" marker-end="url(#tip)">'
            f"<title>{escape(ends)}</title></path>"
        )


def _boxes(layout: _Layout, asked: str | None) -> Iterator[str]:
    for name, stop in layout.stop_of.items():
        node = layout.graph.nodes[name]
        x, middle = layout.left[stop.column], layout.middle[stop]
        kinds = quoteattr(f"box {node.layer}{' asked' if name == asked else ''}")
        yield (
            f'  <rect class={kinds} x="{x:.0f}" y="{middle - _BOX_HEIGHT / 2:.0f}" '
            f'width="{layout.widths[stop.column]:.0f}" height="{_BOX_HEIGHT}" rx="6"/>'
        )
        yield (
            f'  <text class="name" x="{x + 12:.0f}" y="{middle - 3:.0f}">{escape(name)}</text>'
            f'<text class="about" x="{x + 12:.0f}" y="{middle + 14:.0f}">'
            f"{escape(node.about)}</text>"
        )


def _mean(values: list[float] | list[int], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
