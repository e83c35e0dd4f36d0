"""Runs an expression four ways (reference, machine, Python over columns, Python row by row) and compares."""

from __future__ import annotations

from typing import Any

import numpy as np

from everview.codes import Codec, Interner, decode_value, encode_value
from everview.expr.evaluate import evaluate
from everview.expr.lower import lower
from everview.expr.nodes import Expr
from everview.expr.program_builder import Program
from everview.expr.row_interpreter import FewRows
from everview.kernels import guarded_calls, memory
from everview.kernels.expressions import vm
from everview.kernels.expressions.scalars import ERROR_CAST, ERROR_DIVISION, ERROR_DOMAIN, ERROR_OVERFLOW
from everview.types import DataType
from tests.expr.reference import RowError, value

KINDS = {ERROR_DIVISION: "division", ERROR_OVERFLOW: "overflow", ERROR_DOMAIN: "domain", ERROR_CAST: "cast"}
ALONE = 6
"""About so many rows of each check are evaluated alone, too."""

Outcome = tuple[str, Any]
"""("dropped", None), ("error", kind) or ("row", codes of the outputs)."""


def expected(
    exprs: tuple[Expr, ...], predicate: Expr | None, rows: list[tuple[Any, ...]], interner: Interner
) -> list[Outcome]:
    """What the reference says for each row."""

    def code_of(declared: DataType, v: Any) -> int:
        return encode_value(declared, v, interner)

    def outcome(row: tuple[Any, ...]) -> Outcome:
        try:
            if predicate is not None and value(predicate, row, code_of) is not True:
                return "dropped", None
            return "row", tuple(code_of(e.type, value(e, row, code_of)) for e in exprs)
        except RowError as error:
            return "error", error.kind

    return [outcome(row) for row in rows]


def on_machine(program: Program, columns: Any) -> list[Outcome]:
    """What the machine says for each row."""
    wanted = np.array([*program.outputs, max(program.keep, 0), max(program.error, 0)], dtype=np.int64)
    if not len(columns):
        columns = np.zeros((0, columns.shape[1]), dtype=np.int64)
    out = np.zeros((wanted.size, columns.shape[1]), dtype=np.int64)
    vm.run_on_arrays(program.code, program.registers, columns, wanted, out)
    assert memory.cell[guarded_calls.CELL_FAULTS] == 0, "the machine left its registers"
    outcomes: list[Outcome] = []
    for *codes, keep, error in out.T.tolist():
        if program.error >= 0 and error:
            outcomes.append(("error", KINDS[error]))
        elif program.keep >= 0 and keep != 1:
            outcomes.append(("dropped", None))
        else:
            outcomes.append(("row", tuple(codes)))
    return outcomes


def in_python(exprs: tuple[Expr, ...], predicate: Expr | None, columns: Any, interner: Interner) -> list[Outcome]:
    """What the evaluator says for each row."""
    result = evaluate(exprs, predicate, columns, interner)
    outcomes: list[Outcome] = [("dropped", None)] * columns.shape[1]
    for i in np.flatnonzero(result.errors).tolist():
        outcomes[i] = ("error", KINDS[int(result.errors[i])])
    for i, codes in zip(result.kept.tolist(), result.codes.T.tolist(), strict=True):
        assert outcomes[i][0] == "dropped"
        outcomes[i] = ("row", tuple(codes))
    return outcomes


def check(
    exprs: tuple[Expr, ...],
    rows: list[tuple[Any, ...]],
    types: tuple[DataType, ...],
    predicate: Expr | None = None,
    *,
    kinds: bool = True,
) -> Program | None:
    """All ways agree; `kinds`: also on why a row failed. Gives the program, if there is one."""
    interner = Interner()
    columns = Codec(types, [f"c{i}" for i in range(len(types))], interner).encode_rows(rows)
    want = expected(exprs, predicate, rows, interner)
    _compare(want, in_python(exprs, predicate, columns, interner), exprs, rows, interner, "evaluate", kinds)
    _same_one_by_one(exprs, predicate, columns, interner)
    program = lower(exprs, predicate, len(types), lambda declared, v: encode_value(declared, v, interner))
    if program is not None:
        _compare(want, on_machine(program, columns), exprs, rows, interner, "machine", kinds)
    return program


def _same_one_by_one(exprs: tuple[Expr, ...], predicate: Expr | None, columns: Any, interner: Interner) -> None:
    """A row alone says what it says among others, to the very error code: one may come and the other leave."""
    together = evaluate(exprs, predicate, columns, interner)
    found = dict(zip(together.kept.tolist(), together.codes.T.tolist(), strict=True))
    few = FewRows(exprs, predicate, interner)
    for i in range(0, columns.shape[1], max(1, columns.shape[1] // ALONE)):
        alone = few(np.ascontiguousarray(columns[:, i : i + 1]))
        assert alone.errors.tolist() == [together.errors[i]], (exprs, columns[:, i])
        assert alone.codes.T.tolist() == ([found[i]] if i in found else []), (exprs, columns[:, i])
        assert alone.codes.dtype == np.int64 and alone.codes.flags.c_contiguous


def _compare(
    want: list[Outcome],
    got: list[Outcome],
    exprs: tuple[Expr, ...],
    rows: list[tuple[Any, ...]],
    interner: Interner,
    who: str,
    kinds: bool,
) -> None:
    for row, a, b in zip(rows, want, got, strict=True):
        same = a == b if kinds or a[0] != "error" else a[0] == b[0]
        assert same, f"{who}: {row} of {exprs}: wanted {_shown(a, exprs, interner)}, got {_shown(b, exprs, interner)}"


def _shown(outcome: Outcome, exprs: tuple[Expr, ...], interner: Interner) -> Any:
    if outcome[0] != "row":
        return outcome
    return [decode_value(e.type, code, interner) for e, code in zip(exprs, outcome[1], strict=True)]
