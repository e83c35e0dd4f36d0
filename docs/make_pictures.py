"""Write the pictures of docs/graph.md: the page's own examples, drawn with `everview.graph.draw`.

`figure1.svg` is not among them: it is measured, by `benchmarks/figure1.py --plot docs/pictures/figure1.svg`.
"""

from __future__ import annotations

from pathlib import Path

import everview as ev
from everview import col
from everview.graph import Graph, draw

PICTURES = Path(__file__).resolve().parent / "pictures"

TALK = [
    *[("ann", "bob"), ("bob", "cleo"), ("cleo", "ann"), ("cleo", "dan"), ("bob", "ann")],
    *[("dan", "eve"), ("eve", "fay"), ("fay", "dan"), ("eve", "gus")],
    *[("gus", "hal"), ("hal", "gus"), ("ida", "ann"), ("hal", "joe")],
]


def components() -> None:
    """Strongly connected components, before and after one edge is added."""
    with ev.connect() as db:
        talk = db.table("talk", {"src": str, "dst": str})
        part = db.view("part", Graph(talk).scc())
        talk.insert(TALK)
        draw(talk, groups=part, width=420, height=300).save(PICTURES / "scc-before.svg")
        talk.insert([("gus", "cleo")])
        draw(talk, groups=part, width=420, height=300).save(PICTURES / "scc-after.svg")


def hops() -> None:
    """How many hops everybody is from ann."""
    with ev.connect() as db:
        talk = db.table("talk", {"src": str, "dst": str})
        start = db.table("start", {"node": str})
        far = db.view("far", Graph(talk).bfs(start).select(node=col.node, hops=col.hops))
        talk.insert(TALK)
        start.insert([("ann",)])
        draw(talk, groups=far, width=420, height=300).save(PICTURES / "hops.svg")


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    components()
    hops()
