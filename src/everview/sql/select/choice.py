"""How the joins of a query are kept: chosen by the query's shape, or as its text asks.

    /*+ plan(delta) */      in a statement: for that statement
    SET plan = 'delta'      for all that follow; SET plan = default ends it

The ways are those of `everview.plan.multiway`. What is chosen when nobody asks differs in one thing from other
languages: a cycle through *different* tables, such as the nation of customer and supplier in TPC-H's fifth query, stays
binary. It looks like a triangle in a graph, costs a hundred times as much if joined like one, and is far more common in
SQL; three occurrences of one table are what tells a pattern.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from sqlglot import Token, exp

from everview.errors import did_you_mean
from everview.plan import nodes as plan
from everview.plan.multiway import CHOICES, Choice, rewrite
from everview.sql.text.parts import understood
from everview.sql.text.places import Source, SqlError

PATTERN = 3
"""Joins of one table with itself from which they are taken for a pattern in a graph."""

DIFFERENT = "the query has a cycle through different tables"
"""Why all joins of a query are binary though nobody asked."""

_HINT = re.compile(r"\+\s*plan\s*\(\s*'?(\w+)'?\s*\)\s*$", re.IGNORECASE)


def hinted(tokens: Iterable[Token]) -> Choice | None:
    """The choice of the last hint among a statement's comments.

    >>> import sqlglot
    >>> hinted(sqlglot.tokenize("SELECT /*+ plan(wco) */ 1", read="postgres"))
    'wco'
    """
    found: Choice | None = None
    for token in tokens:
        for match in filter(None, (_HINT.match(comment) for comment in token.comments)):
            found = _known(match[1], SqlError("E_PLAN", f"there is no plan {match[1]!r}", "", token.line, token.col))
    return found


def setting(node: exp.Set, source: Source) -> Choice | None:
    """What SET plan = ... sets."""
    items = node.expressions
    equal = items[0].this if len(items) == 1 else None
    if not isinstance(equal, exp.EQ) or equal.this.name.lower() != "plan":
        raise source.refuse(node, "there is nothing to SET but plan", "SET plan = 'delta'")
    name = equal.expression.name
    understood(equal.expression)  # quoted or not
    if name.lower() == "default":
        return None
    return _known(name, source.error(equal.expression, "E_PLAN", f"there is no plan {name!r}"))


def _known(name: str, error: SqlError) -> Choice:
    for choice in CHOICES:
        if name.lower() == choice:
            return choice
    error.hint = did_you_mean(name, (*CHOICES, "default"))
    raise error


def how_to_join(node: plan.Node, asked: Choice | None) -> Choice | None:
    """What is asked for; else None, to go by the shape, or binary for cycles through different tables."""
    if asked is not None:
        return asked
    inputs = Counter(leaf for join in node.walk() if isinstance(join, plan.Join) for leaf in _leaves(join))
    if len(inputs) < PATTERN or max(inputs.values(), default=0) >= PATTERN:
        return None
    return "binary" if any(isinstance(n, plan.MultiJoin) for n in rewrite(node).walk()) else None


def why(how: Choice | None, asked: Choice | None) -> str:
    """The reason for what `how_to_join` said, if it has one that is not the shape's and nobody asked."""
    return DIFFERENT if how is not None and asked is None else ""


def _leaves(join: plan.Join) -> Iterator[plan.Node]:
    """The inputs of a join that are no joins, through filters and projections."""
    for side in (join.left, join.right):
        while isinstance(side, (plan.Filter, plan.Project)):
            side = side.child
        if not isinstance(side, plan.Join):
            yield side
