"""Tables and views as seen by the current user, for access without SQL: HTTP, clients, feeds.

`visible_relations` returns the table or view itself if all its rows are visible, a `Share` of it if policies show some,
and raises if it does not exist for the user. It is the only way from an untrusted name to a table or view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everview.codes.values import encode_value
from everview.errors import InputError, RowErrors
from everview.expr.functions import conjuncts
from everview.expr.nodes import Call, ColumnRef, Literal
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.session.core import Core, core_of
from everview.session.rights.access import forbidden
from everview.sql.answers import one_off
from everview.sql.rights import policies, row_checks
from everview.sql.rights.shares import Computed, Share, equal_to, fulfilling

if TYPE_CHECKING:
    from everview.session.session import Session

_KINDS = ("int", "str", "date", "timestamp", "bool", "uuid", "enum")
"""Kinds of columns of which equal values have equal codes."""


def seen(session: Session, name: Any) -> Any:
    """A table or view by name, as seen by the current user."""
    core = core_of(session)
    who = core.access.acting()
    if who is None:
        return session[name]
    core.access.may_read(name if isinstance(name, str) else repr(name))
    found = session[name]
    text = policies.condition(core.access, name, "SELECT")
    if text is None:
        return found
    admitted = row_checks.bound(core, name, text, who)
    predicate = row_checks.filter_of(admitted.node, relation_of(found).node)
    if predicate is None or admitted.at_once:
        node, columns = admitted.node, list(relation_of(found).columns)
        return Computed(found, lambda: one_off.rows(session, node, lambda: Collection(node, columns, core), None))
    route = route_of(core, relation_of(found).node, predicate)
    if route is not None:
        return Share(found, equal_to(*route), route=route, way="delivery")
    return Share(found, fulfilling(core, predicate), way="delivery")


def route_of(core: Core, table: plan.Node, predicate: Any) -> tuple[list[int], tuple[int, ...]] | None:
    """The columns that must have given codes, and these, if a condition requires nothing else; else None."""
    found: dict[int, int] = {}
    for part in conjuncts(predicate):
        if not isinstance(part, Call) or part.op != "eq":
            return None
        pair = [(a, b) for a, b in (part.args, part.args[::-1]) if isinstance(a, ColumnRef) and isinstance(b, Literal)]
        if len(pair) != 1 or pair[0][1].value is None:
            return None
        column, literal = pair[0]
        declared = table.types[column.index]
        if declared.kind not in _KINDS or declared.optional() != literal.type.optional() or column.index in found:
            return None
        found[column.index] = encode_value(declared, literal.value, core.interner)
    return (list(found), tuple(found.values())) if found else None


def readable(session: Session) -> dict[str, plan.Node]:
    """What the current user's plans may read, by name: tables, views, or the visible part of them."""
    core = core_of(session)
    names = [n for n in (*session.tables, *session.views) if core.access.has("SELECT", "relation", n)]
    return {n: shown_rows(core, n) for n in names}


def shown_rows(core: Core, name: str) -> plan.Node:
    """The plan of a table or view as seen by the current user, who may read it."""
    who = core.access.acting()
    text = None if who is None else policies.condition(core.access, name, "SELECT")
    if who is None or text is None:
        node: plan.Node = relation_of(core.session[name]).node
        return node
    admitted = row_checks.bound(core, name, text, who)
    if admitted.at_once:
        what = f"a policy of {name} reads the clock, which plans of clients and rules cannot"
        raise InputError("E_UNSUPPORTED", what, "use SQL: there now() moves")
    return admitted.node


def whole(session: Session, name: str, what: str) -> Any:
    """A table or view for users that see all its rows; others are refused."""
    found = seen(session, name)
    if isinstance(found, (Share, Computed)):
        raise forbidden(f"{name} has rows that you may not see, so {what} would tell of them")
    return found


def without_rows(error: RowErrors) -> RowErrors:
    """The same error without an example row."""
    error.message = error.message.partition(", for example for ")[0]
    return error
