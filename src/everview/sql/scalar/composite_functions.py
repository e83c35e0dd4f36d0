"""Functions by name of arrays, JSON, rows, maps, and the like: see `everview.sql.scalar.calls`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.codes.immutable import FrozenList
from everview.expr import functions
from everview.expr.nodes import Expr, Literal
from everview.sql.scalar import array_forms, json_forms, row_forms, type_names, zones
from everview.types import INT, JSON, STR, DataType, array

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars

Binder = Callable[[exp.Anonymous, "Scalars"], Expr]
STRS = array(STR)

ARRAYS: dict[str, tuple[str, int, int]] = {
    "array_append": ("array_append", 2, 2),
    "array_prepend": ("array_prepend", 2, 2),
    "array_cat": ("array_concat", 2, 2),
    "array_length": ("array_length", 2, 2),
    "array_position": ("array_position", 2, 3),
    "array_positions": ("array_positions", 2, 2),
    "array_remove": ("array_remove", 2, 2),
    "array_replace": ("array_replace", 3, 3),
    "array_to_string": ("array_to_string", 2, 3),
    "string_to_array": ("string_to_array", 2, 3),
    "trim_array": ("array_trim", 2, 2),
    "array_distinct": ("array_distinct", 1, 1),
    "array_sort": ("array_sort", 1, 1),
    "list_sort": ("array_sort", 1, 1),
    "array_intersect": ("array_intersect", 2, 2),
    "array_except": ("array_except", 2, 2),
    "map_keys": ("map_keys", 1, 1),
    "map_values": ("map_values", 1, 1),
    "map_contains_key": ("map_has", 2, 2),
}
"""SQL's name of a function, ours, and how many arguments it takes."""

_WITH_ITEMS = frozenset(
    {"array_append", "array_prepend", "array_position", "array_positions", "array_remove", "array_replace"}
)
"""Functions of an array and elements of it."""

DOCUMENTS: dict[str, tuple[str, int, int]] = {
    "typeof": ("json_typeof", 1, 1),
    "array_length": ("json_array_length", 1, 1),
    "strip_nulls": ("json_strip_nulls", 1, 1),
    "pretty": ("json_pretty", 1, 1),
    "set": ("json_set", 3, 4),
    "insert": ("json_insert", 3, 4),
}
"""Functions of JSON, after `json_` or `jsonb_`."""


def _bound(node: exp.Anonymous, scalars: Scalars, low: int, high: int) -> list[Expr]:
    if not low <= len(node.expressions) <= high:
        wants = str(low) if low == high else f"{low} to {high}"
        what = f"{node.name.lower()} takes {wants} arguments, not {len(node.expressions)}"
        raise scalars.source.error(node, "E_ARITY", what)
    return [scalars.bind(e) for e in node.expressions]


def _array(op: str, low: int, high: int) -> Binder:
    def bind(node: exp.Anonymous, scalars: Scalars) -> Expr:
        args = _bound(node, scalars, low, high)
        place = 1 if op == "array_prepend" else 0
        if len(args) > place and args[place].type.kind == "array":
            whole = args[place]
            for i, arg in enumerate(args):
                if i != place and op in _WITH_ITEMS and isinstance(arg, Literal) and arg.value is None:
                    args[i] = Literal(whole.type.items[0].optional(), None)  # an untyped NULL
                elif i != place and op in _WITH_ITEMS and not (op == "array_position" and i == 2):
                    args[i] = scalars.coerced(arg, Literal(whole.type.items[0], ""), node.expressions[i])
                elif i != place and op == "array_concat":
                    args[i] = scalars.coerced(arg, whole, node.expressions[i])
        if op == "array_to_string":
            args[0] = array_forms.flattened(scalars, args[0])
        return scalars.call(op, *args)

    return bind


def _document(op: str, low: int, high: int) -> Binder:
    def bind(node: exp.Anonymous, scalars: Scalars) -> Expr:
        args = _bound(node, scalars, low, high)
        wanted = {0: JSON, 1: STRS, 2: JSON} if op in ("json_set", "json_insert") else {0: JSON}
        for i, target in wanted.items():
            args[i] = scalars.coerced(args[i], Literal(target, ""), node.expressions[i])
        return scalars.call(op, *args)

    return bind


def _path(op: str) -> Binder:
    """jsonb_extract_path(j, 'a', 'b')"""

    def bind(node: exp.Anonymous, scalars: Scalars) -> Expr:
        if len(node.expressions) < 2:
            raise scalars.source.error(node, "E_ARITY", f"{node.name.lower()} takes a value and the steps of a path")
        value, *steps = [scalars.bind(e) for e in node.expressions]
        value = scalars.coerced(value, Literal(JSON, ""), node.expressions[0])
        return scalars.call(op, value, scalars.call("array_make", *steps))

    return bind


def _on_path(op: str) -> Binder:
    """jsonb_path_exists(j, path) and its like"""

    def bind(node: exp.Anonymous, scalars: Scalars) -> Expr:
        if len(node.expressions) != 2:
            raise scalars.source.error(
                node, "E_ARITY", f"{node.name.lower()} takes a value and a path, without variables"
            )
        return json_forms.on_path(scalars, op, *node.expressions)

    return bind


def _plain(op: str) -> Binder:
    return lambda node, scalars: scalars.call(op, *(scalars.bind(e) for e in node.expressions))


def _to_json(node: exp.Anonymous, scalars: Scalars) -> Expr:
    return scalars.call("to_json", *_bound(node, scalars, 1, 1))


