"""The logical plan as immutable nodes.

A node is a bag (multiset) of rows. Columns are positions; names belong to `everview.language.collection`. Nodes are
compared and hashed by structure, so equal sub-plans, however they were written, are built once and shared by all views.

A loop is `Loop` (the bodies of one or more mutually recursive variables) read through `LoopResult`. Inside a body,
`Variable(depth, index)` is the loop's own variable; `depth` counts enclosing loops from 1, so the same loop written
twice is equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import count
from typing import Any, Literal

from everview.expr.nodes import Expr, field_names
from everview.types import INT, DataType

Types = tuple[DataType, ...]


def keys_first(keys: tuple[int, ...], width: int) -> tuple[int, ...]:
    """All columns of a node, the key columns first.

    >>> keys_first((2, 0), 4)
    (2, 0, 1, 3)
    """
    return (*keys, *(c for c in range(width) if c not in keys))


_KINDS = count()


class Node:
    """Any plan node; `types` are its columns' types (cached, because sub-plans are shared)."""

    @property
    def types(self) -> Types:
        raise NotImplementedError

    def children(self) -> tuple[Node, ...]:
        """The nodes this one reads."""
        return self._children

    @cached_property
    def _children(self) -> tuple[Node, ...]:
        found: list[Node] = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, Node):
                found.append(value)
            elif isinstance(value, tuple):
                found.extend(v for v in value if isinstance(v, Node))
        return tuple(found)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, each once."""
        seen: set[int] = set()
        todo: list[Node] = [self]
        while todo:
            node = todo.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                todo.extend(node.children())

    @cached_property
    def kinds(self) -> frozenset[type[Node]]:
        """The kinds of nodes in it."""
        return frozenset(type(node) for node in self.walk())

    @cached_property
    def _hash(self) -> int:
        todo: list[Node] = [self]
        while todo:  # iterative, because plans can be deep
            node = todo[-1]
            missing = [c for c in node.children() if "_hash" not in c.__dict__]
            if missing:
                todo.extend(missing)
            else:
                node.__dict__["_hash"] = hash((type(node), *node._values()))
                todo.pop()
        found: int = self.__dict__["_hash"]
        return found

    def _values(self) -> Iterator[Any]:
        return (getattr(self, name) for name in field_names(type(self)))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _kind(self) -> int:
        return next(_KINDS)

    def __eq__(self, other: object) -> bool:
        """Structural equality. Nodes found equal are recorded as one class: comparing shared sub-plans at every
        occurrence would take exponential time.
        """
        if self is other:
            return True
        if not isinstance(other, Node):
            return NotImplemented
        todo: list[tuple[Node, Node]] = [(self, other)]
        same: dict[tuple[int, int], tuple[Node, Node]] = {}
        while todo:
            a, b = todo.pop()
            if a is b or a._kind == b._kind or (id(a), id(b)) in same:
                continue
            inside = _pairs_inside(a, b)
            if inside is None:
                return False
            same[id(a), id(b)] = (a, b)
            todo.extend(inside)
        for a, b in reversed(same.values()):
            a.__dict__["_kind"] = b.__dict__["_kind"] = min(a._kind, b._kind)
        return True

    def __getstate__(self) -> dict[str, Any]:
        """Only the fields are pickled: hashes of texts differ between processes."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]


def _types_below(node: Node) -> Types:
    """The types passed through a chain of nodes; iterative, because there may be thousands."""
    while isinstance(node, (Filter, Negate, Guard, Threshold, TopK)) and "types" not in node.__dict__:
        node = node.child
    return node.types


def _pairs_inside(a: Node, b: Node) -> list[tuple[Node, Node]] | None:
    """The inner nodes of two nodes that must be equal for these to be; None if they differ otherwise."""
    if type(a) is not type(b) or a._hash != b._hash:
        return None
    found: list[tuple[Node, Node]] = []
    for x, y in zip(a._values(), b._values(), strict=True):
        pairs = (
            zip(x, y, strict=True) if isinstance(x, tuple) and isinstance(y, tuple) and len(x) == len(y) else [(x, y)]
        )
        for u, v in pairs:
            if isinstance(u, Node) and isinstance(v, Node):
                found.append((u, v))
            elif u != v:
                return None
    return found


@dataclass(frozen=True, eq=False)
class Table(Node):
    """The rows of a base table; `key` columns identify a row, if declared."""

    id: int
    columns: Types
    key: tuple[int, ...] = ()

    @cached_property
    def types(self) -> Types:
        return self.columns


@dataclass(frozen=True, eq=False)
class Constant(Node):
    """Literal rows, which never change."""

    rows: tuple[tuple[Any, ...], ...]
    columns: Types

    @cached_property
    def types(self) -> Types:
        return self.columns


ONE_ROW = Constant(((1,),), (INT,))
"""For what has a value without any rows: `SELECT 1`, and `count(*)` of an empty relation."""


@dataclass(frozen=True, eq=False)
class Project(Node):
    """Each row becomes the values of `exprs`."""

    child: Node
    exprs: tuple[Expr, ...]

    @cached_property
    def types(self) -> Types:
        return tuple(e.type for e in self.exprs)


@dataclass(frozen=True, eq=False)
class Filter(Node):
    """Rows for which `predicate` is true (neither false nor NULL)."""

    child: Node
    predicate: Expr

    @cached_property
    def types(self) -> Types:
        return _types_below(self)


@dataclass(frozen=True, eq=False)
class FlatMap(Node):
    """Each row becomes the rows (tuples) that the Python function returns for its values."""

    child: Node
    function: Callable[..., Any]
    columns: Types

    @cached_property
    def types(self) -> Types:
        return self.columns


