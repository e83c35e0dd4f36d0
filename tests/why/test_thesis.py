"""The worked examples of liu-2016, chapter 3: figures 4 to 7, 9 and 10."""

from __future__ import annotations

from typing import Any

import pytest

import everview as ev
from everview.session.local_shards import local_shards
from everview.why.bdd import Diagrams

LINKS = {"p1": ("A", "B"), "p2": ("B", "C"), "p3": ("C", "A"), "p4": ("C", "B")}

PROVENANCE = {
    ("A", "A"): {"p1 p2 p3"},
    ("A", "B"): {"p1"},
    ("A", "C"): {"p1 p2"},
    ("B", "A"): {"p2 p3"},
    ("B", "B"): {"p2 p4", "p1 p2 p3"},
    ("B", "C"): {"p2"},
    ("C", "A"): {"p3"},
    ("C", "B"): {"p4", "p1 p3"},
    ("C", "C"): {"p2 p4", "p1 p2 p3"},
}
"""Figure 4, after the last step: the ways in which each pair is reachable, absorbed."""


def network(db: ev.Session) -> Any:
    link = db.table("link", {"src": str, "dst": str})
    rules = db.datalog("reachable(X, Y) :- link(X, Y). reachable(X, Z) :- link(X, Y), reachable(Y, Z).")
    link.insert(list(LINKS.values()))
    return rules.reachable


def test_absorption_provenance_of_figure_4() -> None:
    names = {row: name for name, row in LINKS.items()}
    with ev.connect() as db:
        reachable = network(db)
        found = {}
        for row in reachable.rows():
            ways = reachable.why(row, all=10)
            assert not ways.truncated
            found[row] = {" ".join(sorted(names[leaf] for _, leaf in way.leaves())) for way in ways}
        assert found == PROVENANCE


def test_the_deletion_of_figure_7_changes_nothing() -> None:
    """DRed deletes all nine rows when link(C, B) goes, and derives all of them again."""
    with ev.connect() as db:
        reachable = network(db)
        assert all(reachable.trust(row, without={"link": [LINKS["p4"]]}) for row in PROVENANCE)
        db["link"].delete([LINKS["p4"]])
        assert sorted(reachable.rows()) == sorted(PROVENANCE)
        assert reachable.changes(since=1) == []
        assert not reachable.trust(("C", "C"), without={"link": [LINKS["p2"]]})


def test_probabilities_of_figure_4() -> None:
    with ev.connect() as db:
        reachable = network(db)
        for row, ways in PROVENANCE.items():
            wanted = 0.0
            for number in range(16):
                there = {name for i, name in enumerate(LINKS) if number >> i & 1}
                wanted += any(set(way.split()) <= there for way in ways) / 16
            assert float(reachable.probability(row, {"link": 0.5})) == wanted


@pytest.mark.parametrize(("order", "nodes"), [([0, 1, 2, 3, 4, 5, 6, 7], 9), ([0, 4, 6, 1, 2, 5, 7, 3], 18)])
def test_diagrams_of_figure_10(order: list[int], nodes: int) -> None:
    """p0 (p1 + p2 p3) + (p4 + p6 p7) p5, depth first and breadth first."""
    table = Diagrams(1000)
    p = {link: table.variable(level) for level, link in enumerate(order)}
    left = table.both(p[0], table.either(p[1], table.both(p[2], p[3])))
    right = table.both(table.either(p[4], table.both(p[6], p[7])), p[5])
    assert len(table.below(table.either(left, right))) == nodes


# the same with provenance as a column


def reachable_pairs(link: Any) -> Any:
    onward = link.rename(dst="src", to="dst")
    return link.iterate(
        lambda found: found.join(onward, on="dst").select("src", dst=ev.col.to).union_all(link).distinct()
    )


@pytest.mark.parametrize("connect", [ev.connect, lambda: local_shards(3)], ids=["embedded", "shards"])
def test_the_column_has_the_expressions_of_figures_4_to_7(connect: Any) -> None:
    names = {row: name for name, row in LINKS.items()}
    with connect() as db:
        link = db.table("link", {"src": str, "dst": str})
        view = db.view("reachable", reachable_pairs(link), provenance="bdd")
        for row in LINKS.values():  # one after the other, as in the figures
            link.insert([row])

        def absorbed() -> dict[Any, set[str]]:
            return {
                row: {" ".join(sorted(names[v.row] for v in witness)) for witness in expression.witnesses()}
                for row, expression in view.provenances().items()
            }

        assert absorbed() == PROVENANCE
        link.delete([LINKS["p4"]])  # figure 7: no row leaves, three have fewer ways
        left = {row: {way for way in ways if "p4" not in way} for row, ways in PROVENANCE.items()}
        assert absorbed() == left and all(left.values())


FIGURE_9 = ["AB", "BF", "BC", "CF", "AD", "DF", "AE", "ED"]


def test_edges_that_come_breadth_first_get_the_depth_first_order_of_figure_10() -> None:
    edges = [tuple(e) for e in FIGURE_9]
    breadth_first = [edges[i] for i in (0, 4, 6, 1, 2, 5, 7, 3)]
    with ev.connect() as db:
        link = db.table("link", {"src": str, "dst": str})
        view = db.view("reachable", reachable_pairs(link), provenance="bdd")
        for edge in breadth_first:
            link.insert([edge])
        found = view.provenance(("A", "F"))
        assert [v.row for v in found.variables()] == edges
        assert found.size == 9  # 18 in the order in which they came: the test above
