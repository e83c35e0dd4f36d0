"""Loops kept as histories say what ordinary loops say, at every time, whatever is dropped and whatever happens."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview import col, lit
from everview.errors import InputError, LoopError, PlanError
from everview.graph import Graph
from everview.kernels.frontier import histories as histories_k
from tests.graph.recorded import drop_rows, from_scratch, held, lean_operators
from tests.graph.test_trees import INTS, STRINGS, _apply, drawn, schemas
from tests.graph.twins import Tables, Twins, kept_as, random_step, without_memory


def everything(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
    g, plain = Graph(t["edge"], weight="w", memory="lean"), Graph(t["edge"], memory="lean")
    return {
        "reach": plain.reach(t["source"]),
        "bfs": plain.bfs(t["source"]),
        "sssp": g.sssp(t["source"]),
        "k_hop": plain.k_hop(t["source"], 2),
        "wcc": plain.wcc(),
        "within": Graph(t["edge"], budget="1GB").within(2, t["source"]),
        "hops": plain.distance(t["pair"]),
        "costs": g.distance(t["pair"]),
        "widest": g.widest(t["source"]),
        "each": found_from_each(g, t["pair"]),
        "ranks": plain.pagerank(4),
        "own_ranks": plain.pagerank(3, sources=t["source"]),
    }


def found_from_each(g: Graph, pair: ev.Collection) -> ev.Collection:
    """Looked up in searches that start with something: only what is asked for is said, but no search is of pairs."""
    start = pair.select(node=pair.a, source=pair.a, cost=lit(5)).distinct()

    def relax(x: ev.Collection) -> ev.Collection:
        further = g.hop(x, source=x.source, cost=x.cost + g.weight_of())
        return further.union_all(start).group_by("node", "source").agg(cost=col.cost.min())

    far = g.iterate(start, relax)
    return pair.join(far, (pair.a == far.source) & (pair.b == far.node)).select(a=pair.a, b=pair.b, cost=far.cost)


def played(twins: Twins, seed: int, nodes: tuple[Any, ...], steps: int) -> None:
    """Random steps, compared after each."""
    dice = random.Random(seed)
    draw = drawn(dice, nodes, (0, 0, 1, 1, 2, 3))
    for number in range(steps):
        target = 0 if number == steps // 2 else 2 * len(nodes)
        twins.step(random_step(twins, dice, draw, target, most=12 if number % 10 == 0 else 4))


@pytest.mark.parametrize("nodes", [INTS, STRINGS], ids=["ints", "strings"])
@pytest.mark.parametrize("seed", range(2))
def test_random_histories(seed: int, nodes: tuple[Any, ...]) -> None:
    twins = Twins(schemas(type(nodes[0])), everything)
    for views, how in zip(twins.views, ("histories", "rounds"), strict=True):
        halves = ("hops", "costs") if how == "histories" else ()
        wanted = {name: ["halves" if name in halves else how] for name in views}
        assert {name: kept_as(view) for name, view in views.items()} == wanted
    played(twins, seed, nodes[: 4 + 2 * seed], steps=40)
    twins.close()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_histories(seed: int) -> None:
    nodes = (INTS, STRINGS)[seed % 2][: 3 + seed % 6]
    twins = Twins(schemas(type(nodes[0])), everything)
    if seed % 3:
        words = (0, 0, 1, 8)[seed % 4]
        drop_rows(twins.dbs[0], (0.3, 0.7, 1.0)[seed % 3], exact=seed % 2 == 0, filter_words=words)
    played(twins, seed, nodes, steps=150)
    twins.close()


DROPPED = {
    "exact, some": {"part": 0.4, "exact": True},
    "exact, all": {"part": 1.0, "exact": True},
    "filters, some": {"part": 0.4},
    "filters, all": {"part": 1.0},
    "64 bits": {"part": 0.7, "filter_words": 1},
    "few edges": {"part": 0.5, "most": 3},
}


@pytest.mark.parametrize("how", DROPPED)
def test_answers_do_not_depend_on_what_is_dropped(how: str) -> None:
    twins = Twins(schemas(int), everything)
    drop_rows(twins.dbs[0], **DROPPED[how])  # type: ignore[arg-type]
    played(twins, len(how), INTS[:5], steps=25)
    recalled = [o.about(histories_k.HISTORIES_RECALLED) for o in lean_operators(twins.dbs[0])]
    assert sum(recalled) > 0
    twins.close()


# the thesis


LETTERS = "abcde"


def thesis_graph() -> tuple[ev.Session, ev.Table, ev.View]:
    db = ev.connect()
    edge = db.table("edge", {"src": int, "dst": int, "w": int})
    source = db.table("source", {"node": int})
    view = db.view("cost", Graph(edge, weight="w", memory="lean").sssp(source))
    edge.insert(edges("ab30 bc10 cd10 ad20 de10 ae10 dc20"))
    source.insert([(0,)])
    return db, edge, view


def edges(text: str) -> list[tuple[int, int, int]]:
    return [(LETTERS.index(e[0]), LETTERS.index(e[1]), int(e[2:])) for e in text.split()]


def rows_of(db: ev.Session) -> dict[str, dict[int, int]]:
    (operator,) = lean_operators(db)
    return {LETTERS[node]: dict(some) for node, some in sorted(held(operator)[()].items())}


def test_table_2_1_of_the_thesis() -> None:
    """The positive differences of D, merged along the graph's versions (an infinite distance is no row here)."""
    db, edge, view = thesis_graph()
    first = {"a": {0: 0}, "b": {1: 30}, "c": {2: 40}, "d": {1: 20}, "e": {1: 10}}
    assert rows_of(db) == first
    with db.transaction():
        edge.delete(edges("ad20"))
        edge.insert(edges("ad100"))
    assert rows_of(db) == first | {"d": {1: 100, 3: 50}}
    assert dict(view.rows()) == {0: 0, 1: 30, 2: 40, 3: 50, 4: 10}
    with db.transaction():
        edge.delete(edges("bc10"))
        edge.insert(edges("bc100"))
    assert rows_of(db) == first | {"c": {2: 120}, "d": {1: 100}}
    assert dict(view.rows()) == {0: 0, 1: 30, 2: 120, 3: 100, 4: 10}


