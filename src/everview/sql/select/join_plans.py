"""Chooses how a query's joins are maintained: by its shape, or as requested.

    /*+ plan(delta) */      in a statement: for that statement
    SET plan = 'delta'      for all that follow; SET plan = default ends it

The ways are those of `everview.plan.multiway`. The default differs from other languages in one respect: a cycle through
*different* tables, such as the nation of customer and supplier in TPC-H's fifth query, stays binary. It looks like a
triangle in a graph, but joining it like one costs a hundred times as much, and such cycles are far more common in SQL;
three occurrences of one table indicate a graph pattern.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from sqlglot import Token, exp

from everview.errors import did_you_mean
from everview.plan import nodes as plan
from everview.plan.multiway import CHOICES, Choice, rewrite
from everview.sql.text.consumed_parts import understood
from everview.sql.text.error_positions import Source, SqlError

PATTERN = 3
"""Number of self-joins of one table from which they count as a graph pattern."""

DIFFERENT = "the query has a cycle through different tables"
"""Why all joins of a query are binary by default."""

_HINT = re.compile(r"\+\s*plan\s*\(\s*'?(\w+)'?\s*\)\s*$", re.IGNORECASE)


def hinted(tokens: Iterable[Token]) -> Choice | None:
    """The choice of the last hint in a statement's comments.

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
        hint = "there are plan, ask, dialect, search_path, time zone and role: SET plan = 'delta'"
        raise source.refuse(node, "there is no such setting", hint)
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
    """The requested choice; else None, to decide by shape, or binary for cycles through different tables."""
    if asked is not None:
        return asked
    inputs = Counter(leaf for join in node.walk() if isinstance(join, plan.Join) for leaf in _leaves(join))
    if len(inputs) < PATTERN or max(inputs.values(), default=0) >= PATTERN:
        return None
    return "binary" if any(isinstance(n, plan.MultiJoin) for n in rewrite(node).walk()) else None


def why(how: Choice | None, asked: Choice | None) -> str:
    """The reason for the choice, if it is neither the shape nor a request."""
    return DIFFERENT if how is not None and asked is None else ""


def _leaves(join: plan.Join) -> Iterator[plan.Node]:
    """The inputs of a join that are not joins, through filters and projections."""
    for side in (join.left, join.right):
        while isinstance(side, (plan.Filter, plan.Project)):
            side = side.child
        if not isinstance(side, plan.Join):
            yield side
