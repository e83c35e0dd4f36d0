"""The arguments of a call of a function written in SQL: by place, by name (`a => 1`), and defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import did_you_mean
from everview.sql.text import consumed_parts, statement_reader
from everview.sql.text.error_positions import Source

if TYPE_CHECKING:
    from everview.session.names.entries import FunctionMade


def given(made: FunctionMade, written: list[exp.Expr], node: exp.Expr, source: Source) -> list[exp.Expr]:
    """An argument for each parameter, from those by place, those by name (a => 1) and the defaults."""
    known = [name.lower() for name, _ in made.parameters]
    found: dict[int, exp.Expr] = {}
    for i, each in enumerate(written):
        named = isinstance(each, (exp.Kwarg, exp.PropertyEQ))
        if named and each.this.name.lower() not in known:
            hint = did_you_mean(each.this.name, known)
            raise source.error(each, "E_PARAMETER", f"{made.name} has no parameter {each.this.name}", hint)
        place = known.index(each.this.name.lower()) if named else i
        if named:
            consumed_parts.understood(each.this)
        if place in found or (not named and place >= len(known)):
            found = dict.fromkeys(range(len(written) + len(known) + 1), each)
            break
        found[place] = each.expression if named else each
    first = len(known) - len(made.defaults)
    for i, text in enumerate(made.defaults):
        found.setdefault(first + i, default(text))
    if set(found) != set(range(len(known))):
        wants = f"{first} to {len(known)}" if made.defaults else str(first)
        raise source.error(node, "E_ARITY", f"{made.name} takes {wants} arguments, not {len(written)}")
    return [found[i] for i in range(len(known))]


def default(text: str) -> exp.Expr:
    """The expression of a parameter's default."""
    tree = statement_reader.parsed(Source(f"SELECT {text}"))
    made: exp.Expr = tree.expressions[0].copy()
    for node in made.walk():
        node.meta.pop("start", None)
    return made
