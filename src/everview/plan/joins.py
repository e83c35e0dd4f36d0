"""All kinds of joins in terms of the engine's operators: inner equi-join, union, negation, distinct.

    semi(l, r)   l joined with the distinct keys of r: every left row at most once, so left multiplicities are kept
    anti(l, r)   l - semi(l, r), exact because semi(l, r) is a part of l; a NULL key matches nothing, so it stays
    left(l, r)   inner(l, r) + anti(l, r) padded with NULLs;  right and full alike

A *residual* (the part of the condition that is not an equality between the sides) is part of the match: whether a left
row has a match depends on its key and on the left columns that the residual reads, together its *match columns*. The
distinct match columns of the inner join's rows determine which have one. Joining them back must match NULLs too, which
an equi-join does not, so a nullable match column c becomes two: c is NULL, and c or some value. Float keys first lose
the sign of zero (x + 0.0), because -0.0 = 0.0 but their codes differ.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from everview.codes.immutable import JSON_NULL, FrozenDict, FrozenList
from everview.codes.intervals import Interval
from everview.expr.functions import call
from everview.expr.nodes import ColumnRef, Expr
from everview.expr.nodes import Literal as Constant
from everview.plan.nodes import Constant as Rows
from everview.plan.nodes import Filter, Join, Negate, Node, Project, Threshold, Types, Union
from everview.types import FLOAT, INT, DataType

How = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]


@dataclass(frozen=True)
class Condition:
    """The join condition: equal keys (expressions over either side) and the residual (over both sides' columns)."""

    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    residual: Expr | None = None


def join(left: Node, right: Node, on: Condition, how: How) -> Node:
    """The join: columns of the left, then of the right (semi and anti: of the left only)."""
    if how == "semi":
        return _with_partner(left, _left_matches(left, right, on))
    if how == "anti":
        return _without_partner(left, _left_matches(left, right, on))
    parts = [inner(left, right, on)]
    if how in {"left", "full"}:
        alone = _without_partner(left, _left_matches(left, right, on))
        parts.append(_pad(alone, (), right.types))
    if how in {"right", "full"}:
        alone = _without_partner(right, _right_matches(left, right, on))
        parts.append(_pad(alone, left.types, ()))
    return parts[0] if len(parts) == 1 else Union(tuple(parts))


def completed(left: Node, right: Node, pairs: Node, how: How) -> Node:
    """An outer join from its matching pairs (the left's columns, then the right's): adds the rows without a match.
    Equal rows have the same matches, so a row is identified by all its columns.
    """
    parts, width = [pairs], len(left.types)
    if how in {"left", "full"}:
        columns = _match_columns(left.types, (), set(range(width)))
        parts.append(_pad(_without_partner(left, _matches(columns, pairs, columns)), (), right.types))
    if how in {"right", "full"}:
        columns = _match_columns(right.types, (), set(range(len(right.types))))
        in_pair = {i: ColumnRef(t, width + i) for i, t in enumerate(right.types)}
        found = _matches(columns, pairs, tuple(c.remap(in_pair) for c in columns))
        parts.append(_pad(_without_partner(right, found), left.types, ()))
    return Union(tuple(parts))


def inner(left: Node, right: Node, on: Condition) -> Node:
    """Pairs of rows that match."""
    l_node, l_keys = with_columns(left, on.left)
    r_node, r_keys = with_columns(right, on.right)
    node: Node = Join(l_node, r_node, l_keys, r_keys)
    right_start = len(l_node.types)
    kept = [*range(len(left.types)), *range(right_start, right_start + len(right.types))]
    node = take(node, kept)
    return node if on.residual is None else Filter(node, on.residual)


def among(node: Node, value: Expr, constants: Sequence[Any], *, negated: bool = False) -> Node:
    """The rows whose value is one of many constants of its type (`negated`: is none of them); NULL is neither."""
    rows = tuple((c,) for c in dict.fromkeys(constants))
    table = Rows(rows, (value.type.optional(False),))
    if negated and value.type.nullable:
        node = Filter(node, call("is_not_null", value))
    return join(node, table, Condition((value,), refs(table.types)), "anti" if negated else "semi")


@dataclass(frozen=True)
class _Matches:
    """Which rows of one side have a match: those whose `columns` (over that side) are a row of `found`."""

    columns: tuple[Expr, ...]
    found: Node


def _left_matches(left: Node, right: Node, on: Condition) -> _Matches:
    if on.residual is None:
        return _matches(on.left, right, on.right)
    columns = _match_columns(left.types, on.left, on.residual.columns())
    return _matches(columns, inner(left, right, on), columns)


def _right_matches(left: Node, right: Node, on: Condition) -> _Matches:
    if on.residual is None:
        return _matches(on.right, left, on.left)
    width = len(left.types)
    columns = _match_columns(right.types, on.right, {i - width for i in on.residual.columns()})
    in_pair = {i: ColumnRef(t, width + i) for i, t in enumerate(right.types)}
    return _matches(columns, inner(left, right, on), tuple(c.remap(in_pair) for c in columns))


def _match_columns(types: Types, keys: tuple[Expr, ...], read: set[int]) -> tuple[Expr, ...]:
    """The keys and the columns of this side that the residual reads (of the positions given, those this side has)."""
    extra = (ColumnRef(types[i], i) for i in sorted(read) if 0 <= i < len(types))
    return tuple(dict.fromkeys((*keys, *(e for c in extra for e in null_safe(c)))))


def _matches(columns: tuple[Expr, ...], partners: Node, same_columns: tuple[Expr, ...]) -> _Matches:
    """Without any columns a single row says whether there is a match at all."""
    return _Matches(columns, Threshold(Project(partners, same_columns or (Constant(INT, 1),)), "distinct"))


def _with_partner(node: Node, matches: _Matches) -> Node:
    """Semi-join: rows that have a match, keeping their multiplicity."""
    keyed, keys = with_columns(node, matches.columns)
    joined = Join(keyed, matches.found, keys, tuple(range(len(keys))))
    return take(joined, range(len(node.types)))


def _without_partner(node: Node, matches: _Matches) -> Node:
    """Anti-join: the others."""
    return Union((node, Negate(_with_partner(node, matches))))


def with_columns(node: Node, exprs: Sequence[Expr]) -> tuple[Node, tuple[int, ...]]:
    """The node with the values of the expressions as columns, and their positions; plain columns are reused."""
    missing = [e for e in dict.fromkeys(exprs) if not isinstance(e, ColumnRef)]
    width = len(node.types)
    positions = {e: width + i for i, e in enumerate(missing)}
    found = tuple(e.index if isinstance(e, ColumnRef) else positions[e] for e in exprs)
    return (Project(node, (*refs(node.types), *missing)) if missing else node), found


def take(node: Node, positions: Sequence[int]) -> Node:
    """Only these columns."""
    if list(positions) == list(range(len(node.types))):
        return node
    return Project(node, tuple(ColumnRef(node.types[i], i) for i in positions))


def refs(types: Types) -> tuple[Expr, ...]:
    """All columns as they are."""
    return tuple(ColumnRef(t, i) for i, t in enumerate(types))


def canonical(key: Expr) -> Expr:
    """A key whose equal values have equal codes: -0.0 becomes 0.0."""
    return call("add", key, Constant(FLOAT, 0.0)) if key.type.kind == "float" else key


def null_safe(expr: Expr) -> tuple[Expr, ...]:
    """Columns without NULLs that are equal exactly if the values are equal or both NULL."""
    if not expr.type.nullable:
        return (expr,)
    return call("is_null", expr), call("if_null", expr, _some_value(expr.type))


def same_keys(a: Expr, b: Expr) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Keys of two sides that are equal exactly if the values are equal or both NULL."""
    if a.type.nullable == b.type.nullable:
        return null_safe(a), null_safe(b)
    nullable, other = (a, b) if a.type.nullable else (b, a)
    keys = null_safe(nullable), (call("is_null", other), other)
    return keys if nullable is a else (keys[1], keys[0])


_PLACEHOLDERS: dict[str, Callable[[DataType], Any]] = {
    "timestamptz": lambda kind: datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),
    "time": lambda kind: datetime.time(),
    "enum": lambda kind: kind.names[0],
    "char": lambda kind: "",
    "numeric": lambda kind: Decimal(0),
    "interval": lambda kind: Interval(),
    "uuid": lambda kind: uuid.UUID(int=0),
    "json": lambda kind: JSON_NULL,
    "array": lambda kind: FrozenList(),
    "map": lambda kind: FrozenDict(),
    "struct": lambda kind: FrozenDict(dict.fromkeys(kind.names)),
}
"""Any value of a kind, as a placeholder for NULL."""


def _some_value(kind: DataType) -> Expr:
    values: dict[str, Any] = {
        "int": 0,
        "float": 0.0,
        "bool": False,
        "str": "",
        "bytes": b"",
        "date": datetime.date(1970, 1, 1),
        "timestamp": datetime.datetime(1970, 1, 1),
        "decimal": Decimal(0),
    }
    if kind.kind in _PLACEHOLDERS:
        return Constant(kind.optional(False), _PLACEHOLDERS[kind.kind](kind))
    if kind.kind == "tuple":
        return replace(call("tuple_make", *map(_some_value, kind.items)), type=kind.optional(False))
    return Constant(kind.optional(False), values[kind.kind])


def _pad(node: Node, before: Types, after: Types) -> Node:
    """NULL columns put before and after the node's own."""
    nulls = [tuple(Constant(t.optional(), None) for t in types) for types in (before, after)]
    return Project(node, (*nulls[0], *refs(node.types), *nulls[1]))
