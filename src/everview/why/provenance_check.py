"""Compares the provenance of two sessions, for `db.check()`.

The codes of a view with `provenance=` depend on the order of arrival: the same expression has other codes in a session
that computes everything anew. Rows are therefore compared without their codes, and expressions by meaning, as functions
of table rows. With `"lazy"` provenance each session may have kept another derivation; a derivation is compared with the
whole expression if one of the sessions has it, otherwise only its rows are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from everview.errors import RowErrors
from everview.language.relation import relation_of
from everview.plan.nodes import TopK
from everview.plan.provenance import COLUMN, Disjunction
from everview.why.bdd import FALSE, TRUE, Diagrams, Exhausted
from everview.why.expression import BaseRow, Expression
from everview.why.readable_expressions import provenances

if TYPE_CHECKING:
    from everview.session.view import View

Row = tuple[Any, ...]

MOST_NODES = 1 << 18
"""Node budget for comparing two expressions: a variable order that suits one may not suit the other."""


def differences(view: View, other: View) -> Iterator[tuple[Row, int, int]]:
    """The rows of a view with provenance that differ, with both multiplicities; one whose expression has another
    meaning counts as present once instead of not at all.
    """
    if relation_of(view).columns[-1].name != COLUMN:
        return  # a view over such a view: what it makes of codes has no meaning of its own
    try:
        found, expected = dict(provenances(view)), dict(provenances(other))
    except RowErrors:
        return  # an expression that is too large in one order of variables may not be in another
    for row in sorted({*found, *expected}, key=repr):
        if row not in found or row not in expected:
            yield row, int(row in found), int(row in expected)
        elif not _agree(view, found[row], expected[row]):
            yield (*row, str(found[row])), 1, 0


def _agree(view: View, one: Expression, other: Expression) -> bool:
    kinds = {type(node) for node in relation_of(view).node.walk()}
    if Disjunction not in kinds:
        return True
    meet = meeting(one, other)
    if TopK in kinds:  # a derivation replaces an expression that is too large
        return meet is None or meet[2] in meet[:2]
    return meet is None or meet[0] == meet[1]


def meeting(one: Expression, other: Expression) -> tuple[int, int, int] | None:
    """Both expressions and their disjunction, as nodes of one table: equal numbers are equal functions. None if that
    would take too many nodes.

    >>> import everview as ev
    >>> def made(rows):
    ...     db = ev.connect()
    ...     t = db.table("t", {"x": int, "y": str})
    ...     view = db.view("v", t.select("x").distinct(), provenance="bdd")
    ...     for row in rows:
    ...         t.insert([row])
    ...     return view.provenance((1,))
    >>> a, b, c = made([(1, "p"), (1, "q")]), made([(1, "q"), (1, "p")]), made([(1, "p")])
    >>> len({*meeting(a, b)}), len({*meeting(a, c)})
    (1, 2)
    """
    rows = list(dict.fromkeys([*one.variables(), *other.variables()]))
    level = {row: i for i, row in enumerate(rows)}
    table = Diagrams(MOST_NODES)
    try:
        a, b = (_rebuilt(each, level, table) for each in (one, other))
        return a, b, table.either(a, b)
    except Exhausted:
        return None


def _rebuilt(expression: Expression, level: dict[BaseRow, int], table: Diagrams) -> int:
    """An expression in another variable order. Expressions are monotone, so each is its value without its first
    variable, or its value with it and that variable.
    """
    diagrams = expression._diagrams
    made = {FALSE: FALSE, TRUE: TRUE}
    for node in diagrams.below(expression._root):
        row = expression._rows[diagrams.level[node]]
        with_it = table.both(table.variable(level[row]), made[diagrams.high[node]])
        made[node] = table.either(made[diagrams.low[node]], with_it)
    return made[expression._root]
