"""Expressions as people write them: how they resolve, and what they say when they cannot."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

from everview.errors import PlanError
from everview.expr.language import Named, col, count, greatest, lit, tuple_, udf, when
from everview.expr.nodes import Udf
from everview.expr.resolve import Column, Scope, resolve
from everview.plan.explain import describe
from everview.types import BOOL, DATE, FLOAT, INT, STR, TIMESTAMP

COLUMNS = {"x": INT, "y": INT.optional(), "f": FLOAT, "s": STR, "d": DATE, "e": DATE, "t": TIMESTAMP, "b": BOOL}
SCOPE = Scope(tuple(Column(n, t) for n, t in COLUMNS.items()), "the table")


def shown(expr: Any) -> str:
    found = resolve(expr, SCOPE)
    return f"{describe(found, list(COLUMNS))} -> {found.type!r}"


CASES: dict[str, Any] = {
    "x + 1 -> int": col.x + 1,
    "1 - x -> int": 1 - col.x,
    "x // 2 -> int": col.x // 2,
    "cast_float(x) / 2.0 -> float": col.x / 2,
    "(x % 2) * y -> int?": col.x % 2 * col.y,
    "cast_float(x) ** 2.0 -> float": col.x**2,
    "neg(x) -> int": -col.x,
    "abs(x) -> int": abs(col.x),
    "(x > 1) and (f <= 2.0) -> bool": (col.x > 1) & (col.f <= 2),
    "not((x == 1) or b) -> bool": ~((col.x == 1) | col.b),
    "y != 3 -> bool?": col.y != 3,
    "concat(s, '!') -> str": col.s + "!",
    "startswith(lower(s), 'a') -> bool": col.s.lower().startswith("a"),
    "case when x > 3 then 'big' else 'small' end -> str": when(col.x > 3, "big").otherwise("small"),
    "case when x > 3 then 1 when b then 2 else NULL end -> int?": when(col.x > 3, 1).when(col.b, 2),
    "(x == 1) or ((x == 2) or (x == 3)) -> bool": col.x.isin([1, 2, 3]),
    "False -> bool": col.x.isin([]),
    "(x >= 1) and (x <= 9) -> bool": col.x.between(1, 9),
    "cast_float(x) -> float": col.x.cast(float),
    "cast_decimal(2)(x) -> decimal(2)": col.x.cast("decimal(2)"),
    "date_add_days(d, 3) -> date": col.d + 3,
    "date_add_days(d, -3) -> date": col.d - datetime.timedelta(days=3),
    "date_diff_days(d, e) -> int": col.d - col.e,
    "date_diff_days(d, e) > 7 -> bool": col.d - col.e > datetime.timedelta(weeks=1),
    "timestamp_add(t, 1000000) -> timestamp": datetime.timedelta(seconds=1) + col.t,
    "timestamp_diff(t, cast_timestamp(d)) -> int": col.t - col.d,
    "timestamp_diff(t, t) < 5 -> bool": col.t - col.t < datetime.timedelta(microseconds=5),
    "date_trunc('month', t) -> timestamp": col.t.date_trunc("month"),
    "year(d) -> int": col.d.year(),
    "if_null(y, 0) -> int": col.y.if_null(0),
    "is_null(y) -> bool": col.y.is_null(),
    "greatest(x, y, 0) -> int": greatest(col.x, col.y, 0),
    "tuple_get(tuple_make(x, s), 1) -> str": tuple_(col.x, col.s)[1],
    "hash(s) -> int": col.s.hash(),
    "x + 5 -> int": col.x + np.int64(5),
    "s == 'a' -> bool": col["s"] == "a",
}


@pytest.mark.parametrize("text", CASES)
def test_resolves(text: str) -> None:
    assert shown(CASES[text]) == text


def test_udf() -> None:
    @udf(returns=str)
    def initial(name: str) -> str:
        return name[:1]

    found = resolve(initial(col.s), SCOPE)
    assert isinstance(found, Udf)
    assert (found.type, found.vectorized) == (STR, False)
    assert shown(initial(col.s + "x")) == "initial(concat(s, 'x')) -> str"
    assert resolve(udf(len, returns=int, vectorized=True)(col.s), SCOPE).type == INT


def test_col_knows_any_name() -> None:
    assert isinstance(col.count, Named)
    assert repr(col["two words"]) == "col['two words']"
    assert not hasattr(col, "__wrapped__")


ERRORS: dict[str, Any] = {
    "[E_COLUMN] the table has no column 'zz'\n  hint: available: 'x', 'y', 'f', 's', 'd', 'e', 't', 'b'": col.zz,
    "[E_TYPE] add(int, str) does not exist, in col.x + col.s\n"
    "  hint: add: a + b; cast the arguments, e.g. .cast(int)": col.x + col.s,
    "[E_TYPE] str cannot be cast to tuple(int)\n  hint: tuples are made with ev.tuple_(...)": col.s.cast(tuple[int]),
    "[E_AGGREGATE] col.x.sum() is an aggregate and needs a group\n"
    "  hint: use it in .group_by(...).agg(...) or .agg(...); aggregates of aggregates need two steps": col.x.sum() + 1,
    "[E_TYPE] a duration cannot be combined with int\n  hint: add it to or subtract it from a date or timestamp, "
    "or compare it with a difference of two": col.x + datetime.timedelta(1),
    "[E_TYPE] 1:00:00 is not a whole number of days, which dates need\n  hint: cast the date: .cast(datetime)": col.d
    + datetime.timedelta(hours=1),
    "[E_TYPE] a duration (1:00:00) is not allowed here\n  hint: add it to or subtract it from a date or timestamp, "
    "or compare it with a difference of two": lit(datetime.timedelta(hours=1)),
}


@pytest.mark.parametrize("text", ERRORS)
def test_error_texts(text: str) -> None:
    with pytest.raises(PlanError) as error:
        resolve(ERRORS[text], SCOPE)
    assert str(error.value) == text


def test_python_logic_is_refused() -> None:
    with pytest.raises(PlanError) as error:
        assert col.x > 1 and col.y > 2
    assert str(error.value) == (
        "[E_BOOL] col.x > 1 has no truth value: it is an expression, not a value\n"
        "  hint: write & | ~ for and, or, not (with brackets: (a > 1) & (b < 2)), .isin() for in, "
        ".between() for a < x < b"
    )
    with pytest.raises(TypeError):
        list(col.x)  # type: ignore[call-overload]
    with pytest.raises(PlanError, match="is an order, not a value"):
        lit(col.x.desc())


def test_texts_of_expressions() -> None:
    assert repr(col.x.last(by=col.t)) == "col.x.last(by=[col.t.desc()])"
    assert repr(count() + 1) == "count() + 1"
    assert repr(col.x.isin([1])) == "col.x.isin([1])"
    assert repr(~col.b) == "~(col.b)"
