"""`current_user` and `current_setting('tenant')` in a query: the identity of the user as constants.

A view is the same for all its readers, so what depends on the reader does not belong in one: use policies. A restricted
user can create such a view; its rows are for users with the same attributes (`Rights.bound`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.nodes import Expr, Literal
from everview.session.rights.principal import WHO, Principal
from everview.sql.rights import policies
from everview.types import STR

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars

OURSELVES = Principal("everview", free=True)
"""The program that a session belongs to."""


def user(node: exp.Expr, scalars: Scalars) -> Expr:
    """`current_user`"""
    who = _asking(node, scalars)
    scalars.compiler.claims["current_user"] = who.name
    return Literal(STR, who.name)


def setting(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """`current_setting('name' [, true])`"""
    who = _asking(node, scalars)
    for part in node.expressions:
        part.args.get("this"), part.args.get("is_string")
    name, value = policies.setting_of(node, who)
    scalars.compiler.claims[name] = value
    return Literal(STR.optional(value is None), None if value is None else policies.constant(value).name)


def _asking(node: exp.Expr, scalars: Scalars) -> Principal:
    compiler = scalars.compiler
    if compiler.reader is not None:  # a function that a policy calls
        return compiler.reader
    who = WHO.get() or OURSELVES
    if compiler.standing and compiler.core.access.acting() is None:
        raise scalars.source.refuse(
            node, "a view is the same for everybody who reads it", "CREATE POLICY says which rows are whose"
        )
    return who
