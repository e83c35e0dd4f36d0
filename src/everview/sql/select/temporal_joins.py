"""Temporal joins: FOR SYSTEM_TIME AS OF.

    JOIN rate FOR SYSTEM_TIME AS OF o.at AS r ON r.currency = o.currency

joins each row with the version of its partner valid at the row's own time. The versions are the rows of a table with a
watermark: a row is valid from its time until the next of the same join key. That is an ASOF join
(`everview.sql.select.asof`), so late or corrected versions correct the result.

    JOIN rate FOR SYSTEM_TIME AS OF PROCTIME() AS r ON r.currency = o.currency

joins each row with the table's contents when the row arrives, for good (`everview.session.clock.lookups`). The left
must be a base table, possibly through filters and projections, because only a table's rows have an arrival time. In a
one-off SELECT, it is the current table. AS OF o.p means the same if p is the column of o's table that holds the time of
arrival (p AS PROCTIME(), or DEFAULT now()), and the other table has no versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr import functions
from everview.expr.functions import call
from everview.expr.nodes import ColumnRef, Expr
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan import nodes as plan
from everview.session.changes.defaults import DEFAULT
from everview.session.clock.lookups import LookupJoin
from everview.session.clock.watermarks import Watermark
from everview.sql.scalar.scalars import Scalars
from everview.sql.scalar.type_names import in_words
from everview.sql.select import asof
from everview.sql.select.base_tables import base_table, over_table, rebuilt
from everview.sql.select.conditions import conjuncts, outer_join, split
from everview.sql.select.scopes import Relation, Scope
from everview.types import TIMESTAMP

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table
    from everview.sql.select.compiler import Compiler
    from everview.sql.select.from_clause import FromClause

MOMENTS = ("date", "timestamp", "timestamptz")


def version_of(node: exp.Expr) -> exp.Expr | None:
    """The FOR SYSTEM_TIME AS OF of a table in FROM."""
    return node.args.get("version") if isinstance(node, exp.Table) else None


def is_processing_time(version: exp.Expr) -> bool:
    """Whether it is the time at which rows come."""
    moment = version.expression
    return isinstance(moment, exp.Anonymous) and moment.name.lower() == "proctime" and not moment.expressions


def joined(
    clause: FromClause, right: Relation, version: exp.Expr, on: exp.Expr | None, how: str, at: exp.Join
) -> plan.Node:
    """What is joined so far with a table as it was."""
    source = clause.source
    source.only(version, "this", "expression", "kind")
    if str(version.args.get("kind")).upper() != "AS OF" or str(version.this).upper() != "TIMESTAMP":
        raise source.refuse(version, "tables are FOR SYSTEM_TIME AS OF one time")
    if how not in ("inner", "left") or on is None or at.method:
        raise source.refuse(at, "a join FOR SYSTEM_TIME AS OF is an inner or left one with ON")
    clause.settle()
    left = clause.joined()
    both = Relation(plan.Join(left.node, right.node, (), ()), left.fields + right.fields)
    scope = Scope(both, source, clause.outer)
    conditions = [Scalars(clause.compiler, scope, clause.env).condition(part) for part in conjuncts(on)]
    if not is_processing_time(version) and not _is_arrival(version, clause, left, right):
        conditions.append(moment(version, clause, right, left))
        node = asof.joined(left.node, right.node, conditions, how, (), split)
        if node is None:
            raise source.error(on, "E_JOIN", "a join FOR SYSTEM_TIME AS OF has nothing but equalities in ON")
        return node
    if not clause.compiler.standing:
        return outer_join(left.node, right.node, conditions, how)
    return looked_up(clause, left, right, split(conditions, len(left.fields), "inner")[0], how, at)


def _is_arrival(version: exp.Expr, clause: FromClause, left: Relation, right: Relation) -> bool:
    """Whether it is a column that holds the time of arrival, and the right is no table of versions."""
    compiler = clause.compiler
    if not isinstance(version.expression, exp.Column) or _version_time(compiler, right) is not None:
        return False
    bound = Scalars(compiler, Scope(left, clause.source, clause.outer), clause.env).bind(version.expression)
    base, (column,) = over_table(left.node, (bound,))
    table = base_table(compiler, base)
    if table is None or not isinstance(column, ColumnRef):
        return False
    missing = compiler.core.defaults.of(table).get(relation_of(table).columns[column.index].name)
    return missing is not None and missing.kind == DEFAULT and missing.text.lower() in _ARRIVAL


_ARRIVAL = ("now()", "current_timestamp", "current_timestamp()", "localtimestamp", "proctime()")
"""Defaults that are the time of arrival"""


def moment(version: exp.Expr, clause: FromClause, right: Relation, left: Relation) -> Expr:
    """The condition that the partner's time is not after the row's."""
    source = clause.source
    bound = Scalars(clause.compiler, Scope(left, source, clause.outer), clause.env).bind(version.expression)
    if bound.type.kind not in MOMENTS:
        raise source.error(
            version.expression,
            "E_TYPE",
            f"a table is as of a date or timestamp, not {in_words(bound.type)}",
            "write a column of the left, or PROCTIME()",
        )
    time = versions(clause.compiler, right, version)
    width = len(left.fields)
    there = time.remap({i: ColumnRef(t, width + i) for i, t in enumerate(right.node.types)})
    return call("ge", functions.cast(bound, TIMESTAMP), there)


def versions(compiler: Compiler, right: Relation, at: exp.Expr) -> Expr:
    """The time of a table's rows: that of its watermark."""
    found = _version_time(compiler, right)
    if found is None:
        raise compiler.source.refuse(
            at,
            "FOR SYSTEM_TIME AS OF needs a table of versions, which says its rows' time",
            "CREATE TABLE rate (..., at timestamp, WATERMARK FOR at AS at); or use ASOF JOIN",
        )
    return found


