"""DISTINCT, ORDER BY and LIMIT.

An ORDER BY without LIMIT has no meaning for a view, which is a bag; with one it is a maintained top-k, ties broken by
the remaining columns. Columns needed only for the order come after the others (`Query.width` is the number of those),
so that the result of a SELECT can be sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.codes.digits import whole_number
from everview.errors import did_you_mean
from everview.expr import functions
from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.plan import joins
from everview.plan.nodes import Filter, Node, Project, Threshold, TopK
from everview.plan.windows import Window, WindowCall
from everview.sql.scalar.scalars import Scalars
from everview.sql.select import outputs
from everview.sql.select.query import Query
from everview.sql.select.row_counts import ALL_ROWS, count
from everview.sql.select.sort_keys import sort_keys
from everview.types import INT

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler


def finished(
    compiler: Compiler, select: exp.Select, scalars: Scalars, query: Query, items: list[tuple[str, Expr]]
) -> Query:
    """A SELECT with its outputs, DISTINCT and order applied."""
    given = [e for _, e in items]
    distinct = select.args.get("distinct")
    on = distinct.args.get("on") if distinct is not None else None
    order = select.args.get("order")
    sorting: list[tuple[Expr, bool]] = []
    for ordered in order.expressions if order is not None else []:
        if _is_all(compiler, ordered, given):
            sorting += [pair for e in given for pair in sort_keys(e, ordered)]
            continue
        key = outputs.order_key(compiler, ordered.this, scalars, items)
        if distinct is not None and on is None and key not in given:
            raise compiler.source.error(ordered, "E_ORDER", "with DISTINCT, ORDER BY can only use outputs")
        sorting += sort_keys(key, ordered)
    for key in on.expressions if on is not None else []:
        outputs.refuse_constant(compiler, key, "DISTINCT ON")
    firsts = [scalars.bind(e) for e in on.expressions] if on is not None else []
    context = joins.refs(scalars.scope.relation.node.types)[: query.context]
    if distinct is not None and on is None:
        given = [joins.canonical(e) for e in given]
    columns = list(dict.fromkeys([*(e for e, _ in sorting), *firsts]))
    extra = [e for e in columns if e not in given]
    exprs = [*context, *given, *extra]
    # subqueries in the outputs have joined their columns to the relation by now
    node: Node = Project(scalars.scope.relation.node, tuple(exprs))
    if distinct is not None and on is None:
        node = Threshold(node, "distinct")
    place = {e: i for i, e in reversed(list(enumerate(exprs))) if i >= query.context}
    ordering = tuple(
        (place[joins.canonical(e) if distinct is not None and on is None else e], down) for e, down in sorting
    )
    if on is not None:
        keys = (*range(query.context), *(place[e] for e in firsts))
        node = TopK(node, keys, ordering, 1)
    return _top(compiler, select, replace(query, node=node, order=ordering))


_ORDER_BY_ALL = frozenset({"duckdb", "spark", "databricks", "snowflake"})


def _is_all(compiler: Compiler, ordered: exp.Ordered, among: Sequence[object]) -> bool:
    """ORDER BY ALL: by every output, from left to right."""
    if compiler.source.dialect not in _ORDER_BY_ALL or not among:
        return False
    key = ordered.this
    plain = isinstance(key, exp.Var) or (isinstance(key, exp.Column) and not key.table and not key.this.args["quoted"])
    return plain and key.name.upper() == "ALL"


def limited(compiler: Compiler, node: exp.Expr, query: Query) -> Query:
    """ORDER BY and LIMIT of a set operation or of brackets: outputs only."""
    order = node.args.get("order")
    if order is None:
        return _top(compiler, node, query)
    sorting: list[tuple[Expr, bool]] = []
    types = query.node.types
    for ordered in order.expressions:
        key = ordered.this
        if _is_all(compiler, ordered, query.names):
            refs = joins.refs(types)[query.context : query.width]
            sorting += [pair for e in refs for pair in sort_keys(e, ordered)]
            continue
        if isinstance(key, exp.Literal) and not key.is_string:
            outputs.numbered(compiler, key, [exp.Null()] * len(query.names))
            at = whole_number(key.name) - 1
        else:
            names = [n.lower() for n in query.names]
            if not isinstance(key, exp.Column) or key.table or key.name.lower() not in names:
                raise compiler.source.error(
                    ordered,
                    "E_ORDER",
                    "ORDER BY after a set operation names outputs",
                    did_you_mean(key.name, query.names),
                )
            at = names.index(key.name.lower())
        sorting += sort_keys(ColumnRef(types[query.context + at], query.context + at), ordered)
    refs = joins.refs(types)[: query.width]
    extra = [e for e in dict.fromkeys(e for e, _ in sorting) if e not in refs]
    exprs = [*refs, *extra]
    widened = Project(query.node, tuple(exprs)) if extra or len(types) > query.width else query.node
    ordering = tuple((exprs.index(e), down) for e, down in sorting)
    return _top(compiler, node, replace(query, node=widened, order=ordering))


def _top(compiler: Compiler, node: exp.Expr, query: Query) -> Query:
    clause = node.args.get("limit")
    limit, offset = count(clause, compiler), count(node.args.get("offset"), compiler)
    if limit is None and offset is None:
        return query
    options = clause.args.get("limit_options") if clause is not None else None
    if clause is not None and options is not None and options.args.get("with_ties") and limit:
        return _with_ties(compiler, clause, query, limit, offset or 0)
    top = TopK(query.node, tuple(range(query.context)), query.order, ALL_ROWS if limit is None else limit, offset or 0)
    few = limit is not None and limit <= 1
    return replace(query, node=top, at_most_one=query.at_most_one or few, exactly_one=False)


def _with_ties(compiler: Compiler, clause: exp.Expr, query: Query, limit: int, offset: int) -> Query:
    """The first rows and those tied with the last of them: by rank."""
    if not query.order:
        raise compiler.source.error(clause, "E_ORDER", "WITH TIES needs ORDER BY")
    width = len(query.node.types)
    calls = (WindowCall("rank", INT), WindowCall("row_number", INT))
    ranked = Window(query.node, tuple(range(query.context)), query.order, calls)
    rank, number = ColumnRef(INT, width), ColumnRef(INT, width + 1)
    kept = [functions.call("le", rank, Literal(INT, limit + offset))]
    kept += [functions.call("gt", number, Literal(INT, offset))] if offset else []
    node = joins.take(Filter(ranked, functions.conjunction(kept)), range(width))
    return replace(query, node=node, at_most_one=False, exactly_one=False)