@dataclass(frozen=True, eq=False)
class Negate(Node):
    """The same rows with opposite multiplicities."""

    child: Node

    @cached_property
    def types(self) -> Types:
        return _types_below(self)


@dataclass(frozen=True, eq=False)
class Guard(Node):
    """The same rows, none of which may occur more than `most` times: a step that would violate this is refused, on
    behalf of a constraint.
    """

    child: Node
    most: int
    name: str

    @cached_property
    def types(self) -> Types:
        return _types_below(self)


@dataclass(frozen=True, eq=False)
class Union(Node):
    """All rows of all inputs; multiplicities add. Inputs have equal kinds; a column is nullable if any input's is."""

    inputs: tuple[Node, ...]

    @cached_property
    def types(self) -> Types:
        return tuple(
            column[0].optional(any(t.nullable for t in column))
            for column in zip(*(i.types for i in self.inputs), strict=True)
        )


@dataclass(frozen=True, eq=False)
class Join(Node):
    """Inner join on equal keys (no keys: every pair): the left row's columns, then the right row's. NULL keys match
    nothing.
    """

    left: Node
    right: Node
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]

    @cached_property
    def types(self) -> Types:
        return self.left.types + self.right.types


Operand = int | Expr
"""A variable of a MultiJoin, or a constant."""


@dataclass(frozen=True, eq=False)
class MultiJoin(Node):
    """Inner join of any number of inputs at once, without intermediate results: one column per variable.

    Column c of input i must equal variable `variables[i][c]` (-1: any value; then its rows add up). No variable stands
    twice in one input. `tests` are comparisons (lt, le, ne) of variables and constants by their codes; a nullable
    variable of several inputs needs a test against NULL, because equal codes match. `strategy`: one variable at a time
    ("wco"), or one input at a time ("delta").
    """

    inputs: tuple[Node, ...]
    variables: tuple[tuple[int, ...], ...]
    columns: Types
    tests: tuple[tuple[str, Operand, Operand], ...] = ()
    strategy: Literal["wco", "delta"] = "wco"

    @cached_property
    def types(self) -> Types:
        return self.columns


@dataclass(frozen=True, eq=False)
class Threshold(Node):
    """Distinct rows with new multiplicities: 1 if it was positive ("distinct"), or the positive part ("positive")."""

    child: Node
    kind: Literal["distinct", "positive"]

    @cached_property
    def types(self) -> Types:
        return _types_below(self)


AggregateKind = Literal["count", "sum", "avg", "min", "max", "count_distinct"]


@dataclass(frozen=True)
class Aggregate:
    """One aggregate over column `column` (None: count rows); NULLs are ignored; over no values it is NULL, a count is
    0.
    """

    kind: AggregateKind
    column: int | None
    type: DataType


@dataclass(frozen=True, eq=False)
class Reduce(Node):
    """One row per group: the key columns, then the aggregates. No keys: one group, present only while it has rows."""

    child: Node
    keys: tuple[int, ...]
    aggregates: tuple[Aggregate, ...]

    @cached_property
    def types(self) -> Types:
        child = self.child.types
        return tuple(child[k] for k in self.keys) + tuple(a.type for a in self.aggregates)


@dataclass(frozen=True, eq=False)
class TopK(Node):
    """Rows `offset` to `offset + limit` of each group in the given order (ties broken by the remaining columns, so the
    result is unique).

    `order` holds (column, descending). NULLs sort last, ascending or descending. Multiplicities count.
    """

    child: Node
    keys: tuple[int, ...]
    order: tuple[tuple[int, bool], ...]
    limit: int
    offset: int = 0

    @cached_property
    def types(self) -> Types:
        return _types_below(self)


@dataclass(frozen=True, eq=False)
class PythonReduce(Node):
    """Any reduction in Python: `function(key, [(row, count), ...])` returns the group's output rows; the key columns
    come first.
    """

    child: Node
    keys: tuple[int, ...]
    function: Callable[..., Any]
    columns: Types

    @cached_property
    def types(self) -> Types:
        child = self.child.types
        return tuple(child[k] for k in self.keys) + self.columns


@dataclass(frozen=True, eq=False)
class Variable(Node):
    """Variable `index` of the enclosing loop number `depth` (counted from 1, outermost first)."""

    depth: int
    index: int
    columns: Types

    @cached_property
    def types(self) -> Types:
        return self.columns


@dataclass(frozen=True, eq=False)
class Loop(Node):
    """Fixed point of mutually recursive variables: variable i starts as `initials[i]` (None: empty) and then is
    `bodies[i]` of the previous round.

    `priority` (an int expression over variable 0's columns, or None) delays rows of `initials[0]`: small priorities
    converge before larger ones enter. In a `queued` loop (of one variable) rows produced by the body wait too.
    `max_rounds` bounds the applications of the bodies; at the limit the loop fails ("error") or returns what it has
    ("stop").
    """

    depth: int
    initials: tuple[Node | None, ...]
    bodies: tuple[Node, ...]
    priority: Expr | None = None
    max_rounds: int | None = None
    at_limit: Literal["error", "stop"] = "error"
    queued: bool = False

    @cached_property
    def types(self) -> Types:
        raise TypeError("a Loop is read through LoopResult")


@dataclass(frozen=True, eq=False)
class LeanLoop(Loop):
    """A loop that should use little memory: if its form allows it, it is maintained as histories instead of rounds (see
    `everview.plan.monotone`). `budget` is the limit in bytes for all loops with the same `purse`, if any.
    """

    budget: int | None = None
    purse: str = ""


@dataclass(frozen=True, eq=False)
class LoopResult(Node):
    """Body number `index` of a loop, at the fixed point."""

    loop: Loop
    index: int

    @cached_property
    def types(self) -> Types:
        return self.loop.bodies[self.index].types
