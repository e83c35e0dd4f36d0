"""Name resolution: relations with named columns, and scopes that find a column by name.

A subquery may read columns of outer queries. It is then computed for all their values at once: the distinct values, its
*context*, are the first columns of everything inside it, and the result is joined back on them
(`everview.sql.select.subqueries`). The context is determined by trial: a scope that does not find a name searches the
outer scope, and if the column found there is not in the context yet, it raises `Correlated`, whereupon the subquery is
bound again with that column added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from everview.errors import did_you_mean
from everview.expr.nodes import ColumnRef, Expr
from everview.plan.nodes import Filter, Node
from everview.plan.topk import first_rows
from everview.sql.text.error_positions import Source


@dataclass(frozen=True)
class Field:
    """A column's name and its table's; `plain`: part of * and found by its bare name; `schema`: its table's, unless
    that has an alias; `starred`: part of * and t.*."""

    name: str
    table: str = ""
    plain: bool = True
    schema: str = ""
    starred: bool = True

    def is_of(self, column: exp.Column) -> bool:
        """Whether it belongs to the table that a column's name has in front; `t.x`, `s.t.x`, or nothing."""
        schema, table = column.args.get("db"), column.args.get("table")
        if table is None:
            return self.plain and schema is None
        return self.table.lower() == table.name.lower() and (schema is None or self.schema == schema.name.lower())


HIDDEN_FIELD = Field("", "", False)
"""An unnamed column."""


@dataclass(frozen=True)
class Relation:
    """A plan and the names of its columns."""

    node: Node
    fields: tuple[Field, ...]
    parameters: tuple[str, ...] = ()
    """The rows are those for values of these parameters, which come first and are unnamed."""
    context: int = 0
    """The number of leading, unnamed columns that identify the outer row a row belongs to."""

    @property
    def hidden(self) -> int:
        """Columns at the beginning without names."""
        return len(self.parameters) + self.context

    @property
    def width(self) -> int:
        """Columns that can be named."""
        return len(self.fields) - self.hidden

    def called(self, table: str, columns: tuple[str, ...] = (), schema: str = "") -> Relation:
        """The same with all columns belonging to a table of that name, the first few renamed."""
        own = self.fields[self.hidden :]
        names = [*columns, *(f.name for f in own[len(columns) :])]
        fields = tuple(Field(n, table, f.plain, schema, f.starred) for n, f in zip(names, own, strict=True))
        return replace(self, fields=(*self.fields[: self.hidden], *fields))

    def ref(self, position: int) -> ColumnRef:
        return ColumnRef(self.node.types[position], position)


OUTSIDE = "outside"
"""The note on an aggregate that it belongs to a query around."""


def is_outside(node: exp.Expr) -> bool:
    """Whether an aggregate was found to belong to a query around."""
    inner = node.this if isinstance(node, exp.Filter) else node
    return isinstance(inner, exp.AggFunc) and bool(inner.meta.get(OUTSIDE))


class Correlated(Exception):
    """A subquery needs column `position` of the outer scope in its context."""

    def __init__(self, scope: Scope, position: int) -> None:
        self.scope = scope
        self.position = position


@dataclass(frozen=True)
class Outer:
    """What a subquery sees of the outer query: its scope, and the context columns."""

    scope: Scope
    positions: tuple[int, ...] = ()
    demand: int | None = None
    """The context column that is NULL for rows that do not need the subquery (`everview.sql.select.demand`)."""


