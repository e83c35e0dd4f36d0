"""The user-facing expression syntax: `col.x + 1`, `when(col.x > 3, "big").otherwise("small")`, `col.price.sum()`.

These expressions contain names, not positions or types; nothing is checked while they are built. A collection resolves
them against its columns (`everview.expr.resolve`), and only then are types, ambiguity and misspellings checked.

Two ways to refer to a column: `col.x` is the column named x of whatever collection the expression is used on;
`edges.src` is that very column of `edges`, found again after joins and filters even if another column has the same
name.

Every function of `everview.expr.functions` that applies to a value is a method of the same name (`col.s.lower()`,
`col.t.date_trunc("month")`).

Hazard: Python's `and`, `or`, `not`, `in` and chained comparisons (`1 < col.x < 3`) cannot be overloaded. They raise an
error with a hint instead of silently meaning something else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, overload

from everview.errors import PlanError, did_you_mean
from everview.expr.functions import FUNCTIONS
from everview.types import DataType

AggregateName = Literal["count", "sum", "avg", "min", "max", "count_distinct", "first", "last"]


class UnknownFunction(PlanError, AttributeError):
    """`col.x.f()` where there is no f; also an AttributeError, so that hasattr works."""


class Expression:
    """A value computed from a row, not yet bound to a collection.

    >>> (col.price * 2 > 10) & col.name.startswith("a")
    ((col.price * 2) > 10) & col.name.startswith('a')
    """

    __slots__ = ()
    __iter__ = None

    def __bool__(self) -> bool:
        raise PlanError(
            "E_BOOL",
            f"{self!r} has no truth value: it is an expression, not a value",
            "write & | ~ for and, or, not (with brackets: (a > 1) & (b < 2)), .isin() for in, .between() for a < x < b",
        )

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Callable[..., Expression]:
        """Reached only for unknown names: the functions of FUNCTIONS are methods (added below)."""
        if name.startswith("_"):
            raise AttributeError(name)
        methods = [m for m in dir(Expression) if not m.startswith("_")]
        raise UnknownFunction("E_FUNCTION", f"there is no function {name!r} of values", did_you_mean(name, methods))

    # arithmetic
    def __add__(self, other: Any) -> Expression:
        return Apply("add", self, other)

    def __radd__(self, other: Any) -> Expression:
        return Apply("add", other, self)

    def __sub__(self, other: Any) -> Expression:
        return Apply("sub", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return Apply("sub", other, self)

    def __mul__(self, other: Any) -> Expression:
        return Apply("mul", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return Apply("mul", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return Apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return Apply("div", other, self)

    def __floordiv__(self, other: Any) -> Expression:
        return Apply("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Expression:
        return Apply("floordiv", other, self)

    def __mod__(self, other: Any) -> Expression:
        return Apply("mod", self, other)

    def __rmod__(self, other: Any) -> Expression:
        return Apply("mod", other, self)

    def __pow__(self, other: Any) -> Expression:
        return Apply("pow", self, other)

    def __rpow__(self, other: Any) -> Expression:
        return Apply("pow", other, self)

    def __neg__(self) -> Expression:
        return Apply("neg", self)

    def __abs__(self) -> Expression:
        return Apply("abs", self)

    # comparison
    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return Apply("eq", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return Apply("ne", self, other)

    def __lt__(self, other: Any) -> Expression:
        return Apply("lt", self, other)

    def __le__(self, other: Any) -> Expression:
        return Apply("le", self, other)

    def __gt__(self, other: Any) -> Expression:
        return Apply("gt", self, other)

    def __ge__(self, other: Any) -> Expression:
        return Apply("ge", self, other)

    # logic
    def __and__(self, other: Any) -> Expression:
        return Apply("and", self, other)

    def __rand__(self, other: Any) -> Expression:
        return Apply("and", other, self)

    def __or__(self, other: Any) -> Expression:
        return Apply("or", self, other)

    def __ror__(self, other: Any) -> Expression:
        return Apply("or", other, self)

    def __invert__(self) -> Expression:
        return Apply("not", self)

    def __getitem__(self, index: int) -> Expression:
        """Item `index` of a tuple."""
        return Apply("tuple_get", self, index)

    def isin(self, values: Iterable[Any]) -> Expression:
        """True if equal to one of the values."""
        if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
            raise PlanError("E_TYPE", f"isin({values!r})", "give a list of values")
        return IsIn(self, tuple(values))

    def between(self, low: Any, high: Any) -> Expression:
        """True from low to high, inclusive."""
        return Apply("and", Apply("ge", self, low), Apply("le", self, high))

    def cast(self, to: Any) -> Expression:
        """Convert to another type: `col.x.cast(float)`, `col.s.cast("decimal(2)")`."""
        return Cast(self, declared(to))

    def date_trunc(self, unit: str) -> Expression:
        """Truncate a date or timestamp to a year, quarter, month, week, day, hour, minute or second."""
        return Apply("date_trunc", unit, self)

    # aggregates
    def count(self) -> Expression:
        """In agg(): the number of values that are not NULL."""
        return AggregateCall("count", self)

    def sum(self) -> Expression:
        """In agg(): the sum."""
        return AggregateCall("sum", self)

    def avg(self) -> Expression:
        """In agg(): the mean, as float."""
        return AggregateCall("avg", self)

    def min(self) -> Expression:
        """In agg(): the smallest."""
        return AggregateCall("min", self)

    def max(self) -> Expression:
        """In agg(): the largest."""
        return AggregateCall("max", self)

    def count_distinct(self) -> Expression:
        """In agg(): the number of distinct values."""
        return AggregateCall("count_distinct", self)

    def first(self, by: Any) -> Expression:
        """In agg(): the value in the first row in the order of `by` (NULL if it is NULL there)."""
        return AggregateCall("first", self, orderings(by))

    def last(self, by: Any) -> Expression:
        """In agg(): the value in the first row in the opposite order of `by`."""
        return AggregateCall("last", self, tuple(Ordering(o.expr, not o.descending) for o in orderings(by)))

    def asc(self) -> Ordering:
        """Smallest first, NULLs last."""
        return Ordering(self, False)

    def desc(self) -> Ordering:
        """Largest first, NULLs last."""
        return Ordering(self, True)


class Named(Expression):
    """`col.x`: the column named x."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"col.{self.name}" if self.name.isidentifier() else f"col[{self.name!r}]"


