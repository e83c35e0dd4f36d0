"""array_agg, string_agg, jsonb_agg and jsonb_object_agg over windows: the values of a frame as one value.

A window lists the values of each frame as an array (`everview.dataflow.windows`); a text or a JSON value is made of it
by ordinary functions. As in PostgreSQL, DISTINCT and ORDER BY inside them are not possible: the values are in the order
of the window. A frame without rows, or none that FILTER keeps, gives NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlglot import exp

from everview.expr import functions
from everview.expr.functions import call
from everview.expr.nodes import Expr, Literal
from everview.plan.windows import WindowKind
from everview.sql.scalar.scalars import Scalars
from everview.sql.scalar.type_names import in_words
from everview.sql.text.call_names import LISTS
from everview.types import BOOL, INT, JSON, STR, DataType, array


class Listed(NamedTuple):
    """What is listed: the kind and type of the window's call, its values, and what is made of its column."""

    kind: WindowKind
    type: DataType
    value: Expr
    put: Callable[[Expr], Expr] | None = None
    condition: Expr | None = None


def is_list(node: exp.Expr) -> bool:
    """Whether a call lists values."""
    named = isinstance(node, exp.AnonymousAggFunc) and node.name in LISTS
    return named or isinstance(node, (exp.ArrayAgg, exp.GroupConcat))


def listed(node: exp.Expr, condition: exp.Expr | None, scalars: Scalars) -> Listed:
    """A call bound to its window's rows."""
    given = [node.this] if isinstance(node, (exp.ArrayAgg, exp.GroupConcat)) else list(node.expressions)
    if any(isinstance(g, (exp.Distinct, exp.Order)) for g in given):
        what = "DISTINCT and ORDER BY inside a window's aggregate are not supported"
        raise scalars.source.refuse(node, what, "the values are in the order of the window")
    test = None if condition is None else scalars.condition(condition)
    if isinstance(node, exp.GroupConcat):
        return _text(node, test, scalars)
    if isinstance(node, exp.ArrayAgg):
        scalars.source.only(node, "this", "nulls_excluded")
        value = scalars.bind(node.this)
        return Listed("array_agg", array(value.type).optional(), value, None, test)
    pairs = "object" in node.name
    if len(given) != 1 + pairs:
        wants = "a key and a value" if pairs else "one value"
        raise scalars.source.error(node, "E_ARITY", f"{node.name} takes {wants}")
    bound = [scalars.bind(g) for g in given]
    if not pairs:
        kind = array(JSON).optional()
        return Listed("array_agg", kind, call("to_json", bound[0]), lambda found: call("to_json", found), test)
    return Listed("object_agg", JSON.optional(), call("json_array", _key(bound[0], test), bound[1]), None, test)


def _key(key: Expr, test: Expr | None) -> Expr:
    """A key of an object as a text. A row with NULL fails, as in PostgreSQL, unless FILTER leaves it out."""
    if not key.type.nullable:
        return functions.cast(key, STR)
    text = call("coalesce", functions.cast(key, STR.optional()), Literal(STR, ""))
    fails = functions.cast(functions.cast(text, INT), STR)  # '' is no number
    is_null = call("is_null", key)
    return call("case", is_null if test is None else call("and", is_null, test), fails, text)


def _text(node: exp.GroupConcat, test: Expr | None, scalars: Scalars) -> Listed:
    """string_agg(x, separator): NULLs are left out."""
    scalars.source.only(node, "this", "separator")
    value = scalars.bind(node.this)
    if value.type.kind != "str":
        what = f"there is no {scalars.source.written(node)} of {in_words(value.type)}"
        raise scalars.source.error(node, "E_TYPE", what, "cast it first")
    separator = scalars.bind(node.args["separator"]) if node.args.get("separator") else Literal(STR, ",")
    if not isinstance(separator, Literal) or separator.type.kind != "str" or separator.value is None:
        raise scalars.source.error(node, "E_LITERAL", "the separator must be a constant text")
    tests = [test] if test is not None else []
    tests += [call("is_not_null", value)] if value.type.nullable else []
    known = functions.conjunction(tests) if tests else None
    if known is not None and known.type.nullable:
        known = call("coalesce", known, Literal(BOOL, False))
    kind = array(value.type).optional()
    return Listed("array_agg", kind, value, lambda found: call("array_to_string", found, separator), known)
