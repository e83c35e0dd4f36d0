"""Images of single rows: projections, filters, functions that return any number of rows.

The way back, from a row to its possible origins, begins with what the row determines of them: a column that is passed
through has the same code below, and a condition `x = 3` determines x. Keys that may be NULL are compared as two
columns, `is_null(x)` and `if_null(x, some value)`, which together determine x; correlated subqueries are thus looked up
by their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from everview.codes.values import encode_value
from everview.dataflow import python_operators as pythonic
from everview.expr.evaluate import ERRORS, evaluate
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.expr.row_interpreter import FewRows
from everview.plan import nodes as plan
from everview.types import NULL
from everview.why.column_blocks import Bound, Row

if TYPE_CHECKING:
    from everview.codes.interner import Interner

GATHERED_ROWS = 100
"""Number of rows for which only the columns read are gathered."""

SAME_CODE = frozenset({"int", "bool", "str", "date", "timestamp", "bytes"})
"""Kinds whose values have a unique code."""


def below(node: plan.Node, bound: Bound, interner: Interner) -> dict[int, int] | None:
    """What is known of the origins of a row; None if there can be none."""
    if isinstance(node, plan.Filter):
        found = dict(bound)
        for column, code in _fixed(node.predicate, interner):
            if found.setdefault(column, code) != code:
                return None
        return found
    if isinstance(node, plan.FlatMap):
        return {}
    assert isinstance(node, plan.Project)
    found = {}
    for at, code in bound.items():
        e = node.exprs[at]
        if isinstance(e, ColumnRef):
            if found.setdefault(e.index, code) != code:
                return None
        elif isinstance(e, Literal) and encode_value(e.type, e.value, interner) != code:
            return None
        elif isinstance(e, Call) and e.op in ("is_null", "if_null"):
            for column, value in _of_nullable(node, e, code, bound, interner):
                if found.setdefault(column, value) != value:
                    return None
    return found


def _of_nullable(node: plan.Project, e: Call, code: int, bound: Bound, interner: Interner) -> list[tuple[int, int]]:
    """What `is_null(x)` or `if_null(x, constant)` determines about x, alone or with the other."""
    column = null_safe(e)
    if column is None:
        return []
    if e.op == "is_null":
        return [(column, NULL)] if code else []
    other = e.args[1]
    assert isinstance(other, Literal)
    if code != encode_value(other.type, other.value, interner):
        return [(column, code)]
    for at, known in bound.items():  # it is the constant, or NULL
        beside = node.exprs[at]
        if isinstance(beside, Call) and beside.op == "is_null" and null_safe(beside) == column:
            return [(column, NULL if known else code)]
    return []


def null_safe(e: Expr) -> int | None:
    """The column of an expression that is `is_null(x)` or `if_null(x, constant)`, of x's own type."""
    if not isinstance(e, Call) or e.op not in ("is_null", "if_null") or not isinstance(e.args[0], ColumnRef):
        return None
    column = e.args[0]
    if e.op == "if_null":
        other = e.args[1]
        if not isinstance(other, Literal) or other.value is None:
            return None
        if not column.type.optional() == e.type.optional() == other.type.optional():
            return None
    return column.index


def _fixed(predicate: Expr, interner: Interner) -> list[tuple[int, int]]:
    """Columns that a condition compares with a constant."""
    if not isinstance(predicate, Call):
        return []
    if predicate.op == "and":
        return [pair for arg in predicate.args for pair in _fixed(arg, interner)]
    if predicate.op != "eq":
        return []
    a, b = predicate.args
    if isinstance(a, Literal):
        a, b = b, a
    if not (isinstance(a, ColumnRef) and isinstance(b, Literal)) or b.value is None:
        return []
    if a.type.kind != b.type.kind or a.type.kind not in SAME_CODE:
        return []
    return [(a.index, encode_value(b.type, b.value, interner))]


def is_plain(node: plan.Project) -> bool:
    """Whether a projection only selects columns."""
    return all(isinstance(e, ColumnRef) for e in node.exprs)


def images(node: plan.Node, rows: Sequence[Row], interner: Interner) -> list[list[Row]]:
    """The rows that each row becomes; none if it fails or is filtered out."""
    if isinstance(node, plan.Project) and is_plain(node):
        places = [e.index for e in node.exprs if isinstance(e, ColumnRef)]
        return [[tuple(row[p] for p in places)] for row in rows]
    found: list[list[Row]] = [[] for _ in rows]
    if not rows:
        return found
    if isinstance(node, plan.FlatMap):
        columns = _columns(rows, len(node.child.types))
        run = pythonic.flat_map(node.function, node.child.types, node.columns, interner)
        made, origins, _ = run(columns)
        for row, origin in zip(zip(*made.tolist(), strict=True), origins.tolist(), strict=True):
            found[origin].append(row)
        return found
    assert isinstance(node, plan.Project | plan.Filter)
    one = narrow(node, interner)
    read = one.read
    result = one.run(_columns(rows, len(rows[0]))[read] if len(rows) > GATHERED_ROWS else _some(rows, read))
    if isinstance(node, plan.Filter):
        for kept in result.kept.tolist():
            found[kept].append(rows[kept])
        return found
    for row, kept in zip(zip(*result.codes.tolist(), strict=True), result.kept.tolist(), strict=True):
        found[kept].append(row)
    return found


def failure(node: plan.Node, row: Row, interner: Interner) -> str | None:
    """Why a row has no value here, if it has none."""
    columns = _columns([row], len(row))
    if isinstance(node, plan.Filter):
        errors = evaluate((), node.predicate, columns, interner).errors
    elif isinstance(node, plan.Project):
        errors = evaluate(node.exprs, None, columns, interner).errors
    else:
        return None
    return ERRORS.get(int(errors[0]))


def _some(rows: Sequence[Row], read: Sequence[int]) -> np.ndarray:
    """Some columns of few rows."""
    return np.array([[row[c] for row in rows] for c in read], dtype=np.int64).reshape(len(read), len(rows))


def _columns(rows: Sequence[Row], width: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width).T


class Narrow:
    """A projection or filter over only the columns that it reads (`read`), for any number of rows."""

    def __init__(self, node: plan.Project | plan.Filter, interner: Interner) -> None:
        exprs = (node.predicate,) if isinstance(node, plan.Filter) else node.exprs
        self.interner = interner
        self.read = sorted(set().union(*(e.columns() for e in exprs)))
        types = {e.index: e.type for expr in exprs for e in expr.walk() if isinstance(e, ColumnRef)}
        mapping = {c: ColumnRef(types[c], i) for i, c in enumerate(self.read)}
        narrow = tuple(e.remap(mapping) for e in exprs)
        self.run = (
            FewRows((), narrow[0], interner) if isinstance(node, plan.Filter) else FewRows(narrow, None, interner)
        )
        """`evaluate` over the columns in `read`"""


def narrow(node: plan.Project | plan.Filter, interner: Interner) -> Narrow:
    """Cached per node, with its compiled expressions."""
    found: Narrow | None = node.__dict__.get(_NARROW)
    if found is None or found.interner is not interner:
        found = node.__dict__[_NARROW] = Narrow(node, interner)
    return found


_NARROW = "_narrow"


def keys_match(node: plan.Join, left: Row, right: Row) -> bool:
    """Whether two rows match in a join; NULL equals nothing."""
    for l, r in zip(node.left_keys, node.right_keys, strict=True):
        if left[l] != right[r]:
            return False
        if left[l] == NULL and node.left.types[l].nullable and node.right.types[r].nullable:
            return False
    return True