class Bound(Expression):
    """`edges.src`: column `position` of the collection with number `collection`."""

    __slots__ = ("collection", "label", "name", "position")

    def __init__(self, collection: int, position: int, name: str, label: str) -> None:
        self.collection = collection
        self.position = position
        self.name = name
        self.label = label

    def __repr__(self) -> str:
        return f"{self.label}.{self.name}" if self.name.isidentifier() else f"{self.label}[{self.name!r}]"


class Constant(Expression):
    """A Python value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)


_SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&",
    "or": "|",
}


class Apply(Expression):
    """A built-in function of arguments."""

    __slots__ = ("args", "op")

    def __init__(self, op: str, *args: Any) -> None:
        self.op = op
        self.args = tuple(map(wrap, args))

    def __repr__(self) -> str:
        if self.op in _SIGNS:
            sides = (f"({a!r})" if isinstance(a, Apply) and a.op in _SIGNS else repr(a) for a in self.args)
            return f" {_SIGNS[self.op]} ".join(sides)
        if self.op in {"neg", "not"}:
            return f"{'-' if self.op == 'neg' else '~'}({self.args[0]!r})"
        first, *rest = map(repr, self.args)
        return f"{first}.{self.op}({', '.join(rest)})"


class IsIn(Expression):
    """Membership in a list of constants or expressions."""

    __slots__ = ("arg", "values")

    def __init__(self, arg: Expression, values: tuple[Any, ...]) -> None:
        self.arg = arg
        self.values = tuple(map(wrap, values))

    def __repr__(self) -> str:
        return f"{self.arg!r}.isin({list(self.values)!r})"


class Cast(Expression):
    """A change of type."""

    __slots__ = ("arg", "to")

    def __init__(self, arg: Expression, to: DataType) -> None:
        self.arg = arg
        self.to = to

    def __repr__(self) -> str:
        return f"{self.arg!r}.cast({self.to!r})"


class Case(Expression):
    """`when(...)`: the value of the first true condition, else `default` (NULL)."""

    __slots__ = ("branches", "default")

    def __init__(self, branches: tuple[tuple[Expression, Expression], ...], default: Expression) -> None:
        self.branches = branches
        self.default = default

    def when(self, condition: Any, value: Any) -> Case:
        """Add a condition, tried if none before is true."""
        return Case((*self.branches, (wrap(condition), wrap(value))), self.default)

    def otherwise(self, value: Any) -> Case:
        """The value if no condition is true."""
        return Case(self.branches, wrap(value))

    def __repr__(self) -> str:
        first, *rest = (f"when({c!r}, {v!r})" for c, v in self.branches)
        return ".".join([first, *rest, f"otherwise({self.default!r})"])


class UserFunction:
    """A Python function for use in expressions; made by `udf`."""

    def __init__(self, function: Callable[..., Any], returns: DataType, vectorized: bool) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.returns = returns
        self.vectorized = vectorized

    def __call__(self, *args: Any) -> Expression:
        return UdfCall(self, tuple(map(wrap, args)))

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


class UdfCall(Expression):
    """A user function applied to expressions."""

    __slots__ = ("args", "udf")

    def __init__(self, udf: UserFunction, args: tuple[Expression, ...]) -> None:
        self.udf = udf
        self.args = args

    def __repr__(self) -> str:
        return f"{self.udf!r}({', '.join(map(repr, self.args))})"


class Ordering:
    """An expression to sort by, and the direction."""

    __slots__ = ("descending", "expr")

    def __init__(self, expr: Expression, descending: bool) -> None:
        self.expr = expr
        self.descending = descending

    def __repr__(self) -> str:
        return f"{self.expr!r}.{'desc' if self.descending else 'asc'}()"


class AggregateCall(Expression):
    """An aggregate over a group; valid only in agg(). `arg` None counts rows."""

    __slots__ = ("arg", "by", "kind")

    def __init__(self, kind: AggregateName, arg: Expression | None, by: tuple[Ordering, ...] = ()) -> None:
        self.kind: AggregateName = kind
        self.arg = arg
        self.by = by

    def __repr__(self) -> str:
        if self.arg is None:
            return f"{self.kind}()"
        return f"{self.arg!r}.{self.kind}({f'by={list(self.by)!r}' if self.by else ''})"


_NOT_METHODS = {
    "add",
    "sub",
    "mul",
    "div",
    "floordiv",
    "mod",
    "neg",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "and",
    "or",
    "not",
}
_NOT_METHODS |= {"case", "tuple_make", "tuple_get", "greatest", "least", "date_trunc"}


def _method(op: str) -> Callable[..., Expression]:
    def method(self: Expression, *args: Any) -> Expression:
        return Apply(op, self, *args)

    method.__name__ = op
    method.__qualname__ = f"Expression.{op}"
    method.__doc__ = FUNCTIONS[op].doc[0].upper() + FUNCTIONS[op].doc[1:] + " (a is this value)."
    return method


for _op in FUNCTIONS:
    if _op not in _NOT_METHODS and not _op.startswith("cast_"):
        setattr(Expression, _op, _method(_op))


class ColumnsByName:
    """`col`: `col.x` or `col["any name"]` is the column of that name of the collection it is used on.

    >>> col.x + col["two words"]
    col.x + col['two words']
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Named:
        if name.startswith("__"):
            raise AttributeError(name)
        return Named(name)

    def __getitem__(self, name: str) -> Named:
        return Named(name)

    def __repr__(self) -> str:
        return "col"


