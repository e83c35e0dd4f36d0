"""Distances of pairs kept by half searches say what ordinary loops say, at every time, whatever happens in between."""

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
from everview.errors import InputError, LoopError, MemoryLimitError
from everview.graph import Graph
from everview.kernels import structures
from everview.kernels.frontier import forest as forest_k
from everview.kernels.frontier import pair_distance as meeting_k
from everview.kernels.frontier import pairs as pairs_k
from tests.graph.test_trees import INTS, STRINGS, _apply, drawn, schemas
from tests.graph.twins import Tables, Twins, kept_as, random_step, without_memory
from tests.inside import inside


def distances(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
    g, plain = Graph(t["edge"], weight="w"), Graph(t["edge"])
    return {
        "hops": plain.distance(t["pair"]),
        "costs": g.distance(t["pair"]),
        "lean": Graph(t["edge"], weight="w", memory="lean").distance(t["pair"]),
        "by hand": by_hand(t),
    }


def by_hand(t: Tables) -> ev.Collection:
    """The same written down: each pair's target looked up in the search from its source."""
    e, pair = t["edge"], t["pair"]
    first = pair.select(source=pair.a, node=pair.a, far=lit(0)).distinct()

    def body(x: ev.Collection) -> ev.Collection:
        on = x.join(e, x.node == e.src).select(source=x.source, node=e.dst, far=x.far + 3)
        return on.union_all(first).group_by("source", "node").agg(far=col.far.min())

    far = first.iterate(body)
    return pair.join(far, (pair.a == far.source) & (pair.b == far.node)).select(a=pair.a, b=pair.b, far=far.far)


def operators(db: ev.Session) -> list[Any]:
    return [o for o in inside(db).runtime.dataflow.operators() if o.kind == "halves"]


def played(twins: Twins, seed: int, nodes: tuple[Any, ...], steps: int, edges: float = 2.0) -> None:
    dice = random.Random(seed)
    draw = drawn(dice, nodes, (0, 0, 1, 1, 2, 3, 7))
    for number in range(steps):
        target = 0 if number == steps // 2 else int(edges * len(nodes))
        twins.step(random_step(twins, dice, draw, target, most=12 if number % 10 == 0 else 4))


@pytest.mark.parametrize("nodes", [INTS, STRINGS], ids=["ints", "strings"])
@pytest.mark.parametrize("seed", range(2))
def test_random_histories(seed: int, nodes: tuple[Any, ...]) -> None:
    twins = Twins(schemas(type(nodes[0])), distances)
    for views, how in zip(twins.views, ("halves", "rounds"), strict=True):
        assert {name: kept_as(view) for name, view in views.items()} == {name: [how] for name in views}
    played(twins, seed, nodes[: 5 + 2 * seed], steps=50)
    twins.close()


@pytest.mark.parametrize("seed", range(2))
def test_sparse_graphs_of_more_nodes(seed: int) -> None:
    """Balls that stay small, open and close again."""
    twins = Twins(schemas(int), distances)
    played(twins, seed + 10, tuple(range(25)), steps=40, edges=(1.2, 1.8)[seed])
    twins.close()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_histories(seed: int) -> None:
    nodes = tuple(range(6 + seed % 30)) if seed % 3 else (INTS, STRINGS)[seed % 2][: 3 + seed % 6]
    twins = Twins(schemas(type(nodes[0])), distances)
    played(twins, seed, nodes, steps=150, edges=(1.2, 1.6, 2.5)[seed % 3])
    twins.close()


@pytest.mark.parametrize("seed", range(2))
def test_weights_may_be_negative_for_a_while(seed: int) -> None:
    """Edges lead upwards only, so that no cycle is negative."""
    dice = random.Random(seed)

    def costs(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
        return {"costs": Graph(t["edge"], weight="w").distance(t["pair"])}

    twins = Twins(schemas(int), costs)
    for number in range(40):
        draw = drawn(dice, tuple(range(8)), (-3, 0, 1, 4) if number % 4 > 1 else (0, 1, 4))
        up = draw["edge"]

        def rising(up: Any = up) -> Any:
            a, b, w = up()
            return (min(a, b), max(a, b) + 1, w)

        twins.step(random_step(twins, dice, {**draw, "edge": rising}, 14))
    twins.close()


def test_a_negative_cycle_is_refused_and_the_session_goes_on() -> None:
    db = ev.connect()
    edge, pair = db.table("edge", {"src": int, "dst": int, "w": int}), db.table("pair", {"a": int, "b": int})
    far = db.view("far", Graph(edge, weight="w").distance(pair))
    pair.insert([(1, 3), (3, 1), (2, 2)])
    edge.insert([(1, 2, 5), (2, 3, -2)])
    with pytest.raises(LoopError, match="negative"):
        edge.insert([(3, 2, 1)])
    assert sorted(far.rows()) == [(1, 3, 3), (2, 2, 0)]
    edge.insert([(3, 1, 7)])
    assert sorted(far.rows()) == [(1, 3, 3), (2, 2, 0), (3, 1, 7)]
    edge.delete([(2, 3, -2)])
    assert sorted(far.rows()) == [(2, 2, 0), (3, 1, 7)]


def test_a_step_that_fails_leaves_everything_as_it_was() -> None:
    """Because a row is not there, and because memory is not there, wherever it is asked for."""
    dice = random.Random(11)
    twins = Twins(schemas(int), distances)
    draw = drawn(dice, tuple(range(9)), (0, 1, 2))
    db, tables = twins.dbs[0], twins.tables[0]
    for number in range(20):
        twins.step(random_step(twins, dice, draw, 20))
        rows = {name: sorted(view.rows()) for name, view in twins.views[0].items()}
        change = random_step(twins, dice, draw, 20, most=8)[0]
        with pytest.raises(InputError):
            _apply(db, tables, change, absent=True)
        if number % 10 == 0:
            without_memory(partial(_apply, db, tables, absent=False), change)
        assert {name: sorted(view.rows()) for name, view in twins.views[0].items()} == rows
    twins.close()


def test_a_directory_that_is_opened_again(tmp_path: Path) -> None:
    dice = random.Random(3)
    draw = drawn(dice, tuple(range(9)), (0, 1, 2))
    twins = Twins(schemas(int), distances, ev.connect(tmp_path / "one"), ev.connect(tmp_path / "two"))
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
        assert operators(twins.dbs[0]) and not operators(twins.dbs[1])
        assert twins.dbs[0].check() == []
        twins.check([db.time for db in twins.dbs])
    twins.close()


def session(rows: np.ndarray, **how: Any) -> tuple[ev.Session, ev.Table, ev.Table, ev.View]:
    db = ev.connect()
    edge, pair = db.table("edge", {"src": int, "dst": int, "w": int}), db.table("pair", {"a": int, "b": int})
    edge.insert(rows)
    return db, edge, pair, db.view("far", Graph(edge, weight="w", **how).distance(pair))


def some_edges(nodes: int, many: int, seed: int = 1) -> np.ndarray:
    dice = np.random.default_rng(seed)
    return np.column_stack([dice.integers(0, nodes, (many, 2)), dice.integers(1, 11, (many, 1))])


def test_a_long_path_both_ways() -> None:
    n = 100_000
    path = np.column_stack([np.arange(n), np.arange(n) + 1, np.ones(n, dtype=np.int64)])
    _, edge, pair, far = session(path)
    pair.insert([(0, n), (n, 0), (5, 7)])
    assert sorted(far.rows()) == [(0, n, n), (5, 7, 2)]
    edge.delete([(40_000, 40_001, 1)])
    assert far.rows() == [(5, 7, 2)]
    edge.insert([(40_000, 40_001, 3)])
    assert sorted(far.rows()) == [(0, n, n + 2), (5, 7, 2)]


def test_balls_are_small_and_shared() -> None:
    """A pair keeps a small part of the graph, a source with many targets one ball ahead."""
    rows = some_edges(20_000, 100_000)
    db, edge, pair, far = session(rows)
    pair.insert([(7, 4321)])
    (operator,) = operators(db)
    assert 0 < operator.about(pairs_k.PAIRS_ENTRIES) < 2_000
    pair.insert([(7, int(t)) for t in range(1000, 1300)])
    assert operator.about(pairs_k.PAIRS_ENTRIES) < 40_000
    edge.delete([tuple(r) for r in rows[:50].tolist()])
    g = Graph(edge, weight="w")
    assert sorted(far.rows()) == sorted(set(g.ask([(7, 4321)] + [(7, t) for t in range(1000, 1300)])))
    pair.delete([(7, t) for t in range(1000, 1300)])
    edge.insert([(0, 1, 1)])
    edge.insert([(0, 2, 1)])
    assert operator.about(pairs_k.PAIRS_ENTRIES) < 4_000 and len(far.rows()) == 1


def held(operator: Any) -> dict[str, int]:
    """Records there is room for: entries of both forests, balls, pairs; and of them, those that are free."""
    forests = [structures.peek(operator.context, field) for field in (meeting_k.PAIRS_AHEAD, meeting_k.PAIRS_BEHIND)]
    return {
        "entries": sum(structures.peek(f, forest_k.FOREST_ENTRIES_N) for f in forests),
        "free": sum(structures.peek(f, forest_k.FOREST_FREE_N) for f in forests),
        "balls": sum(structures.peek(f, forest_k.FOREST_BALLS_N) for f in forests),
        "pairs": structures.peek(operator.context, meeting_k.PAIRS_N),
    }


def test_what_pairs_leave_behind_is_swept_up() -> None:
    """Questions come and go, and edges change, a thousand times: there is room for little more than is in use."""
    rows = some_edges(500, 2500)
    db, edge, pair, far = session(rows)
    dice = random.Random(2)
    asked = [(dice.randrange(500), dice.randrange(500)) for _ in range(20)]
    pair.insert(asked)
    (operator,) = operators(db)
    there, most = [tuple(r) for r in rows.tolist()], 0
    for number in range(1000):
        gone, new = there.pop(0), (dice.randrange(500), dice.randrange(500), dice.randrange(1, 11))
        there.append(new)
        with db.transaction():
            edge.delete([gone])
            edge.insert([new])
            if number % 2:
                pair.delete([asked.pop(0)])
                asked.append((dice.randrange(500), dice.randrange(500)))
                pair.insert([asked[-1]])
        most = max(most, operator.about(pairs_k.PAIRS_ENTRIES))
    now = held(operator)
    assert now["pairs"] < 200 and now["balls"] < 400 and now["free"] > 0
    assert now["entries"] <= 2 * most
    assert sorted(far.rows()) == sorted(set(Graph(edge, weight="w").ask(asked))) and db.check() == []


@pytest.mark.slow
def test_tables_that_move_while_pairs_come_and_go() -> None:
    """A large table of hashes is moved slot by slot: steps in between find, fail, leave and sweep as ever."""
    rows = some_edges(20_000, 100_000)
    db, edge, pair, far = session(rows)
    (operator,) = operators(db)
    forests = [structures.peek(operator.context, field) for field in (meeting_k.PAIRS_AHEAD, meeting_k.PAIRS_BEHIND)]
    dice = random.Random(3)
    asked: list[tuple[int, int]] = []
    moving = 0
    for number in range(200):
        some = [(dice.randrange(20_000), dice.randrange(20_000)) for _ in range(5)]
        with pytest.raises(InputError), db.transaction():
            pair.insert(some)
            edge.delete([(-1, -1, -1)])
        with db.transaction():
            pair.insert(some)
            edge.delete([tuple(rows[number].tolist())])
            edge.insert([(dice.randrange(20_000), dice.randrange(20_000), dice.randrange(1, 11))])
            if number % 3 == 0 and asked:
                pair.delete([asked.pop(dice.randrange(len(asked)))])
        asked += some
        moving += any(structures.peek(f, forest_k.FOREST_TABLE_OLD) for f in forests)
    assert moving > 5
    assert sorted(far.rows()) == sorted(set(Graph(edge, weight="w").ask(sorted(set(asked)))))


def test_memory_goes_back_when_most_pairs_are_gone() -> None:
    db, edge, pair, far = session(some_edges(2000, 10_000))
    asked = [(i, (i * 7919) % 2000) for i in range(300)]
    pair.insert(asked)
    (operator,) = operators(db)
    full = operator.about(pairs_k.PAIRS_BYTES)
    pair.delete(asked[2:])
    for number in range(12):
        edge.insert([(number, number + 1, 1)])
    assert operator.about(pairs_k.PAIRS_BYTES) * 4 < full
    assert sorted(far.rows()) == sorted(Graph(edge, weight="w").ask(asked[:2]))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(200, 230))
def test_many_pairs_come_and_go(seed: int) -> None:
    """Half of all changes ask or leave: records and entries are used again for others, in steps that fail, too."""
    twins = Twins(schemas(int), distances)
    dice = random.Random(seed)
    nodes = tuple(range(8 + seed % 20))
    draw = drawn(dice, nodes, (0, 1, 1, 2, 5))
    for _ in range(150):
        step = random_step(twins, dice, draw, 3 * len(nodes), most=10)
        if dice.random() < 0.2:
            with pytest.raises(InputError):
                _apply(twins.dbs[0], twins.tables[0], step[0], absent=True)
        twins.step(step)
    twins.close()


def test_a_budget_refuses_new_pairs_and_keeps_the_others() -> None:
    rows = some_edges(2000, 8000)
    db, edge, pair, far = session(rows, budget="200kB")
    asked = 0
    with pytest.raises(MemoryLimitError, match="E_BUDGET"):
        for source in range(500):
            pair.insert([(source, 7)])
            asked += 1
    assert asked > 5 and db.memory()["budgets"]
    before = sorted(far.rows())
    edge.insert([(3, 7, 0)])
    assert (3, 7, 0) in far.rows() and db.check() == []
    assert len(far.rows()) >= len(before)
    (stands,) = [b for b in db.memory()["budgets"] if b.limit == 200_000]
    assert stands.questions == asked and stands.used <= 200_000
    assert "within 200000 bytes" in far.explain()


def test_whole_searches_can_be_asked_for() -> None:
    db = ev.connect()
    edge, pair = db.table("edge", {"src": int, "dst": int}), db.table("pair", {"a": int, "b": int})
    assert kept_as(db.view("one", Graph(edge).distance(pair), plan="whole")) == ["trees"]
    assert kept_as(db.view("two", Graph(edge, memory="lean").distance(pair), plan="whole")) == ["histories"]


def test_searches_that_are_not_of_pairs_stay_whole() -> None:
    """A search that starts elsewhere, with something, or not for everyone who asks."""
    db = ev.connect()
    edge, pair = db.table("edge", {"src": int, "dst": int}), db.table("pair", {"a": int, "b": int})
    other = db.table("other", {"a": int})

    def asked(first: ev.Collection) -> list[str]:
        def body(x: ev.Collection) -> ev.Collection:
            on = x.join(edge, x.node == edge.src).select(source=x.source, node=edge.dst, far=x.far + 1)
            return on.union_all(first).group_by("source", "node").agg(far=col.far.min())

        far = first.iterate(body)
        found = pair.join(far, (pair.a == far.source) & (pair.b == far.node)).select(a=pair.a, b=pair.b, far=far.far)
        view = db.view("v", found)
        kept = kept_as(view)
        view.drop()
        return kept

    assert asked(pair.select(source=pair.a, node=pair.a, far=lit(0)).distinct()) == ["halves"]
    assert asked(pair.select(source=pair.a, node=pair.b, far=lit(0)).distinct()) == ["trees"]
    assert asked(pair.select(source=pair.a, node=pair.a, far=lit(1)).distinct()) == ["trees"]
    assert asked(pair.select(source=pair.b, node=pair.b, far=lit(0)).distinct()) == ["trees"]
    assert asked(other.select(source=other.a, node=other.a, far=lit(0)).distinct()) == ["trees"]
    assert asked(pair.filter(pair.a > 3).select(source=pair.a, node=pair.a, far=lit(0)).distinct()) == ["trees"]
