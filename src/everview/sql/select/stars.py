"""* EXCEPT (a), * REPLACE (x AS a), * RENAME (a AS b): all columns, but some of them otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import did_you_mean
from everview.expr.nodes import Expr

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars

Outputs = list[tuple[str, Expr]]


def changed(star: exp.Expr, found: Outputs, scalars: Scalars) -> Outputs:
    """The columns of a star with its modifiers. DuckDB calls EXCEPT EXCLUDE."""
    without = {c.name.lower() for c in _each(star, "except_", found, scalars)}
    instead = {c.alias.lower(): scalars.bind(c.this) for c in _each(star, "replace", found, scalars)}
    named = {c.this.name.lower(): c.alias for c in _each(star, "rename", found, scalars)}
    kept = [(name, e) for name, e in found if name.lower() not in without]
    if not kept:
        raise scalars.source.error(star, "E_EMPTY", "no column is left of *", "name at least one")
    return [(named.get(name.lower(), name), instead.get(name.lower(), e)) for name, e in kept]


def _each(star: exp.Expr, part: str, found: Outputs, scalars: Scalars) -> Sequence[exp.Expr]:
    """The columns of a modifier; each must exist."""
    items: list[exp.Expr] = star.args.get(part) or []
    have = [name for name, _ in found]
    for item in items:
        about = item.this if part == "rename" else item
        name = item.alias if part == "replace" else about.name
        if name.lower() not in [n.lower() for n in have]:
            raise scalars.source.error(item, "E_COLUMN", f"* has no column {name}", did_you_mean(name, have))
        if part != "except_" and [n.lower() for n in have].count(name.lower()) > 1:
            what = f"* has several columns {name}"
            raise scalars.source.error(item, "E_AMBIGUOUS", what, "say which table's *: t.* REPLACE (...)")
    return items