def test_table_2_2_of_the_thesis() -> None:
    """What is kept when the third version comes: one row for each change of a vertex, no join, no negative part."""
    db, edge, _ = thesis_graph()
    with db.transaction():
        edge.delete(edges("ad20"))
        edge.insert(edges("ad100"))
    by_round: dict[int, set[tuple[str, int]]] = {}
    for vertex, rows in rows_of(db).items():
        for number, value in rows.items():
            by_round.setdefault(number, set()).add((vertex, value))
    assert by_round == {0: {("a", 0)}, 1: {("b", 30), ("d", 100), ("e", 10)}, 2: {("c", 40)}, 3: {("d", 50)}}


def test_rows_are_those_of_rounds_from_scratch() -> None:
    """Whatever changed before: also after deletions, of sources too, nothing stays that nothing supports."""
    dice = random.Random(4)
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int, "w": int}), db.table("source", {"node": int})
    db.view("cost", Graph(edge, weight="w", memory="lean").sssp(source))
    there: list[tuple[int, int, int]] = []
    sources: set[int] = set()
    (operator,) = lean_operators(db)
    for _ in range(150):
        with db.transaction():
            for _ in range(dice.choice((1, 1, 2, 5))):
                if there and dice.random() < 0.45:
                    edge.delete([there.pop(dice.randrange(len(there)))])
                else:
                    there.append((dice.randrange(8), dice.randrange(8), dice.choice((0, 1, 1, 2, 5))))
                    edge.insert([there[-1]])
            node = dice.randrange(8)
            if dice.random() < 0.2:
                (source.delete if node in sources else source.insert)([(node,)])
                sources ^= {node}
        wanted = from_scratch(there, dict.fromkeys(sources, 0), lambda x, w: x + w)
        assert held(operator).get((), {}) == wanted


# whatever happens


def test_a_negative_cycle_and_a_path_too_long_are_refused() -> None:
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int, "w": int}), db.table("source", {"node": int})
    cost = db.view("cost", Graph(edge, weight="w", memory="lean").sssp(source))
    source.insert([(1,)])
    edge.insert([(1, 2, 5), (2, 3, -2)])
    with pytest.raises(LoopError, match="negative"):
        edge.insert([(3, 2, 1)])
    with pytest.raises(InputError, match="64 bits"):
        edge.insert([(3, 4, 2**63 - 1), (4, 5, 7)])
    assert sorted(cost.rows()) == [(1, 0), (2, 5), (3, 3)]
    edge.insert([(3, 2, 2)])
    edge.delete([(2, 3, -2)])
    assert sorted(cost.rows()) == [(1, 0), (2, 5)]


def test_a_step_that_fails_leaves_the_rows_as_they_were() -> None:
    dice = random.Random(11)
    twins = Twins(schemas(int), everything)
    drop_rows(twins.dbs[0], 0.4, exact=True, most=3)
    draw = drawn(dice, tuple(range(7)), (0, 1, 2))
    db, tables = twins.dbs[0], twins.tables[0]
    for number in range(16):
        twins.step(random_step(twins, dice, draw, 14))
        before = [held(o) for o in lean_operators(db)]
        change = random_step(twins, dice, draw, 14, most=8)[0]
        with pytest.raises(InputError):
            _apply(db, tables, change, absent=True)
        assert [held(o) for o in lean_operators(db)] == before
        if number % 8 == 0:
            without_memory(partial(_apply, db, tables, absent=False), change)
        twins.check([db.time for db in twins.dbs])
    twins.close()


