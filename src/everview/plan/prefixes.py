"""Top-k by text: candidates are found by the first bytes, so that a change does not sort its whole group.

Codes of texts do not sort like texts, and the compiled top-k sorts codes. But the first 31 bytes of a text and its
length, in four ints, do sort like it, unless two texts are longer and share that prefix. So

    TopK(rows) by s  =  TopK(candidates) by s
    candidates       =  short rows of T  +  all rows that begin like a long one of T
    T                =  the first offset + limit rows by those ints, which is compiled

T is correct among rows whose ints differ. It can only be wrong about which rows it has of those that share the prefix
of its last row, and `candidates` has them all. They are few if texts differ in their first 31 bytes; then sorting them
in Python is cheap. A numeric is approximated by a double in the same way, and counts as long.
"""

from __future__ import annotations

from everview.expr import functions
from everview.expr.functions import call
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import joins, nodes
from everview.types import BOOL, FLOAT, INT, INTERNED, STR

PREFIX_WORDS = 4
"""Number of ints that represent the prefix of a text."""

_LONGER_TEXT = 32
"""The last byte of the last int for texts of more than 31 bytes."""


def candidates(node: nodes.TopK) -> nodes.Node | None:
    """Some of the child's rows, which include the first ones; None if the order does not qualify."""
    types = node.child.types
    kinds = {types[c].kind for c, _ in node.order} & INTERNED
    if not kinds or not kinds <= {"str", "numeric"}:
        return None
    width = len(types)
    row = [ColumnRef(t, i) for i, t in enumerate(types)]
    made, order, open_ended = list[Expr](row), list[tuple[int, bool]](), Literal(BOOL, False)
    like: list[Expr] = []
    """the prefixes up to the first long one: rows with the same ones may come before or after"""
    seen_long: Expr = open_ended
    for column, down in node.order:
        parts, long = _beginning(row[column])
        for part, falling in parts:
            order.append((len(made), falling and down))
            made.append(part)
            like.append(part if seen_long is open_ended else call("case", seen_long, _zero(part), part))
        seen_long = long if seen_long is open_ended else call("or", seen_long, long)
    made += [*like, seen_long]
    wide = nodes.Project(node.child, tuple(made))
    refs = [ColumnRef(t, i) for i, t in enumerate(wide.types)]
    likes, is_long = refs[-1 - len(like) : -1], refs[-1]
    first = nodes.TopK(wide, node.keys, tuple(order), node.offset + node.limit)
    keys = [*(k for c in node.keys for k in joins.null_safe(joins.canonical(refs[c]))), *likes]
    wanted = nodes.Threshold(nodes.Project(nodes.Filter(first, is_long), tuple(keys)), "distinct")
    others = nodes.Project(nodes.Filter(wide, is_long), (*keys, *refs[:width]))
    at = tuple(range(len(keys)))
    found = nodes.Join(others, wanted, at, at)
    back = tuple(ColumnRef(t, len(keys) + i) for i, t in enumerate(types))
    short = nodes.Project(nodes.Filter(first, call("not", is_long)), tuple(refs[:width]))
    return nodes.Union((short, nodes.Project(found, back)))


def _zero(part: Expr) -> Expr:
    return Literal(part.type, 0.0 if part.type.kind == "float" else 0)


def _beginning(column: ColumnRef) -> tuple[list[tuple[Expr, bool]], Expr]:
    """Expressions that sort like a column's prefix, whether each is descending, and whether the column has more."""
    parts: list[tuple[Expr, bool]] = []
    if column.type.nullable:
        parts.append((functions.cast(call("is_null", column), INT), False))  # NULLs are last, whatever the order
    if column.type.kind == "str":
        some = call("if_null", column, Literal(STR, "")) if column.type.nullable else column
        words = [call("text_word", some, Literal(INT, i)) for i in range(PREFIX_WORDS)]
        last = call("band", words[-1], Literal(INT, 255))
        return [*parts, *((w, True) for w in words)], call("eq", last, Literal(INT, _LONGER_TEXT))
    if column.type.kind == "numeric":
        some = joins.null_safe(column)[-1]
        return [*parts, (joins.canonical(functions.cast(some, FLOAT)), True)], Literal(BOOL, True)
    code: Expr = ColumnRef(INT.optional(column.type.nullable), column.index)  # codes of other types sort like them
    code = Call(INT, "coalesce", (code, Literal(INT, 0))) if column.type.nullable else code
    return [*parts, (code, True)], Literal(BOOL, False)