col = ColumnsByName()
"""Columns by name: `col.x`."""


def wrap(value: Any) -> Expression:
    """Wrap a value as a constant; expressions are unchanged."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, Ordering):
        raise PlanError(
            "E_TYPE",
            f"{value!r} is an order, not a value",
            "asc() and desc() belong in top(by=...), first(by=...), last(by=...)",
        )
    return Constant(value)


def lit(value: Any) -> Expression:
    """A constant as an expression; None is NULL.

    >>> lit(1) + col.x
    1 + col.x
    """
    return wrap(value)


def when(condition: Any, value: Any) -> Case:
    """A value for rows where a condition is true; add `.when(...)` and `.otherwise(...)`. Without otherwise it is NULL.

    >>> when(col.x > 3, "big").otherwise("small")
    when(col.x > 3, 'big').otherwise('small')
    """
    return Case(((wrap(condition), wrap(value)),), Constant(None))


def count() -> Expression:
    """In agg(): the number of rows.

    >>> count()
    count()
    """
    return AggregateCall("count", None)


def greatest(*values: Any) -> Expression:
    """The largest of the values, ignoring NULLs.

    >>> greatest(col.x, 0)
    col.x.greatest(0)
    """
    return Apply("greatest", *values)


def least(*values: Any) -> Expression:
    """The smallest of the values, ignoring NULLs.

    >>> least(col.x, 0)
    col.x.least(0)
    """
    return Apply("least", *values)


def tuple_(*values: Any) -> Expression:
    """Combine the values into a tuple; `[i]` extracts item i.

    >>> tuple_(col.x, 1)[0]
    col.x.tuple_make(1).tuple_get(0)
    """
    return Apply("tuple_make", *values)


@overload
def udf(function: Callable[..., Any], *, returns: Any, vectorized: bool = False) -> UserFunction: ...


@overload
def udf(
    function: None = None, *, returns: Any, vectorized: bool = False
) -> Callable[[Callable[..., Any]], UserFunction]: ...


def udf(
    function: Callable[..., Any] | None = None, *, returns: Any, vectorized: bool = False
) -> UserFunction | Callable[[Callable[..., Any]], UserFunction]:
    """A Python function for use in expressions: of one row's values, or (vectorized) of Arrow arrays to an Arrow array.

    It must depend on its arguments alone: it is called again to retract earlier results. NULL is passed as None.

    >>> double = udf(lambda x: 2 * x, returns=int)
    >>> @udf(returns=str)
    ... def initial(name):
    ...     return name[:1]
    >>> initial(col.name)
    initial(col.name)
    """
    result = declared(returns)
    if function is not None:
        check_callable(function, "udf")
    if function is None:
        return lambda f: UserFunction(f, result, vectorized)
    return UserFunction(function, result, vectorized)


def check_callable(function: Any, where: str) -> None:
    """Refuse an argument that is not a function."""
    if not callable(function):
        raise PlanError("E_TYPE", f"{where}: {function!r} cannot be called", "give it a function")


def check_schema(schema: Any, where: str) -> None:
    """Refuse an argument that does not give names and types of columns."""
    if not isinstance(schema, Mapping) or not all(isinstance(name, str) for name in schema):
        raise PlanError("E_TYPE", f"{where}: {schema!r} does not say columns", 'give names and types: {"column": type}')


def orderings(by: Any) -> tuple[Ordering, ...]:
    """Parse an order (a name, an expression, an ordering, or a list of these)."""
    items = by if isinstance(by, list | tuple) else (by,)
    named = (Named(item) if isinstance(item, str) else item for item in items)
    found = tuple(item if isinstance(item, Ordering) else Ordering(wrap(item), False) for item in named)
    if not found:
        raise PlanError("E_ORDER", "an order needs at least one column", "by=col.x or by=[col.x.desc(), col.y]")
    return found


def declared(what: Any) -> DataType:
    """Parse a declared type: `int`, `Optional[str]`, `"decimal(2)"`, a DataType."""
    from everview.codes.type_declarations import data_type

    return what if isinstance(what, DataType) else data_type(what)
