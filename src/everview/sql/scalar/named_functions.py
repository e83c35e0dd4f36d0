"""Functions by name that sqlglot does not know: user-defined ones, those written in SQL, and ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.nodes import Expr, Udf
from everview.sql.ddl import sql_functions
from everview.sql.rights import identity
from everview.sql.scalar import calls, time_windows
from everview.sql.scalar.handlers import Forms

if TYPE_CHECKING:
    from everview.session.names.entries import FunctionMade
    from everview.sql.scalar.scalars import Scalars


def on_anonymous(scalars: Scalars, node: exp.Anonymous) -> Expr:
    found = scalars.compiler.core.functions.get(node.name.lower())
    if node.name.lower() == "current_setting":
        return identity.setting(node, scalars)
    if not scalars.compiler.trusted and (found is not None or node.name.lower() in _written(scalars)):
        access = scalars.compiler.core.access
        if not access.sees("function", node.name.lower()):
            raise calls.unknown(node, scalars)
        access.may_execute(node.name)
    if found is not None:
        args = tuple(scalars.bind(a) for a in node.expressions)
        return Udf(found.returns, found.function, args, found.vectorized)
    written = _written(scalars).get(node.name.lower())
    if written is not None:
        return sql_functions.inlined(node, written, scalars)
    known = calls.bound(node, scalars)
    if known is None and node.name.lower() in time_windows.NAMES:
        return time_windows.bound(node, scalars)
    if known is None and node.name.lower() in time_windows.IN_FROM:
        raise time_windows.refused(node, scalars)
    if known is None:
        raise calls.unknown(node, scalars)
    return known


def _written(scalars: Scalars) -> dict[str, FunctionMade]:
    return scalars.compiler.core.catalog.sql_functions


FORMS: Forms = {
    exp.Anonymous: on_anonymous,
}
