"""Counter-examples that were once wrong, each with what was the matter."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

import everview as ev
from everview.expr.language import col, count
from everview.language.collection import Collection
from tests.oracle import graphs
from tests.oracle.harness import Runtime, Scenario, ViewPlan, run
from tests.oracle.test_random_plans import attempt

R, S, X, Y = ("table", "r"), ("table", "s"), ("var", 0), ("var", 1)

SPECS: dict[str, tuple[tuple, ...]] = {
    # the result of one loop was read inside that loop's scope, and met another loop's there
    "a loop over the result of a loop": (("grow", ("grow", R, R), S),),
    "two loops joined": (("join", "inner", "b=a", "outer", ("grow", R, R), ("grow", S, S)),),
    "a loop in a loop over the result of a loop in the same loop": (
        ("rounds", R, ("grow", ("grow", X, X), ("closure", X, R)), 3),
    ),
    # the value column of a count became part of the accumulator's key
    "distinct counts of what is never NULL": (("agg", R, "count_distinct", "b"),),
    # the Python operator was made before what it reads, and ran before it
    "a Python function of a reduction": (("map", ("distinct", R)),),
    "a Python function of a loop": (("flat_map", ("grow", R, S), "both ways"),),
    # a variable read as last round's output of another body, which had gone on already
    "mutual recursion through distinct": (
        ("mutual", R, ("join", "inner", "b=a", "outer", Y, R), ("join", "inner", "b=a", "outer", X, S), 0),
        ("mutual", R, ("join", "inner", "b=a", "outer", Y, R), ("join", "inner", "b=a", "outer", X, S), 1),
    ),
    # its variable keeps nothing that a second view could have been told
    "a second view of a loop that only passes rows on": (
        ("closure", ("select", ("rounds", ("union", R, S, R), ("flat_map", X, "both ways"), 1), "a", "a"), R),
        ("rounds", ("union", R, S, R), ("flat_map", X, "both ways"), 1),
    ),
    "a body that is the other variable": (("mutual", R, ("join", "inner", "b=a", "outer", Y, S), X, 1),),
}

STEPS = [
    [[("r", (0, 1), 1), ("r", (1, 2), 2), ("r", (2, 0), 1), ("s", (0, 3), 1), ("s", (2, 4), 1)]],
    [[("r", (2, 0), -1)], [("s", (2, 0), 1), ("r", (1, 2), -1)], [("r", (2, 0), 1)]],
    [[("r", (1, 2), -1), ("s", (0, 3), -1)]],
]


@pytest.mark.parametrize("at", [0, 2], ids=["early", "late"])
@pytest.mark.parametrize("name", SPECS)
def test_plan(runtime: Runtime, name: str, at: int) -> None:
    attempt(runtime, SPECS[name], [(at, 5)] * 3, STEPS)


def test_two_nodes_that_reach_each_other_are_strong(runtime: Runtime) -> None:
    def build(tables: Mapping[str, Any]) -> Collection:
        return graphs.strong_edges(tables["edge"].distinct())

    steps = [[{"edge": {(0, 2): 1, (2, 0): 1}}], [{"edge": {(0, 2): -1}}, {"edge": {(0, 2): 2}}]]
    run(Scenario({"edge": {"src": int, "dst": int}}, [ViewPlan("v", build)], steps), runtime)


@pytest.mark.parametrize("values", [[-0.3], [-1e9, -1e9], [0.1, -0.3], [-1e15, 1e15, -0.125], [1e20, 1.0, -1e20]])
def test_sums_of_negative_floats(runtime: Runtime, values: list[float]) -> None:
    """The total was put together from the lowest digits upwards, and lost to cancellation if it was negative."""
    with runtime.connect() as db:
        t = db.table("t", {"f": float})
        v = db.view("v", t.agg(s=col.f.sum(), n=count()))
        t.insert([(f,) for f in values])
        assert v.rows() == [(float(sum(map(Fraction, values))), len(values))]


def test_a_second_view_of_a_loop_that_only_passes_rows_on() -> None:
    """Its variable keeps nothing, so the second view could not be told what the first one had heard."""
    db = ev.connect()
    pair = db.table("pair", {"a": int, "b": int})

    def turned(x: Collection) -> Collection:
        return x.select(a=x.b, b=x.a).union_all(x)

    def loop() -> Collection:
        return pair.iterate(turned, max_rounds=1, at_limit="stop")

    pair.insert([(1, 2)])
    first = db.view("first", loop().select(a=col.a).distinct())
    second = db.view("second", loop())
    pair.insert([(3, 4)])
    assert sorted(first.rows()) == [(1,), (2,), (3,), (4,)]
    assert sorted(second.rows()) == [(1, 2), (2, 1), (3, 4), (4, 3)]
    first.drop()
    pair.delete([(1, 2)])
    assert sorted(second.rows()) == [(3, 4), (4, 3)]


def test_a_python_operator_that_nobody_listens_to(runtime: Runtime) -> None:
    """Its branches cancel. When it first had rows, a shard gave it an operator for its errors, which the driver did not
    have: from then on each took the other's operators for its own.
    """
    with runtime.connect() as db:
        t = db.table("t", {"s": str})
        loud = t.select(s=col.s.upper())
        plain = db.view("plain", loud.union_all(loud.negate(), t))
        t.insert([("a",), ("b",)])
        later = db.view("later", t.select(s=col.s.upper()).distinct())
        t.insert([("c",)])
        assert sorted(plain.rows()) == [("a",), ("b",), ("c",)]
        assert sorted(later.rows()) == [("A",), ("B",), ("C",)]
