"""Pictures of graphs are well-formed, complete, the same every time, and honest about what they leave out."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import everview as ev
from everview.errors import EverviewError
from everview.graph import Drawing, Graph, draw
from everview.graph.drawing import layout

SVG = "{http://www.w3.org/2000/svg}"


def parts(drawing: Drawing) -> tuple[list[ElementTree.Element], list[ElementTree.Element]]:
    """(nodes, arrows)"""
    root = ElementTree.fromstring(drawing.svg)
    circles = [c for c in root.iter(SVG + "circle") if c.get("class") != "loop"]
    return circles, list(root.iter(SVG + "line"))


def test_nodes_edges_and_colours() -> None:
    db = ev.connect()
    edge = db.table("edge", {"src": str, "dst": str})
    part = db.view("part", Graph(edge).wcc())
    edge.insert([("a", "b"), ("a", "b"), ("b", "c"), ("<x>", "&y"), ("c", "c")])
    drawing = draw(edge, groups=part)
    circles, lines = parts(drawing)
    colour = {c.find(SVG + "title").text: c.get("fill") for c in circles}  # type: ignore[union-attr]
    assert colour.keys() == {"a", "b", "c", "<x>", "&y"}
    assert len({colour["a"], colour["b"], colour["c"]}) == 1 and colour["a"] != colour["<x>"] == colour["&y"]
    assert len(lines) == 3 and drawing.svg.count('class="loop"') == 1
    assert (drawing.nodes, drawing.edges) == (5, 4)
    assert draw(edge, groups=part).svg == drawing.svg == drawing._repr_html_()
    edge.delete([("<x>", "&y")])
    assert len(parts(draw(edge, groups=part))[0]) == 3


def test_everything_is_inside_the_picture_and_apart() -> None:
    db = ev.connect()
    edge = db.table("edge", {"who": int, "whom": int})
    edge.insert([(i, (i * 7 + 1) % 50) for i in range(50)])
    circles, _ = parts(draw(edge, src="who", dst="whom", width=300, height=200))
    places = np.array([[float(c.get("cx", "nan")), float(c.get("cy", "nan"))] for c in circles])
    assert (places >= 0).all() and (places <= [300, 200]).all()
    assert len(np.unique(places.round(), axis=0)) == 50


def test_two_parts_are_drawn_apart() -> None:
    clique = [(a, b) for a in range(5) for b in range(a)]
    place = layout(10, np.array(clique + [(a + 5, b + 5) for a, b in clique]))
    inside = max(np.linalg.norm(place[a] - place[b]) for a, b in clique)
    assert min(np.linalg.norm(place[a] - place[b]) for a in range(5) for b in range(5, 10)) > inside


def test_large_graphs_are_cut_down_and_say_so(tmp_path: Path) -> None:
    db = ev.connect()
    edge = db.table("edge", {"src": int, "dst": int})
    edge.insert([(0, i) for i in range(1, 60)] + [(1, 2), (2, 3)])
    drawing = draw(edge, most=4)
    assert drawing.nodes == 4 and "the 4 best connected of 60 nodes" in drawing.svg
    drawing.save(tmp_path / "g.svg")
    assert ElementTree.parse(tmp_path / "g.svg").getroot().tag == SVG + "svg"


def test_nothing_can_be_drawn() -> None:
    db = ev.connect()
    assert parts(draw(db.table("edge", {"src": int, "dst": int}))) == ([], [])


def test_what_cannot_be_drawn_is_refused() -> None:
    db = ev.connect()
    edge = db.table("edge", {"src": int, "dst": int})
    one = db.table("one", {"node": int})
    for wrong, code in (
        (lambda: draw(edge.distinct()), "E_TYPE"),  # type: ignore[arg-type]
        (lambda: draw(edge, dst="dest"), "E_COLUMN"),
        (lambda: draw(edge, groups=one), "E_COLUMN"),
    ):
        with pytest.raises(EverviewError) as refused:
            wrong()
        assert refused.value.code == code
