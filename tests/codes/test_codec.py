"""Rows to codes and back, on every road, for every type."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.codes import Codec, Interner, code_to_float, float_to_code
from everview.codes.arrays import codes_to_floats, floats_to_codes
from everview.codes.codec import ONE_BY_ONE_ROWS
from everview.codes.values import encoder
from everview.errors import InputError
from everview.types import BOOL, DATE, FLOAT, INT, NULL, STR, TIMESTAMP, DataType
from everview.types import decimal as decimal_type
from tests.codes.strategies import SCALARS, same, tables

Table = tuple[tuple[DataType, ...], list[tuple[Any, ...]]]


def codec_of(schema: tuple[DataType, ...]) -> Codec:
    return Codec(schema, [f"c{i}" for i in range(len(schema))], Interner())


@given(tables())
def test_rows_round_trip(table: Table) -> None:
    schema, rows = table
    codec = codec_of(schema)
    codes = codec.encode(rows)
    assert codes.shape == (len(schema), len(rows))
    assert codes.dtype == np.int64 and codes.flags.c_contiguous
    assert same(codec.decode_rows(codes), rows)


@given(tables())
def test_all_roads_agree(table: Table) -> None:
    schema, rows = table
    codec = codec_of(schema)
    codes = codec.encode(rows)
    single = [codec.encode_row(row) for row in rows]
    assert [*map(tuple, codes.T.tolist())] == single
    assert same([codec.decode_row(code) for code in single], rows)
    dicts = [dict(zip(codec.names, row, strict=True)) for row in rows]
    assert (codec.encode(dicts) == codes).all()
    assert (codec.encode([[*row] for row in rows]) == codes).all()
    assert (codec.encode({name: [row[i] for row in rows] for i, name in enumerate(codec.names)}) == codes).all()


@given(tables())
def test_arrow_round_trips(table: Table) -> None:
    schema, rows = table
    codec = codec_of(schema)
    codes = codec.encode(rows)
    arrow = codec.to_arrow(codes)
    arrow.validate(full=True)
    assert (codec.encode(arrow) == codes).all()
    assert (codec.encode(arrow.select(arrow.schema.names[::-1])) == codes).all()
    pieces = pa.concat_tables([arrow.slice(0, 2), arrow.slice(2)])
    assert (codec.encode(pieces) == codes).all()
    assert codec.decode_rows(codec.encode(arrow.slice(1))) is not None
    python = [tuple(row.values()) for row in arrow.to_pylist()]
    assert same(python, [tuple(map(as_dict, row)) for row in rows])


def as_dict(value: Any) -> Any:
    """A tuple as Arrow gives structs to Python."""
    return {f"f{i}": as_dict(item) for i, item in enumerate(value)} if isinstance(value, tuple) else value


@pytest.mark.parametrize("kind", ["int", "float", "bool", "date", "timestamp"])
def test_order_is_kept(kind: str) -> None:
    codec = codec_of((DataType(kind),))  # type: ignore[arg-type]

    @given(SCALARS[kind], SCALARS[kind])
    def check(left: Any, right: Any) -> None:
        a, b = codec.encode([(left,), (right,)])[0].tolist()
        if left == left and right == right and left != right:
            assert (a < b) == (left < right)
        elif left != left:
            assert a > float_to_code(float("inf"))

    check()


@given(st.integers(-(10**17), 10**17), st.integers(-(10**17), 10**17))
def test_order_of_decimals_is_kept(left: int, right: int) -> None:
    codec = codec_of((DataType("decimal", scale=3),))
    codes = codec.encode([(Decimal(left).scaleb(-3),), (Decimal(right).scaleb(-3),)])
    assert codes[0].tolist() == [left, right]


@given(st.lists(st.floats()))
def test_float_codes(numbers: list[float]) -> None:
    array = np.array(numbers, dtype=np.float64)
    codes = floats_to_codes(array)
    assert codes.tolist() == [float_to_code(number) for number in numbers]
    assert same(codes_to_floats(codes).tolist(), numbers)
    assert same([code_to_float(code) for code in codes.tolist()], numbers)


def test_nan_is_one_value_above_infinity() -> None:
    other = np.array([0xFFF8_0000_0000_0001], dtype=np.uint64).view(np.float64)
    assert {float_to_code(float(other[0])), *floats_to_codes(other).tolist()} == {float_to_code(float("nan"))}
    assert float_to_code(float("inf")) < float_to_code(float("nan")) < 2**63
    assert float_to_code(-0.0) + 1 == float_to_code(0.0) == 0


@pytest.mark.parametrize("times", [1, ONE_BY_ONE_ROWS + 1])
def test_numpy_scalars_and_other_welcome_values(times: int) -> None:
    zone = dt.timezone(dt.timedelta(hours=2))
    codec = codec_of((INT, FLOAT, BOOL, STR, TIMESTAMP, DATE, DataType("decimal", scale=2), DataType("bytes")))
    row = (
        np.int32(1), 2, np.bool_(True), np.str_("x"), dt.datetime(2020, 1, 1, 2, tzinfo=zone),
        np.datetime64("2020-01-01"), 3, bytearray(b"b"),
    )  # fmt: skip
    plain = (1, 2.0, True, "x", dt.datetime(2020, 1, 1), dt.date(2020, 1, 1), Decimal("3.00"), b"b")
    assert same(codec.decode_rows(codec.encode([row] * times)), [plain] * times)


def test_decimals_do_not_depend_on_the_context() -> None:
    codec = codec_of((DataType("decimal", scale=2),))
    with decimal.localcontext() as context:
        context.prec = 3
        row = (Decimal("1234567890123.45"),)
        assert codec.decode_rows(codec.encode([row])) == [row]


def _outcome(encode: Callable[[], Any]) -> Any:
    try:
        return encode()
    except InputError as error:
        return error.code, error.message


@given(
    st.decimals() | st.builds(lambda n, e: Decimal(n).scaleb(e), st.integers(-(10**20), 10**20), st.integers(-22, 4)),
    st.integers(0, 18),
    st.integers(1, 18),
)
def test_decimals_of_single_rows_are_those_of_the_general_encoder(value: Decimal, scale: int, digits: int) -> None:
    declared = decimal_type(scale, max(digits, scale))
    codec = codec_of((declared,))
    quick = _outcome(lambda: codec.encode_row((value,))[0])
    general = _outcome(lambda: encoder(declared, Interner())(value))
    if isinstance(general, tuple):
        general = general[0], f"column 'c0': {general[1]}"
    assert quick == general


def test_extremes_of_nullable_ints() -> None:
    codec = codec_of((INT.optional(),))
    rows = [(-(2**63),), (2**63 - 1,), (None,), (NULL - 1,), (NULL + 1,)]
    for some in (rows, rows * ONE_BY_ONE_ROWS):
        assert codec.decode_rows(codec.encode(some)) == some
    assert codec_of((INT,)).encode([(NULL,)]).tolist() == [[NULL]], "without NULLs the reserved int is an int"


def test_no_rows_and_no_columns() -> None:
    codec = codec_of((INT, STR))
    for nothing in (  # type: ignore[var-annotated]
        [],
        (),
        iter([]),
        {"c0": [], "c1": []},
        pa.table({"c0": pa.array([], pa.int64()), "c1": pa.array([], pa.string())}),
    ):
        assert codec.encode(nothing).shape == (2, 0)
    assert codec.decode_rows(np.empty((2, 0), dtype=np.int64)) == []
    assert codec.to_arrow(np.empty((2, 0), dtype=np.int64)).num_rows == 0
    empty = codec_of(())
    assert empty.encode([(), ()]).shape == (0, 2)
    assert empty.decode_rows(empty.encode([()] * 30)) == [()] * 30
