"""Monotone loops kept as trees say what ordinary loops say, at every time, whatever happens in between."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview import col, lit
from everview.errors import InputError, LoopError
from everview.graph import Graph
from tests.graph.twins import Tables, Twins, apply, kept_as, operators, random_step, without_memory

INTS = (3, 0, -2, 7, 2**62, -(2**63), 5, 2**63 - 1)
STRINGS = ("ann", "", "bob", "a\u0301", "Ann", "zoe", "q", "x y")


def everything(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
    g = Graph(t["edge"], weight="w")
    plain = Graph(t["edge"])
    found = {
        "reach": g.reach(t["source"]),
        "bfs": g.bfs(t["source"]),
        "sssp": g.sssp(t["source"]),
        "k_hop": g.k_hop(t["source"], 2),
        "wcc": g.wcc(),
        "within": plain.within(2, t["source"]),
        "hops": plain.distance(t["pair"]),
        "costs": g.distance(t["pair"]),
        "widest": g.widest(t["source"]),
    }
    return {**found, "roomiest": roomiest(t), "narrowest": narrowest(t), "highest": highest(t), "near": near(t)}


def roomiest(t: Tables) -> ev.Collection:
    """The most that gets through: the largest, over paths, of the least weight."""
    start, e = t["source"].select(node=col.node, room=lit(10)).distinct(), t["edge"]

    def body(x: ev.Collection) -> ev.Collection:
        on = x.join(e, x.node == e.src).select(node=e.dst, room=ev.least(x.room, e.w))
        return on.union_all(start).group_by("node").agg(room=col.room.max())

    return start.iterate(body)


def narrowest(t: Tables) -> ev.Collection:
    """The least, over paths, of the largest weight, for every source by itself."""
    start, e = t["source"].select(node=col.node, source=col.node, worst=lit(-1)).distinct(), t["edge"]

    def body(x: ev.Collection) -> ev.Collection:
        on = x.join(e, x.node == e.src).select(node=e.dst, source=x.source, worst=ev.greatest(x.worst, e.w))
        return on.union_all(start).group_by("node", "source").agg(worst=col.worst.min())

    return start.iterate(body)


def highest(t: Tables) -> ev.Collection:
    """The largest weight of an edge at a node from which one leads here; several values for a node to start with."""
    e = t["edge"]
    start = e.select(node=e.src, peak=e.w)

    def body(x: ev.Collection) -> ev.Collection:
        on = x.join(e, x.node == e.src).select(node=e.dst, peak=x.peak)
        return on.union_all(start).group_by("node").agg(peak=col.peak.max())

    return start.iterate(body)


def near(t: Tables) -> ev.Collection:
    """Costs of paths below 5, along edges with a weight other than 2."""
    start, e = t["source"].select(node=col.node, cost=lit(0)), t["edge"]

    def body(x: ev.Collection) -> ev.Collection:
        on = x.join(e, x.node == e.src).filter(e.w != 2).select(node=e.dst, cost=x.cost + e.w).filter(col.cost < 5)
        return on.union_all(start).group_by("node").agg(cost=col.cost.min())

    return start.iterate(body)


def schemas(kind: type) -> dict[str, dict[str, Any]]:
    return {
        "edge": {"src": kind, "dst": kind, "w": int},
        "source": {"node": kind},
        "pair": {"a": kind, "b": kind},
    }


def drawn(dice: random.Random, nodes: tuple[Any, ...], weights: tuple[int, ...]) -> dict[str, Any]:
    def node() -> Any:
        return dice.choice(nodes)

    edge = lambda: (node(), node(), dice.choice(weights))  # noqa: E731
    return {"edge": edge, "source": lambda: (node(),), "pair": lambda: (node(), node())}


@pytest.mark.parametrize("nodes", [INTS, STRINGS], ids=["ints", "strings"])
@pytest.mark.parametrize("seed", range(2))
def test_random_histories(seed: int, nodes: tuple[Any, ...]) -> None:
    history(seed, nodes[: 4 + 2 * seed], steps=40)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_histories(seed: int) -> None:
    history(seed, (INTS, STRINGS)[seed % 2][: 3 + seed % 6], steps=150)


def history(seed: int, nodes: tuple[Any, ...], steps: int) -> None:
    dice = random.Random(seed)
    twins = Twins(schemas(type(nodes[0])), everything)
    for views, how in zip(twins.views, ("trees", "rounds"), strict=True):
        halves = ("hops", "costs") if how == "trees" else ()
        wanted = {name: ["halves" if name in halves else how] for name in views}
        assert {name: kept_as(view) for name, view in views.items()} == wanted
    draw = drawn(dice, nodes, (0, 0, 1, 1, 2, 3))
    for number in range(steps):
        target = 0 if number == steps // 2 else 2 * len(nodes)
        twins.step(random_step(twins, dice, draw, target, most=12 if number % 10 == 0 else 4))
    twins.close()


@pytest.mark.parametrize("seed", range(3))
def test_weights_may_be_negative_for_a_while(seed: int) -> None:
    """Edges lead upwards only, so that no cycle is negative."""
    dice = random.Random(seed)

    def sums(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
        g = Graph(t["edge"], weight="w")
        return {"sssp": g.sssp(t["source"]), "costs": g.distance(t["pair"])}

    twins = Twins(schemas(int), sums)
    for number in range(40):
        draw = drawn(dice, tuple(range(8)), (-3, 0, 1, 4) if number % 3 else (0, 1, 4))
        up = draw["edge"]

        def rising(up: Any = up) -> Any:
            a, b, w = up()
            return (min(a, b), max(a, b) + 1, w)

        twins.step(random_step(twins, dice, {**draw, "edge": rising}, 14))
    twins.close()


def test_a_negative_cycle_is_refused_and_the_session_goes_on() -> None:
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int, "w": int}), db.table("source", {"node": int})
    cost = db.view("cost", Graph(edge, weight="w").sssp(source))
    source.insert([(1,)])
    edge.insert([(1, 2, 5), (2, 3, -2)])
    assert sorted(cost.rows()) == [(1, 0), (2, 5), (3, 3)]
    with pytest.raises(LoopError, match="negative"):
        edge.insert([(3, 2, 1)])
    assert sorted(cost.rows()) == [(1, 0), (2, 5), (3, 3)]
    edge.insert([(3, 2, 2)])
    edge.delete([(2, 3, -2)])
    assert sorted(cost.rows()) == [(1, 0), (2, 5)]


def test_a_path_that_does_not_fit_is_refused_whatever_came_before() -> None:
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int, "w": int}), db.table("source", {"node": int})
    cost = db.view("cost", Graph(edge, weight="w").sssp(source))
    most = 2**63 - 1
    source.insert([(1,)])
    edge.insert([(1, 2, most), (4, 5, most), (5, 6, 1)])
    assert sorted(cost.rows()) == [(1, 0), (2, most)]
    for row in ((2, 3, 1), (1, 4, 1)):
        with pytest.raises(InputError, match="64 bits"):
            edge.insert([row])
    edge.delete([(4, 5, most)])
    edge.insert([(1, 4, 1)])
    assert sorted(cost.rows()) == [(1, 0), (2, most), (4, 1)]


def test_nulls_are_no_nodes_and_no_weights() -> None:
    def views(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
        g = Graph(t["edge"], weight="w")
        return {"sssp": g.sssp(t["source"]), "reach": g.reach(t["source"]), "wcc": g.wcc(), "raw": raw(t)}

    def raw(t: Tables) -> ev.Collection:
        """Without the graph library's care for NULL: the join's own."""
        start, e = t["source"], t["edge"]
        return start.iterate(lambda x: x.join(e, x.node == e.src).select(node=e.dst).union_all(start).distinct())

    null = ev.types.INT.optional()
    twins = Twins({"edge": {"src": null, "dst": null, "w": null}, "source": {"node": null}}, views)
    assert kept_as(twins.views[0]["raw"]) == ["trees"]
    dice = random.Random(5)
    some = (None, 1, 2, 3, 4)
    draw = {
        "edge": lambda: (dice.choice(some), dice.choice(some), dice.choice((None, 0, 1, 2))),
        "source": lambda: (dice.choice(some),),
    }
    for _ in range(60):
        twins.step(random_step(twins, dice, draw, 8))
    twins.close()


def test_widest_paths_against_a_search() -> None:
    dice = random.Random(8)
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int, "w": int}), db.table("source", {"node": int})
    width = db.view("width", Graph(edge, weight="w").widest(source))
    source.insert([(0,)])
    held: list[tuple[int, int, int]] = []
    for _ in range(60):
        if held and dice.random() < 0.4:
            edge.delete([held.pop(dice.randrange(len(held)))])
        else:
            held.append((dice.randrange(8), dice.randrange(8), dice.randrange(-3, 9)))
            edge.insert([held[-1]])
        assert dict(width.rows()) == _widths(held)


def _widths(held: list[tuple[int, int, int]]) -> dict[int, int]:
    """For each threshold, from the highest on, what is reached by edges at least as wide."""
    found: dict[int, int] = {}
    for least in sorted({w for _, _, w in held}, reverse=True):
        reached: set[int] = set()
        todo = [0]
        while todo:
            node = todo.pop()
            for a, b, w in held:
                if a == node and w >= least and b not in reached:
                    reached.add(b)
                    todo.append(b)
        for node in reached:
            found.setdefault(node, least)
    return found


def test_a_long_path_and_a_star() -> None:
    n = 100_000
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    g = Graph(edge)
    hops, part = db.view("hops", g.bfs(source)), db.view("part", g.wcc())
    source.insert([(0,)])
    edge.insert(np.column_stack([np.arange(n), np.arange(n) + 1]))
    assert hops.lookup(n) == [(n, n)] and part.lookup(n) == [(n, 0)]
    edge.delete([(10, 11)])
    assert hops.lookup(n) == [] and hops.lookup(10) == [(10, 10)] and part.lookup(n) == [(n, 11)]
    edge.insert([(10, 11)])
    assert hops.lookup(n) == [(n, n)] and part.lookup(n) == [(n, 0)]
    edge.insert(np.column_stack([np.zeros(n, dtype=np.int64), np.arange(n) + 2 * n]))
    assert hops.lookup(3 * n - 1) == [(3 * n - 1, 1)]
    source.delete([(0,)])
    assert hops.rows() == []
    source.insert([(5,)])
    assert hops.lookup(n) == [(n, n - 5)] and len(hops.rows()) == n - 4


def test_a_step_that_fails_leaves_the_trees_as_they_were() -> None:
    """Because a row is not there, and because memory is not there, wherever it is asked for."""
    dice = random.Random(11)
    twins = Twins(schemas(int), everything)
    draw = drawn(dice, tuple(range(9)), (0, 1, 2))
    db, tables = twins.dbs[0], twins.tables[0]
    for number in range(25):
        twins.step(random_step(twins, dice, draw, 20))
        rows = {name: sorted(view.rows(), key=repr) for name, view in twins.views[0].items()}
        change = random_step(twins, dice, draw, 20, most=8)[0]
        with pytest.raises(InputError):
            _apply(db, tables, change, absent=True)
        if number % 5 == 0:
            without_memory(partial(_apply, db, tables, absent=False), change)
        assert {name: sorted(view.rows(), key=repr) for name, view in twins.views[0].items()} == rows
    twins.close()


def _apply(db: ev.Session, tables: Tables, change: dict[str, Counter[Any]], *, absent: bool) -> None:
    with db.transaction():
        apply(tables, change)
        if absent:
            tables["source"].delete([(-77,)])


def test_a_long_step_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    hops = db.view("hops", Graph(edge).bfs(source))
    source.insert([(0,)])
    edge.insert([(0, 1), (1, 2)])
    n = 300_000
    many = np.column_stack([np.full(n, 2), np.arange(n) + 3])
    heard = 0

    def interrupted() -> None:
        nonlocal heard
        heard += 1
        raise KeyboardInterrupt

    monkeypatch.setattr("everview.dataflow.shield.hear", interrupted)
    with pytest.raises(KeyboardInterrupt):
        edge.insert(many)
    monkeypatch.undo()
    assert heard == 1 and sorted(hops.rows()) == [(0, 0), (1, 1), (2, 2)]
    edge.insert(many)
    assert len(hops.rows()) == n + 3 and hops.lookup(n) == [(n, 3)]
    edge.delete([(1, 2)])
    assert sorted(hops.rows()) == [(0, 0), (1, 1)]


def test_a_directory_that_is_opened_again(tmp_path: Path) -> None:
    dice = random.Random(3)
    draw = drawn(dice, tuple(range(9)), (0, 1, 2))
    twins = Twins(schemas(int), everything, ev.connect(tmp_path / "one"), ev.connect(tmp_path / "two"))
    for round_ in range(4):
        for _ in range(6):
            twins.step(random_step(twins, dice, draw, 18))
        if round_ == 1:
            for db in twins.dbs:
                db.checkpoint()
        for db in twins.dbs:
            db.close()
        twins.dbs = [ev.connect(tmp_path / name) for name in ("one", "two")]
        twins.tables = [{name: db[name] for name in schemas(int)} for db in twins.dbs]
        twins.views = [{name: db[name] for name in twins.views[0]} for db in twins.dbs]
        assert operators(twins.dbs[0]) and not operators(twins.dbs[1])
        assert twins.dbs[0].check() == []
        twins.check([db.time for db in twins.dbs])
    twins.close()


def test_views_come_and_go() -> None:
    """A second view of the same question shares its trees; they are gone with the last one."""
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    edge.insert([(1, 2), (2, 3), (3, 1), (4, 5)])
    source.insert([(1,)])
    g = Graph(edge)
    first = db.view("first", g.bfs(source))
    second = db.view("second", g.bfs(source).filter(col.hops > 0))
    assert len(operators(db)) == 1
    edge.insert([(3, 4)])
    assert sorted(first.rows()) == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4)]
    assert sorted(second.rows()) == [(2, 1), (3, 2), (4, 3), (5, 4)]
    first.drop()
    edge.delete([(2, 3)])
    assert sorted(second.rows()) == [(2, 1)]
    second.drop()
    assert operators(db) == []
    assert sorted(db.view("third", g.bfs(source)).rows()) == [(1, 0), (2, 1)]


def test_the_trees_are_accounted_for() -> None:
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    hops = db.view("hops", Graph(edge).bfs(source))
    before = db.stats()["bytes"]
    source.insert([(0,)])
    edge.insert([(i, i + 1) for i in range(20_000)])
    (held,) = [a for a in hops.stats()["arrangements"] if a["kind"] == "trees"]
    assert held["bytes"] > 20_000 * 8 * 8
    assert db.stats()["bytes"] > before + held["bytes"]


WRITER = """
import random, sys
import everview as ev
from everview.graph import Graph

