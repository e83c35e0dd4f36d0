"""Shards of one process in threads of their own, however little there is to do: the same answers at every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

import everview as ev
from everview.codes import sharing
from everview.dataflow import superstep
from everview.session.local_shards import local_shards
from tests.oracle import graphs
from tests.oracle.harness import Runtime, Scenario, ViewPlan, random_steps, run

SHARDED = Runtime("side by side", partial(local_shards, shards=3))
EDGE = {"src": int, "dst": int}


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many shards were run at once, each time any were."""
    seen: list[int] = []

    def each(count: int, threads: int, work: Callable[[int], None]) -> None:
        seen.append(count)
        sharing.each(count, 3, work)

    monkeypatch.setattr(superstep, "SIDE_BY_SIDE", 0)
    monkeypatch.setattr(superstep, "each", each)
    return seen


@pytest.mark.parametrize("program", ["strong components", "a loop around them", "components by priority"])
def test_graph_programs_7_nodes_11_edges_5_steps(pools: list[int], program: str) -> None:
    def build(t: Mapping[str, Any]) -> ev.Collection:
        if program == "components by priority":
            return graphs.components(t["edge"], True)
        distinct = t["edge"].distinct()
        return graphs.strong_edges(distinct) if program == "strong components" else graphs.peeled(distinct)

    steps = random_steps(1, 5, {"edge": lambda s: (s.randrange(7), s.randrange(7))}, first=7, target=11)
    run(Scenario({"edge": EDGE}, [ViewPlan("early", build), ViewPlan("late", build, 3)], steps), SHARDED)
    assert len(pools) > 20


def test_failures_leave_all_shards_as_they_were(pools: list[int]) -> None:
    with SHARDED.connect() as db:
        t = db.table("t", {"x": int})
        v = db.view("v", t.group_by("x").agg(n=ev.count()))
        t.insert([(i,) for i in range(20)])
        with pytest.raises(ev.InputError, match="E_ABSENT"):
            t.delete([(i,) for i in range(15, 25)])
        t.insert([(3,)])
        assert sorted(v.rows()) == [(i, 1 + (i == 3)) for i in range(20)] and pools


def test_functions_in_python_run_one_after_the_other(pools: list[int]) -> None:
    with SHARDED.connect() as db:
        t = db.table("t", {"x": int})
        t.insert([(i,) for i in range(20)])
        before = len(pools)
        v = db.view("v", t.select(y=ev.udf(lambda x: x + 1, returns=int)(t.x)))
        t.insert([(20,)])
        assert len(pools) == before and len(v.rows()) == 21
