"""Library functions: a signature, a Python implementation, and the treatment of NULL.

A signature is written `text int [text] -> text`: kinds of arguments, optional ones in brackets, and the kind of the
result. `...` repeats the last argument any number of times, `|` separates alternatives, of which the first match is
used. Kinds are `text int float bool bytes date timestamp interval time`, `texts` (an array), `numeric` (of any scale),
`number` (int, float or decimal), `any`, and `printed` (any, cast to text unless its values print themselves); a result
can also be `same`, the type of the first argument, or `decimal` of its scale. Implicit conversions are those of
`everview.expr.functions`: int to float, decimal to float, date to timestamp.

The Python function takes and returns plain values. It raises `RowFailure` if it has no result, and never sees NULL
unless its routine says so (`nulls=True`); one that may return None must be declared `maybe=True`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from everview.expr import common_types
from everview.expr.common_types import NoMatch, Rule, Types, common_type
from everview.expr.functions import Function
from everview.types import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    FREE,
    INT,
    INTERVAL,
    STR,
    TIME,
    TIMESTAMP,
    DataType,
    array,
    decimal,
    numeric,
)

KINDS: dict[str, DataType] = {
    "text": STR,
    "int": INT,
    "float": FLOAT,
    "bool": BOOL,
    "bytes": BYTES,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "interval": INTERVAL,
    "time": TIME,
    "texts": array(STR),
    "numeric": numeric(FREE),
}


@dataclass(frozen=True)
class Signature:
    """One alternative: the argument kinds, how many are required, and the result kind."""

    takes: tuple[str, ...]
    needs: int
    gives: str
    repeats: bool = False

    @classmethod
    def read(cls, text: str) -> Signature:
        """Parse a signature.

        >>> Signature.read("text int [text] -> text")
        Signature(takes=('text', 'int', 'text'), needs=2, gives='text', repeats=False)
        """
        left, _, gives = text.partition("->")
        words = left.split()
        repeats = words[-1:] == ["..."]
        words = words[:-1] if repeats else words
        needs = sum(not w.startswith("[") for w in words)
        return cls(tuple(w.strip("[]") for w in words), needs, gives.strip(), repeats)

    @property
    def most(self) -> int | None:
        """Maximum number of arguments; None: unlimited."""
        return None if self.repeats else len(self.takes)

    def wants(self, count: int) -> tuple[str, ...]:
        """The kinds for this many arguments."""
        return (*self.takes[:count], *(self.takes[-1:] * (count - len(self.takes))))

    def fit(self, types: Types) -> tuple[Types, DataType]:
        """The types that the arguments are cast to, and the result's; `NoMatch` if they do not fit."""
        if len(types) < self.needs or (self.most is not None and len(types) > self.most):
            raise NoMatch
        kinds = self.wants(len(types))
        return tuple(_cast(given, kind) for given, kind in zip(types, kinds, strict=True)), self._result(types)

    def _result(self, types: Types) -> DataType:
        if self.gives == "same":
            return types[0]
        if self.gives == "decimal":
            return decimal(types[0].scale)
        return KINDS[self.gives]


PRINTED = {"str", "char", "bool", "int", "float", "decimal", "numeric", "date", "timestamp", "bytes"}
"""Kinds whose values print themselves; others are cast to text, by their type."""


def _cast(given: DataType, kind: str) -> DataType:
    if kind == "printed":
        return given if given.kind in PRINTED else STR.optional(given.nullable)
    if kind == "any" or (kind == "number" and given.kind in common_types.NUMBERS | {"numeric"}) or given.kind == kind:
        return given
    wanted = KINDS.get(kind)
    if wanted is None or common_type((given, wanted)) != wanted.optional(given.nullable):
        raise NoMatch
    return wanted


@dataclass(frozen=True)
class Routine:
    """A library function."""

    name: str
    function: Callable[..., Any]
    signatures: tuple[Signature, ...]
    doc: str
    nulls: bool = False
    maybe: bool = False

    def rule(self, types: Types) -> tuple[Types, DataType]:
        """The first signature that fits."""
        for signature in self.signatures:
            try:
                wanted, result = signature.fit(types)
            except NoMatch:
                continue
            nullable = self.maybe or (not self.nulls and any(t.nullable for t in types))
            return wanted, result.optional(nullable)
        raise NoMatch

    def described(self) -> Function:
        """In the form of `everview.expr.functions`."""
        low = min(s.needs for s in self.signatures)
        high = None if any(s.most is None for s in self.signatures) else max(s.most or 0 for s in self.signatures)
        rule: Rule = self.rule
        return Function(self.name, self.doc, rule, (low, high), "custom", fails=True)


@dataclass
class Shelf:
    """The routines of one module."""

    routines: dict[str, Routine] = field(default_factory=dict)

    def add(
        self,
        name: str,
        signatures: str,
        function: Callable[..., Any],
        doc: str,
        *,
        nulls: bool = False,
        maybe: bool = False,
    ) -> None:
        """Register a function."""
        read = tuple(Signature.read(s) for s in signatures.split("|"))
        self.routines[name] = Routine(name, function, read, doc, nulls, maybe)
