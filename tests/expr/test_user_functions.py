"""Users' functions: values in, values out, and errors that say which row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from everview.codes import Codec, Interner
from everview.errors import UdfError
from everview.expr.evaluate import ERRORS, evaluate
from everview.expr.functions import call
from everview.expr.lower import lower
from everview.expr.nodes import ColumnRef, Expr, Literal, Udf
from everview.expr.string_functions import ERROR_MORE_ROWS
from everview.kernels.expressions.scalars import ERROR_NODES
from everview.types import BOOL, INT, STR, DataType
from tests.expr.harness import KINDS, check

X, S = ColumnRef(INT.optional(), 0), ColumnRef(STR, 1)
TYPES = (INT.optional(), STR)
ROWS = [(1, "a"), (None, "b"), (0, "é"), (7, "")]


def repeat(x: int | None, s: str) -> str:
    return s * (x or 0)


def run(expr: Expr, predicate: Expr | None = None) -> list[Any]:
    interner = Interner()
    columns = Codec(TYPES, ["x", "s"], interner).encode_rows(ROWS)
    return Codec((expr.type,), ["y"], interner).decode_rows(evaluate((expr,), predicate, columns, interner).codes)


def test_a_row_function_sees_values_and_none() -> None:
    check((Udf(STR, repeat, (X, S)), X), ROWS, TYPES)


def test_a_vectorised_function_sees_arrow_arrays() -> None:
    def twice(x: pa.Array) -> pa.Array:
        assert isinstance(x, pa.Array)
        return pc.multiply(x, 2)

    assert run(Udf(INT.optional(), twice, (X,), vectorized=True)) == [(2,), (None,), (0,), (14,)]


def test_functions_inside_and_around_built_ins() -> None:
    inner = call("coalesce", X, Literal(INT, 3))
    expr = call("concat", Udf(STR, repeat, (inner, call("upper", S))), Literal(STR, "!"))
    assert run(expr) == [("A!",), ("BBB!",), ("!",), ("!",)]


def test_a_function_is_called_only_for_rows_that_ask() -> None:
    seen: list[Any] = []

    def note(x: int) -> int:
        seen.append(x)
        return 100 // x

    expr = call("case", call("ne", X, Literal(INT, 0)), Udf(INT, note, (X,)), Literal(INT, -1))
    assert run(expr) == [(100,), (-1,), (-1,), (14,)]
    assert seen == [1, 7]
    assert run(Udf(INT, note, (X,)), call("gt", X, Literal(INT, 0))) == [(100,), (14,)]


def test_failed_rows_are_not_shown_to_functions() -> None:
    risky = call("floordiv", Literal(INT, 10), X)
    check((Udf(STR, repeat, (risky, S)),), ROWS, TYPES)


def test_a_function_without_arguments() -> None:
    assert run(Udf(INT, lambda: 4, ())) == [(4,)] * 4


def test_lower_leaves_functions_and_texts_to_python() -> None:
    def encode(declared: DataType, value: Any) -> int:
        return int(value)

    for expr in (Udf(STR, repeat, (X, S)), call("upper", S), call("lt", S, S), call("cast_str", X)):
        assert lower((expr,), None, 2, encode) is None
    for expr in (call("eq", S, S), call("is_null", S), call("nullif", S, S), S):
        assert lower((expr,), None, 2, encode) is not None


def test_an_exception_names_the_function_and_the_row() -> None:
    def shaky(x: int | None, s: str) -> int:
        raise ValueError("no way")

    with pytest.raises(UdfError) as caught:
        run(Udf(INT, shaky, (X, S)))
    assert str(caught.value) == (
        "[E_UDF] shaky(1, 'a') raised ValueError: no way\n"
        "  hint: correct the function, or leave such rows out with a filter before it"
    )
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_result_of_the_wrong_type_names_the_row() -> None:
    with pytest.raises(UdfError, match=r"picky\(None, 'b'\) gave 'b', which is not an int"):
        run(Udf(INT, picky, (X, S)))


def picky(x: int | None, s: str) -> Any:
    return s if x is None else x


def test_vectorised_functions_are_checked() -> None:
    with pytest.raises(UdfError, match=r"short\(1\) gave 1 values for 4 rows"):
        run(Udf(INT, short, (X,), vectorized=True))
    with pytest.raises(UdfError, match=r"scalar\(1\) gave a int, not an Arrow array"):
        run(Udf(INT, scalar, (X,), vectorized=True))
    with pytest.raises(UdfError, match=r"broken\(1\) raised KeyError: 'x' \(first of 4 rows shown\)"):
        run(Udf(INT, broken, (X,), vectorized=True))
    with pytest.raises(UdfError, match=r"passes\(None\) gave values that are no int"):
        run(Udf(INT, passes, (X,), vectorized=True))


def short(x: pa.Array) -> pa.Array:
    return x[:1]


def scalar(x: pa.Array) -> Any:
    return 3


def broken(x: pa.Array) -> Any:
    raise KeyError("x")


def passes(x: pa.Array) -> Any:
    return x


def test_no_rows() -> None:
    interner = Interner()
    none = np.zeros((2, 0), dtype=np.int64)
    exprs = (Udf(STR, repeat, (X, S)), call("upper", S), call("add", X, Literal(INT, 1)), call("tuple_make", X, S))
    result = evaluate(exprs, call("contains", S, Literal(STR, "a")), none, interner)
    assert result.codes.shape == (4, 0) and result.kept.size == result.errors.size == 0


def test_every_error_has_a_text() -> None:
    # the last two are of instructions that no expression of people's has, and of subqueries
    assert set(ERRORS) == {*KINDS, ERROR_NODES, ERROR_MORE_ROWS}
    assert ERRORS[1] == "division by zero"


def test_predicates_of_functions() -> None:
    assert run(X, Udf(BOOL, lambda s: s > "a", (S,))) == [(None,), (0,)]
