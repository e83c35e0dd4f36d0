"""Table functions: functions in FROM (or in SELECT) that return rows.

A function without column references is a table like any other. One that reads preceding columns of FROM is applied to
the rows joined so far: each is expanded by its results (`everview.sql.unfolding`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import did_you_mean
from everview.expr import common_types, functions
from everview.expr.nodes import Expr, Literal
from everview.plan import joins
from everview.plan.nodes import FlatMap, Node, Project
from everview.sql.scalar import array_forms, calls, constants, json_forms, zones
from everview.sql.scalar.type_names import in_words
from everview.sql.text import dialects
from everview.sql.text.annotations import SESSION
from everview.sql.text.call_names import TABLES
from everview.sql.unfolding import SideBySide, Unfolding
from everview.types import INT, JSON, STR, TIMESTAMP, TIMESTAMPTZ, DataType, array

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


@dataclass(frozen=True)
class TableCall:
    """A table function call: its node, name and arguments, and whether its rows are numbered (WITH ORDINALITY),
    preceded by their positions (posexplode), and NULL if there are none (explode_outer).
    """

    node: exp.Expr
    name: str
    args: list[exp.Expr]
    numbered: bool = False
    number: str = "ordinality"
    placed: bool = False
    outer: bool = False


@dataclass(frozen=True)
class Bound:
    """A bound table function: its argument expressions, implementation, types and names."""

    args: tuple[Expr, ...]
    function: Unfolding
    types: tuple[DataType, ...]
    names: tuple[str, ...]
    outer: bool = False

    def applied(self, child: Node, outer: bool = False) -> Node:
        """The child's rows, each combined with the function's results."""
        width, outer = len(child.types), outer or self.outer
        below = Project(child, (*joins.refs(child.types), *self.args))
        function = replace(self.function, width=width, outer=outer)
        types = tuple(t.optional() for t in self.types) if outer else self.types
        return FlatMap(below, function, (*child.types, *types))


def side_by_side(child: Node, made: Sequence[Bound]) -> Node:
    """The child's rows, each combined with the results of several functions, in step."""
    if len(made) == 1:
        return made[0].applied(child)
    below = Project(child, (*joins.refs(child.types), *(arg for one in made for arg in one.args)))
    parts = tuple(astuple(replace(one.function, outer=one.outer)) for one in made)
    types = tuple(one.types[0].optional() for one in made)
    counts = tuple(len(one.args) for one in made)
    return FlatMap(below, SideBySide(parts, counts, len(child.types)), (*child.types, *types))


def found(node: exp.Expr) -> TableCall | None:
    """The table function that an item of FROM is, or an expression."""
    if isinstance(node, exp.Lateral):
        inner = found(node.this) if not isinstance(node.this, exp.Subquery) else None
        return replace(inner, numbered=inner.numbered or bool(node.args.get("ordinality"))) if inner else None
    if isinstance(node, exp.Table):
        inner = None if isinstance(node.this, exp.Identifier) else found(node.this)
        return replace(inner, numbered=bool(node.args.get("ordinality"))) if inner else None
    if isinstance(node, exp.Unnest):
        offset = node.args.get("offset")
        number = offset.name if isinstance(offset, exp.Identifier) else "ordinality"
        return TableCall(node, "unnest", node.expressions, bool(offset), number)
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        return TableCall(node, "session" if name == SESSION else name, node.expressions)
    if isinstance(node, exp.Explode):
        outer = isinstance(node, exp.ExplodeOuter)
        return TableCall(node, "explode", [node.this], placed=isinstance(node, exp.Posexplode), outer=outer)
    if isinstance(node, (exp.GenerateSeries, exp.ExplodingGenerateSeries)):  # as other dialects are read
        args = [node.args[p] for p in ("start", "end", "step") if node.args.get(p) is not None]
        name = "range" if node.args.get("is_end_exclusive") else "generate_series"
        return TableCall(node, name, args)
    return None


def is_one(node: exp.Expr) -> bool:
    """Whether an expression is a call of a table function."""
    return isinstance(node, exp.Explode) or (isinstance(node, exp.Anonymous) and node.name.lower() in TABLES)


def calls_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """The calls of table functions in an expression, not in its subqueries, nor in one another."""
    if isinstance(node, exp.Query):
        return
    if is_one(node):
        yield node
        return
    for child in node.iter_expressions():
        yield from calls_in(child)


def bound(call: TableCall, scalars: Scalars) -> Bound:
    """The function with its arguments bound."""
    bind = _BINDERS.get(call.name)
    if bind is None:
        hint = did_you_mean(call.name, sorted(TABLES))
        raise scalars.source.refuse(call.node, f"the table function {call.name} is not supported", hint)
    made = replace(bind(call, scalars), outer=call.outer)
    if call.placed:
        function = replace(made.function, placed=True)
        return replace(made, function=function, types=(INT, *made.types), names=("pos", *made.names))
    if not call.numbered:
        return made
    return replace(
        made,
        function=replace(made.function, numbered=True, first=dialects.first_offset(scalars.source.dialect)),
        types=(*made.types, INT),
        names=(*made.names, call.number),
    )


