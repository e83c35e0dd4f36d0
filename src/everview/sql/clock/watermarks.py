"""WATERMARK FOR a column of a table, and EMIT ON WINDOW CLOSE; see `everview.session.clock.watermarks`.

sqlglot supports neither, so both are recorded while the text is scanned (`everview.sql.text.statement_reader`). The
expression after `WATERMARK FOR ts AS` is parsed as a separate query, at its original position.

EMIT ON WINDOW CLOSE is a property of the windows in FROM: each of TUMBLE, HOP, CUMULATE and SESSION returns the rows of
closed windows, by a join with the table of closed ends. The rest of the query is unchanged. Windows must be over a
table with a watermark, possibly through filters and projections, because the table's rows determine which windows there
are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.nodes import Expr
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan import nodes as plan
from everview.session.clock.watermarks import ClosedWindows, Watermark
from everview.sql.select.base_tables import base_table, over_table

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
    watermark = next((f for f in compiler.core.clock.agenda.of(table) if isinstance(f, Watermark)), None)
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
