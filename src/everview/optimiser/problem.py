"""The optimiser's input: relations to join by shared variables, and their statistics.

A join is *natural*: columns that must be equal are one variable. A set of relations, or of variables, is a bit mask,
which rules can combine (`band`, `bor`).

Statistics are integer logarithms: `UNIT` units are one doubling. Sizes multiply along a join, so their logarithms add
up; and integers, unlike floats, add up to the same sum in any order. A statistic that changes and changes back must
leave no trace.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from everview.errors import PlanError

UNIT = 1024
"""Units of a logarithm per doubling."""

TOP = 50 * UNIT
"""Saturation limit of sizes and costs, far below overflow of their sums."""

MOST_RELATIONS = 12
"""A clique of this many has half a million splits; larger joins are ordered greedily (`everview.plan.sizes`)."""


def logarithm(number: float) -> int:
    """A size as a logarithm.

    >>> logarithm(1), logarithm(1000), logarithm(0)
    (0, 10205, 0)
    """
    return min(round(math.log2(number) * UNIT), TOP) if number > 1 else 0


def power(log: int) -> int:
    """The size of a logarithm, rounded down; less than one is zero.

    >>> power(10205), power(-1), power(TOP + UNIT) == 2**50
    (1000, 0, True)
    """
    return math.floor(math.pow(2.0, min(log, TOP) / UNIT))


def bits(mask: int) -> Iterator[int]:
    """The single bits of a mask, lowest first.

    >>> list(bits(0b1101))
    [1, 4, 8]
    """
    while mask:
        low = mask & -mask
        yield low
        mask ^= low


@dataclass(frozen=True)
class Relation:
    """A relation of a join.

    `variables` is the mask of its variables and `width` the words of a row. `rows`, `changes` (expected while the view
    lives, including loading) and `values` (distinct ones of a variable, by its bit) are logarithms. `indexes` are pairs
    of masks: an arrangement begins with the first's variables, then the second's.
    """

    name: str
    variables: int
    rows: int
    changes: int
    values: Mapping[int, int] = field(default_factory=dict, compare=False)
    width: int = 2
    indexes: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Level:
    """A level of a pipeline of a join at once: the variables bound before it and by it, the relations bound after it,
    and its parts: a relation, the variables it is looked up by, and those it binds.
    """

    bound: int
    new: int
    relations: int
    parts: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Problem:
    """A join to be optimised. `pipelines` are those of the possible joins at once, by strategy and source. `factors`
    are observed corrections to the estimated sizes of sets of relations, by mask. `forgotten` gives, for a variable's
    bit, the relations after whose join it is no longer read; others are read to the end. `steps` is the logarithm of
    the number of transactions that bring the changes, by default so many that each brings one. `conditions` are masks
    of the variables that conditions other than equalities read.

    >>> edge = Relation("edge", 0b011, 10205, 10205, {1: 9000, 2: 9000})
    >>> node = Relation("node", 0b010, 9000, 0, {2: 9000})
    >>> Problem((edge, node)).whole
    3
    """

    relations: tuple[Relation, ...]
    pipelines: Mapping[str, tuple[tuple[Level, ...], ...]] = field(default_factory=dict, compare=False)
    factors: Mapping[int, int] = field(default_factory=dict, compare=False)
    forgotten: Mapping[int, int] = field(default_factory=dict, compare=False)
    steps: int = TOP
    conditions: frozenset[int] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        if not 2 <= len(self.relations) <= MOST_RELATIONS:
            what = f"a join of {len(self.relations)} relations has no table of plans"
            raise PlanError("E_PLAN", what, f"from 2 to {MOST_RELATIONS} relations are compared")
        if self.whole not in connected(self):
            what = "the relations share no variables, so every order of joining them is a cross product"
            raise PlanError("E_PLAN", what, "join the parts apart")

    @property
    def whole(self) -> int:
        """The mask of all relations."""
        return (1 << len(self.relations)) - 1

    def members(self, mask: int) -> Iterator[Relation]:
        """The relations of a mask."""
        return (relation for i, relation in enumerate(self.relations) if mask >> i & 1)

    def variables(self, mask: int) -> int:
        """The variables of the relations of a mask."""
        found = 0
        for relation in self.members(mask):
            found |= relation.variables
        return found

    def still_read(self, mask: int) -> int:
        """The variables of some relations that are still read once these are joined."""
        gone = sum(v for v, needed in self.forgotten.items() if needed & mask == needed)
        return self.variables(mask) & ~gone

    def has_condition(self, mask: int) -> bool:
        """Whether a condition is tested within a set of relations."""
        there = self.variables(mask)
        return any(v & there == v for v in self.conditions)

    def is_screened(self, left: int, right: int) -> bool:
        """Whether a condition is tested on the pairs of these two sets of relations: neither side has all it reads."""
        sides = self.variables(left), self.variables(right)
        both = sides[0] | sides[1]
        return any(v & both == v and not any(v & side == v for side in sides) for v in self.conditions)

    def is_indexed(self, mask: int, key: int, new: int = 0) -> bool:
        """Whether a relation, by its bit, is arranged by some variables, and then others; sets of several never are."""
        return mask.bit_count() == 1 and (key, new) in self.relations[mask.bit_length() - 1].indexes


def connected(problem: Problem) -> frozenset[int]:
    """The sets of relations that can be joined without a cross product.

    >>> chain = Problem(tuple(Relation(n, v, 9, 9) for n, v in (("a", 1), ("b", 3), ("c", 2))))
    >>> sorted(connected(chain))
    [1, 2, 3, 4, 6, 7]
    """
    return _connected(tuple(relation.variables for relation in problem.relations))


@lru_cache(maxsize=64)
def _connected(variables: tuple[int, ...]) -> frozenset[int]:
    """By the relations' variables alone: a join is queried repeatedly while its statistics change."""
    found: dict[int, int] = {}
    todo = [(1 << i, of) for i, of in enumerate(variables)]
    while todo:
        mask, have = todo.pop()
        if mask not in found:
            found[mask] = have
            todo += [(mask | 1 << i, have | of) for i, of in enumerate(variables) if not mask >> i & 1 and of & have]
    return frozenset(found)
