"""Lean graphs within a budget: bytes after every commit, answers that stay right, and what is refused."""

from __future__ import annotations

import random

import numpy as np
import pytest

import everview as ev
from everview.errors import MemoryLimitError
from everview.graph import Graph
from everview.kernels.frontier import histories as histories_k
from tests.graph.recorded import lean_operators

NODES, EDGES = 400, 1500


def graph(seed: int = 1) -> np.ndarray:
    dice = np.random.default_rng(seed)
    return np.column_stack([dice.integers(0, NODES, (EDGES, 2)), dice.integers(1, 11, (EDGES, 1))])


def session(rows: np.ndarray) -> tuple[ev.Session, ev.Table, ev.Table]:
    db = ev.connect()
    edge, pair = db.table("edge", {"src": int, "dst": int, "w": int}), db.table("pair", {"a": int, "b": int})
    edge.insert(rows)
    return db, edge, pair


def in_bytes(db: ev.Session) -> int:
    return sum(o.about(histories_k.HISTORIES_BYTES) for o in lean_operators(db))


def test_what_is_committed_is_within_the_budget_and_right() -> None:
    """Questions come until most rows are dropped, edges change; a session without a budget says the same."""
    rows = graph()
    limit = 150_000
    budgeted, plain = session(rows), session(rows)
    views = [
        db.view("far", Graph(edge, weight="w", budget=b, memory="lean").distance(pair), plan="whole")
        for (db, edge, pair), b in ((budgeted, limit), (plain, None))
    ]
    dice = random.Random(5)
    there = [tuple(int(x) for x in row) for row in rows]
    for number in range(30):
        asked = [(dice.randrange(NODES), dice.randrange(NODES)) for _ in range(2 if number < 15 else 0)]
        gone = there.pop(dice.randrange(len(there)))
        there.append((dice.randrange(NODES), dice.randrange(NODES), dice.randrange(1, 11)))
        for db, edge, pair in (budgeted, plain):
            with db.transaction():
                edge.delete([gone])
                edge.insert([there[-1]])
                if asked:
                    pair.insert(asked)
        assert in_bytes(budgeted[0]) <= limit
        assert sorted(views[0].rows()) == sorted(views[1].rows())
    (stands,) = [b for b in budgeted[0].memory()["budgets"] if b.limit == limit]
    assert stands.used == in_bytes(budgeted[0]) and stands.dropped > 0
    assert in_bytes(plain[0]) > limit
    assert "within 150000 bytes" in views[0].explain() and "lean graphs" in str(budgeted[0].memory())


def test_a_new_question_is_refused_and_the_others_go_on() -> None:
    rows = graph()
    db, edge, pair = session(rows)
    far = db.view("far", Graph(edge, weight="w", budget="50kB").distance(pair), plan="whole")
    asked = 0
    with pytest.raises(MemoryLimitError, match="E_BUDGET"):
        for source in range(200):
            pair.insert([(source, 7)])
            asked += 1
    assert asked >= 5 and in_bytes(db) <= 50_000
    before = sorted(far.rows())
    with pytest.raises(MemoryLimitError, match="E_BUDGET"):
        pair.insert([(s, 7) for s in range(1000, 1100)])
    assert sorted(far.rows()) == before
    edge.insert([(0, 7, 0)])
    assert (0, 7, 0) in far.rows() and db.check() == []


