"""UNION, EXCEPT and INTERSECT."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.nodes import Literal
from everview.plan import joins
from everview.plan.nodes import Negate, Node, Project, Threshold, Union
from everview.sql.select import (
    recursion,
    row_types,
)
from everview.sql.select.query import Env, Query
from everview.sql.select.scopes import Outer
from everview.types import INT

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler


WHOLE = ("with_", "order", "limit", "offset")
"""Clauses of a whole set operation: with one of them, the preceding chain is a separate query."""


def bound(compiler: Compiler, node: exp.SetOperation, env: Env, outer: Outer | None) -> Query:
    """A chain of set operations, which sqlglot nests to the left: processed iteratively from its first branch."""
    chain = [node]
    while isinstance(chain[-1].this, exp.SetOperation) and not any(chain[-1].this.args.get(a) for a in WHOLE):
        chain.append(chain[-1].this)
    found = _branch(compiler, chain[-1].this, env, outer)
    for operation in reversed(chain):
        compiler.source.only(operation, "this", "expression", "distinct", "by_name", *WHOLE)
        found = _combined(compiler, operation, found, _branch(compiler, operation.expression, env, outer))
    if isinstance(found, recursion.Untyped):
        raise found
    return found


def _branch(compiler: Compiler, node: exp.Expr, env: Env, outer: Outer | None) -> Query | recursion.Untyped:
    """One side of a set operation; raises if its columns depend on an undetermined recursion."""
    try:
        return compiler.query(node, env, outer)
    except recursion.Untyped as missing:
        return missing


def _combined(
    compiler: Compiler, node: exp.SetOperation, left: Query | recursion.Untyped, right: Query | recursion.Untyped
) -> Query | recursion.Untyped:
    if isinstance(left, recursion.Untyped) or isinstance(right, recursion.Untyped):
        first = left if isinstance(right, recursion.Untyped) else right
        if isinstance(first, recursion.Untyped):
            return first
        plain = joins.take(first.node, range(first.width))
        return replace(first, node=plain, order=(), at_most_one=False, exactly_one=False)
    if node.args.get("by_name"):
        left, right = _by_name(compiler, node, left, right)
    if left.width != right.width:
        raise compiler.source.error(
            node, "E_WIDTH", f"one side has {len(left.names)} columns, the other {len(right.names)}"
        )
    sides = row_types.unified(compiler, [joins.take(q.node, range(q.width)) for q in (left, right)], node)
    return Query(combine(node, *sides), left.names, left.context)


def _by_name(compiler: Compiler, node: exp.SetOperation, left: Query, right: Query) -> tuple[Query, Query]:
    """UNION BY NAME: both sides with the columns of either, NULL where a side has none of that name."""
    if not isinstance(node, exp.Union):
        raise compiler.source.refuse(node, "only UNION goes BY NAME", "name the columns in the same order")
    for query in (left, right):
        for name in query.names:
            if [n.lower() for n in query.names].count(name.lower()) > 1:
                raise compiler.source.error(node, "E_DUPLICATE", f"two columns are called {name}", "name them with AS")
    here = [n.lower() for n in left.names]
    names = (*left.names, *(n for n in right.names if n.lower() not in here))
    return _with_names(left, names), _with_names(right, names)


def combine(node: exp.SetOperation, left: Node, right: Node) -> Node:
    """UNION, EXCEPT and INTERSECT, of bags (ALL) or of sets."""
    if isinstance(node, exp.Union):
        rows = (*left.inputs, right) if isinstance(left, Union) else (left, right)
        both = Union(rows)
        return Threshold(_canonical(both), "distinct") if node.args.get("distinct") else both
    left, right = _canonical(left), _canonical(right)
    if node.args.get("distinct"):
        left, right = Threshold(left, "distinct"), Threshold(right, "distinct")
    left_over = Threshold(Union((left, Negate(right))), "positive")
    return left_over if isinstance(node, exp.Except) else Union((left, Negate(left_over)))


def _with_names(query: Query, names: tuple[str, ...]) -> Query:
    """The query's outputs in the order of names, NULL for missing ones."""
    have = [n.lower() for n in query.names]
    refs = joins.refs(query.node.types)
    null = Literal(INT.optional(), None)
    chosen = [refs[query.context + have.index(n.lower())] if n.lower() in have else null for n in names]
    return Query(Project(query.node, (*refs[: query.context], *chosen)), names, query.context)


def _canonical(node: Node) -> Node:
    """Equal floats with equal codes."""
    exprs = tuple(joins.canonical(e) for e in joins.refs(node.types))
    return node if exprs == joins.refs(node.types) else Project(node, exprs)