def _version_time(compiler: Compiler, right: Relation) -> Expr | None:
    table = base_table(compiler, right.node)
    if table is None:
        return None
    return next((f.time for f in compiler.core.clock.agenda.of(table) if isinstance(f, Watermark)), None)


def looked_up(
    clause: FromClause, left: Relation, right: Relation, condition: joins.Condition, how: str, at: exp.Expr
) -> plan.Node:
    """The left with the partners that its rows had when they came."""
    compiler = clause.compiler
    other = base_table(compiler, right.node)
    by = [k.index if isinstance(k, ColumnRef) else -1 for k in condition.right]
    if other is None or (condition.residual is not None and how != "inner") or not by or min(by) < 0:
        raise compiler.source.refuse(
            at,
            "a look-up at PROCTIME() is in a base table, by equalities with its columns",
            "cast the left's side to the column's type; put other conditions into WHERE",
        )
    base, keys = over_table(left.node, condition.left)
    table = base_table(compiler, base)
    if table is None:
        raise compiler.source.refuse(
            at,
            "a look-up at PROCTIME() is for the rows of a base table",
            "look up first, then join, in a derived table",
        )
    mirror = _mirror(compiler.core, table, tuple(keys), other, tuple(by))
    compiler.used[relation_of(mirror).label] = None
    width, more = len(base.types), len(right.node.types)
    node: plan.Node = relation_of(mirror).node
    if how == "inner":
        node = plan.Filter(node, ColumnRef(node.types[width + more], width + more))
    found = rebuilt(left.node, joins.take(node, range(width + more)), more)
    return found if condition.residual is None else plan.Filter(found, condition.residual)


def _mirror(core: Core, table: Table, keys: tuple[Expr, ...], other: Table, by: tuple[int, ...]) -> Table:
    for f in core.clock.agenda.of(table):
        if isinstance(f, LookupJoin) and (f.keys, f.other, f.by) == (keys, other, by):
            return f.mirror
    made = LookupJoin(core, table, keys, other, by)
    core.definitions.follow(made)
    return made.mirror
