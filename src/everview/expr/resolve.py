"""Resolves user-facing expressions to typed expressions over column positions.

`resolve(expression, scope)` finds the columns, infers the types, and refuses invalid expressions, suggesting the
correct names. A scope is the columns of a collection; each column records the collections it came through (its
*origins*), which is how `edges.src` is still found after a join.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from everview.errors import PlanError, did_you_mean
from everview.expr import common_types, functions, language, nodes
from everview.types import BOOL, BYTES, DATE, FLOAT, INT, STR, TIMESTAMP, DataType, decimal

Origin = tuple[int, int]
"""Number of a collection and position of a column in it."""


@dataclass(frozen=True)
class Column:
    """A named, typed column and its origins, nearest collection first.

    >>> Column("src", INT)
    Column(name='src', type=int, origins=())
    """

    name: str
    type: DataType
    origins: tuple[Origin, ...] = ()


OnAggregate = Callable[[language.AggregateCall], nodes.Expr]


@dataclass(frozen=True)
class Scope:
    """The columns an expression may use.

    `where` names the place in errors, `hint` is advice for missing columns, `on_aggregate` handles aggregates where
    they are allowed.
    """

    columns: tuple[Column, ...]
    where: str = "the collection"
    on_aggregate: OnAggregate | None = None
    hint: str = ""
    known: dict[int, tuple[language.Expression, nodes.Expr]] = field(default_factory=dict, compare=False, repr=False)
    """Results so far, by identity: expressions share sub-expressions."""

    def named(self, name: str) -> nodes.ColumnRef:
        """The only column of that name."""
        found = [i for i, c in enumerate(self.columns) if c.name == name]
        if not found:
            raise self.unknown(name)
        if len(found) > 1:
            raise PlanError(
                "E_AMBIGUOUS",
                f"{self.where} has {len(found)} columns called {name!r}",
                f"name the collection it came from (edges.{name} instead of col.{name}), or rename one before the join",
            )
        return self.at(found[0])

    def bound(self, ref: language.Bound) -> nodes.ColumnRef:
        """The column that originates from that column of that collection."""
        origin = (ref.collection, ref.position)
        found = [i for i, c in enumerate(self.columns) if origin in c.origins]
        if not found:
            raise self.lost(ref)
        if len(found) > 1:
            raise PlanError(
                "E_AMBIGUOUS",
                f"{ref!r} may be {len(found)} columns of {self.where}: the collection was joined with itself",
                "give one side a name of its own before the join: other = edges.alias('other'), then other." + ref.name,
            )
        return self.at(found[0])

    def at(self, position: int) -> nodes.ColumnRef:
        return nodes.ColumnRef(self.columns[position].type, position)

    def names(self) -> list[str]:
        return [c.name for c in self.columns]

    def unknown(self, name: str) -> PlanError:
        hint = self.hint or did_you_mean(name, self.names())
        return PlanError("E_COLUMN", f"{self.where} has no column {name!r}", hint)

    def lost(self, ref: language.Bound) -> PlanError:
        hint = f"use col.{ref.name} for the column now called that" if ref.name in self.names() else ""
        message = f"{ref!r} is not in {self.where}: it was dropped or replaced, or is another collection's"
        return PlanError("E_COLUMN", message, hint or self.hint or did_you_mean(ref.name, self.names()))


def resolve(expr: Any, scope: Scope) -> nodes.Expr:
    """The typed expression over positions of the scope's columns.

    >>> resolve(language.col.x + 1, Scope((Column("x", INT),))).type
    int
    """
    expr = language.wrap(expr)
    if id(expr) not in scope.known:
        try:
            scope.known[id(expr)] = (expr, _resolved(expr, scope))
        except RecursionError:
            raise too_deep() from None
    return scope.known[id(expr)][1]


def _resolved(expr: language.Expression, scope: Scope) -> nodes.Expr:
    match expr:
        case language.Named():
            return scope.named(expr.name)
        case language.Bound():
            return scope.bound(expr)
        case language.Constant():
            return literal(expr.value)
        case language.Apply():
            return _apply(expr, scope)
        case language.IsIn():
            return _is_in(expr, scope)
        case language.Cast():
            return functions.cast(resolve(expr.arg, scope), expr.to)
        case language.Case():
            parts = [x for branch in expr.branches for x in branch]
            return functions.call("case", *(resolve(x, scope) for x in (*parts, expr.default)))
        case language.UdfCall():
            args = tuple(resolve(a, scope) for a in expr.args)
            return nodes.Udf(expr.udf.returns, expr.udf.function, args, expr.udf.vectorized)
        case language.AggregateCall():
            if scope.on_aggregate is None:
                raise PlanError(
                    "E_AGGREGATE",
                    f"{expr!r} is an aggregate and needs a group",
                    "use it in .group_by(...).agg(...) or .agg(...); aggregates of aggregates need two steps",
                )
            return scope.on_aggregate(expr)
    raise PlanError("E_TYPE", f"{expr!r} is not an expression", "build expressions from col.x, lit(...) and operators")


def too_deep() -> PlanError:
    """Return the error for expressions nested too deeply."""
    return PlanError("E_DEPTH", "an expression is nested too deeply", "compute parts of it in a step before: select()")


def predicate(exprs: Sequence[Any], scope: Scope) -> nodes.Expr:
    """One or more conditions as one boolean expression."""
    found = [resolve(e, scope) for e in exprs]
    for given, expr in zip(exprs, found, strict=True):
        if expr.type.kind != "bool":
            raise PlanError(
                "E_TYPE",
                f"a condition must be true or false, but {given!r} is {expr.type!r}",
                "compare it with something, or .cast(bool)",
            )
    return functions.conjunction(found)


# --------------------------------------------------------------------------------------- constants


def literal(value: Any) -> nodes.Expr:
    """A Python value as an expression; -0.0 becomes neg(0.0), because plans compare literals with ==.

    >>> literal(Decimal("1.50"))
    Literal(type=decimal(2), value=Decimal('1.50'))
    """
    if isinstance(value, tuple):
        return functions.call("tuple_make", *map(literal, value))
    if hasattr(value, "item") and hasattr(value, "dtype"):
        value = value.item()  # a NumPy scalar
    match value:
        case None:
            return nodes.Literal(INT.optional(), None)
        case bool():
            return nodes.Literal(BOOL, value)
        case int():
            return _int_literal(value)
        case float():
            if value == 0 and math.copysign(1, value) < 0:
                return nodes.Call(FLOAT, "neg", (nodes.Literal(FLOAT, 0.0),))
            return nodes.Literal(FLOAT, math.nan if math.isnan(value) else float(value))
        case str():
            return nodes.Literal(STR, value)
        case bytes():
            return nodes.Literal(BYTES, value)
        case datetime.datetime():
            utc = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
            return nodes.Literal(TIMESTAMP, utc)
        case datetime.date():
            return nodes.Literal(DATE, value)
        case Decimal():
            return _decimal_literal(value)
        case datetime.timedelta():
            raise _misplaced_duration(value)
    raise PlanError(
        "E_TYPE",
        f"{value!r} ({type(value).__name__}) cannot be a constant",
        "constants are int, float, bool, str, bytes, date, datetime, Decimal, tuples of these, or None",
    )


def _int_literal(value: int) -> nodes.Literal:
    if not -(2**63) <= value < 2**63:
        raise PlanError("E_RANGE", f"{value} does not fit in 64 bits", "use a float or a str")
    return nodes.Literal(INT, int(value))


def _decimal_literal(value: Decimal) -> nodes.Literal:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise PlanError("E_RANGE", f"{value} is not a number a decimal can hold", "use a float")
    scale = max(0, -exponent)
    if scale > common_types.MAX_SCALE or abs(value.scaleb(scale)) >= 2**63:
        raise PlanError(
            "E_RANGE", f"{value} has too many digits", f"a decimal has {common_types.MAX_SCALE} digits in all"
        )
    return nodes.Literal(decimal(scale), value)


# --------------------------------------------------------------------------------------- functions


CHAIN = 16
"""Chains of & or | up to this length stay as written."""


def _long_chain(expr: language.Apply) -> list[language.Expression]:
    """The parts of `a & b & c & ...`, which Python nests to the left, if there are many."""
    parts: list[language.Expression] = []
    left: language.Expression = expr
    while isinstance(left, language.Apply) and left.op == expr.op:
        parts.append(left.args[1])
        left = left.args[0]
    return [left, *reversed(parts)] if len(parts) >= CHAIN else []


def _apply(expr: language.Apply, scope: Scope) -> nodes.Expr:
    if expr.op in ("and", "or"):
        parts = _long_chain(expr)
        if parts:
            return functions.conjunction([resolve(p, scope) for p in parts], "and" if expr.op == "and" else "or")
    if expr.op in {"add", "sub", "eq", "ne", "lt", "le", "gt", "ge"} and any(
        _duration(a) is not None for a in expr.args
    ):
        return _with_duration(expr, scope)
    args = [resolve(a, scope) for a in expr.args]
    try:
        return _overloaded(expr.op, args) if expr.op in {"add", "sub"} else functions.call(expr.op, *args)
    except PlanError as error:
        if error.code == "E_TYPE" and " in " not in error.message:
            raise PlanError(error.code, f"{error.message}, in {expr!r}", error.hint) from None
        raise


def _overloaded(op: str, args: Sequence[nodes.Expr]) -> nodes.Expr:
    """+ and - of texts, dates and timestamps."""
    left, right = args[0].type.kind, args[1].type.kind
    if op == "add" and left == right == "str":
        return functions.call("concat", *args)
    if left == "date" and right == "int":
        return functions.call("date_add_days", args[0], args[1] if op == "add" else functions.call("neg", args[1]))
    if op == "sub" and left == right == "date":
        return functions.call("date_diff_days", *args)
    if op == "sub" and {left, right} <= {"date", "timestamp"}:
        return functions.call("timestamp_diff", *args)
    return functions.call(op, *args)


def _duration(expr: language.Expression) -> datetime.timedelta | None:
    """The timedelta of a constant, if it is one."""
    if isinstance(expr, language.Constant) and isinstance(expr.value, datetime.timedelta):
        return expr.value
    return None


def _with_duration(expr: language.Apply, scope: Scope) -> nodes.Expr:
    """A timedelta next to a date, a timestamp, or a difference of two takes its unit (days or microseconds)."""
    first, second = expr.args
    moment = expr.op in {"add", "sub"}
    if expr.op == "add" and _duration(first) is not None:
        first, second = second, first
    left, right = _duration(first), _duration(second)
    if left is not None and (right is not None or moment):
        raise _misplaced_duration(left)
    other = resolve(second if left is not None else first, scope)
    unit = _unit_beside(other, moment)
    args = [other if d is None else _duration_literal(d, unit) for d in (left, right)]
    if not moment:
        return functions.call(expr.op, *args)
    if expr.op == "sub":
        args[1] = functions.call("neg", args[1])
    return functions.call("date_add_days" if unit == _DAY else "timestamp_add", *args)


def _misplaced_duration(value: datetime.timedelta) -> PlanError:
    return PlanError(
        "E_TYPE",
        f"a duration ({value}) is not allowed here",
        "add it to or subtract it from a date or timestamp, or compare it with a difference of two",
    )


_DAY = datetime.timedelta(days=1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def _unit_beside(other: nodes.Expr, moment: bool) -> datetime.timedelta:
    if moment and other.type.kind in {"date", "timestamp"}:
        return _DAY if other.type.kind == "date" else _MICROSECOND
    if not moment and isinstance(other, nodes.Call) and other.op in {"date_diff_days", "timestamp_diff"}:
        return _DAY if other.op == "date_diff_days" else _MICROSECOND
    raise PlanError(
        "E_TYPE",
        f"a duration cannot be combined with {other.type!r}",
        "add it to or subtract it from a date or timestamp, or compare it with a difference of two",
    )


def _duration_literal(value: datetime.timedelta, unit: datetime.timedelta) -> nodes.Expr:
    if value % unit:
        raise PlanError(
            "E_TYPE", f"{value} is not a whole number of days, which dates need", "cast the date: .cast(datetime)"
        )
    return literal(value // unit)


TABLE_FROM_CONSTANTS = 100
"""Number of constants from which a list becomes a table."""


def constants_of(condition: Any, scope: Scope) -> tuple[nodes.Expr, list[Any]] | None:
    """The operand and constants of `x.isin(...)`, if they are many ints for an int, or texts for a text."""
    if not isinstance(condition, language.IsIn) or len(condition.values) < TABLE_FROM_CONSTANTS:
        return None
    value = resolve(condition.arg, scope)
    wanted = {"int": int, "str": str}.get(value.type.kind)
    found = [v.value for v in condition.values if isinstance(v, language.Constant)]
    if wanted is None or len(found) < len(condition.values) or not all(type(v) is wanted for v in found):
        return None
    if wanted is int and not all(-(2**63) < v < 2**63 for v in found):
        return None
    return value, found


def _is_in(expr: language.IsIn, scope: Scope) -> nodes.Expr:
    arg = resolve(expr.arg, scope)
    tests = [functions.call("eq", arg, resolve(v, scope)) for v in expr.values]
    return functions.conjunction(tests, "or") if tests else nodes.Literal(BOOL, False)
