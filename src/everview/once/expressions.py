"""Projections and conditions over columns.

What the VM supports (`everview.expr.lower`) runs there as a whole and reads its columns in place. The rest goes to
`everview.expr.evaluate`; an expression of a single text column is evaluated once per distinct text.

A row that fails aborts the attempt: the dataflow decides whether the failure counts, and reports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from everview.codes.interner import Interner
from everview.codes.values import encode_value
from everview.expr.evaluate import evaluate
from everview.expr.functions import call, conjuncts
from everview.expr.lower import lower
from everview.expr.nodes import Call, ColumnRef, Expr, Literal, Udf
from everview.expr.program_builder import Program
from everview.kernels.once import columns as kernel
from everview.once.row_groups import distinct_codes
from everview.once.rows import Column, Elsewhere, Rows, Words
from everview.types import INTERNED, NULL


def projected(rows: Rows, exprs: dict[int, Expr], interner: Interner) -> Rows:
    """The values of expressions, as columns with these numbers."""
    found: dict[int, Column] = {}
    together: dict[int, Expr] = {}
    for number, expr in exprs.items():
        if isinstance(expr, ColumnRef):
            found[number] = rows.columns[expr.index]
        elif isinstance(expr, Literal):
            found[number] = Column(np.full(rows.count, code_of(expr, interner), dtype=np.int64))
        else:
            together[number] = expr
    found.update(_computed(rows, together, interner))
    return Rows(rows.count, found, rows.weights)


def cannot_fail(expr: Expr, interner: Interner) -> bool:
    """Whether it is known that no row can make an expression fail."""
    if isinstance(expr, ColumnRef | Literal):
        return True
    needed, (moved,) = _on_few([expr])
    program = _lowered((moved,), None, len(needed), interner)
    return program is not None and program.error < 0


def code_of(literal: Literal, interner: Interner) -> int:
    """The code of a constant."""
    return NULL if literal.value is None else encode_value(literal.type, literal.value, interner)


def _computed(rows: Rows, exprs: dict[int, Expr], interner: Interner) -> dict[int, Column]:
    if not exprs:
        return {}
    needed, moved = _on_few(list(exprs.values()))
    program = _lowered(tuple(moved), None, len(needed), interner)
    if program is not None:
        out = np.empty((len(moved), rows.count), dtype=np.int64)
        wanted = np.array(program.outputs, dtype=np.int64)
        addresses, places, alive = _addressed(rows, needed)
        failed = kernel.compute(program.code, program.registers, addresses, places, wanted, program.error, out)
        del alive
        if failed:
            raise Elsewhere("a row fails")
        return {number: Column(out[i]) for i, number in enumerate(exprs)}
    if len(exprs) > 1:
        return {n: c for number, expr in exprs.items() for n, c in _computed(rows, {number: expr}, interner).items()}
    ((number, expr),) = exprs.items()
    if any(isinstance(e, Udf) for e in expr.walk()):
        raise Elsewhere("functions in Python are the dataflow's")
    hoisted = _hoisted(rows, expr, interner)
    if hoisted is not None:
        return {number: _computed(hoisted[0], {number: hoisted[1]}, interner)[number]}
    return {number: Column(_evaluated(rows, expr, interner))}


def _hoisted(rows: Rows, expr: Expr, interner: Interner) -> tuple[Rows, Expr] | None:
    """An expression with inner functions of columns that the VM does not support precomputed as columns, once each and
    for all rows; None if there are none but itself.

    Arguments come before the calls that use them, so that nested functions are precomputed in the same pass.
    """
    columns = dict(rows.columns)
    found: dict[Expr, ColumnRef] = {}
    done: dict[int, Expr] = {}
    for part in _parts_first(expr):
        made = replace(part, args=tuple(done[id(a)] for a in part.args)) if isinstance(part, Call) else part
        if part is not expr and isinstance(made, Call) and _is_of_columns(made) and not _on_machine(made, interner):
            if made not in found:
                number = max(columns, default=-1) + 1
                columns[number] = Column(_evaluated(Rows(rows.count, columns, rows.weights), made, interner))
                found[made] = ColumnRef(made.type, number)
            made = found[made]
        done[id(part)] = made
    return (Rows(rows.count, columns, rows.weights), done[id(expr)]) if found else None


def _parts_first(expr: Expr) -> Iterator[Expr]:
    """All parts of an expression in postorder, each once; without recursion, because it may be deep."""
    seen: set[int] = set()
    todo = [(expr, False)]
    while todo:
        part, is_open = todo.pop()
        if is_open:
            yield part
        elif id(part) not in seen:
            seen.add(id(part))
            todo.append((part, True))
            todo.extend((child, False) for child in reversed(part.children()))


def _on_machine(expr: Expr, interner: Interner) -> bool:
    needed, (moved,) = _on_few([expr])
    return _lowered((moved,), None, len(needed), interner) is not None


def _is_of_columns(call: Call) -> bool:
    return all(isinstance(a, ColumnRef | Literal) for a in call.args) and bool(call.columns())


def _lowered(exprs: tuple[Expr, ...], predicate: Expr | None, cols: int, interner: Interner) -> Program | None:
    return lower(exprs, predicate, cols, lambda declared, value: encode_value(declared, value, interner))


def _on_few(exprs: Sequence[Expr]) -> tuple[list[int], list[Expr]]:
    """The columns that expressions read, and the expressions over these alone."""
    refs = {e.index: e for expr in exprs for e in expr.walk() if isinstance(e, ColumnRef)}
    needed = sorted(refs)
    moved = {c: ColumnRef(refs[c].type, i) for i, c in enumerate(needed)}
    return needed, [e.remap(moved) for e in exprs]


def _addressed(rows: Rows, columns: list[int]) -> tuple[Words, Words, list[Words]]:
    """The addresses of columns and their row numbers; and what must be kept alive meanwhile."""
    alive: list[Words] = []
    addresses, places = [], []
    for number in columns:
        column = rows.columns[number]
        base = np.ascontiguousarray(column.base)
        alive.append(base)
        addresses.append(base.__array_interface__["data"][0])
        if column.places is None:
            places.append(0)
        else:
            numbers = np.ascontiguousarray(column.places)
            alive.append(numbers)
            places.append(numbers.__array_interface__["data"][0])
    return (
        np.array(addresses or [0], np.int64)[: len(columns)],
        np.array(places or [0], np.int64)[: len(columns)],
        alive,
    )


def _evaluated(rows: Rows, expr: Expr, interner: Interner) -> Words:
    """The codes of an expression that the VM does not support and that contains no Python functions."""
    needed, (moved,) = _on_few([expr])
    if len(needed) == 1 and next(e for e in moved.walk() if isinstance(e, ColumnRef)).type.kind in INTERNED:
        ids, codes = distinct_codes(rows.words(needed[0]))
        spread: Words = _on_matrix(moved, codes.reshape(1, -1), interner)[ids]
        return spread
    matrix = np.empty((len(needed), rows.count), dtype=np.int64)
    for i, column in enumerate(needed):
        matrix[i] = rows.words(column)
    return _on_matrix(moved, matrix, interner)


def _on_matrix(expr: Expr, matrix: Words, interner: Interner) -> Words:
    found = evaluate((expr,), None, matrix, interner)
    if found.errors.any():
        raise Elsewhere("a row fails")
    codes: Words = found.codes[0]
    return codes


def filtered(rows: Rows, predicate: Expr, interner: Interner) -> Rows:
    """The rows for which a condition is true. Its parts are evaluated in written order, each on the rows for which
    those before are not false, so whatever can fail in the dataflow fails here.
    """
    undecided = False
    for part in _pieces(conjuncts(predicate), interner):
        if rows.count == 0:
            break
        rows, null = _kept(rows, part, interner)
        undecided = undecided or null
    if not undecided:
        return rows
    return _kept(rows, predicate, interner, strictly=True)[0]


def _pieces(parts: list[Expr], interner: Interner) -> list[Expr]:
    """Parts of a condition, with adjacent ones that the VM supports combined."""
    pieces: list[Expr] = []
    last_on_machine = False
    for part in parts:
        needed, (moved,) = _on_few([part])
        on_machine = _lowered((), moved, len(needed), interner) is not None
        if on_machine and last_on_machine:
            pieces[-1] = call("and", pieces[-1], part)
        else:
            pieces.append(part)
        last_on_machine = on_machine
    return pieces


def _kept(rows: Rows, part: Expr, interner: Interner, strictly: bool = False) -> tuple[Rows, bool]:
    """The rows for which a part of a condition is not false, and whether it is NULL for some; `strictly`: is true."""
    needed, (moved,) = _on_few([part])
    program = _lowered((), moved, len(needed), interner)
    if program is not None and (strictly or not part.type.nullable) and needed:
        out = np.empty(rows.count, dtype=np.int64)
        addresses, places, alive = _addressed(rows, needed)
        found = int(kernel.select(program.code, program.registers, addresses, places, program.keep, program.error, out))
        del alive
        if found < 0:
            raise Elsewhere("a row fails")
        return (rows if found == rows.count else rows.take(out[:found])), False
    values = projected(rows, {0: part}, interner).words(0)
    keep = values == 1 if strictly else values != 0
    null = not strictly and bool((values == NULL).any())
    return (rows if keep.all() else rows.take(np.flatnonzero(keep))), null
