"""What a plan makes of one base table by filters and projections alone, looked at from the table.

What follows a table (`everview.session.clock`) is about the table's own rows. So an expression over a query's
columns is put in terms of the table's, and the query is built again over the follower's table, whose further columns
are passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from everview.expr.nodes import Expr
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan import nodes as plan

if TYPE_CHECKING:
    from everview.session.table import Table
    from everview.sql.select.compiler import Compiler


def base_table(compiler: Compiler, node: plan.Node) -> Table | None:
    """The base table that a node is, if it is one that people see."""
    found = compiler.core.catalog.table_of(node) if isinstance(node, plan.Table) else None
    return found if found is not None and relation_of(found).origin is None else None


def over_table(node: plan.Node, exprs: Sequence[Expr]) -> tuple[plan.Node, list[Expr]]:
    """What is below filters and projections, and expressions over the node as ones over that."""
    found = list(exprs)
    while isinstance(node, (plan.Filter, plan.Project)):
        if isinstance(node, plan.Project):
            mapping = dict(enumerate(node.exprs))
            found = [e.remap(mapping) for e in found]
        node = node.child
    return node, found


def rebuilt(node: plan.Node, base: plan.Node, more: int) -> plan.Node:
    """The same filters and projections over another base, whose last columns are passed on."""
    if isinstance(node, plan.Filter):
        return plan.Filter(rebuilt(node.child, base, more), node.predicate)
    if isinstance(node, plan.Project):
        below = rebuilt(node.child, base, more)
        return plan.Project(below, (*node.exprs, *joins.refs(below.types)[len(below.types) - more :]))
    return base