def _series(call: TableCall, scalars: Scalars) -> Bound:
    """generate_series(start, stop[, step]) of numbers, or of moments with a constant interval"""
    _arity(call, 2, 3, scalars)
    step = call.args[2] if len(call.args) == 3 else None
    first, second = scalars.pair(call.args[0], call.args[1])
    kinds = {first.type.kind, second.type.kind}
    if "timestamptz" in kinds:
        return _zoned_moments(call, first, second, step, scalars)
    if kinds & {"date", "timestamp"}:
        return _moments(call, first, second, step, scalars)
    given = [first, second, *([scalars.bind(step)] if step is not None else [])]
    kinds = {g.type.kind for g in given if not _is_null(g)}
    if not kinds <= {"int", "decimal"}:
        said = ", ".join(in_words(g.type) for g in given)
        raise scalars.source.error(
            call.node, "E_TYPE", f"there is no {call.name} of {said}", "numbers, or timestamps and an interval"
        )
    common = common_types.common_type([g.type for g in given if not _is_null(g)] or [INT])
    assert common is not None
    args = tuple(functions.cast(g, common) for g in given)
    return Bound(args, Unfolding("generate_series", 0), (common.optional(False),), (call.name,))


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


def _moments(call: TableCall, first: Expr, second: Expr, step: exp.Expr | None, scalars: Scalars) -> Bound:
    if isinstance(step, exp.Literal) and step.is_string:
        step = exp.Interval(this=step)
    inner = step.this if isinstance(step, exp.Neg) else step
    if step is not None and not isinstance(inner, exp.Interval):
        span = scalars.bind(step)
        if span.type.kind == "interval":
            args = tuple(functions.cast(e, TIMESTAMP) for e in (first, second))
            return Bound((*args, span), Unfolding("moments", 0), (TIMESTAMP,), (call.name,))
    if not isinstance(inner, exp.Interval):
        raise scalars.source.error(
            step or call.node, "E_LITERAL", f"{call.name} of moments needs an interval", "interval '1 day'"
        )
    months, microseconds = constants.interval(inner, scalars.source)
    sign = -1 if inner is not step else 1
    if (months, microseconds) == (0, 0) or months * microseconds < 0:
        raise scalars.source.error(inner, "E_RANGE", f"{call.name} cannot take steps of zero")
    args = tuple(functions.cast(e, TIMESTAMP) for e in (first, second))
    function = Unfolding("moments", 0, months=sign * months, microseconds=sign * microseconds)
    return Bound(args, function, (TIMESTAMP,), (call.name,))


def _zoned_moments(call: TableCall, first: Expr, second: Expr, step: exp.Expr | None, scalars: Scalars) -> Bound:
    """A series of instants: in UTC, which only steps of hours and less can take in other zones."""
    first, second = zones.absolute(scalars, first), zones.absolute(scalars, second)
    made = _moments(call, first, second, step, scalars)
    months, microseconds = made.function.months, made.function.microseconds
    is_short = not months and 0 < abs(microseconds) < constants.DAY
    if scalars.source.zone != "UTC" and not is_short:
        what = "days of a timestamptz have no fixed length in the session's zone"
        raise scalars.source.refuse(call.node, what, "generate timestamps: generate_series(a::timestamp, ...)")
    return replace(made, types=(TIMESTAMPTZ,))


def _subscripts(call: TableCall, scalars: Scalars) -> Bound:
    """generate_subscripts(array, dimension): 1 to its length"""
    _arity(call, 2, 2, scalars)
    length = scalars.call("array_length", *(scalars.bind(a) for a in call.args))
    return Bound((Literal(INT, 1), length), Unfolding("generate_series", 0), (INT,), (call.name,))


def _range(call: TableCall, scalars: Scalars) -> Bound:
    """range(stop), range(start, stop[, step]): whole numbers, without the last"""
    _arity(call, 1, 3, scalars)
    args = tuple(scalars.bind(a) for a in call.args)
    for arg, at in zip(args, call.args, strict=True):
        if arg.type.kind != "int":
            raise scalars.source.error(at, "E_TYPE", f"range takes whole numbers, not {in_words(arg.type)}")
    return Bound(args, Unfolding("range", 0), (INT,), (call.name,))


def _unnest(call: TableCall, scalars: Scalars) -> Bound:
    """unnest(array, ...); of ARRAY[...] as it is written"""
    _arity(call, 1, None, scalars)
    if len(call.args) == 1 and isinstance(call.args[0], exp.Array) and call.args[0].expressions:
        items = call.args[0].expressions
        given = [scalars.bind(item) for item in items]
        known = [g.type for g in given if not _is_null(g)] or [INT.optional()]
        if any(t.kind == "array" for t in known):
            return _arrays(call, scalars)
        common = common_types.common_type(known)
        if common is None:
            raise scalars.source.error(call.node, "E_TYPE", "the items of an array have one type", "cast them")
        item = common.optional(any(g.type.nullable for g in given))
        args = tuple(functions.cast(g, item) for g in given)
        return Bound(args, Unfolding("elements", 0), (item,), (call.name,))
    return _arrays(call, scalars)


