"""Every row of random plans is explained, and every step of every explanation is checked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.language.relation import relation_of
from everview.why import contents as contents_module
from tests.oracle import plans
from tests.oracle.harness import effort
from tests.oracle.reference import Divergent, Evaluation, TooBig
from tests.why.checker import check_why, contents_of

CHECKED = 6
"""Rows of a view that are explained."""


def explain_all(spec: plans.Spec, steps: Any, connect: Any = ev.connect) -> None:
    """Explain some rows of a plan after some steps."""
    with connect() as db:
        tables = {name: db.table(name, schema) for name, schema in plans.TABLES.items()}
        collection = plans.build(spec, tables)
        for transaction in (t for step in plans.valid(steps) for t in step):
            with db.transaction():
                for name, change in transaction.items():
                    for row, n in change.items():
                        (tables[name].insert if n > 0 else tables[name].delete)([row] * abs(n))
        contents = contents_of(db)
        try:
            bag = Evaluation(relation_of(collection).node, contents).result
        except (TooBig, Divergent):
            return
        view = db.view("v", collection)
        if view.errors():
            return
        before = db.stats()
        rows = sorted((r for r, n in bag.items() if n > 0), key=repr)
        for row in rows[:CHECKED]:
            check_why(view, row, contents)
            check_why(view, row, contents, kept=False)
        assert db.stats() == before


@given(plans.flat_plans, plans.steps)
@effort(25)
def test_rows_of_plans_without_loops_are_explained(spec: plans.Spec, steps: Any) -> None:
    explain_all(spec, steps)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_rows_of_loops_are_explained(depth: int) -> None:
    @given(plans.with_loops(depth), plans.steps)
    @effort(8)
    def run(spec: plans.Spec, steps: Any) -> None:
        explain_all(spec, steps)

    run()


def test_rows_of_plans_are_explained_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were many rows everywhere: whatever can be is computed on blocks."""
    monkeypatch.setattr(contents_module, "COLUMNAR_COST", -1.0)

    @given(plans.flat_plans, plans.steps)
    @effort(25)
    def run(spec: plans.Spec, steps: Any) -> None:
        explain_all(spec, steps)

    run()


def test_a_recursion_that_lacks_a_row_has_its_name_from_the_first_answer_on() -> None:
    """It was called "of v's recursion" until something else had named the loop."""
    rounds: Any = ("rounds", ("table", "n"), ("var", 0), 1)
    spec: Any = ("agg", ("except", ("rounds", ("table", "n"), ("table", "r"), 1), rounds), "avg", "a")
    explain_all(spec, [[[("r", (0, 0), 1)] * 4]])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_rows_of_many_plans_are_explained(depth: int) -> None:
    @given(plans.flat_plans if depth == 0 else plans.with_loops(depth), plans.steps, st.integers(0, 0))
    @effort(150)
    def run(spec: plans.Spec, steps: Any, _: int) -> None:
        explain_all(spec, steps)

    run()
