"""Trees that are grown at once (`everview.kernels.frontier.bulk_load`) say what loops say, before and after repairs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview import col
from everview.errors import InputError
from everview.graph import Graph
from everview.kernels import structures
from everview.kernels.frontier import forest
from tests.graph.test_trees import everything, schemas
from tests.graph.twins import Tables, Twins, apply, operators, random_step, taken, without_memory
from tests.inside import inside

MANY = 1300
"""Changes of an epoch that are more than any forest here holds twice, and 1,024."""


def views(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
    """With sources whose values do not ascend with their nodes, and floats."""
    e = t["edge"]
    start = t["source"].select(node=col.node, cost=7 - col.node).union_all(t["source"].select(node=col.node, cost=3))

    def body(x: ev.Collection) -> ev.Collection:
        on = x.join(e, x.node == e.src).select(node=e.dst, cost=x.cost + 2)
        return on.union_all(start).group_by("node").agg(cost=col.cost.min())

    halves = {"hops", "costs"}  # distances of pairs are no trees
    found = {name: view for name, view in everything(db, t).items() if name not in halves}
    return {**found, "descending": ev.fixpoint(body, {"node": int, "cost": int})}


def drawn(dice: random.Random, nodes: int, weights: tuple[int, ...]) -> dict[str, Any]:
    def node() -> int:
        return dice.randrange(-3, nodes - 3)

    return {"edge": lambda: (node(), node(), dice.choice(weights)), "source": lambda: (node(),)}


def load(draw: Mapping[str, Any], rows: int, sources: int) -> dict[str, Counter[Any]]:
    change = {name: Counter[Any]() for name in draw}
    for name, many in (("edge", rows), ("source", sources)):
        for _ in range(many):
            change[name][draw[name]()] += 1
    return change


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_loads_between_changes(seed: int) -> None:
    """A load, changes, all gone; a step of three epochs: a load, all gone, another load."""
    dice = random.Random(seed)
    twins = Twins(schemas(int), views)
    draw = drawn(dice, (20, 80, 300)[seed], (0, 1, 1, 2, 5))
    first, second = load(draw, MANY, 3), load(draw, MANY + 200, 2)
    twins.step([first])
    for _ in range(5):
        twins.step(random_step(twins, dice, draw, sum(twins.held["edge"].values()), most=6))
    twins.step([taken(twins.held)])
    twins.step([second, taken(second), first])
    for _ in range(5):
        twins.step(random_step(twins, dice, draw, 60, most=40))
    twins.close()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(200, 240))
def test_many_loads(seed: int) -> None:
    dice = random.Random(seed)
    twins = Twins(schemas(int), views)
    draw = drawn(dice, dice.choice((5, 20, 60, 150, 500, 1500)), dice.choice(((0,), (1,), (0, 1, 2), (3, 50, 2**40))))
    for _ in range(4):
        loads = [load(draw, dice.randrange(200, 3000), dice.randrange(5)) for _ in range(dice.randrange(1, 4))]
        twins.step(loads)
        for _ in range(4):
            twins.step(random_step(twins, dice, draw, sum(twins.held["edge"].values()), most=8))
        if dice.random() < 0.5:
            twins.step([taken(twins.held)])
    twins.close()


@pytest.mark.parametrize("seed", range(2))
def test_nodes_outside_of_what_was_loaded(seed: int) -> None:
    """After a load entries are found by their nodes' numbers; others come before, behind and far away, and go again."""
    dice = random.Random(seed)
    twins = Twins(schemas(int), views)
    twins.step([load(drawn(dice, 40, (0, 1, 2)), MANY, 3)])
    far = (-4, -5, 37, 38, 2**40, -(2**62), 2**62 + 1, 2**63 - 1)

    def node() -> int:
        return dice.choice(far) if dice.random() < 0.4 else dice.randrange(-3, 37)

    draw = {"edge": lambda: (node(), node(), dice.choice((0, 1, 2))), "source": lambda: (node(),)}
    for _ in range(12):
        twins.step(random_step(twins, dice, draw, sum(twins.held["edge"].values()), most=12))
    twins.close()


