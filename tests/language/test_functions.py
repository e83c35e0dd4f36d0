"""Rules of types: every function once, conversions made explicit, and what is refused."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pytest

from everview.errors import PlanError
from everview.expr import functions
from everview.expr.common_types import common_type
from everview.expr.functions import FUNCTIONS, call, cast
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.expr.python_functions import MAKERS
from everview.expr.resolve import literal
from everview.types import BOOL, BYTES, DATE, FLOAT, INT, PACKED, STR, TIMESTAMP, DataType, decimal

KINDS = {
    "i": INT,
    "f": FLOAT,
    "b": BOOL,
    "s": STR,
    "y": BYTES,
    "d": DATE,
    "t": TIMESTAMP,
    "m": decimal(2),
    "M": decimal(4),
    "p": DataType("tuple", items=(INT, STR.optional())),
}

# op, letters of the arguments (upper part of KINDS), the result
CASES = """
add ii int | add if float | add mi decimal(2) | add mM decimal(4) | add mf float | sub ii int | mul ff float
mul mM decimal(6) | mul im decimal(2) | div ii float | div mm float | floordiv ii int | floordiv ff float
floordiv mM int | mod ii int | mod mM decimal(4) | neg i int | neg m decimal(2) | abs f float | pow ii float
sqrt i float | exp f float | ln m float | log2 i float | log10 f float | floor f float | ceil m decimal(2)
round f float | sign i int | sign f float | greatest ifi float | least ss str | eq ss bool | eq pp bool | ne dt bool
lt if bool | le bb bool | gt yy bool | ge tt bool | and bb bool | or bb bool | not b bool | is_null p bool
is_not_null i bool | coalesce ii int | if_null fi float | nullif ii int? | case bif float | case bibii int
cast_int s int | cast_float m float | cast_bool s bool | cast_str t str | cast_bytes s bytes | cast_date t date
cast_timestamp d timestamp | length y int | lower s str | upper s str | reverse s str | trim s str | ltrim ss str
rtrim s str | substr si str | substr sii str | concat sss str | contains ss bool | startswith ss bool
endswith ss bool | replace sss str | split_part ssi str | lpad si str | rpad sis str | position ss int
year d int | month t int | day d int | dayofweek d int | hour t int | minute t int | second t int
date_add_days di date | date_diff_days dd int | add_months ti timestamp | extract_epoch d float
timestamp_add ti timestamp | timestamp_diff td int | hash isp int | tuple_make if tuple(int, float)
band ii int | bor ii int | bxor ii int | bnot i int | bshl ii int | bshr ii int | bshru ii int
"""
WITH_LITERALS = {"round", "like", "regexp_matches", "date_trunc", "tuple_get", "cast_decimal"}


def args(letters: str, nullable: bool = False) -> list[Expr]:
    return [ColumnRef(KINDS[x].optional(nullable), i) for i, x in enumerate(letters)]


def split(text: str) -> list[tuple[str, str, str]]:
    entries = [e.split(None, 2) for e in text.replace("\n", "|").split("|") if e.strip()]
    return [(op, letters, result.strip()) for op, letters, result in entries]


@pytest.mark.parametrize(("op", "letters", "result"), split(CASES))
def test_result_type(op: str, letters: str, result: str) -> None:
    found = call(op, *args(letters))
    assert repr(found.type) == result
    nullable = call(op, *args(letters, nullable=True))
    never_null = {"is_null", "is_not_null", "hash", "tuple_make"}
    assert nullable.type.nullable == (op not in never_null)


def test_every_function_is_in_a_table() -> None:
    elsewhere = {*MAKERS, "enum_place", "attempt", "text_word"} | {
        f"cast_{kind}" for kind in (*PACKED, "timestamptz", "time", "enum", "char")
    }
    assert set(FUNCTIONS) == {op for op, _, _ in split(CASES)} | WITH_LITERALS | elsewhere  # tests/sql/test_types.py


def test_functions_with_constants() -> None:
    s, d, t, p = (ColumnRef(KINDS[k], 0) for k in "sdtp")
    assert call("like", s, literal("a%")).type == BOOL
    assert call("regexp_matches", s, literal("^a")).type == BOOL
    assert call("date_trunc", literal("month"), d).type == DATE
    assert call("date_trunc", literal("hour"), t).type == TIMESTAMP
    assert call("tuple_get", p, literal(1)).type == STR.optional()
    assert call("round", ColumnRef(FLOAT, 0), literal(2)).type == FLOAT
    assert cast(s, decimal(3)).type == decimal(3)


def test_conversions_are_explicit() -> None:
    found = call("lt", ColumnRef(INT, 0), ColumnRef(FLOAT, 1))
    assert found == Call(BOOL, "lt", (Call(FLOAT, "cast_float", (ColumnRef(INT, 0),)), ColumnRef(FLOAT, 1)))
    found = call("add", ColumnRef(decimal(2), 0), ColumnRef(decimal(4), 1))
    assert found.children()[0] == Call(decimal(4), "cast_decimal", (ColumnRef(decimal(2), 0),))
    assert call("eq", ColumnRef(FLOAT, 0), literal(1)).children()[1] == Literal(FLOAT, 1.0)
    assert call("add", ColumnRef(decimal(2), 0), literal(1)).children()[1] == Literal(decimal(2), Decimal(1))


def test_partly_nullable() -> None:
    a, b = ColumnRef(INT.optional(), 0), ColumnRef(INT, 1)
    assert call("coalesce", a, b).type == INT
    assert call("greatest", a, b).type == INT
    assert call("and", call("gt", a, b), call("gt", b, b)).type == BOOL.optional()
    assert call("case", call("gt", a, b), b, b).type == INT


def test_null_takes_the_type_of_its_place() -> None:
    null = literal(None)
    assert call("coalesce", null, ColumnRef(STR, 0)).type == STR
    assert call("add", ColumnRef(FLOAT, 0), null).type == FLOAT.optional()
    assert call("and", ColumnRef(BOOL, 0), null).type == BOOL.optional()
    assert call("lower", null).type == STR.optional()
    assert call("case", ColumnRef(BOOL, 0), ColumnRef(DATE, 1), null).type == DATE.optional()
    assert call("substr", ColumnRef(STR, 0), null).type == STR.optional()
    assert cast(null, DATE) == Literal(DATE.optional(), None)


def test_literals() -> None:
    assert repr(literal((1, "a", None)).type) == "tuple(int, str, int?)"
    assert literal(-0.0) == Call(FLOAT, "neg", (Literal(FLOAT, 0.0),))
    assert literal(float("nan")) == literal(math.nan)
    assert literal(True).type == BOOL
    noon = datetime.datetime(2026, 1, 1, 13, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
    assert literal(noon) == Literal(TIMESTAMP, datetime.datetime(2026, 1, 1, 12))
    assert literal(datetime.date(2026, 1, 1)).type == DATE
    assert literal(Decimal("1e2")) == Literal(decimal(0), Decimal(100))
    assert call("neg", literal(3)) == Literal(INT, -3)
    assert call("neg", literal(-(2**63))).children() == (literal(-(2**63)),)


def test_common_type() -> None:
    assert common_type([INT, decimal(2), decimal(3)]) == decimal(3)
    assert common_type([DATE, TIMESTAMP]) == TIMESTAMP
    assert common_type([BOOL, INT]) is None
    pair = DataType("tuple", items=(INT, STR))
    loose = DataType("tuple", items=(INT.optional(), STR))
    assert common_type([pair, loose]) == loose
    assert common_type([pair, DataType("tuple", items=(FLOAT, STR))]) is None
    assert common_type([pair, DataType("tuple", items=(INT,))]) is None


def test_long_conjunctions_stay_shallow() -> None:
    many = functions.conjunction([ColumnRef(BOOL, i) for i in range(5000)], "or")
    assert len(list(many.walk())) == 9999


REFUSED = {
    "[E_FUNCTION] there is no function 'lowr'\n  hint: did you mean 'lower'?": ("lowr", "s"),
    "[E_ARITY] add takes 2 arguments, not 1\n  hint: add: a + b": ("add", "i"),
    "[E_ARITY] substr takes 2 to 3 arguments, not 1\n  hint: substr: n code points from position start": (
        "substr",
        "s",
    ),
    "[E_TYPE] add(int, str) does not exist\n  hint: add: a + b; cast the arguments, e.g. .cast(int)": ("add", "is"),
    "[E_TYPE] lt(tuple(int, str?), tuple(int, str?)) does not exist\n"
    "  hint: lt: a < b; cast the arguments, e.g. .cast(int)": ("lt", "pp"),
    "[E_LITERAL] argument 2 of like must be a constant\n  hint: give a plain Python value there": ("like", "ss"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    op, letters = REFUSED[text]
    with pytest.raises(PlanError) as error:
        call(op, *args(letters))
    assert str(error.value) == text


def refusal(op: str, *given: Expr) -> str:
    with pytest.raises(PlanError) as error:
        call(op, *given)
    return str(error.value)


def test_refused_constants() -> None:
    d, p, f = (ColumnRef(KINDS[k], 0) for k in "dpf")
    assert refusal("date_trunc", literal("hour"), d) == (
        "[E_UNIT] date cannot be truncated to 'hour'\n  hint: available: 'year', 'quarter', 'month', 'week', 'day'"
    )
    assert refusal("tuple_get", p, literal(2)) == "[E_RANGE] the tuple has no item 2\n  hint: it has 2, counted from 0"
    assert refusal("round", f, literal(99)).startswith("[E_RANGE] round to 99 digits")
    big = ColumnRef(decimal(10), 0)
    assert repr(call("mul", big, big).type) == "numeric(38, 20)"  # 64 bits would not hold it
    with pytest.raises(PlanError, match=r"tuple\(int, str\?\) cannot be cast to int"):
        cast(p, INT)
    with pytest.raises(PlanError, match="does not fit in 64 bits"):
        literal(2**63)
    with pytest.raises(PlanError, match="cannot be a constant"):
        literal(object())
