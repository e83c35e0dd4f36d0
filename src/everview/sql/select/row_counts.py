"""Row counts of LIMIT, OFFSET and FETCH FIRST: constant expressions, computed once.

    LIMIT 10, LIMIT 2 * 5, LIMIT 9.5     10 rows: a number is rounded, as PostgreSQL does
    LIMIT ALL, LIMIT NULL               all rows

A view keeps that many rows from then on, so anything that may change (a column, a subquery) is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.codes.digits import whole_number
from everview.expr.nodes import Literal
from everview.plan.nodes import ONE_ROW
from everview.sql.scalar import casts
from everview.sql.scalar.scalars import Scalars
from everview.sql.select.scopes import HIDDEN_FIELD, Relation, Scope
from everview.sql.text.error_positions import Source
from everview.types import INT

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler

NUMBERS = ("int", "decimal", "numeric", "float")

ALL_ROWS = 2**61
"""More rows than possible: the limit of an OFFSET without LIMIT, and the maximum of LIMIT and OFFSET."""


def count(clause: exp.Expr | None, compiler: Compiler) -> int | None:
    """The row count of a clause; None: unlimited."""
    if clause is None:
        return None
    source = compiler.source
    value = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.expression
    options = clause.args.get("limit_options")
    if options is not None and options.args.get("percent"):
        raise source.refuse(clause, "FETCH with PERCENT is not supported")
    if value is None:  # FETCH FIRST ROW ONLY
        return 1
    if isinstance(value, exp.Var | exp.Column) and value.name.upper() == "ALL":
        return None
    found = _constant(value, compiler)
    if found is None:
        return None
    if found < 0:
        raise source.error(value, "E_RANGE", "LIMIT and OFFSET are not negative")
    return min(found, ALL_ROWS)


def _constant(value: exp.Expr, compiler: Compiler) -> int | None:
    source = compiler.source
    if isinstance(value, exp.Literal) and value.name.isdecimal() and whole_number(value.name) >= 2**63:
        raise source.error(value, "E_RANGE", f"{value.name} is too large", "leave LIMIT out for all rows")
    if value.find(exp.Column, exp.Query) is not None:
        raise _refused(value, source)
    scalars = Scalars(compiler, Scope(Relation(ONE_ROW, (HIDDEN_FIELD,)), source), {})
    if scalars.bind(value).type.kind not in NUMBERS:
        raise _refused(value, source)
    whole = casts.as_type(scalars, value, INT)
    if not isinstance(whole, Literal):
        raise _refused(value, source)
    return None if whole.value is None else int(whole.value)


def _refused(value: exp.Expr, source: Source) -> Exception:
    return source.error(value, "E_LITERAL", "LIMIT and OFFSET are followed by whole numbers")
