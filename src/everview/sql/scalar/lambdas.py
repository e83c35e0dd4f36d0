"""Higher-order functions of arrays: transform(a, x -> x + 1), filter(a, x -> x > 1).

They are equivalent to a query over the array's elements, in order:

    filter(a, x -> x > 1)        ARRAY(SELECT x FROM unnest(a) WITH ORDINALITY AS _e(x, _n) WHERE x > 1 ORDER BY _n)
    transform(a, (x, i) -> ...)  the same, with _n - 1 in the place of i

so they are maintained like any subquery. Of NULL they are NULL. sqlglot's translation to PostgreSQL loses the order and
returns an empty array for NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.nodes import Expr, Literal
from everview.sql.scalar.handlers import Forms
from everview.sql.scalar.type_names import in_words
from everview.sql.text import consumed_parts

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars

_NUMBER = "_element_number"


def _queried(scalars: Scalars, node: exp.Expr) -> Expr:
    """An array of what a function gives for the elements of another, or of those that it is true for."""
    function = node.args.get("expression")
    if not isinstance(function, exp.Lambda):
        raise scalars.source.refuse(node, "a function of elements is written in place", "filter(a, x -> x > 1)")
    names = [e.name for e in function.expressions]
    if len(names) not in (1, 2):
        raise scalars.source.error(node, "E_ARITY", "a function of elements takes the element, and its place")
    place = exp.Sub(this=exp.column(_NUMBER), expression=exp.Literal.number(1))
    body = function.this
    for name in list(body.find_all(exp.Identifier)):
        whole = name.parent if isinstance(name.parent, exp.Column) else name
        if len(names) == 2 and name.name.lower() == names[1].lower():
            body = _put(body, whole, exp.Paren(this=place.copy()))
        elif name.name.lower() == names[0].lower() and whole is name:
            body = _put(body, whole, exp.Column(this=exp.to_identifier(name.name)))
    whole_array = scalars.bind(node.this.copy())
    if whole_array.type.kind != "array":
        what = f"{scalars.source.written(node)} takes an array, not {in_words(whole_array.type)}"
        raise scalars.source.error(node.this, "E_TYPE", what, "array(1, 2)")
    alias = exp.TableAlias(this=exp.to_identifier("_elements"), columns=[exp.to_identifier(names[0])])
    rows = exp.Unnest(expressions=[node.this], alias=alias, offset=exp.to_identifier(_NUMBER))
    chosen = isinstance(node, exp.ArrayFilter)
    select = exp.Select(
        expressions=[exp.column(names[0]) if chosen else body],
        from_=exp.From(this=rows),
        order=exp.Order(expressions=[exp.Ordered(this=exp.column(_NUMBER), desc=False, nulls_first=False)]),
    )
    if chosen:
        select.set("where", exp.Where(this=body))
    for name in function.expressions:
        consumed_parts.understood(name)
    found = scalars.bind(exp.Array(expressions=[select]))
    if not whole_array.type.nullable:
        return found
    return scalars.call("case", scalars.call("is_null", whole_array), Literal(found.type.optional(), None), found)


def _put(tree: exp.Expr, old: exp.Expr, new: exp.Expr) -> exp.Expr:
    if old is tree:
        return new
    old.replace(new)
    return tree


FORMS: Forms = {exp.ArrayFilter: _queried, exp.Transform: _queried}
