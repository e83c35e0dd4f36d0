# ruff: noqa: E501 (one case, one line)
"""Bad input: every text pinned, the same on every road."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from everview.codes import Codec, Interner, data_type
from everview.errors import InputError
from everview.types import NULL

EAST = dt.timezone(dt.timedelta(hours=1))
OTHERWISE = "or declare the column's type differently"
STANDS_FOR_NULL = "this one value stands for NULL in nullable columns; declare the column without NULLs to store it"

VALUES: list[tuple[Any, Any, Any, str, str, str]] = [
    # declared, a good value, a bad value, code, message, hint
    (int, 1, "a", "E_TYPE", "'a' is a str, not an int", f"convert it with int(...), {OTHERWISE}"),
    (int, 1, True, "E_TYPE", "True is a bool, not an int", "write 1 or 0, or declare the column bool"),
    (int, 1, 1.0, "E_TYPE", "1.0 is a float, not an int", f"convert it with int(...), {OTHERWISE}"),
    (int, 1, 2**63, "E_RANGE", "9223372036854775808 does not fit 64 bits", "ints go from -2**63 to 2**63 - 1"),
    (int, 1, None, "E_NULL", "NULL is not allowed in int", "declare it nullable, e.g. 'int?' or Optional[...], or leave the row out"),
    ("int?", None, NULL, "E_RANGE", f"{NULL} is reserved", STANDS_FOR_NULL),
    (float, 1, "1", "E_TYPE", "'1' is a str, not a float", f"convert it with float(...), {OTHERWISE}"),
    (float, 1.0, True, "E_TYPE", "True is a bool, not a float", f"convert it with float(...), {OTHERWISE}"),
    (float, 1.0, 10**400, "E_RANGE", "1" + "0" * 56 + "... does not fit a float", "floats end at about 1.8e308"),
    (bool, True, 1, "E_TYPE", "1 is an int, not a bool", "write True or False"),
    (str, "a", 1, "E_TYPE", "1 is an int, not a str", f"convert it with str(...), {OTHERWISE}"),
    (str, "a", b"a", "E_TYPE", "b'a' is bytes, not a str", f"convert it with str(...), {OTHERWISE}"),
    (str, "a", [], "E_TYPE", "[] is a list, not a str", f"convert it with str(...), {OTHERWISE}"),
    (str, "a", "\ud800", "E_TYPE", "'\\ud800' is not valid Unicode text", "it holds half of a surrogate pair; decode the source with errors='replace'"),
    (bytes, b"a", "a", "E_TYPE", "'a' is a str, not bytes", "encode it, e.g. with .encode()"),
    (bytes, b"a", 1, "E_TYPE", "1 is an int, not bytes", "write bytes(...)"),
    (dt.date, dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), "E_TYPE", "datetime.datetime(2020, 1, 1, 0, 0) is a datetime, not a date", "take its .date()"),
    (dt.date, dt.date(2020, 1, 1), "2020-01-01", "E_TYPE", "'2020-01-01' is a str, not a date", "write datetime.date(year, month, day)"),
    (dt.datetime, dt.datetime(2020, 1, 1), dt.date(2020, 1, 1), "E_TYPE", "datetime.date(2020, 1, 1) is a date, not a datetime", "write datetime.datetime(...)"),
    (dt.datetime, dt.datetime(2020, 1, 1), np.datetime64(1, "ns"), "E_RANGE", "np.datetime64('1970-01-01T00:00:00.000000001') has nanoseconds", "round it to microseconds"),
    (dt.datetime, dt.datetime(2020, 1, 1), pd.Timestamp(1), "E_RANGE", "Timestamp('1970-01-01 00:00:00.000000001') has nanoseconds", "round it to microseconds"),
    (dt.datetime, dt.datetime(2020, 1, 1), dt.datetime(1, 1, 1, tzinfo=EAST), "E_RANGE", "datetime.datetime(1, 1, 1, 0, 0, tzinfo=datetime.timezone... is outside the years 1 to 9999 in UTC", "clip it"),
    ("decimal(2)", Decimal(1), Decimal("1.234"), "E_RANGE", "Decimal('1.234') has more than 2 digits after the point", "round it, or declare a larger scale, e.g. 'decimal(6)'"),
    ("decimal(2)", Decimal(1), Decimal("1e-999999"), "E_RANGE", "Decimal('1E-999999') has more than 2 digits after the point", "round it, or declare a larger scale, e.g. 'decimal(6)'"),
    ("decimal(2)", Decimal(1), Decimal("1e17"), "E_RANGE", "Decimal('1E+17') needs more than 18 digits at scale 2", "declare a smaller scale"),
    ("decimal(2)", Decimal(1), Decimal("nan"), "E_RANGE", "Decimal('NaN') is not a number", "decimals have no NaN and no infinity"),
    ("decimal(2)", Decimal(1), 1.5, "E_TYPE", "1.5 is a float, not a Decimal", "write Decimal(str(x))"),
    ("decimal(2)", Decimal(1), "1.5", "E_TYPE", "'1.5' is a str, not a Decimal", "write Decimal('1.25')"),
    ("tuple(int, str)", (1, "a"), (1,), "E_WIDTH", "(1,) has 1 item, not 2", "the type is tuple(int, str)"),
    ("tuple(int, str)", (1, "a"), (1, 2), "E_TYPE", "2 is an int, not a str", f"convert it with str(...), {OTHERWISE}"),
    ("tuple(int, str)", (1, "a"), 5, "E_TYPE", "5 is an int, not a tuple(int, str)", "write a tuple"),
    ("tuple(int, str)", (1, "a"), (None, "a"), "E_NULL", "NULL is not allowed in int", "declare it nullable, e.g. 'int?' or Optional[...], or leave the row out"),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "good", "bad", "code", "message", "hint"), VALUES)
@pytest.mark.parametrize("before", [0, 3, 40])
def test_bad_values(declared: Any, good: Any, bad: Any, code: str, message: str, hint: str, before: int) -> None:
    codec = Codec([data_type(int), data_type(declared)], ["id", "x"], Interner())
    rows = [(0, good)] * before + [(0, bad), (0, good)]
    expected = (code, f"row {before}, column 'x': {message}", hint)
    assert problem(codec.encode, rows) == expected
    columns = {"id": [0] * len(rows), "x": [value for _, value in rows]}
    assert problem(codec.encode, columns) == expected
    assert problem(codec.encode_row, (0, bad)) == (code, f"column 'x': {message}", hint)
    assert codec.encode([(0, good)]).shape == (2, 1), "a refused row leaves the codec usable"


def problem(function: Any, data: Any) -> tuple[str, str, str]:
    with pytest.raises(InputError) as caught:
        function(data)
    return caught.value.code, caught.value.message, caught.value.hint


COLUMNS = "the columns are id, name"
A_ROW = "a row is a tuple (id, name) or a dict; give a list of rows"
LIST = "give a list of tuples or dicts, or a table"


@pytest.mark.parametrize(
    ("data", "code", "message", "hint"),
    [
        ((1, "a"), "E_TYPE", "row 0: 1 is an int, not a row", A_ROW),
        ([1], "E_TYPE", "row 0: 1 is an int, not a row", A_ROW),
        (["ab"], "E_TYPE", "row 0: 'ab' is a str, not a row", A_ROW),
        ("ab", "E_TYPE", "'ab' is a str, not a list of rows", LIST),
        (None, "E_TYPE", "None is not a list of rows", LIST),
        (5, "E_TYPE", "5 is an int, not a list of rows", LIST),
        ([(1,)], "E_WIDTH", "row 0: (1,) has 1 value, not 2", COLUMNS),
        ([(1, "a")] * 40 + [(1,)], "E_WIDTH", "row 40: (1,) has 1 value, not 2", COLUMNS),
        ([(1, "a")] * 40 + [5], "E_TYPE", "row 40: 5 is an int, not a row", A_ROW),
        ([{"id": 1}], "E_COLUMN", "row 0: the row has no column 'name'", COLUMNS),
        ([{"id": 1, "nam": ""}], "E_COLUMN", "row 0: the row has a column 'nam' that the schema has not", "did you mean 'name'?"),
        ([{"id": 1, "name": "", "x": 1}], "E_COLUMN", "row 0: the row has a column 'x' that the schema has not", "available: 'id', 'name'"),
        ({"id": 1, "name": "a"}, "E_TYPE", "column 'id' is 1, not a list of values", "a single row goes into a list: [{...}]"),
        ({"id": [1], "name": ["a", "b"]}, "E_WIDTH", "columns have different lengths (id: 1, name: 2)", "make them equally long"),
        ({"id": [1], "nam": ["a"]}, "E_COLUMN", "the table has a column 'nam' that the schema has not", "did you mean 'name'?"),
        (np.array([1, 2]), "E_WIDTH", "an array of 1 dimension is not a table", "give an array of shape (rows, columns), or a dict of columns"),
        (np.array([[1, 2, 3]]), "E_WIDTH", "the array has 3 columns, not 2", COLUMNS),
        (pa.table([[1], [2]], names=["id", "id"]), "E_COLUMN", "the table has two columns 'id'", "rename or drop one of them"),
        (pa.table({"id": [1.5], "name": ["a"]}), "E_TYPE", "column 'id': an Arrow column of double cannot become int", "cast the column to int64, or declare its type differently"),
        (pa.table({"id": [1, None], "name": ["a", "b"]}), "E_NULL", "row 1, column 'id': NULL is not allowed in int", "declare it nullable, e.g. 'int?' or Optional[...], or leave the row out"),
        (pd.DataFrame({"id": [1, None], "name": ["a", "b"]}), "E_NULL", "row 1, column 'id': NULL is not allowed in int", "declare it nullable, e.g. 'int?' or Optional[...], or leave the row out"),
        (pd.DataFrame({"id": [1.5], "name": ["a"]}), "E_TYPE", "row 0, column 'id': 1.5 is a float, not an int", f"convert it with int(...), {OTHERWISE}"),
        (pd.DataFrame({"id": [1], "name": [5]}), "E_TYPE", "column 'name': an Arrow column of int64 cannot become str?", "cast the column to string, or declare its type differently"),
    ],
)  # fmt: skip
def test_bad_shapes(data: Any, code: str, message: str, hint: str) -> None:
    codec = Codec([data_type(int), data_type("str?")], ["id", "name"], Interner())
    assert problem(codec.encode, data) == (code, message, hint)


IN_YEARS = "a date must be one that Python can hold"


@pytest.mark.parametrize(
    ("declared", "column", "code", "message", "hint"),
    [
        (int, pa.array([1, 2**64 - 1], pa.uint64()), "E_RANGE", "row 1, column 'x': 18446744073709551615 does not fit 64 bits", "ints go from -2**63 to 2**63 - 1"),
        (dt.datetime, pa.array([1001], pa.timestamp("ns")), "E_RANGE", "row 0, column 'x': Timestamp('1970-01-01 00:00:00.000001001') has nanoseconds", "round it to microseconds"),
        (dt.datetime, pa.array([0, 2**62], pa.timestamp("us")), "E_RANGE", "row 1, column 'x': 4611686018427387904 (as timestamp[us]) is outside the years 1 to 9999", IN_YEARS),
        (dt.datetime, pa.array([2**60], pa.timestamp("s")), "E_RANGE", "row 0, column 'x': 1152921504606846976 (as timestamp[s]) does not fit timestamp", "cast the column to timestamp[us] first"),
        (dt.date, pa.array([2**30], pa.int32()).cast(pa.date32()), "E_RANGE", "row 0, column 'x': 1073741824 (as date32[day]) is outside the years 1 to 9999", IN_YEARS),
        ("decimal(2)", pa.array([Decimal("1.234")]), "E_RANGE", "row 0, column 'x': Decimal('1.234') has more than 2 digits after the point", "round it, or declare a larger scale, e.g. 'decimal(6)'"),
        ("decimal(2)", pa.array([1, 10**17]), "E_RANGE", "row 1, column 'x': 100000000000000000 needs more than 18 digits at scale 2", "declare a smaller scale"),
        ("int?", pa.array([None, NULL]), "E_RANGE", f"row 1, column 'x': {NULL} is reserved", STANDS_FOR_NULL),
        ("tuple(int, str)", pa.array([{"a": 1}]), "E_WIDTH", "column 'x': an Arrow struct of 1 field cannot become tuple(int, str)", "the tuple has 2 items"),
        ("tuple(int)?", pa.array([None, {"a": None}], pa.struct({"a": pa.int64()})), "E_NULL", "row 1, column 'x': NULL is not allowed in int", "declare it nullable, e.g. 'int?' or Optional[...], or leave the row out"),
        (float, np.array([1j]), "E_TYPE", "column 'x': a NumPy array of complex128 is not a column", "convert it first"),
        (dt.date, np.array([2**40], dtype="M8[D]"), "E_RANGE", "row 0, column 'x': 2147483647 (as date32[day]) is outside the years 1 to 9999", IN_YEARS),
        (str, pa.array([b"a"]), "E_TYPE", "column 'x': an Arrow column of binary cannot become str", "cast the column to string, or declare its type differently"),
        (dt.datetime, np.array(["NaT"], dtype="M8[us]"), "E_NULL", "row 0, column 'x': NULL is not allowed in timestamp", "declare it nullable, e.g. 'timestamp?' or Optional[...], or leave the row out"),
    ],
)  # fmt: skip
def test_bad_arrow_columns(declared: Any, column: Any, code: str, message: str, hint: str) -> None:
    codec = Codec([data_type(declared)], ["x"], Interner())
    assert problem(codec.encode, {"x": column}) == (code, message, hint)
