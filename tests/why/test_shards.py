"""Explanations where a session runs in shards: the same code, over contents that are gathered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

import everview as ev
from everview.session.local_shards import local_shards
from tests.oracle import plans
from tests.oracle.harness import effort
from tests.why.checker import check_why, contents_of, own_ancestors
from tests.why.test_loops import QUERIES, graph_of
from tests.why.test_random_plans import explain_all
from tests.why.test_why import graph


def test_rows_of_random_plans_are_explained() -> None:
    @given(plans.flat_plans, plans.steps)
    @effort(5)
    def run(spec: plans.Spec, steps: Any) -> None:
        explain_all(spec, steps, lambda: local_shards(3))

    run()


@pytest.mark.parametrize("query", QUERIES)
def test_rows_of_loops_are_explained(query: str) -> None:
    with local_shards(3) as db:
        edge, root = graph_of(db, 1)
        view = db.view("v", QUERIES[query](edge, root))
        edge.insert([(3, 4, 2), (4, 9, 1)])
        contents = contents_of(db)
        for row in sorted(view.rows())[:4]:
            assert not own_ancestors(check_why(view, row, contents))


def test_answers_are_those_of_one_process() -> None:
    with local_shards(2) as sharded, ev.connect() as single:
        one, two = graph(sharded), graph(single)
        for name in ("orphan", "fanout", "tri"):
            for row in sorted(two[name].rows()):
                assert str(one[name].why(row)) == str(two[name].why(row))
        assert str(one.reach.why_not(("y",))) == str(two.reach.why_not(("y",)))
