"""What single rows become: projections, filters, functions that give any number of rows.

The way back, from a row to those it may come from, begins with what of the row is known of them: a column that is
passed on as it is has the same code below, and a condition `x = 3` says what x is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from everview.codes.values import encode_value
from everview.dataflow import python_operators as pythonic
from everview.expr.evaluate import ERRORS, evaluate
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.types import NULL
from everview.why.block import Bound, Row

if TYPE_CHECKING:
    from everview.codes.interner import Interner

SAME_CODE = frozenset({"int", "bool", "str", "date", "timestamp", "bytes"})
"""Kinds of which a value has one code only."""


def below(node: plan.Node, bound: Bound, interner: Interner) -> dict[int, int] | None:
    """What is known of the rows that a row comes from; None if there can be none."""
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
    return found


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
    """Whether a projection only chooses columns."""
    return all(isinstance(e, ColumnRef) for e in node.exprs)


def images(node: plan.Node, rows: Sequence[Row], interner: Interner) -> list[list[Row]]:
    """The rows that each row becomes; none where it fails or is left out."""
    if isinstance(node, plan.Project) and is_plain(node):
        places = [e.index for e in node.exprs if isinstance(e, ColumnRef)]
        return [[tuple(row[p] for p in places)] for row in rows]
    found: list[list[Row]] = [[] for _ in rows]
    if not rows:
        return found
    columns = _columns(rows, len(node.children()[0].types))
    if isinstance(node, plan.FlatMap):
        run = pythonic.flat_map(node.function, node.child.types, node.columns, interner)
        made, origins, _ = run(columns)
        for row, origin in zip(zip(*made.tolist(), strict=True), origins.tolist(), strict=True):
            found[origin].append(row)
        return found
    if isinstance(node, plan.Filter):
        for kept in evaluate((), node.predicate, columns, interner).kept.tolist():
            found[kept].append(rows[kept])
        return found
    assert isinstance(node, plan.Project)
    result = evaluate(node.exprs, None, columns, interner)
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


def _columns(rows: Sequence[Row], width: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width).T


def keys_match(node: plan.Join, left: Row, right: Row) -> bool:
    """Whether two rows are a pair of a join; NULL equals nothing."""
    for l, r in zip(node.left_keys, node.right_keys, strict=True):
        if left[l] != right[r]:
            return False
        if left[l] == NULL and node.left.types[l].nullable and node.right.types[r].nullable:
            return False
    return True