db = ev.connect(sys.argv[1])
dice = random.Random(int(sys.argv[2]))
edge = db.table("edge", {"src": int, "dst": int, "w": int})
source = db.table("source", {"node": int})
g = Graph(edge, weight="w")
for name, c in (("bfs", g.bfs(source)), ("sssp", g.sssp(source)), ("wcc", g.wcc()), ("reach", g.reach(source))):
    db.view(name, c)
if not source.rows():
    source.insert([(0,)])
held = list(edge.rows())
print("ready", flush=True)
while True:
    with db.transaction():
        for _ in range(dice.randint(1, 6)):
            if held and dice.random() < 0.45:
                edge.delete([held.pop(dice.randrange(len(held)))])
            else:
                held.append((dice.randrange(40), dice.randrange(40), dice.randrange(3)))
                edge.insert([held[-1]])
"""


def test_a_writer_is_killed_and_the_directory_is_opened_again(tmp_path: Path) -> None:
    for life in range(3):
        run = [sys.executable, "-c", WRITER, str(tmp_path / "d"), str(life)]
        with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
            time.sleep(0.3)
            writer.kill()
        db = ev.connect(tmp_path / "d")
        assert len(operators(db)) == 4 and db.check() == []
        db["edge"].insert([(0, 41 + life, 1)])
        assert db.check() == [] and db["bfs"].lookup(41 + life) == [(41 + life, 1)]
        db.close()
