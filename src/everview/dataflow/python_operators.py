"""What the driver computes in Python: user functions, string functions, reductions without a kernel.

Each function here returns a callable that works on arrays of codes as the driver passes them. Linear steps receive the
columns of a consolidated delta and return (output columns, the input row of each output row, an error code per input
row). Reductions receive the request rows of `everview.kernels.reduce.python` and return answer rows in the same format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from everview.cancellation import poll
from everview.codes.codec import Codec
from everview.codes.interner import Interner
from everview.codes.packed import order_key
from everview.errors import EverviewError, UdfError
from everview.expr.nodes import Expr
from everview.expr.row_interpreter import FewRows
from everview.expr.string_functions import RowFailure
from everview.plan import nodes as plan
from everview.types import DataType

Linear = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
Reduction = Callable[[np.ndarray], np.ndarray]
Group = list[tuple[tuple[Any, ...], int]]


def expressions(exprs: tuple[Expr, ...], predicate: Expr | None, interner: Interner) -> Linear:
    """Projection and filter with expressions that need Python."""
    return FewRows(exprs, predicate, interner)


def _listed(function: Callable[..., Any], values: tuple[Any, ...]) -> list[Any]:
    return list(function(*values))


def _codec(types: Iterable[DataType], interner: Interner) -> Codec:
    types = tuple(types)
    return Codec(types, tuple(f"column {i}" for i in range(len(types))), interner)


def flat_map(
    function: Callable[..., Any], types: tuple[DataType, ...], out: tuple[DataType, ...], interner: Interner
) -> Linear:
    """Map each row to any number of rows."""
    reader = _codec(types, interner)
    writer = _codec(out, interner)
    name = getattr(function, "__name__", "function")

    def run(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows: list[tuple[Any, ...]] = []
        origin: list[int] = []
        errors = np.zeros(columns.shape[1], dtype=np.int64)
        for i, values in enumerate(reader.decode_rows(columns)):
            poll()
            try:
                made = _guard(name, values, partial(_listed, function, values))
            except RowFailure as failure:  # from one of our own functions: the row has no value
                errors[i] = failure.code
                continue
            rows.extend(made)
            origin.extend([i] * len(made))
        codes = _guard(name, "its result", lambda: writer.encode_rows(rows))
        return codes, np.array(origin, dtype=np.int64), errors

    return run


def _guard(name: str, given: Any, call: Callable[[], Any]) -> Any:
    """Call a user function; its exceptions become errors that name it and its arguments."""
    try:
        return call()
    except RowFailure:
        raise
    except EverviewError as error:
        if error.code == "E_TRUST":  # it was not called
            raise
        raise UdfError("E_UDF", f"{name}: {error.message} (given {given!r})", error.hint) from error
    except Exception as error:
        raise UdfError(
            "E_UDF", f"{name} raised {type(error).__name__}: {error} (given {given!r})", "the step was undone"
        ) from error


def _groups(requests: np.ndarray) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """(head, rows) of each request."""
    heads = np.flatnonzero(requests[:, 0] == 0)
    ends = np.append(heads[1:], len(requests))
    for start, end in zip(heads.tolist(), ends.tolist(), strict=True):
        yield requests[start], requests[start + 1 : end]


def _answer(head: np.ndarray, keys: int, width: int, rows: Iterable[tuple[tuple[int, ...], int]]) -> list[list[int]]:
    """A head and one row per (values, count) for the kernel."""
    time = int(head[1])
    key = head[2 : 2 + keys].tolist()
    values = width - 2 - keys
    found = [[0, time, *key, *([0] * values)]]
    found.extend([count, time, *key, *codes] for codes, count in rows if count != 0)
    return found


def _reduction(keys: int, width: int, run: Callable[[np.ndarray, np.ndarray], Any]) -> Reduction:
    def answer(requests: np.ndarray) -> np.ndarray:
        answers: list[list[int]] = []
        for head, rows in _groups(requests):
            poll()
            answers.extend(_answer(head, keys, width, run(head, rows)))
        return np.array(answers, dtype=np.int64).reshape(-1, width)

    return answer


def reduction(node: plan.PythonReduce, interner: Interner) -> Reduction:
    """A user-defined reduction: function(key, [(row, count), ...]) returns output rows."""
    keys = node.keys
    child = node.child.types
    order = plan.keys_first(keys, len(child))
    back = [order.index(c) for c in range(len(child))]
    reader = _codec(child, interner)
    key_reader = _codec((child[k] for k in keys), interner)
    writer = _codec(node.columns, interner)
    name = getattr(node.function, "__name__", "reduction")

    def run(head: np.ndarray, rows: np.ndarray) -> Group:
        if not len(rows):
            return []
        key = key_reader.decode_row(head[2 : 2 + len(keys)].tolist()) if keys else ()
        values = reader.decode_rows(np.ascontiguousarray(rows[:, 2:].T[back]))
        group = list(zip(values, rows[:, 0].tolist(), strict=True))
        made = _guard(name, key, lambda: list(node.function(key, group)))
        made = [row if isinstance(row, tuple) else (row,) for row in made]
        codes = _guard(name, key, lambda: writer.encode_rows(made))
        return [(tuple(c), 1) for c in codes.T.tolist()]

    return _reduction(len(keys), 2 + len(node.types), run)


def extreme(smallest: bool, types: tuple[DataType, ...], keys: int, interner: Interner) -> Reduction:
    """min or max of a column whose codes do not sort like its values (strings)."""
    reader = _codec(types[keys:], interner)
    key = order_key(types[keys])

    def run(head: np.ndarray, rows: np.ndarray) -> Group:
        present = rows[rows[:, 0] > 0]
        if not len(present):
            return []
        codes = present[:, 2 + keys].tolist()
        values = [v for (v,) in reader.decode_rows(np.ascontiguousarray(present[:, 2 + keys :].T))]
        known = [(v, c) for v, c in zip(values, codes, strict=True) if v is not None]
        if not known:
            return [((codes[0],), 1)]
        if key is not None:
            known = [(key(v), c) for v, c in known]
        best = min(known) if smallest else max(known)
        return [((best[1],), 1)]

    return _reduction(keys, 2 + keys + 1, run)


def top(node: plan.TopK, interner: Interner) -> Reduction:
    """Top-k in an order that codes do not preserve (strings)."""
    child = node.child.types
    keys = node.keys
    order = plan.keys_first(keys, len(child))
    reader = _codec((child[c] for c in order), interner)

    def run(head: np.ndarray, rows: np.ndarray) -> Group:
        present = rows[rows[:, 0] > 0]
        values = reader.decode_rows(np.ascontiguousarray(present[:, 2:].T))
        found = list(zip(values, present[:, 2 + len(keys) :].tolist(), present[:, 0].tolist(), strict=True))
        found.sort(key=lambda item: item[1])  # ties go by the remaining columns' codes
        for column, descending in reversed(node.order):
            at = order.index(column)
            known = [item for item in found if item[0][at] is not None]
            known.sort(key=partial(_value_at, at, order_key(child[column])), reverse=descending)
            found = known + [item for item in found if item[0][at] is None]
        return _window(found, node.offset, node.limit)

    return _reduction(len(keys), 2 + len(child), run)


def _value_at(at: int, key: Callable[[Any], Any] | None, item: tuple[Any, list[int], int]) -> Any:
    return item[0][at] if key is None else key(item[0][at])


def _window(found: list[tuple[Any, list[int], int]], skip: int, left: int) -> Group:
    chosen: Group = []
    for _, codes, count in found:
        hidden = min(skip, count)
        skip -= hidden
        shown = min(count - hidden, left)
        left -= shown
        if shown:
            chosen.append((tuple(codes), shown))
    return chosen
