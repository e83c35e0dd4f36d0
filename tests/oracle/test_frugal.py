"""Shards that count what they make before they send it: the same rows at every time, and fewer of them on the way."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given

import everview as ev
from everview import col
from everview.language.relation import relation_of
from everview.session.core import core_of
from everview.session.local_shards import local_shards
from tests.oracle import plans
from tests.oracle.harness import effort
from tests.oracle.reference import Divergent, Evaluation, TooBig
from tests.why.checker import contents_of


def check_plan(spec: plans.Spec, steps: Any) -> None:
    """A random plan after every step, against computing it from scratch."""
    with local_shards(3) as db:
        tables = {name: db.table(name, schema) for name, schema in plans.TABLES.items()}
        collection = plans.build(spec, tables)
        view = None
        for transaction in (t for step in plans.valid(steps) for t in step):
            with db.transaction():
                for name, change in transaction.items():
                    for row, n in change.items():
                        (tables[name].insert if n > 0 else tables[name].delete)([row] * abs(n))
            try:
                bag = Evaluation(relation_of(collection).node, contents_of(db)).result
            except (TooBig, Divergent):
                return
            if view is None:
                view = db.view("v", collection, plan="frugal")
            if view.errors():
                return
            assert view.counts() == {r: n for r, n in bag.items() if n}


def test_random_plans_have_the_rows_they_should() -> None:
    @given(plans.flat_plans, plans.steps)
    @effort(8)
    def run(spec: plans.Spec, steps: Any) -> None:
        check_plan(spec, steps)

    run()


@pytest.mark.parametrize("depth", [1, 2])
def test_loops_have_the_rows_they_should(depth: int) -> None:
    @given(plans.with_loops(depth), plans.steps)
    @effort(6)
    def run(spec: plans.Spec, steps: Any) -> None:
        check_plan(spec, steps)

    run()


def reach(edge: Any) -> Any:
    onward = edge.rename(dst="src", to="dst")
    return edge.iterate(lambda found: found.join(onward, on="dst").select("src", dst=col.to).union_all(edge).distinct())


def nearest(edge: Any) -> Any:
    """The least number of edges from a vertex to another."""
    onward = edge.rename(dst="src", to="dst")
    start = edge.select("src", "dst", hops=ev.lit(1))

    def body(found: Any) -> Any:
        further = found.join(onward, on="dst").filter(col.hops < 6).select("src", dst=col.to, hops=col.hops + 1)
        return further.union_all(start).group_by("src", "dst").agg(hops=col.hops.min())

    return start.iterate(body)


def changed_by_turns(plan: Any, query: Any) -> tuple[list[dict[Any, int]], int, int]:
    """The view after every step of a random load, and the rows and bytes that were sent."""
    dice = random.Random(4)
    with local_shards(4) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        edges = sorted({(dice.randrange(30), dice.randrange(30)) for _ in range(110)})
        edge.insert(edges[:90])
        view = db.view("v", query(edge), plan=plan)
        found = [view.counts()]
        for i in range(12):
            gone = dice.sample(edges[:90], 1)[0]
            new = edges[90 + i]
            with db.transaction():
                edge.delete([gone])
                edge.insert([new])
            found.append(view.counts())
            with db.transaction():
                edge.insert([gone])
                edge.delete([new])
            found.append(view.counts())
        sent = core_of(db).runtime.cluster.sent()  # type: ignore[attr-defined]
        return found, sum(sent.rows.values()), sent.bytes


@pytest.mark.parametrize("query", [reach, nearest])
def test_less_is_sent_and_the_rows_are_the_same(query: Any) -> None:
    all_of_it, rows, size = changed_by_turns("rounds", query)
    frugal, fewer, smaller = changed_by_turns("frugal", query)
    assert frugal == all_of_it
    assert fewer < rows and smaller < size


def test_other_shards_cannot_take_over_what_was_counted() -> None:
    import numpy as np

    from everview.dataflow.partitioning import WHERE_MADE

    with pytest.raises(ev.InputError, match="E_SHARDS"):
        list(WHERE_MADE.parts(np.zeros((1, 1), dtype=np.int64), 2))
