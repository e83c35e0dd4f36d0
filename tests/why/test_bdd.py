"""Decision diagrams against truth tables, and against `dd`."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.why.bdd import FALSE, TRUE, Diagrams, Exhausted
from tests.oracle.harness import effort

VARIABLES = 6

formulas = st.recursive(
    st.integers(0, VARIABLES - 1) | st.booleans(),
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner),
    max_leaves=14,
)


def made(table: Diagrams, formula: Any) -> int:
    if isinstance(formula, bool):
        return TRUE if formula else FALSE
    if isinstance(formula, int):
        return table.variable(formula)
    op, a, b = formula
    return (table.both if op == "and" else table.either)(made(table, a), made(table, b))


def true(formula: Any, world: tuple[bool, ...]) -> bool:
    if isinstance(formula, bool):
        return formula
    if isinstance(formula, int):
        return world[formula]
    op, a, b = formula
    return (true(a, world) and true(b, world)) if op == "and" else (true(a, world) or true(b, world))


def followed(table: Diagrams, f: int, world: tuple[bool, ...]) -> bool:
    while f > TRUE:
        f = table.high[f] if world[table.level[f]] else table.low[f]
    return f == TRUE


WORLDS = list(itertools.product((False, True), repeat=VARIABLES))
CHANCES = [0.5, 0.25, 0.125, 0.75, 0.5, 0.875]


@given(st.lists(formulas, min_size=1, max_size=4))
@effort(60)
def test_diagrams_are_truth_tables(some: list[Any]) -> None:
    table = Diagrams(10_000)
    tables: dict[int, tuple[bool, ...]] = {}
    for formula in some:
        f = made(table, formula)
        truth = tuple(true(formula, world) for world in WORLDS)
        assert tuple(followed(table, f, world) for world in WORLDS) == truth
        assert tables.setdefault(f, truth) == truth
        likely = 0.0
        for world, holds in zip(WORLDS, truth, strict=True):
            weight = 1.0
            for p, there in zip(CHANCES, world, strict=True):
                weight *= p if there else 1 - p
            likely += weight * holds
        assert table.probability(f, CHANCES) == pytest.approx(likely, abs=1e-12)
        for level in range(VARIABLES):
            left = table.without(f, level)
            for world in WORLDS:
                gone = (*world[:level], False, *world[level + 1 :])
                assert followed(table, left, world) == true(formula, gone)
    assert len(set(tables.values())) == len(tables)  # two functions are equal exactly if their numbers are


@given(formulas)
@effort(40)
def test_diagrams_have_the_nodes_of_dd(formula: Any) -> None:
    dd = pytest.importorskip("dd.autoref")
    other = dd.BDD()
    other.configure(reordering=False)
    names = [f"x{i}" for i in range(VARIABLES)]
    other.declare(*names)

    def theirs(formula: Any) -> Any:
        if isinstance(formula, bool):
            return other.true if formula else other.false
        if isinstance(formula, int):
            return other.var(names[formula])
        op, a, b = formula
        return theirs(a) & theirs(b) if op == "and" else theirs(a) | theirs(b)

    table = Diagrams(10_000)
    f, g = made(table, formula), theirs(formula)
    models = sum(followed(table, f, world) for world in WORLDS)
    assert models == other.count(g, nvars=VARIABLES)
    # theirs have edges that negate, so no more nodes than ours; of functions of one sign they are the same
    assert len(table.below(f)) >= len(g) - 1


def test_a_budget_is_kept() -> None:
    table = Diagrams(4)
    x, y = table.variable(0), table.variable(1)
    assert len(table) == 4
    with pytest.raises(Exhausted):
        table.both(x, y)
    assert len(table) == 4 and table.either(x, x) == x
