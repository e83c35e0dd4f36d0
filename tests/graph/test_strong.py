"""Strong components by searches (`everview.kernels.strong`) say what SciPy says, and what loops say, at every time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

import everview as ev
from everview import col
from everview.errors import InputError
from everview.graph import Graph
from everview.kernels import structures
from everview.kernels.strong import component
from tests.graph.twins import Tables, Twins, apply, kept_as, random_step, taken, without_memory
from tests.inside import inside
from tests.spark import inprocess

EDGE = {"edge": {"src": int, "dst": int}}
WIDE = {"edge": {"kind": str, "src": int, "weight": int, "dst": int}}


def searching(db: ev.Session) -> list[Any]:
    """The operators that keep components."""
    return [o for o in inside(db).runtime.dataflow.operators() if o.kind == "components"]


def expected(edges: Counter[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """(node, least node of its component), by SciPy; nodes are from 0 to most."""
    held = [edge for edge, n in edges.items() if n > 0]
    ends = np.array(held, dtype=np.int64).reshape(-1, 2)
    matrix = csr_matrix((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(most + 1, most + 1))
    _, component_of = connected_components(matrix, connection="strong")
    nodes = np.unique(ends)
    least: dict[int, int] = {}
    for node in nodes.tolist():
        least.setdefault(int(component_of[node]), node)
    return [(node, least[int(component_of[node])]) for node in nodes.tolist()]


def drawn(dice: random.Random, nodes: int) -> dict[str, Any]:
    """Edges of a random graph, with self-loops and parallel ones."""
    return {"edge": lambda: (dice.randrange(nodes), dice.randrange(nodes))}


def follows_scipy(seed: int, nodes: int, per_node: float, steps: int, most: int) -> None:
    """A random history, each step of which has several transactions; after each transaction compared with SciPy."""
    dice = random.Random(seed)
    held: Counter[tuple[int, int]] = Counter()
    with ev.connect() as db:
        edge = db.table("edge", EDGE["edge"])
        part = db.view("part", Graph(edge).scc())
        inner = db.view("inner", Graph(edge).scc_edges())
        assert len(searching(db)) == 2 and kept_as(part) == kept_as(inner) == ["components"]
        for _ in range(steps):
            wanted: dict[int, Counter[tuple[int, int]]] = {}
            with db.batch():
                for number in range(dice.choice((1, 1, 3))):
                    with db.transaction():
                        for _ in range(dice.randint(1, most)):
                            row = (dice.randrange(nodes), dice.randrange(nodes))
                            sign = 1
                            if held and sum(held.values()) > per_node * nodes * dice.random() * 2:
                                row, sign = dice.choice(sorted(held.elements())), -1
                            (edge.insert if sign > 0 else edge.delete)([row])
                            held[row] += sign
                            held = +held
                    wanted[number] = Counter(held)
            first = db.time - len(wanted) + 1
            for number, edges in wanted.items():
                right = expected(edges, nodes)
                assert sorted(part.as_of(first + number).rows()) == right
                name = dict(right)
                kept = sorted(e for e in edges.elements() if name[e[0]] == name[e[1]])
                assert sorted(inner.as_of(first + number).rows()) == kept


@pytest.mark.parametrize("seed", range(8))
def test_random_histories(seed: int) -> None:
    nodes, per_node = ((4, 1.2), (7, 1.5), (12, 1.1), (12, 2.5), (30, 1.3), (30, 2.0), (80, 1.6), (5, 3.0))[seed]
    follows_scipy(seed, nodes, per_node, 25, most=(2, 6, 4, 3, 12, 5, 30, 4)[seed])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_random_histories(seed: int) -> None:
    dice = random.Random(seed)
    nodes = dice.choice((3, 5, 8, 13, 20, 40, 100))
    follows_scipy(seed, nodes, dice.choice((0.8, 1.1, 1.5, 2.0, 3.0)), 40, most=dice.choice((1, 3, 10, nodes)))


def views(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
    """In the library's words, and over edges of other forms."""
    e = t["edge"]
    g = Graph(e, src="src", dst="dst")
    heavy = Graph(e.filter(e.weight > 1), src="src", dst="dst")
    texts = e.select(src=e.src.cast(str), dst=e.dst.cast(str))
    return {
        "scc": g.scc(),
        "edges": g.scc_edges(),
        "heavy": heavy.scc(),
        "texts": Graph(texts).scc(),
        "sizes": g.scc().group_by("component").agg(nodes=col.node.count()),
    }


