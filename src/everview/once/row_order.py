"""Ordering: the first rows of each group, and the rows of a result.

Rows are ordered by *sort keys*, numbers that compare like the values: codes for numbers and moments, ranks for texts;
NULL is the largest, descending or not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from everview.codes import multiplicity
from everview.codes.interner import Interner
from everview.kernels.expressions.scalars import MINUS_ZERO
from everview.once.row_groups import numbered, present, ranked
from everview.once.rows import Elsewhere, Rows, Words, settled, weights_of
from everview.plan.nodes import TopK
from everview.types import INTERNED, NULL, DataType

_BY_CODE = ("int", "decimal", "date", "timestamp", "bool")
"""Kinds of values whose codes compare like the values, with equal codes for equal values."""

_LAST = 2**63 - 1


def sort_key(codes: Words, declared: DataType, descending: bool, interner: Interner, by_value: bool) -> Words:
    """Numbers that sort like a column. `by_value`: as Python compares values; else floats sort by their codes."""
    if declared.kind in INTERNED:
        key = ranked(codes, declared, interner)[0]
    elif declared.kind in _BY_CODE:
        key = codes
    elif declared.kind == "float" and by_value:
        key = np.where(codes == MINUS_ZERO, 0, codes)
    elif by_value:
        raise Elsewhere(f"{declared!r} has an order of its own")
    else:
        key = codes
    down = -1 - key if descending else key
    return np.where(codes == NULL, _LAST, down) if declared.nullable else down


def top(node: TopK, rows: Rows, interner: Interner) -> Rows:
    """The rows of a TopK: ties are broken by the remaining columns' codes."""
    width = range(len(node.types))
    rows = present(rows, width)
    if not rows.count:
        return rows
    types = node.child.types
    texts = any(types[c].kind in INTERNED for c, _ in node.order)
    if texts and any(types[c].kind not in (*_BY_CODE, *INTERNED) for c, _ in node.order):
        raise Elsewhere("an order of texts and other values")
    keys = [sort_key(rows.words(c), types[c], down, interner, texts) for c, down in node.order]
    if not node.keys and keys and rows.weights is None:
        near = _nearest(keys[0], node.offset + node.limit)
        if near is not None:
            rows, keys = rows.take(near), [key[near] for key in keys]
    rows = settled(rows, width)
    rest = [rows.words(c) for c in width if c not in node.keys]
    group = numbered([rows.words(k) for k in node.keys])[0] if node.keys else np.zeros(rows.count, dtype=np.int64)
    order = np.lexsort([*reversed(rest), *reversed(keys), group])
    shown = _shown(group[order], weights_of(rows)[order], node.offset, node.limit)
    kept = np.flatnonzero(shown)
    found = rows.take(order[kept])
    return Rows(found.count, found.columns, None if rows.weights is None else shown[kept])


def _nearest(key: Words, count: int) -> Words | None:
    """The rows that can be among the first by a sort key, if that excludes many."""
    if count * 4 >= len(key) or count <= 0:
        return None
    return np.flatnonzero(key <= np.partition(key, count - 1)[count - 1])


def _shown(group: Words, weights: Words, offset: int, limit: int) -> Words:
    """The multiplicity of each row, ordered by group, within rows offset to offset + limit of its group."""
    ends = np.cumsum(weights)
    first = np.ones(len(group), dtype=np.bool_)
    first[1:] = group[1:] != group[:-1]
    starts = np.flatnonzero(first)
    before = np.repeat((ends - weights)[starts], np.diff(np.append(starts, len(group))))
    end, start = ends - before, ends - weights - before
    shown: Words = np.clip(np.minimum(end, offset + limit) - np.maximum(start, offset), 0, None)
    return shown


def in_code_order(codes: Words) -> Words:
    """Columns of codes with their rows sorted by all columns, from left to right, as in an arrangement."""
    if codes.shape[1] < 2 or not len(codes):
        return codes
    first = codes[0]
    if not bool((first[1:] > first[:-1]).all()):
        codes = np.ascontiguousarray(codes[:, np.lexsort(codes[::-1])])
    return codes


def answered(
    codes: Words, order: Sequence[tuple[int, bool]], types: Sequence[DataType], interner: Interner
) -> Words | None:
    """Row numbers in the order of a query, NULLs last, stable; None if codes do not determine it."""
    try:
        keys = [sort_key(codes[c], types[c], down, interner, True) for c, down in order]
    except Elsewhere:
        return None
    found: Words = np.lexsort(keys[::-1])
    return found


def repeated(rows: Rows, columns: Sequence[int]) -> Words:
    """The rows, repeated by multiplicity, as a matrix of codes."""
    rows = present(rows, columns)
    codes = np.empty((len(columns), rows.count), dtype=np.int64)
    for i, column in enumerate(columns):
        codes[i] = rows.words(column)
    return codes if rows.weights is None else multiplicity.repeated(codes, rows.weights)
