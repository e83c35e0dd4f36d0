"""Every function at least once, on its corners: reference, machine and Python evaluator agree."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal
from typing import Any

import pytest

from everview.expr.functions import FUNCTIONS, call, cast
from everview.expr.nodes import ColumnRef, Literal
from everview.expr.python_functions import MAKERS
from everview.types import BOOL, BYTES, DATE, FLOAT, INT, NULL, PACKED, STR, TIMESTAMP, DataType, decimal
from tests.expr.harness import check

BIG = 2**63 - 1
SAMPLES: dict[DataType, list[Any]] = {
    INT: [0, 1, -1, 2, -7, 12, 1000, BIG, -BIG - 1, 10**18, 3_037_000_500],
    FLOAT: [0.0, -0.0, 1.0, -1.5, 2.5, 3.5, 0.1, 1e300, 5e-324, -1e18, 9.3e18, math.inf, -math.inf, math.nan],
    BOOL: [True, False],
    STR: [
        "",
        "a",
        "Ab c",
        "  x\t",
        "ÄÖß",
        "10",
        "-3.75",
        "9" * 40,
        "true",
        "2024-02-29",
        "2024-02-29 12:30:00.5+01:00",
        "0001-01-01 00:00+00:01",
        "nan",
        "𝄞é𝄞",
    ],
    BYTES: [b"", b"a", b"\xff\x00", "é".encode()],
    DATE: [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    TIMESTAMP: [
        dt.datetime(1970, 1, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        dt.datetime(2024, 2, 29, 13, 14, 15, 16),
        dt.datetime(1, 1, 1),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    ],
    decimal(2): [Decimal(x) for x in ("0.00", "1.00", "-1.55", "2.45", "-0.01", "99.99", "9999999999999999.99")],
    decimal(0): [Decimal(x) for x in ("0", "7", "-3", "999999999999999999")],
}

UNARY: dict[str, tuple[DataType, ...]] = {
    "neg": (INT, FLOAT, decimal(2)),
    "bnot": (INT,),
    "abs": (INT, FLOAT, decimal(2)),
    "sqrt": (FLOAT,),
    "exp": (FLOAT,),
    "ln": (FLOAT,),
    "log2": (FLOAT,),
    "log10": (FLOAT,),
    "floor": (INT, FLOAT, decimal(2), decimal(0)),
    "ceil": (INT, FLOAT, decimal(2), decimal(0)),
    "round": (INT, FLOAT, decimal(2)),
    "sign": (INT, FLOAT, decimal(2)),
    "not": (BOOL,),
    "is_null": (INT, STR),
    "is_not_null": (FLOAT, BYTES),
    "cast_int": (FLOAT, BOOL, decimal(2), decimal(0), STR, DATE, TIMESTAMP),
    "cast_float": (INT, BOOL, decimal(2), decimal(0), STR),
    "cast_bool": (INT, FLOAT, decimal(2), STR),
    "cast_str": (INT, FLOAT, BOOL, decimal(2), decimal(0), DATE, TIMESTAMP, BYTES),
    "cast_bytes": (STR,),
    "cast_date": (STR, TIMESTAMP, INT),
    "cast_timestamp": (STR, DATE, INT),
    "cast_decimal": (INT, FLOAT, BOOL, STR),
    "length": (STR, BYTES),
    "lower": (STR,),
    "upper": (STR,),
    "reverse": (STR,),
    "trim": (STR,),
    "ltrim": (STR,),
    "rtrim": (STR,),
    "year": (DATE, TIMESTAMP),
    "month": (DATE, TIMESTAMP),
    "day": (DATE, TIMESTAMP),
    "dayofweek": (DATE, TIMESTAMP),
    "hour": (TIMESTAMP,),
    "minute": (TIMESTAMP,),
    "second": (TIMESTAMP,),
    "extract_epoch": (DATE, TIMESTAMP),
    "hash": (INT, FLOAT, STR, DATE),
}

ANY = tuple(SAMPLES)
NUMBERS = (INT, FLOAT, decimal(2))
BINARY: dict[str, tuple[tuple[DataType, DataType], ...]] = {
    **{op: tuple((t, t) for t in NUMBERS) for op in ("add", "sub", "mul", "floordiv", "mod", "div")},
    **{op: tuple((t, t) for t in ANY) for op in ("eq", "ne", "lt", "le", "gt", "ge", "greatest", "least")},
    **{op: tuple((t, t) for t in ANY) for op in ("coalesce", "if_null", "nullif", "hash", "tuple_make")},
    **dict.fromkeys(("band", "bor", "bxor", "bshl", "bshr", "bshru"), ((INT, INT),)),
    "pow": ((FLOAT, FLOAT),),
    "and": ((BOOL, BOOL),),
    "or": ((BOOL, BOOL),),
    "contains": ((STR, STR),),
    "startswith": ((STR, STR),),
    "endswith": ((STR, STR),),
    "position": ((STR, STR),),
    "concat": ((STR, STR),),
    "trim": ((STR, STR),),
    "ltrim": ((STR, STR),),
    "rtrim": ((STR, STR),),
    "date_add_days": ((DATE, INT),),
    "date_diff_days": ((DATE, DATE),),
    "add_months": ((DATE, INT), (TIMESTAMP, INT)),
    "timestamp_add": ((TIMESTAMP, INT),),
    "timestamp_diff": ((TIMESTAMP, TIMESTAMP),),
    "substr": ((STR, INT),),
    "lpad": (),
    "rpad": (),
}

TEXTS = [Literal(STR, t) for t in ("", "a", "b c", "x%", "é")]
SMALL = [Literal(INT, n) for n in (-2, -1, 0, 1, 2, 5)]
WITH_CONSTANTS: dict[str, list[tuple[Literal, ...]]] = {
    "contains": [(t,) for t in TEXTS],
    "startswith": [(t,) for t in TEXTS],
    "endswith": [(t,) for t in TEXTS],
    "position": [(t,) for t in TEXTS],
    "trim": [(t,) for t in TEXTS],
    "ltrim": [(t,) for t in TEXTS],
    "rtrim": [(t,) for t in TEXTS],
    "like": [(Literal(STR, p),) for p in ("%", "", "_", "a%", "%b%", "A_ %", r"\%", "%\\_", "é", ".*")],
    "regexp_matches": [(Literal(STR, p),) for p in ("", "^a", "[0-9]+", "b c$")],
    "replace": [(a, b) for a in TEXTS for b in TEXTS[:2]],
    "substr": [(a, b) for a in SMALL for b in SMALL] + [(a,) for a in SMALL],
    "split_part": [(t, n) for t in TEXTS for n in SMALL] + [(Literal(STR, " "), n) for n in SMALL],  # type: ignore[dict-item]
    "lpad": [(n, t) for t in TEXTS for n in SMALL] + [(n,) for n in SMALL],
    "rpad": [(n, t) for t in TEXTS for n in SMALL] + [(n,) for n in SMALL],
    "concat": [(t, u) for t in TEXTS for u in TEXTS[:2]],
}


def both(declared: DataType) -> list[tuple[DataType, list[Any]]]:
    """The type without NULL and with it, and values."""
    return [(declared, SAMPLES[declared]), (declared.optional(), [*SAMPLES[declared], None])]


def columns(*types: DataType) -> list[ColumnRef]:
    return [ColumnRef(t, i) for i, t in enumerate(types)]


@pytest.mark.parametrize("op", UNARY)
def test_functions_of_one_argument(op: str) -> None:
    for source in UNARY[op]:
        for declared, values in both(source):
            expr = call(op, *columns(declared))
            check((expr,), [(v,) for v in values], (declared,))


@pytest.mark.parametrize("op", BINARY)
def test_functions_of_two_arguments(op: str) -> None:
    for left, right in BINARY[op]:
        if op in {"lt", "le", "gt", "ge"} and left.kind == "tuple":
            continue
        for (a, many), (b, others) in itertools.product(both(left), both(right)):
            check((call(op, *columns(a, b)),), list(itertools.product(many, others)), (a, b))


@pytest.mark.parametrize("op", WITH_CONSTANTS)
def test_functions_of_texts_with_constants_and_with_columns(op: str) -> None:
    rows: list[tuple[Any, ...]] = [(s,) for s in [*SAMPLES[STR], "a b c a", None]]
    for constants in WITH_CONSTANTS[op]:
        text = ColumnRef(STR.optional(), 0)
        check((call(op, text, *constants),), rows, (STR.optional(),))
        if not FUNCTIONS[op].literals:
            types = (STR.optional(), *(c.type for c in constants))
            varying = [(*row, *(c.value for c in constants)) for row in rows]
            check((call(op, *columns(*types)),), varying, types)


@pytest.mark.parametrize("unit", ["year", "quarter", "month", "week", "day", "hour", "minute", "second"])
def test_date_trunc(unit: str) -> None:
    for source in (TIMESTAMP, DATE) if unit in ("year", "quarter", "month", "week", "day") else (TIMESTAMP,):
        for declared, values in both(source):
            expr = call("date_trunc", Literal(STR, unit), *columns(declared))
            assert check((expr,), [(v,) for v in values], (declared,)) is not None


@pytest.mark.parametrize("digits", [0, 1, 2, 3, 15])
def test_round_to_digits(digits: int) -> None:
    for source in NUMBERS:
        for declared, values in both(source):
            expr = call("round", *columns(declared), Literal(INT, digits))
            check((expr,), [(v,) for v in values], (declared,))


@pytest.mark.parametrize("scale", [0, 1, 2, 6, 17, 18])
def test_decimals_change_scale(scale: int) -> None:
    for source in (decimal(2), decimal(0), INT, FLOAT, BOOL, STR):
        for declared, values in both(source):
            check((cast(columns(declared)[0], decimal(scale)),), [(v,) for v in values], (declared,))


def test_a_result_that_would_read_as_null_is_an_overflow() -> None:
    maybe = INT.optional()
    expr = call("add", ColumnRef(maybe, 0), Literal(INT, 1))
    check((expr,), [(NULL - 1,), (NULL + 1,), (None,)], (maybe,))
    check((call("neg", ColumnRef(maybe, 0)),), [(-NULL,), (1,)], (maybe,))
    check((call("cast_int", ColumnRef(STR.optional(), 0)),), [(str(NULL),), ("1",)], (STR.optional(),))


def test_the_reserved_number_is_an_ordinary_one_where_there_is_no_null() -> None:
    x, y = columns(INT, INT)
    for op in ("add", "eq", "lt", "greatest", "least", "coalesce", "is_null"):
        check((call(op, *((x,) if op == "is_null" else (x, y))),), [(NULL, 0), (0, NULL), (NULL, NULL)], (INT, INT))


def test_tuples_are_made_and_taken_apart() -> None:
    a, b = columns(INT.optional(), STR)
    pair = call("tuple_make", a, b)
    rows = [(1, "x"), (None, ""), (-5, "é")]
    check(
        (pair, call("tuple_get", pair, Literal(INT, 0)), call("tuple_get", pair, Literal(INT, 1))),
        rows,
        (a.type, b.type),
    )
    maybe = DataType("tuple", True, items=(INT, STR))
    item = call("tuple_get", ColumnRef(maybe, 0), Literal(INT, 1))
    check((item,), [((1, "x"),), (None,)], (maybe,))


def test_every_function_is_in_a_table_here() -> None:
    elsewhere = {"case", "date_trunc", "tuple_get"}
    elsewhere |= {"attempt", "text_word"}  # tests/sql/test_exact_decimals.py, test_text_order.py
    elsewhere |= {*MAKERS, "enum_place"}  # against PostgreSQL: tests/sql/test_types.py
    elsewhere |= {f"cast_{kind}" for kind in (*PACKED, "timestamptz", "time", "enum", "char")}
    assert set(FUNCTIONS) == {*UNARY, *BINARY, *WITH_CONSTANTS} | elsewhere