@pytest.mark.parametrize("seed", range(2))
def test_what_loops_say(seed: int) -> None:
    """In every transaction of a step: filters, columns between the ends, strings, views of the view."""
    dice = random.Random(seed)
    twins = Twins(WIDE, views)
    kept = {name: kept_as(view) for name, view in twins.views[0].items()}
    assert kept.pop("sizes") == [] and set(map(tuple, kept.values())) == {("components",)}
    nodes = (6, 14)[seed]
    draw = {"edge": lambda: (dice.choice("ab"), dice.randrange(nodes), dice.randint(1, 3), dice.randrange(nodes))}
    for _ in range(12):
        twins.step(random_step(twins, dice, draw, int(1.6 * nodes), most=6))
    twins.step([taken(twins.held)])
    twins.step(random_step(twins, dice, draw, nodes, most=20))
    twins.close()


def test_nodes_without_edges_and_nodes_far_apart() -> None:
    far = [0, -(2**62), 2**62, 5, 2**40]
    with ev.connect() as db:
        edge, person = db.table("edge", {"src": int, "dst": int}), db.table("person", {"node": int})
        part = db.view("part", Graph(edge, nodes=person).scc())
        person.insert([(n,) for n in (7, far[1])])
        assert sorted(part.rows()) == [(far[1], far[1]), (7, 7)]
        edge.insert(list(zip(far, far[1:] + far[:1], strict=True)))
        assert sorted(part.rows()) == sorted([(n, far[1]) for n in far] + [(7, 7)])
        person.delete([(far[1],)])
        edge.delete([(far[0], far[1]), (far[1], far[2])])  # the node that named the component is gone with its edges
        assert sorted(part.rows()) == sorted((n, n) for n in (*far[:1], *far[2:], 7))
        person.delete([(7,)])
        edge.insert([(2, 5), (5, 2), (5, 5)])
        assert (7, 7) not in part.rows() and set(part.lookup(5) + part.lookup(2)) == {(5, 2), (2, 2)}


def test_ends_that_are_null() -> None:
    with ev.connect() as db:
        edge = db.table("edge", {"src": ev.types.INT.optional(), "dst": ev.types.INT.optional()})
        part = db.view("part", Graph(edge).scc())
        edge.insert([(1, 2), (2, None), (None, 1), (None, None)])
        assert sorted(part.rows()) == [(1, 1), (2, 2)]
        edge.insert([(2, 1)])
        assert sorted(part.rows()) == [(1, 1), (2, 1)]


def ring(nodes: int) -> np.ndarray:
    return np.column_stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])


def test_a_ring_that_opens_and_closes() -> None:
    """Everything splits, everything merges; both again in one transaction at another place, which changes nothing."""
    n = 3000
    with ev.connect() as db:
        edge = db.table("edge", EDGE["edge"])
        part = db.view("part", Graph(edge).scc())
        edge.insert(ring(n))
        assert set(part.rows()) == {(i, 0) for i in range(n)}
        for cut in (0, n - 1, 1500):
            edge.delete([(cut, (cut + 1) % n)])
            assert set(part.rows()) == {(i, i) for i in range(n)}
            edge.insert([(cut, (cut + 1) % n)])
            assert set(part.rows()) == {(i, 0) for i in range(n)}
        before = db.time
        with db.transaction():
            edge.delete([(10, 11)])
            edge.insert([(10, 20), (20, 11)])
        assert part.changes(before) == []
        edge.delete([(10, 20)])
        assert len(set(part.rows())) == n and set(part.lookup(10)) == {(10, 10)}


def test_a_cycle_through_two_new_edges_and_the_largest_component() -> None:
    """Two new edges of one transaction, each of which closes a cycle only with the other, through a component that is
    not walked.
    """
    with ev.connect() as db:
        edge = db.table("edge", EDGE["edge"])
        part = db.view("part", Graph(edge).scc())
        edge.insert([(6, 7), (7, 6), (0, 5), (5, 6), (3, 7)])
        with db.transaction():
            edge.insert([(0, 3), (6, 0)])
        assert sorted(part.rows()) == [(0, 0), (3, 0), (5, 0), (6, 0), (7, 0)]


def test_more_work_than_finding_all_anew() -> None:
    """A transaction whose searches would look at more edges than there are: all components are found again."""
    rng = np.random.default_rng(3)
    n = 4000
    edges = np.unique(rng.integers(0, n, size=(9000, 2)), axis=0)
    held = Counter(map(tuple, edges.tolist()))
    with ev.connect() as db:
        edge = db.table("edge", EDGE["edge"])
        part = db.view("part", Graph(edge).scc())
        edge.insert(edges)
        (operator,) = searching(db)
        for share in (0.5, 0.02, 0.9):
            gone = edges[rng.random(len(edges)) < share]
            for sign in (-1, 1):
                (edge.delete if sign < 0 else edge.insert)(gone)
                held.update({tuple(row): sign for row in gone.tolist()})
                assert sorted(part.rows()) == expected(held, n)
        made = structures.peek(operator.context, component.STRONG_COMPS_N)
        for _ in range(40):  # numbers of components that went are used again
            edge.delete(edges[:4000])
            edge.insert(edges[:4000])
        assert structures.peek(operator.context, component.STRONG_COMPS_N) < 4 * made + 10_000
        assert sorted(part.rows()) == expected(held, n)


