"""Several explanations: what is deleted with them goes, what is not stays; and what would have to come."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

import everview as ev
from everview import col
from everview.graph import Graph
from everview.language.relation import relation_of


@pytest.fixture
def db() -> Iterator[ev.Session]:
    with ev.connect() as session:
        yield session


def reachable(db: ev.Session, edges: list[tuple[int, int]]) -> Any:
    edge = db.table("edge", {"src": int, "dst": int})
    rules = db.datalog("reach(0). reach(Y) :- reach(X), edge(X, Y).")
    edge.insert(edges)
    return rules.reach


def paths(edges: set[tuple[int, int]], goal: int) -> set[frozenset[tuple[int, int]]]:
    """The edges of all simple paths from 0."""
    found: set[frozenset[tuple[int, int]]] = set()

    def walk(node: int, used: tuple[tuple[int, int], ...], seen: frozenset[int]) -> None:
        if node == goal:
            found.add(frozenset(used))
            return
        for a, b in edges:
            if a == node and b not in seen:
                walk(b, (*used, (a, b)), seen | {b})

    walk(0, (), frozenset({0}))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_witnesses_of_reachability_are_the_simple_paths(seed: int) -> None:
    rng = random.Random(seed)
    edges = {(rng.randrange(6), rng.randrange(6)) for _ in range(11)}
    with ev.connect() as db:
        reach = reachable(db, sorted(edges))
        for (node,) in sorted(reach.rows()):
            if node == 0:
                continue
            found = reach.why((node,), all=100)
            assert not found.truncated
            wanted = paths(edges, node)
            assert {frozenset(row for _, row in d.leaves()) for d in found} == wanted
            some = reach.why((node,), all=1)
            assert len(some) == 1 and some.truncated == (len(wanted) > 1)


@pytest.mark.parametrize("seed", range(5))
def test_deleting_the_leaves_of_all_witnesses_removes_the_row(seed: int) -> None:
    rng = random.Random(seed)
    edges = sorted({(rng.randrange(6), rng.randrange(6)) for _ in range(11)})
    with ev.connect() as db:
        reach = reachable(db, edges)
        for (node,) in sorted(reach.rows()):
            if node == 0:
                continue
            leaves = reach.why((node,), all=100).leaves()
            db["edge"].delete([row for _, row in leaves])
            assert (node,) not in reach.rows()
            db["edge"].insert([row for _, row in leaves])


def test_deleting_one_of_two_disjoint_witnesses_does_not(db: ev.Session) -> None:
    reach = reachable(db, [(0, 1), (1, 3), (0, 2), (2, 3)])
    one, two = reach.why((3,), all=5)
    assert not one.leaves() & two.leaves()
    db["edge"].delete([row for _, row in one.leaves()])
    assert reach.why((3,)).leaves() == two.leaves()
    db["edge"].delete([row for _, row in two.leaves()])
    assert (3,) not in reach.rows()


def test_witnesses_of_joins_and_unions_are_minimal(db: ev.Session) -> None:
    a, b = db.table("a", {"x": int, "y": int}), db.table("b", {"x": int})
    pairs = a.join(b, a.x == b.x).select(y=a.y).union_all(a.filter(col.x == 9).select(y=col.y)).distinct()
    view = db.view("v", pairs)
    a.insert([(1, 5), (2, 5), (9, 5)])
    b.insert([(1,), (2,), (9,)])
    found = view.why((5,), all=10)
    assert {frozenset(d.leaves()) for d in found} == {
        frozenset({("a", (1, 5)), ("b", (1,))}),
        frozenset({("a", (2, 5)), ("b", (2,))}),
        frozenset({("a", (9, 5))}),
    }
    for x, y in itertools.permutations(found, 2):
        assert not x.leaves() <= y.leaves()


def test_many_witnesses_are_cut_off_and_said_to_be(db: ev.Session) -> None:
    reach = reachable(db, [(a, b) for a in range(9) for b in range(9)])
    found = reach.why((8,), all=4)
    assert len(found) == 4 and found.truncated and str(found).endswith("there may be more")


# why not


@pytest.mark.parametrize("seed", range(6))
def test_adding_what_is_missing_makes_the_row_appear(seed: int) -> None:
    rng = random.Random(seed)
    with ev.connect() as db:
        r = db.table("r", {"a": int, "b": int})
        s = db.table("s", {"a": int, "b": int})
        for table in (r, s):
            table.insert([(rng.randrange(5), rng.randrange(5)) for _ in range(4)])
        views = [
            db.view("joined", r.join(s, r.b == s.a).select(a=r.a, b=s.b)),
            db.view("either", r.union_all(s).distinct()),
            db.view("filtered", r.filter(col.a < 4).select(a=col.b, b=col.a)),
            db.view("between", r.join(s, (r.b == s.a) & (r.a < s.b)).select(a=r.a, b=s.b)),
            db.view("least", r.group_by("a").agg(b=col.b.min())),
            *db.datalog("path(X, Y) :- r(X, Y). path(X, Z) :- path(X, Y), r(Y, Z).")._views.values(),
        ]
        tried = 0
        for view, a, b in itertools.product(views, range(6), range(6)):
            if (a, b) in view.rows():
                continue
            found = view.why_not((a, b))
            assert found.ways, (relation_of(view).label, a, b)
            missing = found.missing()
            if found.ways[0].failed or any(None in row for _, row in missing):
                continue
            tried += 1
            with db.transaction():
                for table_name, row in missing:
                    db[table_name].insert([row])
            assert (a, b) in view.rows(), (relation_of(view).label, a, b, missing)
            with db.transaction():
                for table_name, row in missing:
                    db[table_name].delete([row])
        assert tried > 40


def test_open_values_and_the_first_condition_that_fails(db: ev.Session) -> None:
    sales = db.table("sales", {"shop": str, "amount": int})
    large = db.view("large", sales.filter(col.amount > 4))
    sales.insert([("north", 3)])
    found = large.why_not(("north", None))
    assert str(found).splitlines()[1] == "- Filter amount > 4 is not true for ('north', 3)"
    assert large.why_not(("south", ...)).missing() == [("sales", ("south", None))]
    assert large.why_not(("south", 1)).to_dict()["row"] == ("south", 1)
    with pytest.raises(ev.InputError) as error:
        sales.insert([("north", 9)])
        large.why_not(("north", None))
    assert error.value.code == "E_PRESENT"


def test_what_stands_in_the_way(db: ev.Session) -> None:
    edge, root = db.table("edge", {"src": str, "dst": str}), db.table("root", {"node": str})
    rules = db.datalog("reach(X) :- root(X). reach(Y) :- reach(X), edge(X, Y). orphan(X) :- edge(X, _), not reach(X).")
    root.insert([("a",)])
    edge.insert([("a", "b"), ("b", "c")])
    assert "reach('b') is there" in str(rules.orphan.why_not(("b",)))
    top = db.view("top", edge.top(1, col.src))
    assert "number 2 of 2" in str(top.why_not(("b", "c")))
    counted = db.view("counted", edge.group_by("src").agg(n=ev.count()))
    assert "gives ('a', 1) instead" in str(counted.why_not(("a", 7)))


def test_a_way_that_is_hidden_now_may_be_another(db: ev.Session) -> None:
    """The nearest way is two hops long; a row that does not say so has another way without it."""
    step, start = db.table("step", {"a": str, "b": str}), db.table("start", {"a": str})
    rules = db.datalog("""
        far(X, 0) :- start(X).
        far(Y, D) :- far(X, D1), step(X, Y), D = min(D1 + 1).
        there(X)  :- far(X, D), D > 0.
    """)
    start.insert([("a",)])
    step.insert([("a", "b"), ("b", "z"), ("a", "c"), ("c", "d"), ("d", "z")])
    named, hidden = rules.far.why(("z", 2), all=9), rules.there.why(("z",), all=9)
    assert len(named) == len(hidden) == 1 and not named.truncated
    assert hidden.truncated
    gone = {"step": [("a", "b"), ("b", "z")], "start": []}
    assert rules.there.trust(("z",), without=gone) and not rules.far.trust(("z", 2), without=gone)


def test_a_loop_that_loses_rows_does_not_say_that_these_are_all() -> None:
    """A node of a core was there from the beginning: what it came of is known, and not all that keeps it there."""
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        core = db.view("core", Graph(edge).k_core(2))
        edge.insert([(1, 2), (2, 3), (3, 1), (3, 4)])
        assert sorted(core.rows()) == [(1,), (2,), (3,)]
        assert core.why((3,), all=50).truncated
