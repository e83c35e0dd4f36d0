"""Builds problems from plans: the relations of a join, their statistics, and the existing indexes.

Rows and values come from `everview.plan.sizes`: measured where something is arranged, estimated otherwise. A relation
is expected to change as often as it has so far (`everview.session.statistics`), if that was counted, and at least once
per row, which is what loading it takes. While a view runs, adaptive plans use the recent rate instead
(`everview.optimiser.adaptive`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from everview.dataflow.extend import Part, levels
from everview.optimiser.problem import Level, Problem, Relation, bits, logarithm
from everview.plan import nodes as plan
from everview.plan.multiway import AtOnce, NaturalJoin
from everview.plan.sizes import Sizes
from everview.types import INT

Arranged = Callable[[plan.Node], Sequence[tuple[int, ...]]]
"""The orders in which a node is arranged."""

STRATEGIES: tuple[AtOnce, ...] = ("delta", "wco")


Changed = Callable[[plan.Node], float | None]
"""Observed changes of a node; None if they were not counted."""


def problem_of(
    join: NaturalJoin,
    names: Sequence[str],
    sizes: Sizes,
    arranged: Arranged,
    changed: Changed = lambda node: None,
    words: int = 2,
) -> Problem:
    """The problem of a tree of joins; `words` are those of an arrangement's row besides its columns."""
    relations = [
        _relation(name, leaf, of, sizes, arranged, changed, words)
        for name, leaf, of in zip(names, join.tree.leaves, join.of_leaf, strict=True)
    ]
    conditions = frozenset(_mask([join.variable(c) for c in each.columns()]) for each in join.tree.conditions)
    return with_pipelines(Problem(tuple(relations), forgotten=_forgotten(join), conditions=conditions))


def _forgotten(join: NaturalJoin) -> dict[int, int]:
    """Which variables are no longer read once which relations are joined: those that are not in the result, after the
    relations that have them and the first of those that a condition needs.
    """
    having: dict[int, int] = {}
    for i, of in enumerate(join.of_leaf):
        for v in {v for v in of if v >= 0}:
            having[v] = having.get(v, 0) | 1 << i
    needed = dict(having)
    for condition in join.tree.conditions:
        tested = {join.variable(c) for c in condition.columns()}
        together = sum({having[v] & -having[v] for v in tested})
        needed |= {v: needed[v] | together for v in tested}
    kept = {join.variable(c) for c in join.tree.columns}
    return {1 << v: relations for v, relations in needed.items() if v not in kept}


def _relation(
    name: str, leaf: plan.Node, of: Sequence[int], sizes: Sizes, arranged: Arranged, changed: Changed, words: int
) -> Relation:
    rows = sizes.rows(leaf)
    changes = max(rows, changed(leaf) or 0.0)
    columns = {1 << v: c for c, v in enumerate(of) if v >= 0}
    values = {bit: min(logarithm(sizes.values(leaf, {c})), logarithm(rows)) for bit, c in columns.items()}
    indexes = {index for order in arranged(leaf) for index in _indexes([of[c] for c in order])}
    width = len(columns) + words
    return Relation(name, _mask(of), logarithm(rows), logarithm(changes), values, width, frozenset(indexes))


def _indexes(order: Sequence[int]) -> set[tuple[int, int]]:
    """The look-up columns of an arrangement in an order of variables, and what a look-up returns."""
    front = list(order[: order.index(-1)]) if -1 in order else list(order)
    return {(_mask(front[:i]), _mask(front[i:k])) for i in range(1, len(front) + 1) for k in range(i, len(front) + 1)}


def with_pipelines(problem: Problem) -> Problem:
    """The problem with the pipelines that the engine would run for a join at once."""
    variables = tuple(tuple(v.bit_length() - 1 for v in bits(r.variables)) for r in problem.relations)
    return replace(problem, pipelines={strategy: _pipelines(variables, strategy) for strategy in STRATEGIES})


@lru_cache(maxsize=64)
def _pipelines(variables: tuple[tuple[int, ...], ...], strategy: AtOnce) -> tuple[tuple[Level, ...], ...]:
    """By the relations' variables alone: a join is examined repeatedly while its statistics change."""
    inputs = tuple(plan.Table(i, (INT,) * len(of)) for i, of in enumerate(variables))
    width = 1 + max(v for of in variables for v in of)
    node = plan.MultiJoin(inputs, variables, (INT,) * width, strategy=strategy)
    return tuple(_pipeline(node, source) for source in range(len(inputs)))


def _pipeline(node: plan.MultiJoin, source: int) -> tuple[Level, ...]:
    bound, relations, made = _mask(node.variables[source]), 1 << source, []
    for level in levels(node, source):
        new = _mask(level.variables)
        relations |= sum(1 << part.input for part in level.parts if part.complete)
        made.append(Level(bound, new, relations, tuple(_part(node, part) for part in level.parts)))
        bound |= new
    return tuple(made)


def _part(node: plan.MultiJoin, part: Part) -> tuple[int, int, int]:
    of = node.variables[part.input]
    return 1 << part.input, _mask([of[c] for c in part.bound]), _mask([of[c] for c in part.new])


def _mask(variables: Sequence[int]) -> int:
    return sum(1 << v for v in set(variables) if v >= 0)
