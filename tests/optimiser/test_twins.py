"""Rules, procedures and brute force find the same plan, at first and after every change of a statistic."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from everview.errors import PlanError
from everview.optimiser.bottom_up import BottomUp, Memo
from everview.optimiser.model import Model
from everview.optimiser.problem import UNIT, Problem, Relation, bits, connected
from everview.optimiser.pruning import Pruned
from everview.optimiser.space import And, Or, Space
from everview.optimiser.top_down import TopDown
from tests.optimiser.problems import SHAPES, every_plan, problem


@pytest.fixture(scope="module")
def optimiser() -> Iterator[Pruned]:
    found = Pruned()
    yield found
    found.close()


def followed(chosen: dict[Or, And], space: Space) -> dict[Or, And]:
    """The part of what was chosen that the plan of the whole consists of."""
    found, todo = {}, [space.root]
    while todo:
        goal = todo.pop()
        found[goal] = chosen[goal]
        todo += space.needs[chosen[goal]]
    return found


def changed(given: Problem, rng: random.Random) -> tuple[Problem, dict[str, Any]]:
    """The problem with a few other statistics, and what to tell the optimiser."""
    told: dict[str, Any] = {"rows": {}, "changes": {}, "values": {}, "factors": {}}
    relations = list(given.relations)
    for _ in range(rng.randint(1, 3)):
        r = rng.randrange(len(relations))
        kind, log = rng.choice((*told, "steps")), rng.randrange(20 * UNIT)
        if kind == "steps":
            told[kind] = log
        elif kind == "factors":
            told[kind][rng.choice(sorted(connected(given)))] = rng.randrange(-3 * UNIT, 3 * UNIT)
        elif kind == "values":
            v = rng.choice(list(bits(relations[r].variables)))
            relations[r] = replace(relations[r], values={**relations[r].values, v: log})
            told["values"][r, v] = log
        else:
            other = replace(relations[r], rows=log) if kind == "rows" else replace(relations[r], changes=log)
            relations[r], told[kind][r] = other, log
    factors, steps = {**given.factors, **told["factors"]}, told.get("steps", given.steps)
    return replace(given, relations=tuple(relations), factors=factors, steps=steps), told


def test_a_condition_costs_the_pairs_that_it_is_tested_on() -> None:
    """And not only those that meet it: 32 changes of each side find 256 partners each, of which four meet it."""
    a, b = (Relation(name, v, 10 * UNIT, 5 * UNIT, {1: 2 * UNIT, v - 1: 9 * UNIT}) for name, v in (("a", 3), ("b", 5)))
    given = Problem((a, b), factors={3: -6 * UNIT}, conditions=frozenset({6}))
    free = replace(given, conditions=frozenset())
    assert Model(given).flow(3) == 2 * 32 * 4
    assert Model(given).joining(1, 2) - Model(free).joining(1, 2) == Model(given).tested(1, 2) == 2 * 32 * 256
    # once a side has all that it reads, it has been tested
    c = Relation("c", 4, UNIT, UNIT, {4: UNIT})
    three = Problem((a, b, c), conditions=frozenset({6}))
    assert [three.is_screened(*sides) for sides in ((1, 2), (3, 4), (1, 6), (2, 4))] == [True, False, True, False]


def test_a_join_keeps_no_more_rows_than_its_relations_have_of_what_is_read() -> None:
    """Joined with a dimension whose column nobody reads on, 256 facts are 256 rows, with weights: not 1,024."""
    values = dict.fromkeys((1, 2, 4), 6 * UNIT)
    fact = Relation("fact", 7, 8 * UNIT, 8 * UNIT, values)
    dimension = Relation("dimension", 2, 8 * UNIT, 8 * UNIT, {2: 6 * UNIT})
    given = Problem((fact, dimension), forgotten={2: 3})
    assert Model(given).size(3) == 10 * UNIT
    assert Model(given).held(3) == 8 * UNIT


@pytest.mark.parametrize("shape", SHAPES)
def test_the_best_plan_is_the_cheapest_there_is(shape: str, optimiser: Pruned) -> None:
    rng = random.Random(shape)
    for n in range(2, 8):
        given = problem(shape, n, rng)
        space = Space.of(given)
        cost = min(cost for cost, _ in every_plan(space, space.root))
        assert optimiser.best(optimiser.add(given)).cost == cost
        assert BottomUp(space).best[space.root] == TopDown(space).best[space.root] == cost


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_all_agree_after_every_change(shape: str, seed: int, optimiser: Pruned) -> None:
    rng = random.Random(f"{shape} {seed}")
    given = problem(shape, rng.randint(3, 6), rng)
    number = optimiser.add(given)
    space = Space.of(given)
    memos: tuple[Memo, ...] = ("all", "best")
    twins: list[BottomUp | TopDown] = [
        kind(space, memo=memo, conditional=conditional)
        for kind in (BottomUp, TopDown)
        for memo in memos
        for conditional in (True, False)
    ]
    for _ in range(12):
        best = optimiser.best(number)
        ways = all_ways(Space.of(given))
        assert optimiser.ways(number) == ways
        assert optimiser.last_steps(number) == {way: cost for way, cost in ways.items() if way.goal == space.root}
        for twin in twins:
            assert twin.best[space.root] == best.cost
            assert followed(twin.chosen, space) == best.chosen
        given, told = changed(given, rng)
        optimiser.observe(number, **told)
        local = Space.of(given).local_costs()
        for twin in twins:
            twin.update({way: cost for way, cost in local.items() if cost != twin.local[way]})


@pytest.mark.parametrize("shape", SHAPES)
def test_indexes_come_and_go(shape: str, optimiser: Pruned) -> None:
    rng = random.Random(shape)
    given = problem(shape, 5, rng)
    number = optimiser.add(given)
    for _ in range(6):
        r = rng.randrange(5)
        keys = frozenset((v, 0) for v in bits(given.relations[r].variables) if rng.random() < 0.5)
        optimiser.observe(number, indexes={r: keys})
        relations = [replace(of, indexes=keys) if i == r else of for i, of in enumerate(given.relations)]
        given = replace(given, relations=tuple(relations))
        space = Space.of(given)
        assert optimiser.ways(number) == all_ways(space)
        assert optimiser.best(number).chosen == followed(BottomUp(space).chosen, space)


def all_ways(space: Space) -> dict[And, int]:
    """What every way costs, from scratch."""
    twin = BottomUp(space)
    return {way: twin.local[way] + sum(twin.best[g] for g in needs) for way, needs in space.needs.items()}


def test_a_change_that_is_taken_back_leaves_no_trace(optimiser: Pruned) -> None:
    rng = random.Random(7)
    given = problem("cycle", 5, rng)
    number = optimiser.add(given)
    before, ways = optimiser.best(number), optimiser.ways(number)
    for _ in range(5):
        _, told = changed(given, rng)
        optimiser.observe(number, **told | {"factors": {}})
    relations = list(enumerate(given.relations))
    optimiser.observe(
        number,
        rows={r: of.rows for r, of in relations},
        changes={r: of.changes for r, of in relations},
        values={(r, v): of.values[v] for r, of in relations for v in bits(of.variables)},
        steps=given.steps,
    )
    assert (optimiser.best(number), optimiser.ways(number)) == (before, ways)


def test_problems_do_not_touch_each_other(optimiser: Pruned) -> None:
    rng = random.Random(3)
    first, second = (optimiser.add(problem(shape, 4, rng)) for shape in ("chain", "star"))
    before = optimiser.best(second)
    optimiser.observe(first, rows={0: 19 * UNIT})
    assert optimiser.best(second) == before
    optimiser.remove(first)
    assert optimiser.best(second) == before
    with pytest.raises(PlanError, match="no problem"):
        optimiser.best(first)
    assert not [row for row in optimiser.rules.alternative.rows() if row[0] == first]


@pytest.mark.parametrize("n", range(2, 8))
def test_the_space_is_as_large_as_the_thesis_counts(n: int) -> None:
    space = Space.of(Problem(tuple(Relation(f"t{i}", 1, 9, 9, {1: 9}) for i in range(n))))
    assert sum(goal.key == 0 for goal in space.ways) == 2**n - 1
    assert 2 * sum(way.operator == "join" for way in space.needs) == 3**n + 1 - 2 ** (n + 1)


def test_the_cheaper_of_two_equal_plans_is_told_by_rank(optimiser: Pruned) -> None:
    alike = Problem(tuple(Relation(name, 1, UNIT, UNIT, {1: UNIT}) for name in "abc"))
    best = optimiser.best(optimiser.add(alike))
    joins = [
        way for way, cost in optimiser.ways(optimiser._added).items() if way.goal == Or(7, 0) and cost == best.cost
    ]
    assert len(joins) == 3
    assert best.chosen[Or(7, 0)] == min(joins, key=lambda way: way.rank)


def test_what_cannot_be_asked() -> None:
    a, b = Relation("a", 1, 9, 9, {1: 9}), Relation("b", 2, 9, 9, {2: 9})
    with pytest.raises(PlanError, match="cross product"):
        Problem((a, b))
    with pytest.raises(PlanError, match="from 2 to 12"):
        Problem((a,) * 13)
    assert connected(Problem((a, a))) == {1, 2, 3}
