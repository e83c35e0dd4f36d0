"""Typed, resolved expressions: the expressions in plans.

The user-facing syntax (`col.x + 1`) is in `everview.expr.language`. Resolution maps names to column positions, infers
types and yields this small immutable tree, which can be hashed, compared, remapped, compiled (`everview.expr.lower`) or
evaluated in Python (`everview.expr.evaluate`). Names are dropped on purpose: queries that differ only in names are
equal, and equal plans share their dataflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from everview.types import PACKED, DataType

_NAMES: dict[type[Any], tuple[str, ...]] = {}


def field_names(kind: type[Any]) -> tuple[str, ...]:
    """The names of a node's fields, cached: plans are hashed and walked for every new view."""
    known = _NAMES.get(kind)
    if known is None:
        known = _NAMES[kind] = tuple(field.name for field in fields(kind))
    return known


@dataclass(frozen=True, eq=False)
class Expr:
    """Any resolved expression; `type` is the type of its value.

    An expression is a graph: `y = x + x; z = y + y` contains one node twice. Properties of all nodes are therefore
    computed once per node and cached.
    """

    type: DataType

    def children(self) -> tuple[Expr, ...]:
        return ()

    def walk(self) -> Iterator[Expr]:
        """This expression and everything below it, each once."""
        seen: set[int] = set()
        todo: list[Expr] = [self]
        while todo:
            expr = todo.pop()
            if id(expr) not in seen:
                seen.add(id(expr))
                yield expr
                todo.extend(reversed(expr.children()))

    @cached_property
    def depth(self) -> int:
        """The nesting depth of calls."""
        return 1 + max((c.depth for c in self._after("depth")), default=0)

    @cached_property
    def _read(self) -> frozenset[int]:
        return frozenset().union(*(c._read for c in self._after("_read")))

    def _after(self, name: str) -> tuple[Expr, ...]:
        """The children, once all expressions below this one have a cached property. It is computed from the innermost
        ones on, because Python 3.12 allows few calls through C code, such as those of properties, inside each other.
        """
        todo = [c for c in self.children() if name not in c.__dict__]
        while todo:
            missing = [c for c in todo[-1].children() if name not in c.__dict__]
            if missing:
                todo += missing
            else:
                getattr(todo.pop(), name)
        return self.children()

    def columns(self) -> set[int]:
        """Positions of the input columns it reads."""
        return set(self._read)

    def remap(self, mapping: Mapping[int, Expr]) -> Expr:
        """The same expression with each column replaced by `mapping[index]`."""
        return self._remapped(mapping, {})

    def _remapped(self, mapping: Mapping[int, Expr], done: dict[int, Expr]) -> Expr:
        """The same; `done` maps expressions to their results, by identity."""
        return self

    @cached_property
    def _hash(self) -> int:
        self._after("_hash")
        return hash((type(self), *(getattr(self, name) for name in field_names(type(self)))))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Structural equality."""
        if self is other:
            return True
        if type(self) is not type(other) or self._hash != other._hash:
            return False
        return _same(self, other)

    def __getstate__(self) -> dict[str, Any]:
        """Only the fields are pickled: hashes of texts differ between processes."""
        return {name: getattr(self, name) for name in field_names(type(self))}


def _same(one: Expr, other: Expr) -> bool:
    """Whether two expressions are equal; iterative, because they may be deep, and comparing each pair once."""
    todo: list[tuple[Any, Any]] = [(one, other)]
    seen: set[tuple[int, int]] = set()
    while todo:
        a, b = todo.pop()
        if a is b or (id(a), id(b)) in seen:
            continue
        if isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                return False
            todo += zip(a, b, strict=True)
        elif not isinstance(a, Expr) or not isinstance(b, Expr) or isinstance(a, Literal):
            if a != b:
                return False
        elif type(a) is not type(b) or a._hash != b._hash:
            return False
        else:
            seen.add((id(a), id(b)))
            todo += ((getattr(a, name), getattr(b, name)) for name in field_names(type(a)))
    return True


@dataclass(frozen=True, eq=False)
class ColumnRef(Expr):
    """The value of input column `index`."""

    index: int

    @cached_property
    def _read(self) -> frozenset[int]:
        return frozenset({self.index})

    def _remapped(self, mapping: Mapping[int, Expr], done: dict[int, Expr]) -> Expr:
        return mapping[self.index]


@dataclass(frozen=True, eq=False)
class Literal(Expr):
    """A constant; `value` is the Python value (None for NULL), not its code.

    Constants are equal if they are identical in meaning: 0.0 and -0.0 are not, NaN and NaN are.
    """

    value: Any

    def _said(self) -> tuple[DataType, Any]:
        exact = isinstance(self.value, float) or self.type.kind in PACKED  # in JSON 1, 1.0 and true are three values
        return self.type, repr(self.value) if exact else self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash(self._said())


@dataclass(frozen=True, eq=False)
class Call(Expr):
    """A built-in function applied to arguments; `op` is a name in `everview.expr.functions.FUNCTIONS`."""

    op: str
    args: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.args

    def _remapped(self, mapping: Mapping[int, Expr], done: dict[int, Expr]) -> Expr:
        if id(self) not in done:
            done[id(self)] = Call(self.type, self.op, tuple([a._remapped(mapping, done) for a in self.args]))
        return done[id(self)]


@dataclass(frozen=True, eq=False)
class Udf(Expr):
    """A user's Python function: of one row's values, or (vectorized) of Arrow arrays to an Arrow array."""

    function: Callable[..., Any]
    args: tuple[Expr, ...]
    vectorized: bool = False

    def children(self) -> tuple[Expr, ...]:
        return self.args

    def _remapped(self, mapping: Mapping[int, Expr], done: dict[int, Expr]) -> Expr:
        if id(self) not in done:
            args = tuple([a._remapped(mapping, done) for a in self.args])
            done[id(self)] = Udf(self.type, self.function, args, self.vectorized)
        return done[id(self)]
