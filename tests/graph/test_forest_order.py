"""What `everview.kernels.frontier.repair` relies on: parents come before children, and edges hold them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

import everview as ev
from everview import col, lit
from everview.graph import Graph
from everview.kernels import structures
from everview.kernels.frontier import forest as k
from tests.graph.twins import Tables, Twins, apply, operators, random_step, without_memory

SCHEMAS: dict[str, dict[str, Any]] = {"edge": {"src": int, "dst": int, "w": int}, "source": {"node": int}}


class Vertex(NamedTuple):
    value: int
    parent: int
    depth: int
    flags: int

    @property
    def level(self) -> int:
        return self.depth >> k.BESIDE_BITS


def vertices(operator: Any) -> dict[int, Vertex]:
    """All that stand, by node; parents are nodes too, or OWN_VALUE."""
    ctx = operator.context
    entries = structures.peek(ctx, k.FOREST_ENTRIES)

    def word(entry: int, which: int) -> int:
        return structures.peek(entries, 1 + entry * k.VERTEX_QUESTION + which)

    found = {}
    for entry in range(structures.peek(ctx, k.FOREST_ENTRIES_N)):
        parent = word(entry, k.VERTEX_PARENT)
        if parent != k.NO_PARENT:
            up = k.OWN_VALUE if parent == k.OWN_VALUE else word(parent, k.VERTEX_NODE)
            rest = (word(entry, k.VERTEX_DEPTH), word(entry, k.VERTEX_FLAGS))
            found[word(entry, k.VERTEX_NODE)] = Vertex(word(entry, k.VERTEX_VALUE), up, *rest)
    return found


def check_order(held: dict[int, Vertex], edges: set[tuple[int, int]]) -> int:
    """Look at every vertex; how many hang beside others of their level. Nodes are positive, so OWN_VALUE is none."""
    beside = 0
    for node, v in held.items():
        assert v.flags & k.FLAG_SUSPECT == 0
        if v.parent == k.OWN_VALUE:
            continue
        up = held[v.parent]
        assert (v.parent, node) in edges
        assert (up.value, up.depth) < (v.value, v.depth)
        if up.value == v.value and up.level == v.level:
            assert up.flags & k.FLAG_BESIDE
            beside += 1
    return beside


def views(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
    g = Graph(t["edge"], weight="w")
    return {"wcc": g.wcc(), "reach": g.reach(t["source"]), "sssp": g.sssp(t["source"]), "widest": widest(t)}


def widest(t: Tables) -> ev.Collection:
    """The least, over paths, of the largest weight: many values tie."""
    start, e = t["source"].select(node=col.node, worst=lit(-1)).distinct(), t["edge"]

    def body(x: ev.Collection) -> ev.Collection:
        on = x.join(e, x.node == e.src).select(node=e.dst, worst=ev.greatest(x.worst, e.w))
        return on.union_all(start).group_by("node").agg(worst=col.worst.min())

    return start.iterate(body)


def check_all(twins: Twins) -> int:
    there = {(src, dst) for src, dst, _ in twins.held["edge"]}
    both = there | {(dst, src) for src, dst in there}
    return sum(check_order(vertices(o), both) for o in operators(twins.dbs[0]))


def drawn(dice: random.Random, nodes: int) -> dict[str, Any]:
    node = lambda: dice.randrange(1, nodes)  # noqa: E731
    return {"edge": lambda: (node(), node(), dice.choice((0, 0, 0, 1, 2))), "source": lambda: (node(),)}


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, 30))])
def test_parents_come_before_children(seed: int) -> None:
    dice = random.Random(seed)
    twins = Twins(SCHEMAS, views)
    draw = drawn(dice, 40 + 10 * (seed % 3))
    beside = 0
    for number in range(60):
        target = 40 if number == 30 else 150
        if number % 15 == 14:  # a step that fails wherever it can leaves all as it was
            (change, *_) = random_step(twins, dice, draw, target, most=30)
            for name in change:
                change[name] = Counter({row: n for row, n in change[name].items() if n > 0})
            without_memory(lambda change: apply(twins.tables[0], change), change, every=5)
        else:
            twins.step(random_step(twins, dice, draw, target, most=40))
        beside += check_all(twins)
    assert beside > 20  # or nothing was tested
    twins.close()


def test_a_cut_vertex_stays_on_its_level() -> None:
    """1 has 2 and 3 as neighbours, and they each other: without its edge to 1, 3 hangs beside 2, and its own stay."""
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        db.view("part", Graph(edge).wcc())
        edge.insert([(1, 2), (1, 3), (2, 3), (3, 4), (4, 5)])
        (trees,) = operators(db)
        before = vertices(trees)
        assert (before[3].parent, before[3].level) == (1, 1)
        edge.delete([(1, 3)])
        after = vertices(trees)
        assert (after[3].parent, after[3].level) == (2, 1)
        assert after[2].flags & k.FLAG_BESIDE
        assert (after[4], after[5]) == (before[4], before[5])
        edge.insert([(1, 3)])
        edge.delete([(1, 2)])  # now 3 hangs from 2, so 2 cannot hang from 3: both fall and grow again
        edge.delete([(2, 3)])
        assert sorted(vertices(trees)) == [1, 3, 4, 5]


def test_the_own_value_of_a_vertex_is_asked_for_when_it_counts() -> None:
    """Deletions leave it in doubt: whether 3 is there at all is only read when nothing else holds it."""
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        part = db.view("part", Graph(edge).wcc())
        edge.insert([(1, 2), (2, 3), (1, 3), (3, 3)])
        (trees,) = operators(db)
        edge.delete([(2, 3)])
        assert vertices(trees)[3].flags & k.FLAG_DOUBT
        edge.delete([(1, 3)])
        assert sorted(part.rows()) == [(1, 1), (2, 1), (3, 3)]
        assert vertices(trees)[3].flags & k.FLAG_DOUBT == 0
        with db.transaction():
            edge.insert([(2, 3)])
            edge.delete([(3, 3)])
        assert sorted(part.rows()) == [(1, 1), (2, 1), (3, 1)]
        edge.delete([(2, 3)])
        assert sorted(part.rows()) == [(1, 1), (2, 1)]
