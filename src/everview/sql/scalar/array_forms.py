"""Arrays: construction, subscripts, slices, ANY and ALL, concatenation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.nodes import Expr, Literal
from everview.sql.answers.parameters import Learned
from everview.sql.scalar import constants
from everview.sql.scalar.handlers import Forms
from everview.sql.scalar.type_names import in_words
from everview.sql.select import array_queries
from everview.sql.text import dialects
from everview.types import INT, STR, DataType, array

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


def depth(kind: DataType) -> int:
    """How many arrays are in each other."""
    return 1 + depth(kind.items[0]) if kind.kind == "array" else 0


def flattened(scalars: Scalars, value: Expr) -> Expr:
    """An array of arrays as one array, where the dialect takes it for a matrix."""
    nested = depth(value.type) > 1 and scalars.source.dialect in dialects.PRINTING
    return scalars.call("array_flatten", value) if nested else value


def _listed(scalars: Scalars, node: exp.Array) -> Expr:
    """ARRAY(query)"""
    found = scalars.bind(array_queries.aggregated(node, scalars.source))
    return scalars.call("coalesce", found, Literal(found.type.optional(False), constants.EMPTY))


def on_array(scalars: Scalars, node: exp.Array) -> Expr:
    if len(node.expressions) == 1 and isinstance(node.expressions[0], (exp.Select, exp.SetOperation)):
        return _listed(scalars, node)
    if not node.expressions:
        return Literal(array(STR), constants.EMPTY)
    for each in node.expressions:  # the row of a table in PostgreSQL, its columns in Spark
        if (
            isinstance(each, exp.Column)
            and isinstance(each.this, exp.Star)
            and scalars.source.dialect in dialects.SPARKS
        ):
            raise scalars.source.refuse(each, "an array of all columns is not supported", "name them: array(a, b)")
    items = [scalars.bind(e) for e in node.expressions]
    known = next((i for i in items if not (isinstance(i, Literal) and i.type.kind == "str")), None)
    if known is not None:
        items = [scalars.coerced(i, known, at) for i, at in zip(items, node.expressions, strict=True)]
    return scalars.call("array_make", *items)


def on_bracket(scalars: Scalars, node: exp.Bracket) -> Expr:
    """a[1], a[1:2], j['key'], m['key']"""
    value = scalars.bind(node.this)
    if len(node.expressions) != 1:
        raise scalars.source.refuse(node, "one index stands in brackets", "a[1][2]")
    index = node.expressions[0]
    if isinstance(index, exp.Slice):
        return _sliced(scalars, value, index, node)
    key, counted = scalars.bind(index), node.args.get("offset") == 1
    match value.type.kind:
        case "array":
            place = scalars.coerced(key, Literal(INT, 1), index)
            if counted or scalars.source.dialect == "duckdb":  # element_at(a, -1), which counts from 1, or from the end
                place = _from_the_end(scalars, value, place)
            elif dialects.first_place(scalars.source.dialect) == 0:
                place = scalars.call("add", place, Literal(INT, 1))
            return scalars.call("array_get", value, place)
        case "json":
            return scalars.call("json_get", value, key)
        case "map":
            return scalars.call("map_get", value, scalars.coerced(key, Literal(value.type.items[0], ""), index))
    raise scalars.source.error(node, "E_TYPE", f"{in_words(value.type)} has no elements", "arrays, maps and JSON have")


def _from_the_end(scalars: Scalars, value: Expr, place: Expr) -> Expr:
    """A place, of which -1 is the last one."""
    behind = scalars.call("add", scalars.call("array_cardinality", value), Literal(INT, 1))
    behind = scalars.call("add", behind, place)
    return scalars.call("case", scalars.call("lt", place, Literal(INT, 0)), behind, place)


def _sliced(scalars: Scalars, value: Expr, index: exp.Slice, node: exp.Expr) -> Expr:
    if value.type.kind != "array":
        raise scalars.source.error(node, "E_TYPE", f"{in_words(value.type)} has no slices", "arrays have")
    if index.args.get("step") is not None:
        raise scalars.source.refuse(index, "a slice has a first and a last element")
    parts = [index.args.get("this"), index.args.get("expression")]
    bounds = [Literal(INT.optional(), None) if p is None else scalars.bind(p) for p in parts]
    if scalars.source.dialect == "duckdb":
        given = zip(parts, bounds, strict=True)
        bounds = [bound if part is None else _from_the_end(scalars, value, bound) for part, bound in given]
    return scalars.call("array_slice", value, *bounds)


def any_or_all(scalars: Scalars, node: exp.Expr, op: str) -> Expr | None:
    """x = ANY (array), x < ALL (array); None if a query follows."""
    right = node.expression
    if isinstance(right, exp.Anonymous) and right.name.upper() == "ALL" and len(right.expressions) == 1:
        word, given = "all", right.expressions[0]
    elif isinstance(right, (exp.Any, exp.All)):
        word, given = ("any" if isinstance(right, exp.Any) else "all"), right.this
    else:
        return None
    inner = given.unnest() if isinstance(given, exp.Paren) else given
    if isinstance(inner, (exp.Query, exp.Subquery)):
        return None
    value = scalars.bind(node.this)
    if scalars.compiler.parameters.lacks_type(inner):
        raise Learned(inner.name, array(value.type))
    items = scalars.bind(inner)
    if isinstance(items, Literal) and items.type.kind == "str" and items.value is not None:
        items = constants.text_as(items.value, array(value.type), inner, scalars.source)
    if items.type.kind != "array":
        raise scalars.source.refuse(node, "ANY and ALL are followed by a query or an array")
    value = scalars.coerced(value, Literal(items.type.items[0], ""), node.this)
    return scalars.call(f"{word}_{op}", value, items)


def on_arraycontainsall(scalars: Scalars, node: exp.ArrayContainsAll) -> Expr:
    """a @> b"""
    return _contains(scalars, node.this, node.expression, node)


def on_arraycontainedby(scalars: Scalars, node: exp.Expr) -> Expr:
    """a <@ b"""
    return _contains(scalars, node.expression, node.this, node)


def _contains(scalars: Scalars, whole: exp.Expr, part: exp.Expr, node: exp.Expr) -> Expr:
    a, b = scalars.pair(whole, part)
    if a.type.kind == "json" or b.type.kind == "json":
        return scalars.call("json_contains", a, b)
    return scalars.call("array_contains", a, b)


def on_arrayoverlaps(scalars: Scalars, node: exp.ArrayOverlaps) -> Expr:
    return scalars.call("array_overlaps", *scalars.pair(node.this, node.expression))


def joined(scalars: Scalars, a: Expr, b: Expr, node: exp.DPipe) -> Expr | None:
    """a || b of arrays and JSON; None for texts."""
    kinds = {a.type.kind, b.type.kind}
    if "json" in kinds:
        a = scalars.coerced(a, b, node.this) if b.type.kind == "json" else a
        b = scalars.coerced(b, a, node.expression) if a.type.kind == "json" else b
        return scalars.call("json_concat", a, b) if a.type.kind == b.type.kind == "json" else None
    if "array" not in kinds:
        return None
    if a.type.kind == "array" and b.type.kind == "array":
        nested = a.type.items[0].kind == "array" != b.type.items[0].kind
        return scalars.call("array_append" if nested else "array_concat", a, b)
    if a.type.kind == "array":
        b = constants.list_or_item(b, a.type, node.expression, scalars.source)
        return scalars.call("array_concat" if b.type.kind == "array" else "array_append", a, b)
    a = constants.list_or_item(a, b.type, node.this, scalars.source)
    return scalars.call("array_concat" if a.type.kind == "array" else "array_prepend", a, b)


FORMS: Forms = {
    exp.Array: on_array,
    exp.Bracket: on_bracket,
    exp.ArrayContainsAll: on_arraycontainsall,
    exp.ArrayContainedBy: on_arraycontainedby,
    exp.ArrayOverlaps: on_arrayoverlaps,
}