def test_a_load_of_which_little_is_reached() -> None:
    """Then only what is reached has entries, in a table; after a load that reaches most, every node has one."""
    with ev.connect() as db:
        edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
        hops = db.view("hops", Graph(edge).bfs(source))
        source.insert([(0,)])
        n = 30_000
        rest = np.column_stack([np.arange(1000, n), np.arange(1000, n) + 1])
        path = np.column_stack([np.arange(500), np.arange(500) + 1])
        edge.insert(np.concatenate([path, rest]))
        (trees,) = operators(db)
        assert structures.peek(trees.context, forest.FOREST_DIRECT) == 0
        assert structures.peek(trees.context, forest.FOREST_ENTRIES_N) == 501
        edge.insert([(500, 777)])
        assert hops.lookup(777) == [(777, 501)]
        edge.insert([(500, 1000)])
        edge.delete([(3, 4)])
        assert sorted(hops.rows()) == [(i, i) for i in range(4)]
        edge.insert([(3, 4)])
        assert hops.lookup(n) == [(n, 501 + n - 1000)]
        with db.transaction():  # more than there is twice: it is loaded again, and nearly all of it reached
            edge.insert(np.column_stack([np.zeros(4 * n, dtype=np.int64), np.arange(4 * n)]))
        assert structures.peek(trees.context, forest.FOREST_DIRECT) == 4 * n
        assert hops.lookup(n) == [(n, 1)] and hops.lookup(4 * n - 1) == [(4 * n - 1, 1)]


def test_numbers_with_gaps_and_many_edges_are_found_directly() -> None:
    """One node in ten numbers, a hundred edges for each: spare entries cost little beside the edges, and they stay."""
    with ev.connect() as db:
        edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
        hops = db.view("hops", Graph(edge).bfs(source))
        source.insert([(0,)])
        dice = np.random.default_rng(4)
        rows = 10 * dice.integers(0, 1000, size=(100_000, 2))
        edge.insert(rows)
        (trees,) = operators(db)
        slots = int(rows.max() - rows.min()) + 1
        assert slots > 3 * len(hops.rows()) + 4096
        assert structures.peek(trees.context, forest.FOREST_DIRECT) == slots
        for at in range(0, 1000, 50):
            with db.transaction():
                edge.delete(rows[at : at + 50])
                edge.insert([(int(rows[at, 0]), 5 + at)])
        assert structures.peek(trees.context, forest.FOREST_DIRECT) == slots
        kept = [(int(a), int(b)) for a, b in edge.rows()]
        again = db.table("again", {"src": int, "dst": int})
        again.insert(kept)
        assert sorted(hops.rows()) == sorted(db.view("checked", Graph(again).bfs(source), plan="rounds").rows())


@pytest.mark.parametrize("seed", range(3))
def test_views_of_what_is_there(seed: int) -> None:
    """Over tables that grew in several steps: their indexes have several batches, and rows that went again."""
    dice = random.Random(seed)
    draw = drawn(dice, 60, (0, 1, 2))
    with ev.connect() as db, ev.connect() as loops:
        tables = [{name: each.table(name, schema) for name, schema in schemas(int).items()} for each in (db, loops)]
        held = load(draw, 0, 0)
        for rows in (600, 150, 40, 10, 3):
            come = load(draw, rows, 1)
            gone = {n: Counter(dice.sample(sorted(have.elements()), min(len(have), 20))) for n, have in held.items()}
            for t in tables:
                _apply(db if t is tables[0] else loops, t, come)
                _apply(db if t is tables[0] else loops, t, taken(gone))
            for name in held:
                held[name] = held[name] + come[name] - gone[name]
        kept = {name: db.view(name, v) for name, v in views(db, tables[0]).items()}
        again = {name: loops.view(name, v, plan="rounds") for name, v in views(loops, tables[1]).items()}
        assert len(operators(db)) >= 8
        for _ in range(6):
            assert {n: sorted(v.rows()) for n, v in kept.items()} == {n: sorted(v.rows()) for n, v in again.items()}
            row = dice.choice(sorted(held["edge"].elements()))
            held["edge"][row] -= 1
            for t in tables:
                t["edge"].delete([row])


def _apply(db: ev.Session, tables: Tables, change: dict[str, Counter[Any]], *, absent: bool = False) -> None:
    with db.transaction():
        apply(tables, change)
        if absent:
            tables["source"].delete([(-77,)])


def test_a_load_that_fails_leaves_nothing() -> None:
    """Refused, without memory, cancelled, or only supposed: what follows is as if it had never been."""
    dice = random.Random(5)
    twins = Twins(schemas(int), views)
    draw = drawn(dice, 50, (0, 1, 2))
    twins.step([load(draw, 80, 3)])
    db, tables = twins.dbs[0], twins.tables[0]
    before = {name: sorted(view.rows()) for name, view in twins.views[0].items()}
    change = load(draw, MANY, 1)
    for number in range(3):
        if number == 0:
            with pytest.raises(InputError):
                _apply(db, tables, change, absent=True)
        elif number == 1:
            without_memory(partial(_apply, db, tables), change, every=5)
        else:
            with db.what_if():
                _apply(db, tables, change)
        assert {name: sorted(view.rows()) for name, view in twins.views[0].items()} == before
        twins.step(random_step(twins, dice, draw, 80, most=5))
        before = {name: sorted(view.rows()) for name, view in twins.views[0].items()}
    twins.step([change])
    twins.step(random_step(twins, dice, draw, 200, most=5))
    twins.close()