class Scope:
    """The columns that expressions may use. The relation is extended while subqueries are joined to it."""

    def __init__(self, relation: Relation, source: Source, outer: Outer | None = None) -> None:
        self.relation = relation
        self.source = source
        self.outer = outer
        self.placed: dict[int, Expr] = {}
        """Parts of the text (by identity) that are columns already: window calls, aggregates for subqueries."""
        self.demands: list[Expr] = []
        """The conditions under which the value being bound is used; see `everview.sql.select.demand`."""

    def column(self, column: exp.Column) -> Expr:
        """The column of that name, here or in the queries around."""
        found = self.matches(column)
        if len(found) > 1:
            tables = [f"{self.relation.fields[i].table}.{column.name}" for i in found]
            raise self.source.error(
                column, "E_AMBIGUOUS", f"the column {column.name} may be {' or '.join(tables)}", "name its table"
            )
        if found:
            return self.relation.ref(found[0])
        return self.from_outside(column)

    def from_outside(self, column: exp.Column) -> Expr:
        if self.outer is None or not any(s.matches(column) for s in self.outer.scope.chain()):
            raise self._unknown(column)
        above = self.outer.scope.column(column)
        assert isinstance(above, ColumnRef)
        if above.index not in self.outer.positions:
            raise Correlated(self.outer.scope, above.index)
        return self.relation.ref(self.outer.positions.index(above.index))

    def lent(self, node: exp.Expr) -> Expr:
        """An aggregate that a query around has computed."""
        if id(node) in self.placed:
            return self.placed[id(node)]
        if self.outer is None:
            raise self.source.refuse(node, "this is an aggregate of a query around, which cannot be computed here")
        above = self.outer.scope.lent(node)
        assert isinstance(above, ColumnRef)
        if above.index not in self.outer.positions:
            raise Correlated(self.outer.scope, above.index)
        return self.relation.ref(self.outer.positions.index(above.index))

    def matches(self, column: exp.Column) -> list[int]:
        """Positions of the columns of that name; case-insensitive unless the case decides between several."""
        name = column.name.lower()
        found = [i for i, f in enumerate(self.relation.fields) if f.name.lower() == name and f.is_of(column)]
        exact = [i for i in found if self.relation.fields[i].name == column.name]
        return exact or found

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it, nearest first."""
        yield self
        if self.outer is not None:
            yield from self.outer.scope.chain()

    def keep(self, condition: Expr) -> None:
        """Only the rows for which the condition holds."""
        self.relation = replace(self.relation, node=first_rows(Filter(self.relation.node, condition)))

    def append(self, node: Node) -> list[ColumnRef]:
        """The same rows with additional unnamed columns at the end."""
        start = len(self.relation.fields)
        self.relation = Relation(node, (*self.relation.fields, *[HIDDEN_FIELD] * (len(node.types) - start)))
        return [self.relation.ref(i) for i in range(start, len(node.types))]

    def _unknown(self, column: exp.Column) -> Exception:
        fields = [f for s in self.chain() for f in s.relation.fields if f.name]
        tables = [f.table for f in fields if f.table]
        if column.table and not any(f.is_of(column) for f in fields):
            schema = column.args.get("db")
            full = column.table if schema is None else f"{schema.name}.{column.table}"
            hint = did_you_mean(column.table, tables)
            return self.source.error(column, "E_TABLE", f"there is no table {full} in this query", hint)
        names = [f.name for f in fields if not column.table or f.table.lower() == column.table.lower()]
        named = f"{column.table}.{column.name}" if column.table else column.name
        hint = did_you_mean(column.name.lower(), names)
        if column.this.args.get("quoted") and "did you mean" not in hint:
            hint = f"a text has single quotes: '{column.name}'"
        return self.source.error(column, "E_COLUMN", f"there is no column {named}", hint)


def columns_of(scope: Scope, name: exp.Column) -> list[int]:
    """The positions of a table's columns, if a name that is not a column is a table: SELECT to_jsonb(t) FROM t."""
    if any(s.matches(name) for s in scope.chain()):
        return []
    fields = enumerate(scope.relation.fields)
    return [i for i, field in fields if field.name and field.table.lower() == name.name.lower()]


class PairScope(Scope):
    """Rows of two relations side by side: the right one (a subquery's own) is searched first."""

    def __init__(self, left: Scope, right: Scope) -> None:
        super().__init__(right.relation, left.source)
        self.left = left
        self.width = len(left.relation.fields)

    def column(self, column: exp.Column) -> Expr:
        if self.matches(column) or not any(s.matches(column) for s in self.left.chain()):
            found = super().column(column)
            assert isinstance(found, ColumnRef)
            return ColumnRef(found.type, found.index + self.width)
        return self.left.column(column)
