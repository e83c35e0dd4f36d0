"""Groups of types, and the common type in which values of several types can be compared.

These rules hold for all languages; `type_rules` defines which types each function accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from everview.types import (
    FLOAT,
    FREE,
    MOST_DIGITS,
    STR,
    TIMESTAMP,
    TIMESTAMPTZ,
    DataType,
    array,
    decimal,
    mapping,
    numeric,
    struct,
)

MAX_SCALE = 18
"""Maximum number of digits of a decimal."""

NUMBERS = frozenset({"int", "float", "decimal"})
EXACT = frozenset({"int", "decimal", "numeric"})
"""Kinds of exact numbers."""

ORDERED = frozenset(
    {"int", "float", "bool", "str", "bytes", "date", "timestamp", "decimal", "timestamptz", "time", "enum", "char"}
    | {"numeric", "interval", "uuid", "json", "array", "struct"}
)
DATE_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")

Types = tuple[DataType, ...]
Rule = Callable[[Types], tuple[Types, DataType]]
"""From the types of the arguments to the types they are cast to, and the type of the result."""


class NoMatch(Exception):
    """The rule does not accept these types."""


def common_type(types: Sequence[DataType]) -> DataType | None:
    """The common type in which values of all these types can be compared, or None. Nullable if any of them is.

    >>> from everview.types import INT
    >>> common_type([INT, FLOAT.optional()])
    float?
    >>> common_type([INT, STR]) is None
    True
    """
    result = types[0]
    for other in types[1:]:
        wider = _wider(result, other)
        if wider is None:
            return None
        result = wider
    return result


def _wider(a: DataType, b: DataType) -> DataType | None:
    nullable = a.nullable or b.nullable
    kinds = {a.kind, b.kind}
    if kinds == {"tuple"}:
        if len(a.items) != len(b.items):
            return None
        items = tuple(_wider(x, y) for x, y in zip(a.items, b.items, strict=True))
        same = all(
            i is not None and i.kind == x.kind == y.kind and x.scale == y.scale
            for i, x, y in zip(items, a.items, b.items, strict=True)
        )
        return DataType("tuple", nullable, items=tuple(i for i in items if i is not None)) if same else None
    if kinds <= {"array", "struct", "map", "enum"}:
        return _wider_inside(a, b, nullable)
    if len(kinds) == 1:
        alike = (a.width, a.scale) == (b.width, b.scale)
        width = a.width if alike else max(a.width, b.width) if a.kind == "char" else 0
        width = MOST_DIGITS if a.kind == "numeric" and not alike and max(a.scale, b.scale) < FREE else width
        return replace(a, nullable=nullable, scale=max(a.scale, b.scale), width=width)
    if "numeric" in kinds:
        if kinds <= EXACT:
            return numeric(max(a.scale, b.scale)).optional(nullable)
        return FLOAT.optional(nullable) if kinds == {"numeric", "float"} else None
    if kinds == {"str", "char"}:
        return STR.optional(nullable)
    if kinds in ({"timestamp", "timestamptz"}, {"date", "timestamptz"}):
        return TIMESTAMPTZ.optional(nullable)
    if kinds <= NUMBERS:
        return FLOAT.optional(nullable) if "float" in kinds else decimal(max(a.scale, b.scale)).optional(nullable)
    if kinds == {"date", "timestamp"}:
        return TIMESTAMP.optional(nullable)
    return None


def _wider_inside(a: DataType, b: DataType, nullable: bool) -> DataType | None:
    """The same for compound types."""
    if a.kind != b.kind or len(a.items) != len(b.items):
        return None
    if a.kind == "enum":
        return a.optional(nullable) if a.names == b.names else None
    items = [_wider(x, y) for x, y in zip(a.items, b.items, strict=True)]
    found = [item for item in items if item is not None]
    if len(found) < len(items):
        return None
    if a.kind == "array":
        return array(found[0]).optional(nullable)
    if a.kind == "map":
        return mapping(*found).optional(nullable)
    return struct(a.names, tuple(found)).optional(nullable)
