"""Loops whose rules lead from state to state, as automata do: kept as trees, they say what ordinary loops say."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import everview as ev
from everview import col, lit
from everview.graph import Graph
from tests.graph.twins import Tables, Twins, kept_as, random_step

PATHS = ("a+ / b", "(a | b)* / c", "^a / b*", ". / a / .", "a{2,3} | c", "(a / b)+")
SCHEMAS: dict[str, dict[str, Any]] = {"edge": {"src": int, "kind": str, "dst": int, "w": int}, "source": {"node": int}}


def paths(db: ev.Session, t: Tables) -> Mapping[str, ev.Collection]:
    g = Graph(t["edge"], label="kind")
    every = {text: g.rpq(text) for text in PATHS}
    return {**every, "from some": g.rpq("a+ / b", sources=t["source"]), "shifts": shifts(t), "both": both(t)}


def shifts(t: Tables) -> ev.Collection:
    """The least cost of paths on which edges of kinds a and b take turns; a path may end after either."""
    e = t["edge"]
    start = t["source"].select(node=col.node, shift=lit(0), cost=lit(0)).distinct()

    def body(x: ev.Collection) -> ev.Collection:
        def turn(kind: str, before: int, after: int) -> ev.Collection:
            on = x.filter(x.shift == before).join(e, x.node == e.src).filter(e.kind == kind)
            return on.select(node=e.dst, shift=lit(after), cost=x.cost + e.w)

        return turn("a", 0, 1).union_all(turn("b", 1, 0), start).group_by("node", "shift").agg(cost=col.cost.min())

    return start.iterate(body)


def both(t: Tables) -> ev.Collection:
    """A rule for one state only, which stays, and one for all states."""
    e = t["edge"]
    start = t["source"].select(node=col.node, state=lit(3))
    start = start.union_all(t["source"].select(node=col.node, state=lit(4))).distinct()

    def body(x: ev.Collection) -> ev.Collection:
        some = x.filter(x.state == 3).join(e, x.node == e.src).filter(e.kind == "c").select(node=e.dst, state=x.state)
        every = x.join(e, x.node == e.src).filter(e.kind == "a").select(node=e.dst, state=x.state)
        return some.union_all(every, start).distinct()

    return start.iterate(body)


def history(seed: int, nodes: int, steps: int) -> None:
    dice = random.Random(seed)
    twins = Twins(SCHEMAS, paths)
    draw: dict[str, Callable[[], Any]] = {
        "edge": lambda: (dice.randrange(nodes), dice.choice("abc"), dice.randrange(nodes), dice.randrange(3)),
        "source": lambda: (dice.randrange(nodes),),
    }
    for number in range(steps):
        target = 0 if number == steps // 2 else 2 * nodes
        twins.step(random_step(twins, dice, draw, target, most=10 if number % 10 == 0 else 4))
    twins.close()


def test_the_form_is_seen() -> None:
    twins = Twins(SCHEMAS, paths)
    assert {name: kept_as(view) for name, view in twins.views[0].items()} == {
        name: ["trees"] for name in twins.views[0]
    }
    assert "in states of an automaton" in twins.views[0]["a+ / b"].explain()
    twins.close()


@pytest.mark.parametrize("seed", range(3))
def test_random_histories(seed: int) -> None:
    history(seed, 4 + 2 * seed, steps=30)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_random_histories(seed: int) -> None:
    history(seed, 3 + seed % 8, steps=100)


def test_what_is_no_state_stays_a_loop() -> None:
    """The constant may be tested otherwise than by equality, be missing, be text, or depend on the edge."""
    db = ev.connect()
    e = db.table("edge", {"src": int, "kind": int, "dst": int})
    source = db.table("source", {"node": int})

    def kept(make: Callable[[ev.Collection], ev.Collection], first: Any = 0) -> list[str]:
        start = source.select(node=col.node, state=lit(first)).distinct()
        view = db.view("v", start.iterate(lambda x: make(x).union_all(start).distinct()))
        found = kept_as(view)
        view.drop()
        return found

    assert kept(lambda x: x.filter(x.state == 0).join(e, x.node == e.src).select(node=e.dst, state=lit(1))) == ["trees"]
    assert kept(lambda x: x.filter(x.state < 1).join(e, x.node == e.src).select(node=e.dst, state=lit(1))) == ["rounds"]
    assert kept(lambda x: x.join(e, x.node == e.src).select(node=e.dst, state=lit(1))) == ["rounds"]
    assert kept(lambda x: x.join(e, x.node == e.src).select(node=e.dst, state=e.kind)) == ["rounds"]
    assert kept(lambda x: x.filter(x.state == 0).join(e, x.node == e.src).select(node=e.dst, state=e.kind)) == [
        "rounds"
    ]
    assert kept(lambda x: x.filter(x.state == 0).join(e, x.node == e.src).select(node=e.dst, state=x.state + 1)) == [
        "rounds"
    ]
    text = kept(lambda x: x.filter(x.state == "a").join(e, x.node == e.src).select(node=e.dst, state=lit("b")), "a")
    assert text == ["rounds"]
