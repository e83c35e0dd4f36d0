"""Routes in a building: where is the nearest free desk, and how does one get there while doors open and close?

Rooms and corridors are nodes, doors are edges with a length in metres, both ways. The question, (visitor's place,
desk), is a table: it changes as people arrive, the doors change as well, and the route on the screen follows.
"""

from __future__ import annotations

import everview as ev
from everview import Collection, col, lit
from everview.graph import Graph

DOORS = [
    ("entrance", "hall", 5),
    ("hall", "stairs", 10),
    ("hall", "lift", 8),
    ("stairs", "floor 1", 12),
    ("lift", "floor 1", 4),
    ("floor 1", "lab", 15),
    ("floor 1", "library", 20),
    ("lab", "library", 3),
]


def main() -> None:
    """A visitor asks for the library; the lift breaks down; the lab is locked."""
    with ev.connect() as db:
        door = db.table("door", {"a": str, "b": str, "metres": int})
        both = door.union_all(door.select(a=col.b, b=col.a, metres=col.metres))
        wanted = db.table("wanted", {"place": str, "goal": str})
        g = Graph(db.view("way", both), src="a", dst="b", weight="metres")
        route = db.view("route", g.shortest_path(wanted))
        length = db.view("length", g.distance(wanted))
        near = db.view("near", nearest(g, wanted))

        def show(what: str) -> None:
            print(f"{what}:")
            for place, goal, metres in length.rows():
                steps = sorted((step, node) for a, b, step, node in route.rows() if (a, b) == (place, goal))
                print(f"  {metres} m: {' > '.join(node for _, node in steps)}")

        with db.transaction():
            door.insert(DOORS)
            wanted.insert([("entrance", "library")])
        show("a visitor wants to go to the library")
        assert length.rows() == [("entrance", "library", 35)]

        door.delete([("hall", "lift", 8)])
        show("the lift is out of order")
        assert length.rows() == [("entrance", "library", 45)]

        door.delete([("floor 1", "lab", 15)])
        show("the lab is locked")
        assert length.rows() == [("entrance", "library", 47)]

        wanted.insert([("lab", "entrance")])
        show("someone in the lab wants to leave")
        print("within 20 m of a visitor:", ", ".join(sorted(node for (node,) in near.rows())))


def nearest(g: Graph, wanted: Collection) -> Collection:
    """(node): what lies within 20 metres of someone who asks."""
    asking = wanted.select(node=wanted.place).distinct()
    return g.sssp(asking).filter(col.cost.between(lit(1), 20)).select("node")


if __name__ == "__main__":
    main()
