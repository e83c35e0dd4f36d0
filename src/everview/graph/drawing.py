"""Draws a graph as SVG, for notebooks and files.

Force-directed layout: nodes repel each other and edges attract (Fruchterman and Reingold, in NumPy); the initial layout
is fixed, so an unchanged graph looks the same. All pairs of nodes repel, so it is for hundreds of nodes, not for
millions: a larger graph is reduced to its best connected nodes, and the picture says so.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everview.errors import InputError, PlanError, did_you_mean
from everview.session.table import Table
from everview.session.view import View

Points = NDArray[np.float64]

COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#eeca3b", "#79706e")
ROUNDS = 200
MARGIN = 24
NAMED = 60
"""Maximum number of nodes with names."""


class Drawing:
    """A picture that a notebook shows; `svg` is its text."""

    def __init__(self, svg: str, nodes: int, edges: int) -> None:
        self.svg, self.nodes, self.edges = svg, nodes, edges

    def __repr__(self) -> str:
        return f"Drawing({self.nodes} nodes, {self.edges} edges)"

    def _repr_html_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")


def draw(
    edges: View | Table,
    *,
    groups: View | Table | None = None,
    src: str = "src",
    dst: str = "dst",
    width: int = 640,
    height: int = 420,
    most: int = 300,
) -> Drawing:
    """Draw the current edges of a table or view, parallel ones as one. Nodes have the colour of their group, the second
    column of `groups` (the view of a component, say), whose first is the node.

    >>> import everview as ev
    >>> from everview.graph import Graph, draw
    >>> db = ev.connect()
    >>> knows = db.table("knows", {"src": str, "dst": str})
    >>> part = db.view("part", Graph(knows).wcc())
    >>> knows.insert([("ann", "bob"), ("bob", "cleo"), ("dan", "eve")])
    >>> draw(knows, groups=part)
    Drawing(5 nodes, 3 edges)
    """
    pairs = _pairs(edges, src, dst)
    degree = Counter(node for pair in pairs for node in pair)
    shown = [node for node, _ in degree.most_common(most)]
    left_out = len(degree) - len(shown)
    shown.sort(key=str)
    number = {node: i for i, node in enumerate(shown)}
    ends = [(number[a], number[b]) for a, b in pairs if a in number and b in number]
    places = layout(len(shown), np.array(ends, dtype=np.int64).reshape(-1, 2), width / height)
    colours = _colours(groups, shown)
    note = f"the {len(shown):,} best connected of {len(degree):,} nodes" if left_out else ""
    fitted = _fitted(places, width, height, _room_for_names(shown, width))
    svg = _svg(fitted, ends, shown, colours, (width, height), note)
    return Drawing(svg, len(shown), len(ends))


def _pairs(edges: View | Table, src: str, dst: str) -> list[tuple[Any, Any]]:
    """The two ends of every edge, each pair once, without NULL ends."""
    if not isinstance(edges, (View, Table)):
        raise InputError("E_TYPE", f"only a table or a view can be drawn, not {edges!r}", "install it: db.view(...)")
    names = list(edges.schema())
    for name in (src, dst):
        if name not in names:
            raise PlanError("E_COLUMN", f"{edges!r} has no column {name!r}", did_you_mean(name, names))
    a, b = names.index(src), names.index(dst)
    found = {(row[a], row[b]) for row in edges.rows() if row[a] is not None and row[b] is not None}
    return sorted(found, key=str)


def _colours(groups: View | Table | None, shown: list[Any]) -> list[str]:
    """Large groups get the colours first; a node without a group is grey."""
    if groups is None:
        return [COLOURS[0]] * len(shown)
    if len(groups.schema()) < 2:
        raise PlanError("E_COLUMN", f"{groups!r} has no group", "its first column is the node, its second the group")
    of = {row[0]: row[1] for row in groups.rows()}
    sizes = Counter(of[node] for node in shown if node in of)
    order = sorted(sizes, key=lambda group: (-sizes[group], str(group)))
    colour = {group: COLOURS[i % len(COLOURS)] for i, group in enumerate(order)}
    return [colour[of[node]] if node in of else "#bbb" for node in shown]


def layout(nodes: int, ends: NDArray[np.int64], stretch: float = 1.0) -> Points:
    """A position for every node: (nodes, 2). Neighbours are near each other.

    >>> a, b, c = layout(3, np.array([[0, 1]]))
    >>> bool(np.linalg.norm(a - b) < np.linalg.norm(a - c))
    True
    """
    angle = np.arange(nodes) * 2.399963  # the golden angle: a sunflower, without overlaps
    place: Points = np.sqrt(np.arange(nodes) + 0.5)[:, None] * np.column_stack([stretch * np.cos(angle), np.sin(angle)])
    a, b = ends[:, 0], ends[:, 1]
    for heat in np.linspace(0.6, 0.02, ROUNDS):
        apart = place[:, None, :] - place[None, :, :]
        far = np.maximum((apart**2).sum(axis=2), 0.01)
        move = (apart / far[:, :, None]).sum(axis=1)
        pull = place[a] - place[b]
        pull *= np.sqrt((pull**2).sum(axis=1, keepdims=True)) * 0.8
        np.add.at(move, a, -pull)
        np.add.at(move, b, pull)
        move -= place * np.array([0.04 / stretch, 0.04])  # disconnected parts would drift away
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        place = place + move / length * np.minimum(length, heat)
    return place


def _room_for_names(shown: list[Any], width: int) -> int:
    """Pixels to keep free on the left and on the right."""
    longest = max((len(str(node)) for node in shown), default=0) if len(shown) <= NAMED else 0
    return min(6 * longest, width // 5)


def _fitted(places: Points, width: int, height: int, aside: int) -> Points:
    """Positions in the picture's pixels."""
    if not len(places):
        return places
    low, high = places.min(axis=0), places.max(axis=0)
    room = np.array([width - 2 * aside, height]) - 2 * MARGIN
    scale = float((room / np.maximum(high - low, 1.0)).min())
    fitted: Points = (places - (low + high) / 2) * scale + np.array([width, height]) / 2
    return fitted


