"""Sort keys in the engine's order."""

from __future__ import annotations

from sqlglot import exp

from everview.expr import functions
from everview.expr.nodes import Expr


def sort_keys(key: Expr, ordered: exp.Expr) -> list[tuple[Expr, bool]]:
    """A sort key for the engine, where NULLs come last: NULLS FIRST needs a separate key."""
    down = bool(ordered.args.get("desc"))
    first = bool(ordered.args.get("nulls_first"))
    if key.type.kind in ("interval", "enum"):
        key = functions.call("interval_order" if key.type.kind == "interval" else "enum_place", key)
    if first and key.type.nullable:
        return [(functions.call("is_null", key), True), (key, down)]
    return [(key, down)]
