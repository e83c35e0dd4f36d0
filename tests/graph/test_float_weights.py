"""Weights that are floats: trees and histories add them up as loops do, from the start of a path to its end."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import pytest

import everview as ev
from everview import col, lit
from everview.errors import InputError, LoopError
from everview.graph import Graph
from tests.graph.test_trees import drawn
from tests.graph.twins import Tables, Twins, kept_as, random_step

SCHEMAS: dict[str, dict[str, Any]] = {
    "edge": {"src": int, "dst": int, "w": float},
    "source": {"node": int},
    "pair": {"a": int, "b": int},
}
ODD = (0.0, 0.1, 0.2, 0.3, 0.7, 1e-17, 1e16, 1.0, 3.0, 5e-324, 1e305)
"""Sums of these depend on the order, and some weights vanish in them. The largest is wild (`offers.is_wild`)."""


def costs(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
    g, lean = Graph(t["edge"], weight="w"), Graph(t["edge"], weight="w", memory="lean")
    return {
        "sssp": g.sssp(t["source"]),
        "pairs": g.distance(t["pair"]),
        "lean": lean.sssp(t["source"]),
        "lean_pairs": lean.distance(t["pair"]),
        "steps": steps(t),
    }


def steps(t: Tables) -> ev.Collection:
    """A tenth more for each edge: a constant instead of a column."""
    start, e = t["source"].select(node=col.node, far=lit(0.0)).distinct(), t["edge"]

    def body(x: ev.Collection) -> ev.Collection:
        on = x.join(e, x.node == e.src).select(node=e.dst, far=x.far + 0.1)
        return on.union_all(start).group_by("node").agg(far=col.far.min())

    return start.iterate(body)


def played(seed: int, count: int) -> None:
    dice = random.Random(seed)
    twins = Twins(SCHEMAS, costs)
    kept = {"sssp": "trees", "pairs": "trees", "lean": "histories", "lean_pairs": "histories", "steps": "trees"}
    assert {name: kept_as(view)[0] for name, view in twins.views[0].items()} == kept
    nodes = tuple(range(4 + seed % 6))
    for number in range(count):
        draw = drawn(dice, nodes, ODD)  # type: ignore[arg-type]
        twins.step(random_step(twins, dice, draw, 0 if number == count // 2 else 2 * len(nodes), most=6))
    twins.close()


@pytest.mark.parametrize("seed", range(2))
def test_random_histories(seed: int) -> None:
    played(seed, 40)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_random_histories(seed: int) -> None:
    played(seed, 150)


@pytest.mark.parametrize("seed", range(2))
def test_weights_may_be_negative_or_infinite_for_a_while(seed: int) -> None:
    """Edges lead upwards only, so that no cycle is negative."""
    dice = random.Random(seed)
    twins = Twins(SCHEMAS, lambda db, t: {"sssp": Graph(t["edge"], weight="w").sssp(t["source"])})
    for number in range(40):
        some = (-0.3, -0.0, 0.1, math.inf, 4.0) if number % 3 else (0.0, 0.1, 4.0)
        up = drawn(dice, tuple(range(8)), some)["edge"]  # type: ignore[arg-type]

        def rising(up: Any = up) -> Any:
            a, b, w = up()
            return (min(a, b), max(a, b) + 1, w)

        twins.step(random_step(twins, dice, {"edge": rising, "source": lambda: (dice.randrange(8),)}, 14))
    twins.close()


def session() -> tuple[ev.Session, ev.Table, ev.View]:
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int, "w": float}), db.table("source", {"node": int})
    cost = db.view("cost", Graph(edge, weight="w").sssp(source))
    source.insert([(1,)])
    return db, edge, cost


def test_what_is_kept_is_said() -> None:
    _, _, cost = session()
    assert "plus a weight, as floats are added" in cost.explain()


def test_nan_is_worse_than_all_numbers() -> None:
    _, edge, cost = session()
    edge.insert([(1, 2, math.nan), (2, 3, 1.0)])
    assert [math.isnan(c) for _, c in sorted(cost.rows())] == [False, True, True]
    edge.insert([(1, 3, 7.5)])
    assert sorted(cost.rows())[2] == (3, 7.5)
    edge.delete([(1, 2, math.nan)])
    assert sorted(cost.rows()) == [(1, 0.0), (3, 7.5)]


def test_a_path_of_both_infinities_is_refused() -> None:
    _, edge, cost = session()
    edge.insert([(1, 2, -math.inf)])
    with pytest.raises(InputError, match="64 bits"):
        edge.insert([(2, 3, math.inf)])
    assert sorted(cost.rows()) == [(1, 0.0), (2, -math.inf)]


@pytest.mark.parametrize("form", ["trees", "histories", "pairs"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_path_beyond_the_largest_float_is_refused(form: str, order: int) -> None:
    """It was infinitely long, where a loop has an error in its place."""
    db = ev.connect()
    edge, source = db.table("edge", SCHEMAS["edge"]), db.table("source", SCHEMAS["source"])
    pair = db.table("pair", SCHEMAS["pair"])
    g = Graph(edge, weight="w", memory="lean" if form == "histories" else "fast")
    path = g.distance(pair) if form == "pairs" else g.sssp(source)
    cost = db.view("cost", path)
    assert kept_as(cost) == ["trees" if form == "pairs" else form]
    source.insert([(1,)])
    pair.insert([(1, 3), (1, 2)])
    first, second = ((1, 2, 1e308), (2, 3, 1e308))[::order]
    edge.insert([first])
    before = sorted(cost.rows())
    with pytest.raises(InputError, match="64 bits"):
        edge.insert([second])
    assert sorted(cost.rows()) == before
    edge.insert([(2, 3, 1e307), (1, 2, 1.0)])
    assert sorted(cost.rows())[-1][-1] in (1e307, 1.0 + 1e307)
    db.close()


def test_a_loop_has_an_error_instead() -> None:
    db = ev.connect()
    edge, source = db.table("edge", SCHEMAS["edge"]), db.table("source", SCHEMAS["source"])
    cost = db.view("cost", Graph(edge, weight="w").sssp(source), plan="rounds")
    source.insert([(1,)])
    edge.insert([(1, 2, 1e308), (2, 3, 1e308)])
    with pytest.raises(ev.RowErrors, match="out of range"):
        cost.rows()
    edge.delete([(2, 3, 1e308)])
    assert sorted(cost.rows()) == [(1, 0.0), (2, 1e308)]


def test_a_negative_cycle_is_refused() -> None:
    _, edge, cost = session()
    edge.insert([(1, 2, 1.5), (2, 3, -0.5)])
    with pytest.raises(LoopError, match="negative"):
        edge.insert([(3, 2, 0.25)])
    assert sorted(cost.rows()) == [(1, 0.0), (2, 1.5), (3, 1.0)]
