"""Column pruning: columns of a join's result that are not read are dropped before it is arranged.

Tables, reductions, loop variables and installed views keep all their columns: they are arranged as they are, and those
arrangements are shared. Everything between them is narrowed to what is read above it. A join directly below a reduction
is narrowed too: another plan of the join (`everview.dataflow.plan_swap`) returns the columns of its node and carries
each of them from its table to the end.

A *wide* table is the exception. Another index of it, in a different order, costs as much as the table itself. If joins
read only a few of its columns by some key, and that index does not exist yet, an index of those columns is built
instead: one for all joins of the plan that use this key. Views that need no other columns share it.

A `distinct` of rows that are known to be distinct is dropped.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from everview.expr.nodes import ColumnRef, Expr
from everview.plan import nodes as plan
from everview.plan.deep_recursion import drive, settled
from everview.plan.frontier import StrongLabels
from everview.plan.keys import unique_columns
from everview.plan.provenance import Disjunction, Labelled
from everview.plan.windows import Window

Kept = tuple[int, ...]
"""Columns of the original node that the pruned one has, in its order."""

_Asked = tuple[plan.Node, Kept]
"""A node and the columns that are needed of it."""

_Answer = TypeVar("_Answer")
_Asking = Generator[_Asked, tuple[plan.Node, Kept], _Answer]
"""A step of pruning, which yields its requests for the nodes below (`everview.plan.deep_recursion`)."""

_Index = tuple[plan.Table, frozenset[int]]
"""A table and the columns it is joined by."""


class Indexes(Protocol):
    """The existing arrangements."""

    def served(self, node: plan.Node, keys: Kept) -> bool:
        """Whether a node is arranged by some columns."""

    def narrow(self, table: plan.Table) -> Iterable[plan.Project]:
        """Arranged nodes that are some columns of a table."""


class _All:
    """Behaves as if everything were arranged in every order."""

    def served(self, node: plan.Node, keys: Kept) -> bool:
        return True

    def narrow(self, table: plan.Table) -> Iterable[plan.Project]:
        return ()


WIDE = 8
"""Number of columns from which a table is wide: below, sharing one index is worth more than what a narrow one saves."""

WIDER_BY = 2
"""The ratio of all columns to those read from which an index is narrow: two narrow indexes cost one full one."""


def prune(
    node: plan.Node,
    arranged: Container[plan.Node] = (),
    indexes: Indexes = _All(),  # noqa: B008
    whole: dict[plan.Node, plan.Node] | None = None,
) -> plan.Node:
    """The same rows, computed without unneeded columns. `whole` receives the nodes of the plan that still have all
    their columns, and what they became.

    >>> from everview.types import INT
    >>> from everview.plan.explain import explain
    >>> a, b, c = (plan.Table(i, (INT, INT)) for i in range(3))
    >>> wide = plan.Join(plan.Join(a, b, (0,), (0,)), c, (3,), (0,))
    >>> narrow = prune(plan.Project(wide, (ColumnRef(INT, 5),)))
    >>> narrow.child.left.types, narrow.child.left_keys
    ((int,), (0,))
    """
    pruning = _Pruning(arranged, indexes, {})
    found = pruning.all_of(node)
    if any(len(several) > 1 for several in pruning.reads.values()):
        together = {key: _merged(*several) for key, several in pruning.reads.items()}
        pruning = _Pruning(arranged, indexes, together)
        found = pruning.all_of(node)
    if whole is not None:
        for (asked, _), (became, kept) in pruning.done.items():
            if became is not asked and kept == _everything(asked):
                whole[asked] = became
    return found


def columns_read(node: plan.Node, table: plan.Table) -> set[int]:
    """The columns of a table that a plan's rows depend on.

    >>> from everview.types import INT
    >>> t = plan.Table(0, (INT, INT, INT))
    >>> columns_read(plan.Project(plan.Join(t, t, (1,), (1,)), (ColumnRef(INT, 3),)), t)
    {0, 1}
    """
    pruning = _Pruning((), _All(), {})
    pruning.all_of(node)
    return {column for asked, needed in pruning.done if asked == table for column in needed}


class _Pruning:
    def __init__(self, arranged: Container[plan.Node], indexes: Indexes, together: dict[_Index, Kept]) -> None:
        self.arranged = arranged
        self.indexes = indexes
        self.merged_reads = together
        """The columns that all joins of the plan read through an index."""
        self.reads: dict[_Index, set[Kept]] = {}
        """The same for each of them."""
        self.done: dict[tuple[plan.Node, Kept], tuple[plan.Node, Kept]] = {}

    def all_of(self, node: plan.Node) -> plan.Node:
        """The node with all its columns, pruned inside."""
        everything = tuple(range(len(node.types)))
        found, kept = drive(self._some, (node, everything), self.done)
        return _take(found, kept, everything)

    def whole(self, node: plan.Node) -> _Asking[plan.Node]:
        """The same, as a part of another result."""
        everything = tuple(range(len(node.types)))
        found, kept = yield node, everything
        return _take(found, kept, everything)

    def _some(self, asked: _Asked) -> _Asking[_Asked]:
        """The node with at least the needed columns."""
        node, needed = asked
        found, kept = (node, _everything(node)) if node in self.arranged else (yield from self._narrowed(node, needed))
        return settled(found), kept

    def _narrowed(self, node: plan.Node, needed: Kept) -> _Asking[_Asked]:
        if isinstance(node, plan.Project):
            exprs = tuple(node.exprs[c] for c in needed)
            child, kept = yield node.child, _columns(exprs)
            return plan.Project(child, _moved(exprs, kept)), needed
        if isinstance(node, plan.Filter):
            child, kept = yield node.child, _merged(needed, _columns([node.predicate]))
            return plan.Filter(child, _moved((node.predicate,), kept)[0]), kept
        if isinstance(node, plan.Negate):
            child, kept = yield node.child, needed
            return plan.Negate(child), kept
        if isinstance(node, plan.Guard):  # two rows that differ in an unread column are still two
            everything = _everything(node)
            child, kept = yield node.child, everything
            return plan.Guard(_take(child, kept, everything), node.most, node.name), everything
        if isinstance(node, plan.Union):
            inputs = []
            for i in node.inputs:
                found, kept = yield i, needed
                inputs.append(_take(found, kept, needed))
            return plan.Union(tuple(inputs)), needed
        if isinstance(node, plan.Join):
            return (yield from self._join(node, needed))
        everything = _everything(node)
        if needed != everything and node.children():  # one node for all readers, whatever they read of it
            return (yield node, everything)
        return (yield from self._barrier(node)), everything

    def _join(self, node: plan.Join, needed: Kept) -> _Asking[_Asked]:
        width = len(node.left.types)
        left, left_kept = yield from self._side(node.left, [c for c in needed if c < width], node.left_keys)
        right, right_kept = yield from self._side(
            node.right, [c - width for c in needed if c >= width], node.right_keys
        )
        kept = (*left_kept, *(c + width for c in right_kept))
        left_keys = tuple(left_kept.index(k) for k in node.left_keys)
        right_keys = tuple(right_kept.index(k) for k in node.right_keys)
        return plan.Join(left, right, left_keys, right_keys), kept

    def _side(self, node: plan.Node, needed: Sequence[int], keys: Kept) -> _Asking[_Asked]:
        wanted = _merged(needed, keys)
        found, kept = yield node, wanted
        if isinstance(found, plan.Table):
            return self._table(found, wanted, keys)
        narrows = isinstance(found, (plan.Join, plan.Project, plan.Filter, plan.Union, plan.Negate))
        if kept == wanted or not narrows or found in self.arranged:
            return found, kept
        return _take(found, kept, wanted), wanted

    def _table(self, table: plan.Table, wanted: Kept, keys: Kept) -> tuple[plan.Node, Kept]:
        """All of a table, or the columns that are read by these keys: from an existing index, or as all joins together
        need them.
        """
        everything = tuple(range(len(table.types)))
        if self.indexes.served(table, keys):
            return table, everything
        for there in self.indexes.narrow(table):
            kept = tuple(e.index for e in there.exprs if isinstance(e, ColumnRef))
            if set(wanted) <= set(kept) and self.indexes.served(there, tuple(kept.index(k) for k in keys)):
                return there, kept
        index = (table, frozenset(keys))
        self.reads.setdefault(index, set()).add(wanted)
        wanted = self.merged_reads.get(index, wanted)
        if len(everything) < WIDE or len(wanted) * WIDER_BY > len(everything):
            return table, everything
        return _take(table, everything, wanted), wanted

    def _barrier(self, node: plan.Node) -> _Asking[plan.Node]:
        """A node that reads all it refers to: prune below it."""
        if isinstance(node, plan.Reduce):
            columns = _merged(node.keys, [a.column for a in node.aggregates if a.column is not None])
            child, kept = yield node.child, columns
            if isinstance(child, (plan.Join, plan.Filter)):  # or other plans of the join carry them too
                child, kept = _take(child, kept, columns), columns
            keys = tuple(kept.index(k) for k in node.keys)
            moved = tuple(
                replace(a, column=None if a.column is None else kept.index(a.column)) for a in node.aggregates
            )
            return plan.Reduce(child, keys, moved)
        if isinstance(node, plan.Threshold) and unique_columns(node.child):
            return (yield from self.whole(node.child))
        if isinstance(node, _WITH_ONE_CHILD):
            return replace(node, child=(yield from self.whole(node.child)))
        if isinstance(node, StrongLabels):
            return replace(node, start=(yield from self.whole(node.start)), edges=(yield from self.whole(node.edges)))
        if isinstance(node, plan.MultiJoin):
            return replace(node, inputs=(yield from self._all(node.inputs)))
        if isinstance(node, plan.LoopResult):
            loop = node.loop
            given = yield from self._all([i for i in loop.initials if i is not None])
            bodies = yield from self._all(loop.bodies)
            left = iter(given)
            initials = tuple(None if i is None else next(left) for i in loop.initials)
            return replace(node, loop=replace(loop, initials=initials, bodies=bodies))
        return node

    def _all(self, nodes: Sequence[plan.Node]) -> _Asking[tuple[plan.Node, ...]]:
        found = []
        for node in nodes:
            found.append((yield from self.whole(node)))
        return tuple(found)


_WITH_ONE_CHILD = (plan.Threshold, plan.TopK, plan.PythonReduce, plan.FlatMap, Window, Labelled, Disjunction)


def _everything(node: plan.Node) -> Kept:
    return tuple(range(len(node.types)))


def _columns(exprs: Sequence[Expr]) -> Kept:
    return tuple(sorted({c for e in exprs for c in e.columns()}))


def _merged(*columns: Sequence[int]) -> Kept:
    return tuple(sorted({c for several in columns for c in several}))


def _moved(exprs: tuple[Expr, ...], kept: Kept) -> tuple[Expr, ...]:
    """Expressions over the original columns, remapped to the kept ones."""
    moved = []
    for expr in exprs:
        mapping: Mapping[int, Expr] = {
            e.index: ColumnRef(e.type, kept.index(e.index)) for e in expr.walk() if isinstance(e, ColumnRef)
        }
        moved.append(expr.remap(mapping))
    return tuple(moved)


def _take(node: plan.Node, kept: Kept, wanted: Kept) -> plan.Node:
    """Exactly the wanted columns of a node that has the kept ones."""
    if kept == wanted:
        return node
    return plan.Project(node, tuple(ColumnRef(node.types[kept.index(c)], kept.index(c)) for c in wanted))
