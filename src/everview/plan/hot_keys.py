"""Hot keys: joins in which one key has so many rows that its shard would do most of the work.

On shards, rows with equal keys are joined on one shard. If one key has a share p of the rows, the speed-up is at most
1/p for any number of shards. For hot keys, a join therefore splits the rows of one side over all shards, and copies
those of the other side to every shard (`everview.dataflow.partitioning.HotKeys`). The side with more rows of such keys
is split. Everything else about the join, in loops too, is unchanged.

Hot keys are found in samples (`everview.runtime.row_samples`) and become part of the command that creates the view:
every shard builds the same, and builds it again when a directory is opened, whatever the keys are by then. For a key
that becomes hot later the join is replaced (`everview.session.names.hot_joins`), except in loops.

Columns are traced from a join down to their table, through filters, projections and joins. In a loop one side usually
comes from a table, and that side has the hot keys.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Literal

from everview.expr.nodes import ColumnRef
from everview.plan import nodes as plan
from everview.plan.deep_recursion import Staged, settled
from everview.plan.substitute import over_inputs

Hot = tuple[tuple[int, int, tuple[tuple[int, int], ...]], ...]
"""For a table's column (id, position): the codes of very frequent values, and their approximate counts."""


@dataclass(frozen=True, eq=False)
class HotJoin(plan.Join):
    """A join whose rows with these values (codes) of the first key are `split` over all shards on one side, and copied
    to every shard on the other.
    """

    hot: tuple[int, ...] = ()
    split: Literal["left", "right"] = "left"


@dataclass(frozen=True)
class HotDecision:
    """How a join of hot keys is maintained, and why."""

    split: Literal["left", "right"]
    why: str

    def __str__(self) -> str:
        return f"join: hot keys of its {self.split} side split over shards, because {self.why}"


def with_hot_keys(
    node: plan.Node, hot: Hot, there: Set[plan.Node] = frozenset()
) -> tuple[plan.Node, list[HotDecision]]:
    """The plan with joins that split hot keys, and the decisions; what is `there` already is not changed.

    >>> from everview.plan.explain import explain
    >>> from everview.types import INT
    >>> follows, user = plan.Table(0, (INT, INT)), plan.Table(1, (INT, INT))
    >>> found, decided = with_hot_keys(plan.Join(user, follows, (0,), (1,)), ((0, 1, ((17, 9000),)),))
    >>> print(explain(found))
    r0 := Table 1 (c0 int, c1 int)
    r1 := Table 0 (c0 int, c1 int)
    r2 := HotJoin[r0, r1] r0.c0 == r1.c1, hot keys of the right side split over shards
    >>> print(*decided)
    join: hot keys of its right side split over shards, because 1 key has very many rows
    """
    known = _by_column(hot)
    done: dict[int, plan.Node] = {}
    kept: list[plan.Node] = []  # so that the ids in `done` stay theirs
    decided: list[HotDecision] = []

    def split(one: plan.Node) -> plan.Node:
        found = _split(one, known)
        if isinstance(found, HotJoin) and found is not one:
            many = "1 key has" if len(found.hot) == 1 else f"{len(found.hot)} keys have"
            decided.append(HotDecision(found.split, f"{many} very many rows"))
        return found

    def rewritten(one: plan.Node) -> plan.Node:
        if id(one) not in done:
            kept.append(one)
            done[id(one)] = one if one in there else staged(one)
        return done[id(one)]

    staged = Staged(lambda one: settled(split(over_inputs(one, rewritten))), lambda one: id(one) in done)
    found = rewritten(node)
    return found, decided


def split_anew(join: plan.Join, hot: Hot) -> plan.Join:
    """The join with what is hot now, and was before; the same one if there is nothing new.

    >>> from everview.types import INT
    >>> join = plan.Join(plan.Table(1, (INT,)), plan.Table(0, (INT, INT)), (0,), (1,))
    >>> first = split_anew(join, ((0, 1, ((17, 9000),)),))
    >>> second = split_anew(first, ((0, 1, ((4, 9000),)),))
    >>> first.hot, second.hot, split_anew(second, ((0, 1, ((17, 9000),)),)) is second
    ((17,), (4, 17), True)
    """
    before = join.hot if isinstance(join, HotJoin) else ()
    found = _split(plan.Join(join.left, join.right, join.left_keys, join.right_keys), _by_column(hot))
    if not isinstance(found, HotJoin) or {*found.hot} <= {*before}:
        return join
    return replace(found, hot=tuple(sorted({*found.hot, *before})))


_Known = dict[tuple[int, int], dict[int, int]]


def _by_column(hot: Hot) -> _Known:
    return {(table, column): dict(keys) for table, column, keys in hot}


def _split(node: plan.Node, known: _Known) -> plan.Node:
    if type(node) is not plan.Join or not node.left_keys:
        return node
    sides = []
    for child, keys in ((node.left, node.left_keys), (node.right, node.right_keys)):
        found = [known.get(origin(child, key) or (-1, -1), {}) for key in keys]
        sides.append(found)
    if len(node.left_keys) > 1 and not all(l or r for l, r in zip(*sides, strict=True)):
        return node  # rows can be placed by a column that has no hot keys
    left, right = sides[0][0], sides[1][0]
    if not left and not right:
        return node
    side: Literal["left", "right"] = "left" if sum(left.values()) >= sum(right.values()) else "right"
    keys = tuple(sorted(left if side == "left" else right))
    return HotJoin(node.left, node.right, node.left_keys, node.right_keys, keys, side)


def origin(node: plan.Node, column: int) -> tuple[int, int] | None:
    """The table and column that a column comes from, if any.

    >>> from everview.types import INT
    >>> t = plan.Table(3, (INT, INT))
    >>> origin(plan.Join(t, plan.Project(t, (ColumnRef(INT, 1),)), (0,), (0,)), 2)
    (3, 1)
    """
    while True:
        match node:
            case plan.Table():
                return node.id, column
            case plan.Project():
                read = node.exprs[column]
                if not isinstance(read, ColumnRef):
                    return None
                node, column = node.child, read.index
            case plan.Filter():
                node = node.child
            case plan.Join():
                width = len(node.left.types)
                node, column = (node.left, column) if column < width else (node.right, column - width)
            case _:
                return None