def test_a_directory_that_is_opened_again(tmp_path: Path) -> None:
    dice = random.Random(3)
    draw = drawn(dice, tuple(range(7)), (0, 1, 2))
    twins = Twins(schemas(int), everything, ev.connect(tmp_path / "one"), ev.connect(tmp_path / "two"))
    for round_ in range(3):
        for _ in range(5):
            twins.step(random_step(twins, dice, draw, 14))
        if round_ == 1:
            twins.dbs[0].checkpoint()
        for db in twins.dbs:
            db.close()
        twins.dbs = [ev.connect(tmp_path / name) for name in ("one", "two")]
        twins.tables = [{name: db[name] for name in schemas(int)} for db in twins.dbs]
        twins.views = [{name: db[name] for name in twins.views[0]} for db in twins.dbs]
        assert lean_operators(twins.dbs[0]) and not lean_operators(twins.dbs[1])
        assert twins.dbs[0].check() == []
        twins.check([db.time for db in twins.dbs])
    twins.close()


def test_a_long_path_and_a_star() -> None:
    n = 20_000
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    hops = db.view("hops", Graph(edge, memory="lean").bfs(source))
    drop_rows(db, 0.5)
    source.insert([(0,)])
    edge.insert(np.column_stack([np.arange(n), np.arange(n) + 1]))
    assert hops.lookup(n) == [(n, n)]
    edge.delete([(n - 100, n - 99)])
    assert hops.lookup(n) == [] and hops.lookup(10) == [(10, 10)]
    edge.insert([(n - 100, n - 99)])
    assert hops.lookup(n) == [(n, n)]
    edge.insert(np.column_stack([np.zeros(n, dtype=np.int64), np.arange(n) + 2 * n]))
    assert hops.lookup(3 * n - 1) == [(3 * n - 1, 1)]


def test_a_long_step_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    hops = db.view("hops", Graph(edge, memory="lean").bfs(source))
    source.insert([(0,)])
    edge.insert([(0, 1), (1, 2)])
    n = 200_000
    many = np.column_stack([np.full(n, 2), np.arange(n) + 3])

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("everview.dataflow.shield.hear", interrupted)
    with pytest.raises(KeyboardInterrupt):
        edge.insert(many)
    monkeypatch.undo()
    assert sorted(hops.rows()) == [(0, 0), (1, 1), (2, 2)]
    edge.insert(many)
    assert len(hops.rows()) == n + 3 and hops.lookup(n) == [(n, 3)]


def test_only_what_is_asked_for_is_said() -> None:
    """The distances of a few pairs need no row of output for each node on the way."""
    db = ev.connect()
    edge, pair = db.table("edge", {"src": int, "dst": int}), db.table("pair", {"a": int, "b": int})
    far = db.view("far", Graph(edge, memory="lean").distance(pair), plan="whole")
    edge.insert([(i, i + 1) for i in range(2000)])
    pair.insert([(0, 2000), (0, 7), (5, 5), (3, 1)])
    assert sorted(far.rows()) == [(0, 7, 7), (0, 2000, 2000), (5, 5, 0)]
    (operator,) = lean_operators(db)
    assert operator.measure()[1] <= 3
    pair.delete([(0, 7)])
    edge.delete([(1000, 1001)])
    assert sorted(far.rows()) == [(5, 5, 0)]
    assert operator.about(histories_k.HISTORIES_QUESTIONS) == 3
    pair.delete([(0, 2000), (5, 5)])
    edge.insert([(7000, 7001)])
    assert operator.about(histories_k.HISTORIES_QUESTIONS) == 1


def test_loops_that_are_none_of_these_stay_loops() -> None:
    db = ev.connect()
    edge = db.table("edge", {"src": int, "dst": int})
    lean = Graph(edge, memory="lean")
    assert kept_as(db.view("label", lean.label_propagation(3))) == ["rounds"]
    assert kept_as(db.view("settled", lean.pagerank(None))) == ["rounds"]
    with pytest.raises(PlanError, match="memory"):
        Graph(edge, memory="small")  # type: ignore[arg-type]


def test_lean_takes_less_than_loops() -> None:
    dice = np.random.default_rng(1)
    rows = np.column_stack([dice.integers(0, 2000, (8000, 2)), dice.integers(1, 11, (8000, 1))])
    taken = {}
    for memory, plan in (("fast", "rounds"), ("lean", "whole")):
        db = ev.connect()
        edge, pair = db.table("edge", {"src": int, "dst": int, "w": int}), db.table("pair", {"a": int, "b": int})
        edge.insert(rows)
        g = Graph(edge, weight="w", memory=memory)  # type: ignore[arg-type]
        db.view("far", g.distance(pair), plan=plan)  # type: ignore[arg-type]
        pair.insert([(0, 1)])
        before = db.stats()["bytes"]
        pair.insert([(i, i + 1) for i in range(1, 11)])
        taken[memory] = db.stats()["bytes"] - before
    assert taken["lean"] * 5 < taken["fast"]


def test_the_histories_are_accounted_for() -> None:
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    hops = db.view("hops", Graph(edge, memory="lean").bfs(source).filter(col.hops > 0))
    before = db.stats()["bytes"]
    source.insert([(0,)])
    edge.insert([(i, i + 1) for i in range(20_000)])
    (kept,) = [a for a in hops.stats()["arrangements"] if a["kind"] == "histories"]
    assert kept["bytes"] > 20_000 * 16
    assert db.stats()["bytes"] > before + kept["bytes"]
    hops.drop()
    assert lean_operators(db) == []