def _arrays(call: TableCall, scalars: Scalars) -> Bound:
    """The elements of arrays, side by side."""
    args = tuple(array_forms.flattened(scalars, scalars.bind(a)) for a in call.args)
    for arg, at in zip(args, call.args, strict=True):
        if str(arg.type.kind) != "array":
            raise scalars.source.error(at, "E_TYPE", f"unnest takes arrays, not {in_words(arg.type)}", "ARRAY[...]")
    types = tuple(a.type.items[0].optional() for a in args)
    names = (call.name,) * len(args)
    return Bound(args, Unfolding("unnest", 0, columns=len(args)), types, names)


def _explode(call: TableCall, scalars: Scalars) -> Bound:
    """explode(array), explode(map), as Spark has them: columns `col`, or `key` and `value`"""
    if isinstance(call.args[0], exp.Array):
        return replace(_unnest(call, scalars), names=("col",))
    given = scalars.bind(call.args[0])
    if given.type.kind == "map":
        args = (scalars.call("map_keys", given), scalars.call("map_values", given))
        types = tuple(a.type.items[0].optional() for a in args)
        return Bound(args, Unfolding("unnest", 0, columns=2), types, ("key", "value"))
    if given.type.kind != "array":
        what = f"explode takes an array or a map, not {in_words(given.type)}"
        raise scalars.source.error(call.args[0], "E_TYPE", what)
    return Bound((given,), Unfolding("unnest", 0), (given.type.items[0].optional(),), ("col",))


def _texts(call: TableCall, scalars: Scalars, low: int, nullable: bool) -> Bound:
    _arity(call, low, 3, scalars)
    args = tuple(scalars.bind(a) for a in call.args)
    for arg, at in zip(args, call.args, strict=True):
        if arg.type.kind != "str" and not _is_null(arg):
            raise scalars.source.error(at, "E_TYPE", f"{call.name} takes texts, not {in_words(arg.type)}")
    calls.check_constants(call.name, list(args), call.node, scalars)
    typed = tuple(Literal(STR.optional(), None) if _is_null(a) else a for a in args)
    made = STR.optional(nullable and len(args) == 3)
    return Bound(typed, Unfolding(call.name, 0), (made,), (call.name,))


def _matches(call: TableCall, scalars: Scalars) -> Bound:
    """regexp_matches(text, pattern[, flags]): the groups of each match, as an array"""
    return replace(_texts(call, scalars, 2, nullable=False), types=(array(STR),))


def _arity(call: TableCall, low: int, high: int | None, scalars: Scalars) -> None:
    if len(call.args) < low or (high is not None and len(call.args) > high):
        wants = f"{low} or more" if high is None else f"{low} to {high}"
        raise scalars.source.error(call.node, "E_ARITY", f"{call.name} takes {wants} arguments, not {len(call.args)}")


def _document(parts: tuple[str, ...], names: tuple[str, ...]) -> Callable[[TableCall, Scalars], Bound]:
    """jsonb_array_elements, jsonb_each and the like: the parts of a value as arrays, side by side."""

    def bind(call: TableCall, scalars: Scalars) -> Bound:
        _arity(call, 1, 1, scalars)
        value = json_forms.document(scalars, call.args[0])
        args = tuple(scalars.call(part, value) for part in parts)
        types = tuple(a.type.items[0].optional() for a in args)
        return Bound(args, Unfolding("unnest", 0, columns=len(args)), types, names or (call.name,))

    return bind


def _path_items(call: TableCall, scalars: Scalars) -> Bound:
    """jsonb_path_query(j, path): what the path gives"""
    _arity(call, 2, 2, scalars)
    found = json_forms.on_path(scalars, "jsonpath_items", *call.args)
    return Bound((found,), Unfolding("unnest", 0, columns=1), (JSON.optional(),), (call.name,))


_DOCUMENTS = {
    "array_elements": _document(("json_elements",), ("value",)),
    "array_elements_text": _document(("json_texts",), ("value",)),
    "object_keys": _document(("json_keys",), ()),
    "each": _document(("json_keys", "json_values"), ("key", "value")),
    "each_text": _document(("json_keys", "json_value_texts"), ("key", "value")),
}

_BINDERS: dict[str, Callable[[TableCall, Scalars], Bound]] = {
    "generate_series": _series,
    "range": _range,
    "generate_subscripts": _subscripts,
    "unnest": _unnest,
    "explode": _explode,
    "string_to_table": lambda call, scalars: _texts(call, scalars, 2, nullable=True),
    "regexp_split_to_table": lambda call, scalars: _texts(call, scalars, 2, nullable=False),
    "regexp_matches": _matches,
    "jsonb_path_query": _path_items,
    **{f"{head}_{name}": bind for head in ("json", "jsonb") for name, bind in _DOCUMENTS.items()},
}