def _cardinality(node: exp.Anonymous, scalars: Scalars) -> Expr:
    (value,) = _bound(node, scalars, 1, 1)
    return scalars.call("map_size" if value.type.kind == "map" else "array_cardinality", value)


def _row(node: exp.Anonymous, scalars: Scalars) -> Expr:
    return row_forms.row(scalars, row_forms.values(scalars, node.expressions))


def _lower_or_upper(upper: bool) -> Binder:
    """array_lower and array_upper: arrays begin at 1 here."""

    def bind(node: exp.Anonymous, scalars: Scalars) -> Expr:
        length = scalars.call("array_length", *_bound(node, scalars, 2, 2))
        if upper:
            return length
        return scalars.call("case", scalars.call("is_null", length), Literal(INT.optional(), None), Literal(INT, 1))

    return bind


def _dimensions(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """array_ndims(a): how many arrays are in each other; NULL if there is no element"""
    (value,) = _bound(node, scalars, 1, 1)
    depth = Literal(INT, array_forms.depth(value.type))
    none = scalars.call("is_null", scalars.call("array_length", value, depth))
    return scalars.call("case", none, Literal(INT.optional(), None), depth)


def _bounds(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """array_dims(a): '[1:2][1:3]'"""
    (value,) = _bound(node, scalars, 1, 1)
    lengths = [
        scalars.call("array_length", value, Literal(INT, i)) for i in range(1, array_forms.depth(value.type) + 1)
    ]
    texts = [Literal(STR, "[1:"), Literal(STR, "]")]
    shown = [scalars.call("concat", texts[0], functions.cast(length, STR.optional()), texts[1]) for length in lengths]
    return shown[0] if len(shown) == 1 else scalars.call("concat", *shown)


def _timezone(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """timezone(zone, moment): the same as moment AT TIME ZONE zone"""
    if len(node.expressions) != 2:
        raise scalars.source.error(node, "E_ARITY", "timezone takes a zone and a timestamp")
    return zones.on_attimezone(scalars, exp.AtTimeZone(this=node.expressions[1], zone=node.expressions[0]))


def _array_of(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """make_array(1, 2), as DataFusion writes ARRAY[1, 2]"""
    return array_forms.on_array(scalars, exp.Array(expressions=node.expressions))


def _type_name(of: Callable[[DataType], str]) -> Binder:
    def bind(node: exp.Anonymous, scalars: Scalars) -> Expr:
        return Literal(STR, of(_bound(node, scalars, 1, 1)[0].type))

    return bind


def _labels(first: bool, last: bool) -> Binder:
    """enum_first(x), enum_last(x), enum_range(x): of the type of x, whatever its value"""

    def bind(node: exp.Anonymous, scalars: Scalars) -> Expr:
        (value,) = _bound(node, scalars, 1, 1)
        if value.type.kind != "enum":
            what = f"{node.name.lower()} takes an enum, not {type_names.in_words(value.type)}"
            raise scalars.source.error(node, "E_TYPE", what, "enum_range(NULL::mood)")
        declared = value.type.optional(False)
        if first or last:
            return Literal(declared, declared.names[0 if first else -1])
        return Literal(array(declared), FrozenList(declared.names))

    return bind


def _filled(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """array_fill(x, ARRAY[n]): n times x"""
    value, lengths = _bound(node, scalars, 2, 2)
    if not isinstance(lengths, Literal) or lengths.type.kind != "array" or len(lengths.value or ()) != 1:
        hint = "array_fill(0, ARRAY[3])"
        raise scalars.source.refuse(node, "array_fill takes one constant length here", hint)
    count = lengths.value[0]
    if not isinstance(count, int) or not 0 <= count <= MOST_FILLED:
        raise scalars.source.error(node, "E_RANGE", f"array_fill of {count} elements", f"from 0 to {MOST_FILLED}")
    if count == 0:
        return Literal(array(value.type), FrozenList())
    return scalars.call("array_make", *([value] * count))


MOST_FILLED = 1000


CALLS: dict[str, Binder] = {
    "enum_first": _labels(True, False),
    "enum_last": _labels(False, True),
    "enum_range": _labels(False, False),
    "array_fill": _filled,
    **{name: _array(*how) for name, how in ARRAYS.items()},
    **{f"{head}_{name}": _document(*how) for name, how in DOCUMENTS.items() for head in ("json", "jsonb")},
    **{f"{head}_extract_path": _path("json_path") for head in ("json", "jsonb")},
    **{f"{head}_extract_path_text": _path("json_path_text") for head in ("json", "jsonb")},
    **{f"{head}_build_object": _plain("json_object") for head in ("json", "jsonb")},
    **{f"{head}_build_array": _plain("json_array") for head in ("json", "jsonb")},
    "jsonb_path_exists": _on_path("jsonpath_exists"),
    "jsonb_path_match": _on_path("jsonpath_match"),
    "jsonb_path_query_array": _on_path("jsonpath_array"),
    "jsonb_path_query_first": _on_path("jsonpath_first"),
    "to_json": _to_json,
    "to_jsonb": _to_json,
    "cardinality": _cardinality,
    "array_ndims": _dimensions,
    "array_dims": _bounds,
    "array_lower": _lower_or_upper(False),
    "array_upper": _lower_or_upper(True),
    "row": _row,
    "make_array": _array_of,
    "pg_typeof": _type_name(type_names.in_postgres),
    "arrow_typeof": _type_name(type_names.in_arrow),
    "timezone": _timezone,
}
"""Functions by name."""