def test_a_load_comes_up_for_air_and_can_be_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each of its pauses; the trees are grown again for the next change."""
    n = 120_000
    rng = np.random.default_rng(1)
    ends = rng.integers(0, n, size=(2, 4 * n))
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    hops = db.view("hops", Graph(edge).bfs(source))
    source.insert([(0,)])
    edge.insert([(0, 1), (1, 2)])
    pauses = 0
    for wanted in (1, 2, 4):
        heard = 0

        def interrupted(wanted: int = wanted) -> None:
            nonlocal heard
            heard += 1
            if heard == wanted:
                raise KeyboardInterrupt

        monkeypatch.setattr("everview.dataflow.shield.hear", interrupted)
        try:
            edge.insert({"src": ends[0], "dst": ends[1]})
        except KeyboardInterrupt:
            pauses += 1
        monkeypatch.undo()
        if heard < wanted:
            break
        assert sorted(hops.rows()) == [(0, 0), (1, 1), (2, 2)]
        edge.insert([(2, 3)])
        assert sorted(hops.rows()) == [(0, 0), (1, 1), (2, 2), (3, 3)]
        edge.delete([(2, 3)])
    assert pauses >= 2


def _grown(threads: int, split: int, ends: np.ndarray, view: str) -> list[int]:
    """All words of all entries of a forest that was grown at once."""
    with ev.connect(threads=threads) as db:
        edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
        graph = Graph(edge)
        db.view("v", graph.bfs(source) if view == "bfs" else graph.wcc())
        source.insert([(5,), (0,)])
        runtime = inside(db).runtime
        if threads > 1:
            assert runtime.dataflow.threads is not None
            runtime.dataflow.threads.share_from(split)
        edge.insert({"src": ends[0], "dst": ends[1]})
        (trees,) = operators(db)
        entries = structures.peek(trees.context, forest.FOREST_ENTRIES)
        many = structures.peek(trees.context, forest.FOREST_ENTRIES_N)
        return [structures.peek(entries, 1 + i) for i in range(many * forest.VERTEX_QUESTION)]


@pytest.mark.parametrize("view", ["bfs", "wcc"])
def test_threads_grow_the_same_trees(view: str) -> None:
    """Not only values: parents do not depend on who asks first (`everview.kernels.frontier.queue_walk`)."""
    draw = np.random.default_rng(11)
    ends = draw.integers(0, 900, (2, 4000))
    alone = _grown(1, 0, ends, view)
    assert len(alone) >= 800 * forest.VERTEX_QUESTION
    for threads, split in ((2, 1), (4, 1), (3, 2000)):
        assert _grown(threads, split, ends, view) == alone


def test_what_a_load_needed_is_given_back() -> None:
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int})
        db.view("part", Graph(edge).wcc())
        edge.insert([(i, i + 1) for i in range(5000)])
        (trees,) = operators(db)
        assert structures.peek(trees.context, forest.FOREST_LOAD) == 0
        assert structures.peek(trees.context, forest.FOREST_ENTRIES_N) == 5001
        words = 5001 * (forest.VERTEX_QUESTION + 16)  # an entry, a slot or two of the table, some room
        assert trees.measure()[2] < 8 * (words + 2 * 8 * 5001)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_edges_that_stand_several_times(seed: int, held: bool) -> None:
    """The largest batch counts copies: what a deletion leaves of them is told from the smaller ones. `held`: readers of
    the past keep the times in it apart.
    """
    dice = np.random.default_rng(seed)
    rows = dice.integers(0, 300, size=(2000, 2)).repeat(dice.integers(1, 4, size=2000), axis=0)
    with ev.connect(history=10_000 if held else 0) as db:
        edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
        source.insert([(0,)])
        views = {"hops": Graph(edge).bfs(source), "parts": Graph(edge).wcc()}
        kept = [db.view(name, made) for name, made in views.items()]
        edge.insert(rows)
        checked = [db.view(f"{name}_again", made, plan="rounds") for name, made in views.items()]
        order = dice.permutation(len(rows))
        at = 0
        while at < len(rows) - 200:
            many = int(dice.choice([1, 2, 5, 60]))
            with db.transaction():
                edge.delete(rows[order[at : at + many]])
                if dice.random() < 0.3:
                    edge.insert(rows[order[:1]])
            at += many
            if dice.random() < 0.1 or many == 60:
                for mine, other in zip(kept, checked, strict=True):
                    assert sorted(mine.rows()) == sorted(other.rows())
        assert [sorted(v.rows()) for v in kept] == [sorted(v.rows()) for v in checked]