def _svg(
    places: Points,
    ends: list[tuple[int, int]],
    shown: list[Any],
    colours: list[str],
    size: tuple[int, int],
    note: str,
) -> str:
    width, height = size
    radius = 6.0 if len(shown) <= NAMED else 3.5
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'class="everview-graph">',
        "<style>.everview-graph line{stroke:#9aa3ad;stroke-width:1.1}"
        ".everview-graph text{font:11px sans-serif;fill:#444}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 1L8 4L0 7z" fill="#9aa3ad"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    parts += [_edge(places[a], places[b], radius) for a, b in ends]
    beside = _beside(places, ends) if len(shown) <= NAMED else []
    for i, ((x, y), node, colour) in enumerate(zip(places.tolist(), shown, colours, strict=True)):
        title = f"<title>{escape(str(node))}</title>"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}">{title}</circle>')
        if beside:
            parts.append(f"<text {beside[i]}>{escape(str(node))}</text>")
    if note:
        parts.append(f'<text x="8" y="{height - 8}">{note}</text>')
    return "\n".join([*parts, "</svg>"])


def _beside(places: Points, ends: list[tuple[int, int]]) -> list[str]:
    """The position of each node's name: in the widest gap between its edges."""
    angles: list[list[float]] = [[] for _ in places]
    for a, b in ends:
        dx, dy = (places[b] - places[a]).tolist()
        if a != b:
            angles[a].append(math.atan2(dy, dx))
            angles[b].append(math.atan2(-dy, -dx))
    found = []
    for (x, y), taken in zip(places.tolist(), angles, strict=True):
        free = _widest_gap(taken)
        dx, dy = math.cos(free), math.sin(free)
        anchor = "start" if dx > 0.3 else "end" if dx < -0.3 else "middle"
        found.append(f'x="{x + 10 * dx:.1f}" y="{y + 12 * dy + 4:.1f}" text-anchor="{anchor}"')
    return found


def _widest_gap(angles: list[float]) -> float:
    """The direction in the middle of the widest gap; up and to the right if there are no edges.

    >>> _widest_gap([0.0, 1.0]) == 0.5 + math.pi
    True
    """
    if not angles:
        return -math.pi / 4
    around = sorted(angles)
    gaps = [(after - before, before) for before, after in pairwise([*around, around[0] + 2 * math.pi])]
    width, before = max(gaps)
    return before + width / 2


def _edge(a: Points, b: Points, radius: float) -> str:
    """An arrow that ends at the rim of the other node; a self-loop is a ring."""
    between = b - a
    length = float(np.linalg.norm(between))
    if length == 0:
        return f'<circle cx="{a[0]:.1f}" cy="{a[1] - 9:.1f}" r="9" fill="none" stroke="#9aa3ad" class="loop"/>'
    tip = b - between / length * radius
    return f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{tip[0]:.1f}" y2="{tip[1]:.1f}" marker-end="url(#tip)"/>'
