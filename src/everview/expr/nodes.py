"""Typed, resolved expressions: what plans are made of.

The user's side (`col.x + 1`) is in `everview.expr.language`; it resolves names to column positions and infers types and
ends here, in a small immutable tree that can be hashed, compared, remapped, lowered to bytecode
(`everview.expr.lower`) or evaluated in Python (`everview.expr.evaluate`). Names are gone on purpose: two queries that
differ only in names are equal, and equal plans share their dataflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from everview.types import DataType


@dataclass(frozen=True)
class Expr:
    """Any resolved expression; `type` is the type of its value."""

    type: DataType

    def children(self) -> tuple[Expr, ...]:
        return ()

    def walk(self) -> Iterator[Expr]:
        """This expression and everything below it."""
        yield self
        for child in self.children():
            yield from child.walk()

    def columns(self) -> set[int]:
        """Positions of the input columns it reads."""
        return {e.index for e in self.walk() if isinstance(e, ColumnRef)}

    def remap(self, mapping: Mapping[int, Expr]) -> Expr:
        """The same expression with each column replaced by `mapping[index]`."""
        return self


@dataclass(frozen=True)
class ColumnRef(Expr):
    """The value of input column `index`."""

    index: int

    def remap(self, mapping: Mapping[int, Expr]) -> Expr:
        return mapping[self.index]


@dataclass(frozen=True, eq=False)
class Literal(Expr):
    """A constant; `value` is the Python value (None for NULL), not its code.

    Constants are equal if they say the same: 0.0 and -0.0 do not, NaN and NaN do.
    """

    value: Any

    def _said(self) -> tuple[DataType, Any]:
        return self.type, repr(self.value) if isinstance(self.value, float) else self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash(self._said())


@dataclass(frozen=True)
class Call(Expr):
    """A built-in function applied to arguments; `op` is a name in `everview.expr.functions.FUNCTIONS`."""

    op: str
    args: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.args

    def remap(self, mapping: Mapping[int, Expr]) -> Expr:
        return replace(self, args=tuple(a.remap(mapping) for a in self.args))


@dataclass(frozen=True)
class Udf(Expr):
    """A user's Python function: of one row's values, or (vectorized) of Arrow arrays to an Arrow array."""

    function: Callable[..., Any]
    args: tuple[Expr, ...]
    vectorized: bool = False

    def children(self) -> tuple[Expr, ...]:
        return self.args

    def remap(self, mapping: Mapping[int, Expr]) -> Expr:
        return replace(self, args=tuple(a.remap(mapping) for a in self.args))
