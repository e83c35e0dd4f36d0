"""WATERMARK FOR column AS expression, in CREATE TABLE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.codes.limits import in_plans
from everview.errors import did_you_mean
from everview.expr import functions
from everview.expr.nodes import Expr
from everview.plan import nodes as plan
from everview.sql.clock.watermarks import MOMENTS
from everview.sql.scalar import names
from everview.sql.scalar.scalars import Scalars
from everview.sql.scalar.type_names import in_words
from everview.sql.select.compiler import Compiler
from everview.sql.select.scopes import Field, Relation, Scope
from everview.sql.text import statement_reader
from everview.sql.text.annotations import WatermarkNote
from everview.sql.text.error_positions import Source
from everview.types import TIMESTAMP

if TYPE_CHECKING:
    from everview.session.session import Session


def declared(session: Session, note: WatermarkNote, schema: dict[str, Any], source: Source) -> tuple[Expr, Expr]:
    """The column and the expression of a WATERMARK, over the columns of the table."""
    have = list(schema)
    name = names.spelled(note.column, have)
    if name not in have:
        raise source.error_at(
            note.start, "E_COLUMN", f"the table has no column {note.column}", did_you_mean(note.column, have)
        )
    relation = Relation(plan.Table(-1, tuple(map(in_plans, schema.values()))), tuple(map(Field, schema)))
    inner = Source(note.text, dialect=source.dialect, zone=source.zone)
    select = statement_reader.parsed(inner)
    wanted: exp.Expr = select.expressions[0]
    bound = Scalars(Compiler(session, inner, standing=True), Scope(relation, inner), {}).bind(wanted)
    column = relation.ref(have.index(name))
    for expr in (column, bound):
        if expr.type.kind not in MOMENTS:
            raise inner.error(wanted, "E_TYPE", f"a watermark is a date or timestamp, not {in_words(expr.type)}")
    return functions.cast(column, TIMESTAMP), functions.cast(bound, TIMESTAMP)