def test_a_step_that_fails_leaves_nothing() -> None:
    """Refused, without memory, or only supposed: what follows is as if it had never been."""
    dice = random.Random(8)
    draw = drawn(dice, 14)
    twins = Twins(EDGE, lambda db, t: {"part": Graph(t["edge"]).scc()})

    def change() -> dict[str, Counter[Any]]:
        come = Counter(draw["edge"]() for _ in range(9))
        gone = Counter(dice.sample(sorted(twins.held["edge"].elements()), 5))
        return {"edge": Counter({row: come[row] - gone[row] for row in come | gone if come[row] != gone[row]})}

    twins.step([{"edge": Counter(draw["edge"]() for _ in range(26))}])
    db, tables = twins.dbs[0], twins.tables[0]

    def run(what: dict[str, Counter[Any]], *, absent: bool = False) -> None:
        with db.transaction():
            apply(tables, what)
            if absent:
                tables["edge"].delete([(-77, -77)])

    for number in range(12):
        before = sorted(twins.views[0]["part"].rows())
        if number % 3 == 0:
            with pytest.raises(InputError):
                run(change(), absent=True)
        elif number % 3 == 1:
            without_memory(partial(run), change(), every=3)
        else:
            with db.what_if():
                run(change())
        assert sorted(twins.views[0]["part"].rows()) == before
        twins.step(random_step(twins, dice, draw, 24, most=5))
    twins.close()


def test_a_long_change_can_be_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each of its pauses: while all is found, hops are made, a half breaks off, names change."""
    n = 150_000
    db = ev.connect()
    edge = db.table("edge", EDGE["edge"])
    part = db.view("part", Graph(edge).scc())
    half = n // 2
    two = np.concatenate([ring(half), ring(half) + half, np.array([[5, half + 7], [half + 9, 3]])])
    edge.insert(two)
    assert set(part.lookup(n - 1)) == {(n - 1, 0)}
    pauses = 0
    for wanted in range(1, 40):
        heard = 0

        def interrupted(wanted: int = wanted) -> None:
            nonlocal heard
            heard += 1
            if heard == wanted:
                raise KeyboardInterrupt

        monkeypatch.setattr("everview.dataflow.shield.hear", interrupted)
        try:
            edge.delete([(half + 9, 3)])
        except KeyboardInterrupt:
            pauses += 1
        monkeypatch.undo()
        if heard < wanted:
            break
        assert set(part.lookup(n - 1) + part.lookup(half)) == {(n - 1, 0), (half, 0)}
    assert pauses >= 3
    assert set(part.lookup(n - 1) + part.lookup(half - 1)) == {(n - 1, half), (half - 1, 0)}
    db.close()


def test_in_a_directory(tmp_path: Path) -> None:
    """Reopened, the components are found again at the first change, which says no more than it changes."""
    dice = random.Random(4)
    held: Counter[tuple[int, int]] = Counter()
    for _ in range(4):
        with ev.connect(str(tmp_path / "d")) as db:
            edge = db["edge"] if "edge" in db else db.table("edge", EDGE["edge"])
            part = db["part"] if "part" in db else db.view("part", Graph(edge).scc())
            assert sorted(part.rows()) == expected(held, 20)
            for _ in range(6):
                row = (dice.randrange(20), dice.randrange(20))
                held[row] += 1
                edge.insert([row])
                if dice.random() < 0.6:
                    row = dice.choice(sorted(held.elements()))
                    held[row] -= 1
                    held = +held
                    before = dict(part.rows())
                    edge.delete([row])
                    after = dict(expected(held, 20))
                    said = {(r, d) for r, _, d in part.changes(db.time - 1)}
                    gone = {(r, -1) for r in before.items() if after.get(r[0]) != r[1]}
                    assert said == gone | {(r, 1) for r in after.items() if before.get(r[0]) != r[1]}
                assert sorted(part.rows()) == expected(held, 20)
            if dice.random() < 0.5:
                db.checkpoint()


def test_where_loops_stay(tmp_path: Path) -> None:
    with ev.connect() as db:
        edge = db.table("edge", EDGE["edge"])
        assert kept_as(db.view("asked", Graph(edge).scc(), plan="rounds"))[0] == "rounds"
        again = edge.union_all(edge, edge.select("src", "dst").negate())
        assert "components" not in kept_as(db.view("negative", Graph(again).scc()))
    with ev.connect(inprocess.session(), state=str(tmp_path), shards=2) as db:
        edge = db.table("edge", EDGE["edge"])
        part = db.view("part", Graph(edge).scc())
        assert "components" not in kept_as(part)
        edge.insert([(1, 2), (2, 1), (2, 3)])
        assert sorted(part.rows()) == [(1, 1), (2, 1), (3, 3)]
