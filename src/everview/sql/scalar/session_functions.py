"""Context of the statement: the current user and time."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.nodes import Expr, Literal
from everview.sql.clock import temporal_tables
from everview.sql.rights import identity
from everview.sql.scalar.handlers import Forms
from everview.types import DATE, TIMESTAMP

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


def on_currentuser(scalars: Scalars, node: exp.CurrentUser) -> Expr:
    return identity.user(node, scalars)


def on_sessionuser(scalars: Scalars, node: exp.SessionUser) -> Expr:
    return identity.user(node, scalars)


def on_currenttimestamp(scalars: Scalars, node: exp.CurrentTimestamp) -> Expr:
    if scalars.compiler.standing:
        raise temporal_tables.refused(node, scalars)
    temporal_tables.refuse_precision(node, scalars)
    return Literal(TIMESTAMP, _now(scalars))


def on_localtimestamp(scalars: Scalars, node: exp.Localtimestamp) -> Expr:
    return on_currenttimestamp(scalars, node)  # type: ignore[arg-type]


def on_currentdate(scalars: Scalars, node: exp.CurrentDate) -> Expr:
    if scalars.compiler.standing:
        raise temporal_tables.refused(node, scalars)
    return Literal(DATE, _now(scalars).date())


def _now(scalars: Scalars) -> dt.datetime:
    scalars.compiler.clock_read = True
    return scalars.source.now(lambda: scalars.compiler.session.now)


FORMS: Forms = {
    exp.CurrentUser: on_currentuser,
    exp.SessionUser: on_sessionuser,
    exp.CurrentTimestamp: on_currenttimestamp,
    exp.Localtimestamp: on_localtimestamp,
    exp.CurrentDate: on_currentdate,
}
