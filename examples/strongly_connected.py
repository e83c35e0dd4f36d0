"""Strongly connected components: a loop in a loop, the example of the differential dataflow paper.

Two nodes are strongly connected if each reaches the other. `trim` spreads the smallest node number along the edges (the
inner loop) and drops edges whose ends got different numbers: these cannot lie on a cycle of one component. Trimming
forwards and backwards until nothing is dropped (the outer loop) leaves exactly the edges inside components.
"""

from __future__ import annotations

import everview as ev
from everview import Collection, col


def smallest_reaching(edge: Collection) -> Collection:
    """(node, label): the smallest node from which `node` can be reached along `edge`, itself included."""
    ends = edge.select(node=edge.src).union_all(edge.select(node=edge.dst)).distinct()
    start = ends.select(node=col.node, label=col.node)

    def spread(label: Collection) -> Collection:
        hop = label.join(edge, label.node == edge.src).select(node=edge.dst, label=label.label)
        return hop.union_all(start).group_by("node").agg(label=col.label.min())

    return start.iterate(spread)


def trim(edge: Collection, inner: Collection) -> Collection:
    """The edges of `edge` whose ends have equal labels along `inner`, turned round."""
    label = smallest_reaching(inner)
    source, target = label.alias("source"), label.alias("target")
    tagged = edge.join(source, edge.src == source.node).join(target, edge.dst == target.node)
    return tagged.filter(source.label == target.label).select(src=edge.dst, dst=edge.src)


def scc_edges(edge: Collection) -> Collection:
    """The edges that lie inside a strongly connected component."""
    back = edge.select(src=edge.dst, dst=edge.src)

    def body(inside: Collection) -> Collection:
        return trim(back, trim(edge, inside))

    return edge.iterate(body)


def main() -> None:
    """Two cycles, joined by a bridge; then the cycles become one, then a cycle breaks."""
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        inside = db.view("inside", scc_edges(edge))

        edge.insert([(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 6), (6, 4)])
        print("two cycles:  ", sorted(inside.rows()))
        assert (3, 4) not in inside.rows()

        edge.insert([(5, 1)])
        print("one cycle:   ", sorted(inside.changes(since=db.time - 1)))
        assert (3, 4) in inside.rows()

        edge.delete([(2, 3)])
        print("cycle broken:", sorted(inside.rows()))
        assert sorted(inside.rows()) == [(4, 5), (5, 6), (6, 4)]


if __name__ == "__main__":
    main()
