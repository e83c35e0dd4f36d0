"""ARRAY(SELECT ...): the rows of a query as an array, in order.

It is rewritten as an aggregate over the query, with its sort keys as columns,

    ARRAY(SELECT x FROM t ORDER BY y LIMIT 3)
    coalesce((SELECT array_agg(list.item ORDER BY list.order1) FROM
              (SELECT x AS item, y AS order1 FROM t ORDER BY y LIMIT 3) AS list), '{}')

so it may be correlated, and is maintained like any other aggregate.
"""

from __future__ import annotations

from sqlglot import exp

from everview.sql.text.error_positions import Source

_MADE = "array_query"
LIST, ITEM = "list", "item"


def aggregated(node: exp.Array, source: Source) -> exp.Subquery:
    """The scalar query for an ARRAY(query); created once, because an expression may be bound several times."""
    made = node.meta.get(_MADE)
    if made is None:
        made = node.meta[_MADE] = _made(node, source)
    found: exp.Subquery = made
    return found


def _made(node: exp.Array, source: Source) -> exp.Subquery:
    query: exp.Expr = node.expressions[0].unnest()
    first = query
    while isinstance(first, exp.SetOperation):
        first = first.this.unnest()
    if not isinstance(first, exp.Select) or len(first.expressions) != 1 or first.is_star:
        raise source.error(node, "E_WIDTH", "ARRAY(query) takes a query of one column", "name it: ARRAY(SELECT x ...)")
    output = first.expressions[0]
    name = output.alias if isinstance(output, exp.Alias) else ITEM
    keys = _ordered(query, name) if isinstance(query, exp.Select) else _by_item(query, name)
    if not isinstance(output, exp.Alias):
        first.expressions[0] = _named(output, ITEM)
    listed: exp.Expr = exp.column(name, table=LIST)
    listed = exp.Order(this=listed, expressions=keys) if keys else listed
    inside = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(LIST)))
    outer = exp.Select(expressions=[exp.ArrayAgg(this=listed)], from_=exp.From(this=inside))
    return exp.Subquery(this=outer)


def _named(expr: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=expr, alias=exp.to_identifier(name))


def _ordered(query: exp.Select, name: str) -> list[exp.Expr]:
    """The sort keys of the items: outputs of the query, added to it if necessary."""
    keys: list[exp.Expr] = []
    order = query.args.get("order")
    output = query.expressions[0]
    for i, key in enumerate(order.expressions if order is not None else []):
        if _is_output(key.this, output):
            column = exp.column(name, table=LIST)
        else:
            column = exp.column(f"order{i}", table=LIST)
            query.append("expressions", _named(key.this.copy(), f"order{i}"))
        keys.append(exp.Ordered(this=column, desc=key.args.get("desc"), nulls_first=key.args.get("nulls_first")))
    return keys


def _is_output(key: exp.Expr, output: exp.Expr) -> bool:
    """Whether the query is ordered by its output: by number, name or expression."""
    if isinstance(key, exp.Literal) and key.name == "1":
        return True
    if isinstance(output, exp.Alias):
        return key == output.this or (isinstance(key, exp.Column) and not key.table and key.name == output.alias)
    return key == output


def _by_item(query: exp.Expr, name: str) -> list[exp.Expr]:
    """The order of a set operation, which is by its output."""
    order = query.args.get("order")
    return [
        exp.Ordered(
            this=exp.column(name, table=LIST), desc=key.args.get("desc"), nulls_first=key.args.get("nulls_first")
        )
        for key in (order.expressions if order is not None else [])
    ]
