"""WATERMARK FOR a column of a table, and EMIT ON WINDOW CLOSE; see `everview.session.clock.watermarks`.

sqlglot supports neither, so both are recorded while the text is scanned (`everview.sql.text.statement_reader`). The
expression after `WATERMARK FOR ts AS` is parsed as a separate query, at its original position.

EMIT ON WINDOW CLOSE is a property of the windows in FROM: each of TUMBLE, HOP, CUMULATE and SESSION returns the rows of
closed windows, by a join with the table of closed ends. The rest of the query is unchanged. Windows must be over a
table with a watermark, possibly through filters and projections, because the table's rows determine which windows there
are.

Without such windows, each row is its own: it is told once the watermark has passed its time, since then no other row
comes before it. The query may filter, compute, and join it with constants; functions `OVER` a window of time must look
back only (`told_once`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.functions import call
from everview.expr.nodes import ColumnRef, Expr
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan import nodes as plan
from everview.plan.windows import Window
from everview.session.clock.watermarks import ClosedWindows, Watermark
from everview.sql.scalar.time_windows import moved, steps
from everview.sql.select.base_tables import base_table, over_table
from everview.sql.select.scopes import Relation

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table
    from everview.sql.select.compiler import Compiler

MOMENTS = ("date", "timestamp", "timestamptz")
MOST_ENDS = 100
"""Maximum number of windows per row for EMIT ON WINDOW CLOSE."""


def closed(compiler: Compiler, made: plan.Node, below: plan.Node, moment: Expr, ends: list[Expr], strict: bool,
           at: exp.Expr) -> plan.Node:  # fmt: skip
    """Of the windows in the last columns of a node, those that are closed; `ends` are those of a row of `below`."""
    if len(ends) > MOST_ENDS:
        what = f"every row would be in up to {len(ends)} windows"
        raise compiler.source.error(at, "E_RANGE", what, f"{MOST_ENDS} at most with EMIT ON WINDOW CLOSE")
    table, (time, *wanted) = _of_table(compiler, below, [moment, *ends], at)
    watermark = _watermark(compiler.core, table)
    if watermark is None or watermark.time != time:
        raise compiler.source.refuse(
            at,
            f"EMIT ON WINDOW CLOSE needs a watermark for the windows' time in {relation_of(table).label}",
            "CREATE TABLE ... (..., WATERMARK FOR ts AS ts - INTERVAL '5 seconds')",
        )
    mirror = _closing(compiler.core, table, tuple(wanted), strict)
    compiler.used[relation_of(mirror).label] = None
    width = len(made.types)
    return joins.take(plan.Join(made, relation_of(mirror).node, (width - 1,), (0,)), range(width))


def passed(compiler: Compiler, relation: Relation, at: exp.Expr) -> Relation:
    """The rows of a base table that its watermark has passed; the relation as it is if it has none. A row is a window
    of a microsecond.
    """
    table = base_table(compiler, relation.node)
    watermark = None if table is None else _watermark(compiler.core, table)
    if watermark is None:
        return relation
    compiler.emitted = True
    node, time = relation.node, watermark.time
    if time.type.nullable:
        node = plan.Filter(node, call("is_not_null", time))
    end = moved(time, steps(1))
    made = plan.Project(node, (*joins.refs(node.types), end))
    told = closed(compiler, made, node, time, [end], False, at)
    return replace(relation, node=joins.take(told, range(len(node.types))))


def told_once(compiler: Compiler, node: plan.Node) -> bool:
    """Whether rows over `passed` ones stay as they are: whether their query only filters and computes, and looks back
    in time.
    """
    told = {id(relation_of(f.mirror).node) for f in _closings(compiler.core)}
    one = (plan.Project, plan.Filter, plan.FlatMap, plan.Constant, plan.Table)
    for each in node.walk():
        if isinstance(each, plan.Join):
            known = any(isinstance(side, plan.Constant) or id(side) in told for side in (each.left, each.right))
        elif isinstance(each, Window):
            known = _looks_back(compiler, each)
        else:
            known = isinstance(each, one)
        if not known:
            return False
    return True


def _looks_back(compiler: Compiler, window: Window) -> bool:
    """Whether a row's functions depend on rows before it and on those of its moment: the watermark has passed both."""
    if not window.order or window.order[0][1] or not _is_time(compiler, window.child, window.order[0][0]):
        return False
    ranks = ("row_number", "rank", "dense_rank", "lag")
    return all(
        c.kind in ranks or (c.kind != "lead" and c.frame.end is not None and c.frame.end <= 0) for c in window.calls
    ) and not {c.kind for c in window.calls} & {"ntile", "percent_rank", "cume_dist"}


def _is_time(compiler: Compiler, node: plan.Node, column: int) -> bool:
    """Whether a column is that of the watermark of the table it comes from."""
    while True:
        if isinstance(node, plan.Project):
            expr = node.exprs[column]
            if not isinstance(expr, ColumnRef):
                return False
            node, column = node.child, expr.index
        elif isinstance(node, (plan.Filter, Window)):
            node = node.child
        elif isinstance(node, plan.Join) and column < len(node.left.types):
            node = node.left
        else:
            table = base_table(compiler, node)
            watermark = None if table is None else _watermark(compiler.core, table)
            time = None if watermark is None else watermark.time
            return isinstance(time, ColumnRef) and time.index == column


def _watermark(core: Core, table: Table) -> Watermark | None:
    return next((f for f in core.clock.agenda.of(table) if isinstance(f, Watermark)), None)


def _closings(core: Core) -> list[ClosedWindows]:
    tables = core.catalog.tables.values()
    return [f for table in tables for f in core.clock.agenda.of(table) if isinstance(f, ClosedWindows)]


def _closing(core: Core, table: Table, ends: tuple[Expr, ...], strict: bool) -> Table:
    """The closed ends of such windows; shared by identical requests."""
    for f in core.clock.agenda.of(table):
        if isinstance(f, ClosedWindows) and (f.ends, f.strict) == (ends, strict):
            return f.mirror
    made = ClosedWindows(core, table, ends, strict)
    core.definitions.follow(made)
    return made.mirror


def _of_table(compiler: Compiler, node: plan.Node, exprs: list[Expr], at: exp.Expr) -> tuple[Table, list[Expr]]:
    """The base table that a node filters and projects, and expressions over the node as ones over the table."""
    base, found = over_table(node, exprs)
    table = base_table(compiler, base)
    if table is None:
        raise compiler.source.refuse(at, "EMIT ON WINDOW CLOSE is for windows over a base table with a watermark")
    return table, found
