"""Expressions over the affected rows of a statement: RETURNING, and DO UPDATE SET.

They are bound before execution, over the columns' types alone; afterwards they are computed for its rows like any
query, with the rows inlined into the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.codes.codec import Codec
from everview.expr.nodes import Expr
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.sql.answers.result import Result, Row
from everview.sql.scalar.names import output_name
from everview.sql.scalar.scalars import Scalars
from everview.sql.select import outputs
from everview.sql.select.compiler import Compiler
from everview.sql.select.query import Query
from everview.sql.select.scopes import Field, Relation, Scope
from everview.sql.text.error_positions import Source, has_query

if TYPE_CHECKING:
    from everview.session.table import Table
    from everview.sql.statements import Statements


class Affected:
    """Rows of tables side by side, each with the name by which its columns are known."""

    def __init__(self, sql: Statements, source: Source, tables: Iterable[tuple[str, Table]]) -> None:
        self.sql = sql
        self.source = source
        named = [(name, c) for name, table in tables for c in relation_of(table).columns]
        self.types = tuple(c.type for _, c in named)
        fields = tuple(Field(c.name, name, i == 0 or name == named[0][0]) for i, (name, c) in enumerate(named))
        self.compiler = Compiler(sql.session, source)
        self.scalars = Scalars(self.compiler, Scope(Relation(plan.Table(-1, self.types), fields), source), {})

    def bound(self, node: exp.Expr) -> Expr:
        """An expression over the rows."""
        if has_query(node):
            raise self.source.refuse(node, "a subquery is not supported here", "ask for it before")
        return self.scalars.bind(node)

    def condition(self, node: exp.Expr) -> Expr:
        if has_query(node):
            raise self.source.refuse(node, "a subquery is not supported here", "ask for it before")
        return self.scalars.condition(node)

    def outputs(self, items: Sequence[exp.Expr]) -> list[tuple[str, Expr]]:
        """The columns of a list of outputs, with names."""
        found: list[tuple[str, Expr]] = []
        for i, item in enumerate(items):
            if outputs.is_star(item):
                found += outputs.star(self.compiler, item, self.scalars)
            else:
                found.append((output_name(item, i), self.bound(item)))
        return found

    def answer(self, rows: Sequence[Row], outputs: Sequence[tuple[str, Expr]], where: Expr | None = None) -> Result:
        """The outputs for rows."""
        names, exprs = tuple(n for n, _ in outputs), tuple(e for _, e in outputs)
        if not rows:
            codec = Codec(tuple(e.type for e in exprs), names, self.sql.core.interner)
            return Result(codec, codec.encode_rows([]))
        node: plan.Node = plan.Constant(tuple(tuple(r) for r in rows), self.types)
        node = node if where is None else plan.Filter(node, where)
        return self.sql.answer(Query(plan.Project(node, exprs), names), self.compiler)


class Returning:
    """The RETURNING clause of a statement; empty if it has none."""

    def __init__(self, sql: Statements, node: exp.Expr, table: Table, source: Source) -> None:
        clause = node.args.get("returning")
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        self.rows = Affected(sql, source, [(target.alias or target.name, table)])
        self.table = table
        if clause is not None:
            sql.core.access.may_read(relation_of(table).label)
        self.outputs = None if clause is None else self.rows.outputs(clause.expressions)
        sql.returning = self.outputs

    def answer(self, rows: Sequence[Row]) -> Result | None:
        return None if self.outputs is None else self.rows.answer(rows, self.outputs)
