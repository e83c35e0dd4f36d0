"""Leaves of expressions: columns, constants, parameters, brackets, and subqueries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import PlanError
from everview.expr import functions
from everview.expr.nodes import Expr, Literal
from everview.sql.answers.parameters import PARAMETER
from everview.sql.scalar import constants, row_forms
from everview.sql.scalar.handlers import Forms
from everview.sql.scalar.roundings import HALF_EVEN
from everview.sql.select import scopes
from everview.sql.text import consumed_parts
from everview.types import BOOL, FLOAT, INT, STR

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


def on_column(scalars: Scalars, node: exp.Column) -> Expr:
    if isinstance(node.this, exp.Star):
        table = node.args.get("table")  # t.* as a value is the row
        if table is None or not (own := scopes.columns_of(scalars.scope, exp.Column(this=table))):
            raise scalars.source.error(node, "E_STAR", "* is not allowed here", "name the column")
        return _whole_row(scalars, own)
    whole = [] if node.table else scopes.columns_of(scalars.scope, node)
    if whole:
        return _whole_row(scalars, whole)
    try:
        return scalars.scope.column(node)
    except PlanError as error:
        found = _member(scalars, node) if error.code == "E_TABLE" else None
        if found is None:
            raise
        return found


def _member(scalars: Scalars, node: exp.Column) -> Expr | None:
    """place.lat, t.place.lat: a field of a struct, if no table has the name; PostgreSQL wants (place).lat"""
    if scalars.source.dialect in HALF_EVEN:
        return None
    above = node.args.get("db")
    whole = exp.Column(this=node.args["table"].copy(), table=None if above is None else above.copy())
    try:
        if scalars.scope.column(whole).type.kind != "struct":
            return None
    except PlanError:
        return None
    consumed_parts.understood(node)
    return row_forms.on_dot(scalars, exp.Dot(this=whole, expression=exp.to_identifier(node.name)))


def _whole_row(scalars: Scalars, places: list[int]) -> Expr:
    """A table's name as a value: its row; NULL for an unmatched row of an outer join."""
    relation = scalars.scope.relation
    items: list[Expr] = [relation.ref(i) for i in places]
    made = row_forms.row(scalars, items, tuple(relation.fields[i].name for i in places))
    if not all(item.type.nullable for item in items):
        return made
    nothing = functions.conjunction([scalars.call("is_null", item) for item in items])
    return scalars.call("case", nothing, Literal(made.type.optional(), None), made)


def on_literal(scalars: Scalars, node: exp.Literal) -> Expr:
    if node.is_string:
        return Literal(STR, node.name)
    if scalars.source.dialect == "sqlite" and "." in node.name:  # which has no decimals
        return Literal(FLOAT, float(node.name))
    try:
        return constants.number(node)
    except ArithmeticError:  # sqlglot takes .1.25 for one
        raise scalars.source.error(node, "E_SYNTAX", f"{node.name} is not a number") from None


def on_null(scalars: Scalars, node: exp.Null) -> Expr:
    return Literal(INT.optional(), None)


def on_boolean(scalars: Scalars, node: exp.Boolean) -> Expr:
    return Literal(BOOL, bool(node.this))


def on_paren(scalars: Scalars, node: exp.Paren) -> Expr:
    if isinstance(node.this, exp.Alias):  # the parser reads names in brackets: (a x)
        name = node.this.args["alias"]
        raise scalars.source.error(name, "E_SYNTAX", f"{name.name} is not expected here", "a name stands after the )")
    return scalars.bind(node.this)


def on_alias(scalars: Scalars, node: exp.Alias) -> Expr:
    return scalars.bind(node.this)


def on_parameter(scalars: Scalars, node: exp.Parameter) -> Expr:
    constant = scalars.compiler.parameters.constant(node)
    if constant is not None:
        return constant
    scalars.compiler.parameters.check(node, scalars.source)
    return scalars.scope.column(exp.column(node.name, table=PARAMETER))


def on_exists(scalars: Scalars, node: exp.Exists) -> Expr:
    return scalars.compiler.subqueries(scalars.scope, scalars.env).exists(node)


def on_subquery(scalars: Scalars, node: exp.Subquery) -> Expr:
    return scalars.compiler.subqueries(scalars.scope, scalars.env).scalar(node)


FORMS: Forms = {
    exp.Column: on_column,
    exp.Literal: on_literal,
    exp.Null: on_null,
    exp.Boolean: on_boolean,
    exp.Paren: on_paren,
    exp.Alias: on_alias,
    exp.Parameter: on_parameter,
    exp.Exists: on_exists,
    exp.Subquery: on_subquery,
}
