"""Rows and maps: construction and field access."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr import functions
from everview.expr.nodes import Expr, Literal
from everview.sql.scalar import constants
from everview.sql.scalar.handlers import Forms
from everview.sql.scalar.type_names import in_words
from everview.types import INT, struct

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


def on_dot(scalars: Scalars, node: exp.Dot) -> Expr:
    """(row).field"""
    if not isinstance(node.expression, exp.Identifier):
        raise scalars.refused(node)
    value = scalars.bind(node.this)
    if value.type.kind != "struct":
        raise scalars.source.error(node, "E_TYPE", f"{in_words(value.type)} has no fields", "rows have: (r).x")
    wanted = node.expression.name
    have = [n.lower() for n in value.type.names]
    if wanted.lower() not in have:
        hint = f"its fields are {', '.join(value.type.names)}"
        raise scalars.source.error(node.expression, "E_COLUMN", f"the row has no field {wanted}", hint)
    return scalars.call("struct_get", value, Literal(INT, have.index(wanted.lower())))


def row(scalars: Scalars, items: list[Expr], names: tuple[str, ...] = ()) -> Expr:
    """ROW(1, 'a'): fields f1, f2, ... unless they have names."""
    made = functions.call("struct_make", *items)
    if names:
        made = replace(made, type=struct(names, tuple(i.type for i in items)))
    return constants.folded(made, scalars.compiler.interner)


def values(scalars: Scalars, nodes: Sequence[exp.Expr]) -> list[Expr]:
    """The values of ROW(a, t.*), where a star stands for each of the table's columns."""
    found: list[Expr] = []
    for node in nodes:
        value = scalars.bind(node)
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star) and value.type.kind == "struct":
            found += [scalars.call("struct_get", value, Literal(INT, i)) for i in range(len(value.type.names))]
        else:
            found.append(value)
    return found


def on_struct(scalars: Scalars, node: exp.Struct) -> Expr:
    """{'x': 1}"""
    tokens = scalars.source.tokens
    before = [t.text.upper() for t, after in itertools.pairwise(tokens) if after.text == "{"]
    if "MAP" in before:
        raise scalars.source.refuse(node, "MAP {...} is not supported", "map(ARRAY['a'], ARRAY[1])")
    names: list[str] = []
    items: list[Expr] = []
    for field in node.expressions:
        if not isinstance(field, exp.PropertyEQ):
            raise scalars.source.refuse(node, "a row has named values", "{'x': 1}, or ROW(1, 2)")
        names.append(field.this.name)
        items.append(scalars.bind(field.expression))
    if len({*names}) < len(names):
        raise scalars.source.error(node, "E_DUPLICATE", "two fields have the same name")
    return row(scalars, items, tuple(names))


def on_map(scalars: Scalars, node: exp.Map) -> Expr:
    """map(ARRAY[keys], ARRAY[values])"""
    return scalars.call("map_make", scalars.bind(node.args["keys"]), scalars.bind(node.args["values"]))


def on_tuple(scalars: Scalars, node: exp.Tuple) -> Expr:
    """(1, 'a'): the same as ROW(1, 'a')"""
    return row(scalars, values(scalars, node.expressions))


FORMS: Forms = {
    exp.Tuple: on_tuple,
    exp.Dot: on_dot,
    exp.Struct: on_struct,
    exp.Map: on_map,
}
