"""Checks staged rows against policies: the last check before they are committed.

Inserted rows must satisfy WITH CHECK (or USING, if a policy has no other condition); deleted rows must be ones that the
current user could see and change. This holds however the rows arrive: SQL, COPY, a push, a client's table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.errors import InputError
from everview.expr.evaluate import evaluate
from everview.expr.nodes import Expr
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.substitute import substituted
from everview.runtime.base import RemoteRows, columns_of
from everview.session.rights.access import forbidden
from everview.session.rights.principal import COMMAND, Principal, acting
from everview.sql.answers import one_off
from everview.sql.rights import policies
from everview.sql.select.compiler import Compiler
from everview.sql.select.scopes import Field, Relation
from everview.sql.text import statement_reader

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table

MOST_KNOWN = 200
"""Maximum number of cached conditions."""


def check(core: Core, table: Table, rows: Any, diff: int) -> None:
    """Refuse rows that policies do not allow the current user to insert or delete."""
    who = core.access.acting()
    if who is None:
        return
    name, updates = relation_of(table).label, COMMAND.get() == "UPDATE"
    if diff > 0:
        text = policies.condition(core.access, name, "UPDATE" if updates else "INSERT", check=True)
        if text is not None and COMMAND.get() in ("UPDATE", "ON CONFLICT"):
            # as in PostgreSQL, nobody takes a row out of their own sight, or asks for the key of one beyond it
            text = f"{text} AND {policies.condition(core.access, name, 'SELECT')}"
    else:
        text = policies.condition(core.access, name, "SELECT", "UPDATE" if updates else "DELETE")
    if text is None:
        return
    if isinstance(rows, RemoteRows):
        raise InputError(
            "E_UNSUPPORTED", f"{relation_of(table).label} has policies, which rows on Spark cannot be compared with"
        )
    codes = rows if isinstance(rows, np.ndarray) else columns_of(rows) if len(rows) else None
    if codes is None or not codes.size:
        return
    if _passing(core, table, text, who, codes) < codes.shape[1]:
        what = "a new row of" if diff > 0 else "a row to be taken from"
        raise forbidden(
            f"{what} {relation_of(table).label} is not allowed by its policies", "rows of others cannot be changed"
        )


def check_returned(core: Core, table: Table, rows: Any) -> None:
    """Refuse to return rows by RETURNING that the current user could not read."""
    core.access.may_read(relation_of(table).label)
    text = policies.condition(core.access, relation_of(table).label, "SELECT")
    who = core.access.acting()
    if text is None or who is None or not rows:
        return
    codes = relation_of(table).codec.encode(rows)
    if _passing(core, table, text, who, codes) < codes.shape[1]:
        raise forbidden(
            f"RETURNING would give rows of {relation_of(table).label} that its policies hide", "leave RETURNING out"
        )


@dataclass(frozen=True)
class Admitted:
    """The rows that a condition of a policy admits, for somebody."""

    node: plan.Node
    at_once: bool
    """whether it reads the clock: then it holds at this moment only"""
    place: plan.Table | None = None
    """what stands for the rows that are to be admitted"""


def _bound(core: Core, table: Table, text: str, who: Principal) -> Admitted:
    """Which of some rows a condition admits; in the condition's subqueries the table is what is stored."""
    known: dict[Any, Admitted] = core.attached.setdefault("row checks", {})
    definitions = core.catalog.meaning, core.access.version
    key = relation_of(table).id, text, who.name, tuple(sorted(who.attributes.items())), definitions
    found = known.get(key)
    if found is None:
        found = bound(core, relation_of(table).label, text, who, apart=True)
        if found.at_once:
            return found
        while len(known) >= MOST_KNOWN:
            known.pop(next(iter(known)))
        known[key] = found
    return found


def bound(core: Core, name: str, text: str, who: Principal, *, apart: bool = False) -> Admitted:
    """The rows of a table or view that fulfil a condition of a policy, for somebody; `apart`: of rows that are given
    later, in place of those that are stored.
    """
    source = policies._source(f"SELECT * FROM {policies._from(name)} WHERE {text}")
    tree = statement_reader.parsed(source)
    policies.asked(tree, who)
    compiler = Compiler(core.session, source)
    compiler.trusted, compiler.reader = True, who
    place: plan.Table | None = None
    if apart:
        relation = relation_of(core.session[name])
        place = plan.Table(-1, relation.node.types)
        compiler.stand_in = tree.args["from_"].this, Relation(place, tuple(Field(c.name) for c in relation.columns))
    with acting(None), policies.path_of_policies():
        node = policies.unwrapped(compiler.derived(tree, {}).node)
    return Admitted(node, compiler.clock_read, place)


def filter_of(node: plan.Node, table: plan.Node) -> Expr | None:
    """The condition on a row, if a plan is nothing but a filter over a table; else None."""
    if isinstance(node, plan.Filter) and node.child == table:
        return node.predicate
    return None


def _passing(core: Core, table: Table, text: str, who: Principal, codes: np.ndarray) -> int:
    """How many of some rows a condition admits."""
    relation, admitted = relation_of(table), _bound(core, table, text, who)
    node, place = admitted.node, admitted.place
    assert place is not None
    predicate = filter_of(node, place)
    if predicate is not None:
        return len(evaluate((), predicate, np.ascontiguousarray(codes), core.interner).kept)
    rows = plan.Constant(tuple(map(tuple, relation.codec.decode_rows(codes))), place.types)
    asked = substituted(node, {place: rows})
    columns = list(relation.columns)
    found = one_off.rows(core.session, asked, lambda: Collection(asked, columns, core), None, "once")
    return int(found.shape[1])


def check_shown(core: Core, derivations: Iterable[Any]) -> None:
    """Refuse explanations that contain rows that the current user could not read."""
    who = core.access.acting()
    if who is None:
        return
    for part in (part for tree in derivations for part in tree.walk()):
        table = core.catalog.tables.get(part.source)
        if (table is not None or part.source in core.catalog.views) and not core.access.has(
            "SELECT", "relation", part.source
        ):
            raise _hides()  # its name is hidden, too
        if table is None:
            continue
        text = policies.condition(core.access, part.source, "SELECT")
        if text is not None and part.row is not None:
            codes = relation_of(table).codec.encode([tuple(part.row)])
            if not _passing(core, table, text, who, codes):
                raise _hides()


def _hides() -> InputError:
    return forbidden("the reasons contain rows that you may not see", "ask about rows of your own")


def check_all_shown(core: Core, node: plan.Node) -> None:
    """Refuse what would reveal missing rows, unless the current user sees all of them."""
    if core.access.acting() is None:
        return
    for name, table in core.catalog.tables.items():
        if relation_of(table).node in set(node.walk()):
            if not core.access.has("SELECT", "relation", name):
                raise _hides()
            if policies.condition(core.access, name, "SELECT") is not None:
                raise forbidden(f"{name} has rows that you may not see, and this would tell of them")
