"""Classes of values for loops that evaluate small ones first (`Loop.priority`)."""

from __future__ import annotations

from everview.expr.functions import call
from everview.expr.nodes import Expr, Literal
from everview.types import FLOAT, INT


def bits(label: Expr) -> Expr:
    """Classes of doubling sizes, as many as there are bits; negative values come first."""
    grown = call("add", call("cast_float", label), Literal(FLOAT, 1.0))
    return _where_positive(label, call("cast_int", call("floor", call("log2", grown))))


def bits_of_hash(label: Expr) -> Expr:
    """The same for hashes, half of which are negative: counted from the least."""
    from_zero = call("add", call("cast_float", label), Literal(FLOAT, 2.0**63 + 1.0))
    return call("cast_int", call("floor", call("log2", from_zero)))


def eighths(cost: Expr) -> Expr:
    """Eight classes for each doubling."""
    scaled = call("mul", call("log2", call("cast_float", cost)), Literal(FLOAT, 8.0))
    return _where_positive(cost, call("cast_int", call("floor", call("add", scaled, Literal(FLOAT, 512.0)))))


def _where_positive(value: Expr, then: Expr) -> Expr:
    return call("case", call("gt", value, Literal(INT, 0)), then, Literal(INT, 0))
