"""Plans that only filter and project one base table, in terms of the table.

Clock followers (`everview.session.clock`) are about the table's own rows. An expression over a query's columns is
therefore rewritten over the table's, and the query is rebuilt over the follower's table, whose additional columns are
passed through.
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
    """The base table that a node is, if it is visible to users."""
    found = compiler.core.catalog.table_of(node) if isinstance(node, plan.Table) else None
    return found if found is not None and relation_of(found).origin is None else None


def over_table(node: plan.Node, exprs: Sequence[Expr]) -> tuple[plan.Node, list[Expr]]:
    """What is below filters and projections, and expressions over the node rewritten over that."""
    found = list(exprs)
    while isinstance(node, (plan.Filter, plan.Project)):
        if isinstance(node, plan.Project):
            mapping = dict(enumerate(node.exprs))
            found = [e.remap(mapping) for e in found]
        node = node.child
    return node, found


def rebuilt(node: plan.Node, base: plan.Node, more: int) -> plan.Node:
    """The same filters and projections over another base, whose last columns are passed through."""
    if isinstance(node, plan.Filter):
        return plan.Filter(rebuilt(node.child, base, more), node.predicate)
    if isinstance(node, plan.Project):
        below = rebuilt(node.child, base, more)
        return plan.Project(below, (*node.exprs, *joins.refs(below.types)[len(below.types) - more :]))
    return base
