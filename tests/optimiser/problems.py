"""Random joins, and every plan of one by brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations

from everview.optimiser.observed_problem import with_pipelines
from everview.optimiser.problem import UNIT, Problem, Relation, bits
from everview.optimiser.space import And, Or, Space

SHAPES = ("chain", "star", "cycle", "clique", "tree")


def edges(shape: str, n: int, rng: random.Random) -> list[tuple[int, int]]:
    """Which relations share a variable of their own."""
    if shape == "chain":
        return [(i, i + 1) for i in range(n - 1)]
    if shape == "star":
        return [(0, i) for i in range(1, n)]
    if shape == "cycle":
        return [(i, (i + 1) % n) for i in range(n if n > 2 else 1)]
    if shape == "clique":
        return list(combinations(range(n), 2))
    return [(rng.randrange(i), i) for i in range(1, n)]


def problem(shape: str, n: int, rng: random.Random, *, indexes: bool = True) -> Problem:
    """A join of n relations with random statistics, some indexes and the pipelines the engine would run."""
    masks = [0] * n
    for v, pair in enumerate(edges(shape, n, rng)):
        for r in pair:
            masks[r] |= 1 << v
    relations = []
    for r, mask in enumerate(masks):
        rows = rng.randrange(20 * UNIT)
        values = {v: rng.randrange(rows + 1) for v in bits(mask)}
        keys = [(v, 0) for v in bits(mask) if indexes and rng.random() < 0.3]
        changes = rng.randrange(20 * UNIT)
        relations.append(Relation(f"t{r}", mask, rows, changes, values, rng.randint(1, 5), frozenset(keys)))
    forgotten = {}
    for v in bits(sum({v for mask in masks for v in bits(mask)})):
        if rng.random() < 0.7:
            forgotten[v] = sum(1 << r for r, mask in enumerate(masks) if mask & v or rng.random() < 0.1)
    variables = list(bits(sum({v for mask in masks for v in bits(mask)})))
    read = (rng.sample(variables, min(2, len(variables))) for _ in range(rng.choice((0, 1, 1, 2))))
    conditions = frozenset(sum(some) for some in read)
    return with_pipelines(Problem(tuple(relations), forgotten=forgotten, conditions=conditions))


def every_plan(space: Space, goal: Or) -> Iterator[tuple[int, tuple[And, ...]]]:
    """Cost and ways of every plan there is for an OR node."""
    local = space.local_costs()

    def plans(goal: Or) -> Iterator[tuple[int, tuple[And, ...]]]:
        for way in space.ways[goal]:
            below: list[tuple[int, tuple[And, ...]]] = [(local[way], (way,))]
            for need in space.needs[way]:
                several = list(plans(need))
                below = [(a + b, (*x, *y)) for a, x in below for b, y in several]
            yield from below

    return plans(goal)
