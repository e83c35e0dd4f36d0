"""Expressions over the affected rows of a statement: RETURNING, and DO UPDATE SET.

They are bound before execution, over a table that does not exist but has the columns' types; afterwards they are
computed like any query, with the rows in the place of that table. Subqueries among them see the tables as they were
before the statement, as in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
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
from everview.sql.select.from_clause import FromClause
from everview.sql.select.query import Query
from everview.sql.select.scopes import Field, Relation, Scope
from everview.sql.text.error_positions import Source

if TYPE_CHECKING:
    from everview.session.table import Table
    from everview.sql.statements import Statements


_NUMBERS = count(1)


def written_later(types: plan.Types) -> plan.Table:
    """A table that stands for rows that are known on execution (`Statements.written`)."""
    return plan.Table(-1 - next(_NUMBERS), types)


class Affected:
    """Rows of tables side by side, each with the name by which its columns are known. `within`: the statement, whose
    WITH their subqueries see.
    """

    def __init__(
        self,
        sql: Statements,
        source: Source,
        tables: Iterable[tuple[str, Table]],
        beside: Joined | None = None,
        within: exp.Expr | None = None,
    ) -> None:
        self.sql = sql
        self.source = source
        named = [(name, c) for name, table in tables for c in relation_of(table).columns]
        types = tuple(c.type for _, c in named)
        fields = tuple(Field(c.name, name, i == 0 or name == named[0][0]) for i, (name, c) in enumerate(named))
        if beside is not None:
            types += beside.types
            fields += beside.fields
        self.compiler = Compiler(sql.session, source)
        self.compiler.given = sql.given
        self.place = written_later(types)
        self.scope = Scope(Relation(self.place, fields), source)
        env = {} if within is None else self.compiler.with_clause(within, {})
        self.scalars = Scalars(self.compiler, self.scope, env)

    def bound(self, node: exp.Expr) -> Expr:
        """An expression over the rows."""
        return self.scalars.bind(node)

    def condition(self, node: exp.Expr) -> Expr:
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
        node = self.scope.relation.node  # with the columns of subqueries
        node = node if where is None else plan.Filter(node, where)
        self.sql.written[self.place] = plan.Constant(tuple(map(tuple, rows)), self.place.types)
        try:
            return self.sql.answer(Query(plan.Project(node, exprs), names), self.compiler)
        finally:
            del self.sql.written[self.place]


class Joined:
    """The columns of the tables that UPDATE ... FROM and DELETE ... USING join with their target, for RETURNING.

    The statement's query has them behind its own columns: `select` gets one more output, *, whose first columns are the
    target's. Of several partners of a row the first one counts; PostgreSQL does not say which.
    """

    def __init__(self, sql: Statements, select: exp.Select, change: exp.Expr, table: Table, source: Source) -> None:
        compiler = Compiler(sql.session, source)
        compiler.given = sql.given
        relation = FromClause.of(select, compiler, compiler.with_clause(change, {}), None).relation
        shown = [i for i, field in enumerate(relation.fields) if field.name and field.plain]
        own = shown[len(relation_of(table).columns) :]
        self.fields = tuple(relation.fields[i] for i in own)
        self.types = tuple(relation.node.types[i] for i in own)
        select.append("expressions", exp.Star())

    def split(self, rows: Sequence[Row], width: int) -> tuple[list[Row], dict[Row, Row]]:
        """Rows cut to their first columns, and what each has beside them."""
        beside = {row[:width]: row[len(row) - len(self.fields) :] for row in reversed(rows)}
        return [row[:width] for row in rows], beside


class Returning:
    """The RETURNING clause of a statement; empty if it has none."""

    def __init__(
        self, sql: Statements, node: exp.Expr, table: Table, source: Source, joined: exp.Select | None = None
    ) -> None:
        clause = node.args.get("returning")
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        self.joined = None if joined is None or clause is None else Joined(sql, joined, node, table, source)
        within = None if clause is None else node
        self.rows = Affected(sql, source, [(target.alias or target.name, table)], self.joined, within)
        self.beside: list[Row] = []
        """What stands beside each affected row, set when these are known."""
        self.table = table
        if clause is not None:
            sql.core.access.may_read(relation_of(table).label)
        self.outputs = None if clause is None else self.rows.outputs(clause.expressions)
        sql.returning = self.outputs

    def answer(self, rows: Sequence[Row], before: int) -> Result | None:
        """The outputs for the rows; `before`: how many changes the transaction had before the statement."""
        if self.outputs is None:
            return None
        if self.joined is not None:
            rows = [(*row, *more) for row, more in zip(rows, self.beside, strict=True)]
        sql, seen = self.rows.sql, self.rows.sql.snapshot
        sql.snapshot = before if seen is None else seen
        try:
            return self.rows.answer(rows, self.outputs)
        finally:
            sql.snapshot = seen
