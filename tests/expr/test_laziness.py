"""Errors count only for rows that ask: branches, conjunctions, predicates, shared parts."""

from __future__ import annotations

import pytest

from everview.expr.functions import call
from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.kernels.expressions import vm
from everview.types import BOOL, INT, STR
from tests.expr.harness import check

X, Y = ColumnRef(INT, 0), ColumnRef(INT.optional(), 1)
TYPES = (INT, INT.optional())
ROWS = [(x, y) for x in (-1, 0, 1, 5, 2**63 - 1) for y in (-1, 0, 2, None)]


def n(value: int) -> Expr:
    return Literal(INT, value)


RISKY = call("floordiv", n(10), X)
OTHER = call("mod", X, Y)
NOT_ZERO = call("ne", X, n(0))

CASES: dict[str, tuple[tuple[Expr, ...], Expr | None]] = {
    "guarded by case": ((call("case", NOT_ZERO, RISKY, n(0)),), None),
    "guarded the wrong way round": ((call("case", NOT_ZERO, n(0), RISKY),), None),
    "second branch": ((call("case", call("eq", X, n(0)), n(1), call("gt", Y, n(0)), OTHER, RISKY),), None),
    "condition that fails": ((call("case", call("gt", RISKY, n(1)), n(1), n(0)),), None),
    "second condition fails": ((call("case", NOT_ZERO, n(1), call("gt", RISKY, n(1)), n(2), n(3)),), None),
    "and": ((call("and", NOT_ZERO, call("gt", RISKY, n(1))),), None),
    "and, the wrong way round": ((call("and", call("gt", RISKY, n(1)), NOT_ZERO),), None),
    "or": ((call("or", call("eq", X, n(0)), call("gt", RISKY, n(1))),), None),
    "and after NULL": ((call("and", call("gt", Y, n(0)), call("gt", RISKY, n(1))),), None),
    "coalesce": ((call("coalesce", Y, RISKY, OTHER),), None),
    "if_null": ((call("if_null", call("nullif", Y, n(2)), RISKY),), None),
    "predicate": ((RISKY,), NOT_ZERO),
    "predicate that fails": ((X,), call("gt", RISKY, n(0))),
    "predicate with NULL": ((OTHER,), call("gt", Y, n(0))),
    "shared by branch and root": ((call("case", NOT_ZERO, RISKY, n(0)), RISKY), None),
    "shared by two branches": ((call("case", NOT_ZERO, RISKY, call("gt", Y, n(0)), RISKY, n(0)),), None),
    "shared by predicate and output": ((call("add", RISKY, n(1)),), call("and", NOT_ZERO, call("gt", RISKY, n(0)))),
    "nested": (
        (call("case", NOT_ZERO, call("case", call("gt", Y, n(0)), call("add", RISKY, OTHER), RISKY), n(0)),),
        call("lt", X, n(100)),
    ),
    "a failing argument beside NULL": ((call("add", Y, RISKY),), None),
    "a constant that fails, not asked for": ((call("case", NOT_ZERO, X, call("floordiv", n(1), n(0))),), None),
    "a constant that fails": ((call("add", X, call("floordiv", n(1), n(0))),), None),
}


@pytest.mark.parametrize("name", CASES)
def test_errors_count_where_they_are_asked_for(name: str) -> None:
    exprs, predicate = CASES[name]
    assert check(exprs, ROWS, TYPES, predicate) is not None


@pytest.mark.parametrize("name", CASES)
def test_the_same_when_a_part_needs_python(name: str) -> None:
    """A text function in the tree keeps the whole from the machine; the parts around it must stay lazy."""

    def with_text(expr: Expr) -> Expr:
        if expr == X:
            return call("add", X, call("sub", call("length", Literal(STR, "abc")), n(3)))
        if isinstance(expr, (ColumnRef, Literal)):
            return expr
        return call(expr.op, *map(with_text, expr.args))  # type: ignore[attr-defined]

    exprs, predicate = CASES[name]
    check(tuple(map(with_text, exprs)), ROWS, TYPES, None if predicate is None else with_text(predicate))


def test_a_plain_projection_costs_no_instruction() -> None:
    program = check((Y, X, X), ROWS, TYPES)
    assert program is not None and len(program.code) == 0
    assert program.outputs == (1, 0, 0) and program.error == program.keep == -1


def test_common_parts_are_computed_once() -> None:
    square = call("mul", X, X)
    program = check((call("add", square, square), square, call("neg", square)), ROWS, TYPES)
    assert program is not None
    assert [vm.NAMES[op % vm.CHECKED] for op in program.code[:, 0].tolist()] == ["errors", "mul", "add", "neg"]


def test_the_mask_of_a_filter_is_the_filter() -> None:
    program = check((call("add", X, n(1)),), ROWS, TYPES, call("gt", X, n(0)))
    assert program is not None
    assert [vm.NAMES[op % vm.CHECKED] for op in program.code[:, 0].tolist()] == ["errors", "load", "lt", "load", "add"]
    assert program.code[-1, 4] == program.keep


def test_long_expressions_reuse_registers() -> None:
    expr: Expr = X
    for k in range(100):
        expr = call("mod", call("add", expr, n(k)), n(1000))
    program = check((expr,), ROWS, TYPES)
    assert program is not None and len(program.code) > 200 and program.registers < 12


def test_constants_are_folded() -> None:
    program = check((call("add", X, call("mul", n(3), n(4))), Literal(BOOL, True)), ROWS, TYPES)
    assert program is not None
    assert [vm.NAMES[op % vm.CHECKED] for op in program.code[:, 0].tolist()] == ["errors", "load", "add", "load"]
