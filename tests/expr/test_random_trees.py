"""Random typed expression trees over random nullable data: reference, machine and Python evaluator agree."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everview.errors import PlanError
from everview.expr.functions import call
from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.types import BOOL, DATE, FLOAT, INT, NULL, STR, TIMESTAMP, DataType, decimal
from tests.expr.harness import check

D2 = decimal(2)
BASE = (INT, FLOAT, BOOL, STR, DATE, TIMESTAMP, D2)
COLUMNS: tuple[DataType, ...] = (*BASE, *(t.optional() for t in BASE))

VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    INT: st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)).filter(lambda n: n != NULL),
    FLOAT: st.one_of(st.sampled_from([0.0, -0.0, 1.0, -2.5, 0.5]), st.floats()),
    BOOL: st.booleans(),
    STR: st.one_of(st.sampled_from(["", "a", "b", "12", "1.5", "2020-01-31"]), st.text(max_size=4)),
    DATE: st.dates(),
    TIMESTAMP: st.datetimes(),
    D2: st.one_of(st.integers(-500, 500), st.integers(-(10**18) + 1, 10**18 - 1)).map(lambda n: Decimal(n).scaleb(-2)),
}

# result kind -> what makes it: op and the types of its arguments
RULES: dict[DataType, list[tuple[str, tuple[DataType, ...]]]] = {
    INT: [
        *(
            (op, (INT, INT))
            for op in ("add", "sub", "mul", "floordiv", "mod", "greatest", "least", "coalesce", "nullif")
        ),
        *((op, (INT, INT)) for op in ("band", "bor", "bxor", "bshl", "bshr", "bshru")),
        *((op, (INT,)) for op in ("neg", "abs", "sign", "hash", "bnot")),
        *(("cast_int", (t,)) for t in (FLOAT, BOOL, D2, DATE, TIMESTAMP, STR)),
        *((op, (DATE,)) for op in ("year", "month", "day", "dayofweek")),
        *((op, (TIMESTAMP,)) for op in ("hour", "minute", "second", "year")),
        ("date_diff_days", (DATE, DATE)),
        ("timestamp_diff", (TIMESTAMP, TIMESTAMP)),
        ("hash", (FLOAT, STR, DATE)),
        ("length", (STR,)),
        ("floordiv", (D2, D2)),
        ("case", (BOOL, INT, BOOL, INT, INT)),
    ],
    FLOAT: [
        *(
            (op, (FLOAT, FLOAT))
            for op in ("add", "sub", "mul", "div", "floordiv", "mod", "greatest", "coalesce", "nullif")
        ),
        *((op, (FLOAT,)) for op in ("neg", "abs", "sign", "floor", "ceil", "round", "sqrt")),
        *(("cast_float", (t,)) for t in (INT, BOOL, D2, STR)),
        ("add", (INT, FLOAT)),
        ("div", (INT, INT)),
        ("extract_epoch", (TIMESTAMP,)),
        ("case", (BOOL, FLOAT, FLOAT)),
    ],
    BOOL: [
        *((op, (t, t)) for op in ("eq", "ne", "lt", "le", "gt", "ge") for t in BASE),
        *((op, (BOOL, BOOL)) for op in ("and", "or") * 3),
        ("not", (BOOL,)),
        *((op, (t,)) for op in ("is_null", "is_not_null") for t in BASE),
        *(("cast_bool", (t,)) for t in (INT, FLOAT, D2)),
        ("contains", (STR, STR)),
        ("lt", (INT, FLOAT)),
        ("case", (BOOL, BOOL, BOOL)),
    ],
    STR: [
        ("concat", (STR, STR)),
        ("upper", (STR,)),
        ("substr", (STR, INT)),
        *(("cast_str", (t,)) for t in (INT, BOOL, DATE, D2)),
        ("coalesce", (STR, STR)),
        ("least", (STR, STR)),
        ("case", (BOOL, STR, STR)),
    ],
    DATE: [
        ("date_add_days", (DATE, INT)),
        ("add_months", (DATE, INT)),
        ("cast_date", (TIMESTAMP,)),
        ("cast_date", (INT,)),
        ("cast_date", (STR,)),
        ("greatest", (DATE, DATE)),
    ],
    TIMESTAMP: [
        ("timestamp_add", (TIMESTAMP, INT)),
        ("add_months", (TIMESTAMP, INT)),
        ("cast_timestamp", (DATE,)),
        ("cast_timestamp", (INT,)),
        ("if_null", (TIMESTAMP, TIMESTAMP)),
    ],
    D2: [
        *((op, (D2, D2)) for op in ("add", "sub", "mod", "greatest", "nullif", "coalesce")),
        *((op, (D2,)) for op in ("neg", "abs", "floor", "ceil", "round")),
        ("case", (BOOL, D2, D2)),
    ],
}


@st.composite
def expressions(draw: st.DrawFn, want: DataType, depth: int) -> Expr:
    """A random expression of a kind, nullable or not."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        if draw(st.integers(0, 2)) == 0:
            value = draw(st.one_of(st.none(), VALUES[want]))
            return Literal(want.optional(value is None), value)
        index = draw(st.sampled_from([i for i, t in enumerate(COLUMNS) if t.optional(False) == want]))
        return ColumnRef(COLUMNS[index], index)
    op, kinds = draw(st.sampled_from(RULES[want]))
    args = [draw(expressions(kind, depth - 1)) for kind in kinds]
    if op.startswith("cast_") and isinstance(args[0], Literal) and args[0].value is None:
        return Literal(want.optional(), None)
    return call(op, *args)


def rows(size: int) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    def column(t: DataType) -> st.SearchStrategy[Any]:
        values = VALUES[t.optional(False)]
        return st.one_of(st.none(), values) if t.nullable else values

    return st.lists(st.tuples(*map(column, COLUMNS)), min_size=1, max_size=size)


LOOSE = settings(deadline=None, max_examples=150, suppress_health_check=[*HealthCheck])


@LOOSE
@given(st.data())
def test_random_trees(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(BASE), min_size=1, max_size=2))
    try:
        exprs = tuple(data.draw(expressions(kind, data.draw(st.integers(1, 4)))) for kind in kinds)
        predicate = data.draw(st.one_of(st.none(), expressions(BOOL, 2)))
    except PlanError:  # a NULL literal took a type that does not fit
        return
    check(exprs, data.draw(rows(12)), COLUMNS, predicate, kinds=False)


NO_TEXT = tuple(t for t in BASE if t != STR)


@LOOSE
@given(st.data())
def test_trees_the_machine_can_run(data: st.DataObject) -> None:
    """Without texts, so that nearly everything is compiled; many rows, so that chunks are full and left over."""
    kind = data.draw(st.sampled_from(NO_TEXT))
    try:
        expr = data.draw(expressions(kind, 3))
    except PlanError:
        return
    few = data.draw(rows(3))
    check((expr,), (few * 400)[:1030] if data.draw(st.booleans()) else few, COLUMNS, kinds=False)