def test_a_full_budget_holds_while_edges_change() -> None:
    """All rows are dropped; those that changes add are put into filters that must not grow any more."""
    limit, rows = 200_000, graph(3)
    full, plain = session(rows), session(rows)
    views = [
        db.view("far", Graph(edge, weight="w", budget=b, memory="lean").distance(pair), plan="whole")
        for (db, edge, pair), b in ((full, limit), (plain, None))
    ]
    asked: list[tuple[int, int]] = []
    with pytest.raises(MemoryLimitError, match="E_BUDGET"):
        for first in range(0, NODES, 8):
            full[2].insert([(source, 7) for source in range(first, first + 8)])
            asked += [(source, 7) for source in range(first, first + 8)]
    plain[2].insert(asked)
    dice = random.Random(4)
    there = [tuple(int(x) for x in row) for row in rows]
    for number in range(4):
        gone = there.pop(dice.randrange(len(there)))
        there.append((dice.randrange(NODES), dice.randrange(NODES), dice.randrange(1, 11)))
        for db, edge, _ in (full, plain):
            with db.transaction():
                edge.delete([gone])
                edge.insert([there[-1]])
        assert in_bytes(full[0]) <= limit and full[0].memory()["budgets"][-1].used <= limit
        assert sorted(views[0].rows()) == sorted(views[1].rows())
        if number == 2:
            with pytest.raises(MemoryLimitError, match="E_BUDGET"):
                full[2].insert([(source, 9) for source in range(300)])
    full[2].delete(asked[: len(asked) // 2])
    full[2].insert([(399, 8)])
    assert in_bytes(full[0]) <= limit


def test_a_new_node_is_no_new_question() -> None:
    """Every node is a source of its component: an edge with one that was not there must not be refused."""
    db, edge, _ = session(graph())
    part = db.view("part", Graph(edge, memory="lean").wcc())
    db.budget(in_bytes(db) + 100)
    for node in range(NODES, 2 * NODES):
        edge.insert([(0, node, 1)])
    assert len(part.rows()) >= 2 * NODES - 50 and db.check() == []


def test_the_session_has_a_budget_for_all_graphs() -> None:
    db, edge, pair = session(graph())
    other = db.table("other", {"src": int, "dst": int, "w": int})
    other.insert(graph(2))
    first = db.view("first", Graph(edge, weight="w", memory="lean").distance(pair), plan="whole")
    second = db.view("second", Graph(other, memory="lean").distance(pair), plan="whole")
    assert db.budget("250kB").limit == 250_000
    for source in range(20):
        pair.insert([(source, source + 1)])
        assert in_bytes(db) == db.budget().used <= 250_000
    assert db.budget().questions == 40 and db.budget().dropped > 0
    assert db.check() == []
    first.drop()
    assert db.budget().used == in_bytes(db) and db.budget().questions == 20
    second.drop()
    assert db.budget().used == 0


def test_memory_comes_back_when_questions_go() -> None:
    db, edge, pair = session(graph())
    db.view("far", Graph(edge, weight="w", memory="lean").distance(pair), plan="whole")
    empty = in_bytes(db)
    pair.insert([(s, 7) for s in range(50)])
    full = in_bytes(db)
    pair.delete([(s, 7) for s in range(50)])
    edge.insert([(0, 1, 1)])
    assert full > 400_000 and in_bytes(db) < empty + 200_000


def test_the_chance_is_near_the_best() -> None:
    """What the controller drops leaves little of the budget unused: within 15 % of its aim of 85 %."""
    db, edge, pair = session(graph())
    db.view("far", Graph(edge, weight="w", budget="250kB").distance(pair), plan="whole")
    pair.insert([(s, 7) for s in range(40)])
    assert 0.7 * 250_000 <= in_bytes(db) <= 250_000


def test_budgets_are_sizes() -> None:
    db, edge, _ = session(graph())
    with pytest.raises(ev.errors.InputError, match="size"):
        Graph(edge, budget="much")
    with pytest.raises(ev.errors.InputError, match="size"):
        db.budget(0)


def test_verifying_has_no_budget() -> None:
    """Everything is computed at once then, without what was dropped, and takes more than it does in the session."""
    db, edge, pair = session(graph())
    db.view("far", Graph(edge, weight="w", budget="50kB").distance(pair), plan="whole")
    with pytest.raises(MemoryLimitError, match="E_BUDGET"):
        for source in range(200):
            pair.insert([(source, 7)])
    edge.delete(edge.rows()[:3])
    assert db.check() == []
