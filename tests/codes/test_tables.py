"""Frames and arrays of other libraries, in and out."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import everview as ev
from everview.codes import Codec, Interner, data_type
from everview.codes.intervals import Interval
from everview.errors import InputError
from everview.types import INT, NULL, DataType

SCHEMA = {
    "i": int | None, "f": float, "b": bool | None, "s": str | None, "y": bytes, "d": dt.date,
    "t": dt.datetime, "m": data_type("decimal(2)"), "z": int,
}  # fmt: skip
ROWS: list[tuple[Any, ...]] = [
    (2**62 + 1, -0.0, True, "𝄞", b"\xff", dt.date(1, 1, 1), dt.datetime(1900, 1, 1), Decimal("1.25"), 2**63 - 1),
    (None, float("inf"), None, None, b"", dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 1), Decimal("-0.01"), 0),
    (3, 2.5, False, "", b"x", dt.date(9999, 12, 31), dt.datetime(2100, 1, 1), Decimal("0.00"), -(2**63)),
]


@pytest.fixture
def codec() -> Codec:
    return Codec([data_type(declared) for declared in SCHEMA.values()], [*SCHEMA], Interner())


def test_pandas_round_trip(codec: Codec) -> None:
    codes = codec.encode(ROWS)
    frame = codec.to_pandas(codes)
    assert frame["i"].dtype == "Int64" and frame["b"].dtype == "boolean" and frame["z"].dtype == "int64"
    assert frame["i"][0] == 2**62 + 1
    assert (codec.encode(frame) == codes).all()
    assert (codec.encode(frame[[*SCHEMA][::-1]]) == codes).all()
    assert (codec.encode(frame.astype(object)) == codes).all()


def test_nullable_floats_and_tuples_survive_pandas() -> None:
    codec = Codec([data_type(float | None), data_type(tuple[int, str])], ["f", "t"], Interner())
    codes = codec.encode([(float("nan"), (1, "a")), (None, (2, "")), (-0.0, (3, "c"))])
    frame = codec.to_pandas(codes)
    assert frame["f"].dtype == "Float64" and frame["f"].isna().tolist() == [False, True, False]
    assert frame["t"].tolist() == [(1, "a"), (2, ""), (3, "c")]
    assert (codec.encode(frame) == codes).all()


def test_polars_round_trip(codec: Codec) -> None:
    codes = codec.encode(ROWS)
    frame = codec.to_polars(codes)
    assert isinstance(frame, pl.DataFrame)
    assert (codec.encode(frame) == codes).all()
    assert (codec.encode(frame.to_dict()) == codes).all(), "a dict of series"


def test_arrow_batches_and_streams(codec: Codec) -> None:
    codes = codec.encode(ROWS)
    table = codec.to_arrow(codes)
    assert (codec.encode(table.to_batches()[0]) == codes).all()
    assert (codec.encode(pa.RecordBatchReader.from_batches(table.schema, table.to_batches())) == codes).all()
    assert (codec.encode({name: table[name] for name in table.schema.names}) == codes).all()


def one(declared: Any) -> Codec:
    return Codec([data_type(declared)], ["x"], Interner())


@pytest.mark.parametrize(
    ("declared", "column", "expected"),
    [
        (int, pa.array([1, 2], pa.uint8()), [1, 2]),
        (int, pa.array([5], pa.uint64()), [5]),
        (float, pa.array([1, 2**60], pa.int64()), [1.0, 2.0**60]),
        (float, pa.array([0.5], pa.float32()), [0.5]),
        (str, pa.array(["a", "b"], pa.string_view()), ["a", "b"]),
        (str, pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (int, pa.array([7, 8, 7]).dictionary_encode(), [7, 8, 7]),
        (bytes, pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        (dt.date, pa.array([dt.date(2020, 1, 1)], pa.date64()), [dt.date(2020, 1, 1)]),
        (dt.datetime, pa.array([1_000_000_000], pa.timestamp("ns")), [dt.datetime(1970, 1, 1, 0, 0, 1)]),
        (dt.datetime, pa.array([1], pa.timestamp("s", "Europe/Paris")), [dt.datetime(1970, 1, 1, 0, 0, 1)]),
        ("decimal(2)", pa.array([Decimal("1.5")], pa.decimal128(5, 1)), [Decimal("1.50")]),
        ("decimal(2)", pa.array([Decimal("1.5000")], pa.decimal256(50, 4)), [Decimal("1.50")]),
        ("decimal(2)", pa.array([3]), [Decimal("3.00")]),
        ("str?", pa.nulls(2), [None, None]),
        ("tuple(int, str?)?", pa.array([{"a": 1, "b": None}, None]), [(1, None), None]),
        (int, np.array([1, 2], dtype=">i4"), [1, 2]),
        (bool, np.array([True, False]), [True, False]),
        (str, np.array(["a", "bc"]), ["a", "bc"]),
        (dt.datetime, np.array(["2020-01-01"], dtype="M8[s]"), [dt.datetime(2020, 1, 1)]),
        (float, np.array([1.5, np.nan])[::-1], [float("nan"), 1.5]),
        (float, np.array([0.5], dtype=np.float16), [0.5]),
        (dt.date, np.array(["2020-01-01"], dtype="M8[D]"), [dt.date(2020, 1, 1)]),
        ("timestamp?", np.array(["2020-01-01T01", "NaT"], dtype="M8[h]"), [dt.datetime(2020, 1, 1, 1), None]),
        (bytes, np.array([b"a", b"bc"]), [b"a", b"bc"]),
        (bool, np.arange(20)[::2] > 8, [False] * 5 + [True] * 5),
        ("float?", pd.Series([1.5, None]), [1.5, None]),
        (float, pd.Series([1.5, float("nan")]), [1.5, float("nan")]),
        ("int?", pd.Series([1, None]), [1, None]),
        ("str?", pd.Series(["a", None]), ["a", None]),
        (str, pd.Series(["a", "b"], dtype="category"), ["a", "b"]),
        ("datetime?", pd.Series([pd.Timestamp("2020-01-01"), pd.NaT]), [dt.datetime(2020, 1, 1), None]),
        ("int?", [1, pd.NA], [1, None]),
        (int, range(3), [0, 1, 2]),
    ],
    ids=lambda value: repr(value)[:30].replace("\n", " "),
)
def test_columns_of_other_types(declared: Any, column: Any, expected: list[Any]) -> None:
    codec = one(declared)
    assert repr(codec.decode_rows(codec.encode({"x": column}))) == repr([(value,) for value in expected])


def test_plain_and_structured_arrays() -> None:
    codec = Codec((INT, INT), ("a", "b"), Interner())
    assert codec.encode(np.array([[1, 2], [3, 4], [5, 6]])).tolist() == [[1, 3, 5], [2, 4, 6]]
    records = np.array([(1, 2), (3, 4)], dtype=[("b", "i4"), ("a", "i8")])
    assert codec.encode(records).tolist() == [[2, 4], [1, 3]]
    assert codec.encode([*records[["a", "b"]]]).tolist() == [[2, 4], [1, 3]], "rows of a structured array"


def test_arrow_types_of_a_schema(codec: Codec) -> None:
    assert codec.to_arrow(codec.encode(ROWS)).schema == pa.schema(
        [
            ("i", pa.int64()), pa.field("f", pa.float64(), False), ("b", pa.bool_()), ("s", pa.string()),
            pa.field("y", pa.binary(), False), pa.field("d", pa.date32(), False),
            pa.field("t", pa.timestamp("us"), False), pa.field("m", pa.decimal128(18, 2), False),
            pa.field("z", pa.int64(), False),
        ]
    )  # fmt: skip


def test_null_tuples_with_items_that_are_not_null() -> None:
    codec = Codec([DataType("tuple", True, items=(INT, data_type("str")))], ["x"], Interner())
    rows = [((1, "a"),), (None,)] * 200
    codes = codec.encode(rows)
    assert codec.decode_rows(codes) == rows
    assert (codec.encode(codec.to_arrow(codes)) == codes).all()


@pytest.mark.parametrize("count", [1, 400])  # few rows are read one by one, many at once
def test_items_of_tuples_that_are_packed(count: int) -> None:
    """They were read as what they are packed into: '"150"' for a numeric."""
    kinds = ("json", "numeric(38, 2)", "array(int)", "interval", "char(3)", "enum('a', 'b')", "tuple(uuid, int)")
    values = ({"a": [1]}, Decimal("1.50"), [1, None], Interval(1, 2, 3), "x  ", "b", (UUID(int=7), 1))
    codec = Codec([data_type(f"tuple({kind}, {kind}?)") for kind in kinds], [f"c{i}" for i in range(7)], Interner())
    rows = [tuple((value, None) for value in values), tuple((value, value) for value in values)] * count
    codes = codec.encode(rows)
    assert codec.decode_rows(codes) == rows
    assert [codec.decode_row(codes[:, i].tolist()) for i in range(2)] == rows[:2]


def test_frames_are_not_imported_for_nothing() -> None:
    """pandas alone takes half a second, and `pa.array` imports it."""
    script = """
import sys, numpy as np, pyarrow as pa
import everview as ev
from everview.codes import Codec, Interner, data_type
codec = Codec([data_type(t) for t in ("int?", "str", "tuple(int)", "timestamp")], ["a", "b", "c", "d"], Interner())
times = np.array([0, 1], dtype="M8[us]")
codes = codec.encode([(1, "x", (1,), times[0].item()), (None, "y", (2,), times[1].item())] * 300)
codec.encode(codec.to_arrow(codes)), codec.decode_rows(codes)
codec.encode({"a": np.array([1, 2]), "b": ["x", "y"], "c": [(1,), (2,)], "d": times})
Interner().load(codec.interner.export())
print([name for name in ("pandas", "polars", "duckdb") if name in sys.modules])
"""
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": ""}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


NULLED = DataType("int", nullable=True)
PLAIN = np.arange(-3, 4, dtype=np.int64)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(PLAIN).slice(2, 3), [-1, 0, 1]),
        (pa.chunked_array([pa.array(PLAIN).slice(5)]), [2, 3]),
        (pa.chunked_array([pa.array(PLAIN[:2]), pa.array(PLAIN[2:4])]), [-3, -2, -1, 0]),
        (pa.chunked_array([], pa.int64()), []),
        (pa.array([], pa.int64()), []),
        (pa.array([5, None]), [5, None]),
        (pa.chunked_array([pa.array([5, None]).slice(0, 1)]), [5]),
        (PLAIN[::-2], [3, 1, -1, -3]),
        (PLAIN.astype(">i8"), PLAIN.tolist()),
        (PLAIN.astype(np.int16), PLAIN.tolist()),
    ],
)
def test_columns_whose_numbers_are_their_codes(column: Any, expected: list[Any]) -> None:
    codec = Codec((NULLED, INT), ("a", "b"), Interner())
    codes = codec.encode({"b": np.arange(len(expected)), "a": column})
    assert codec.decode_rows(codes) == [(value, i) for i, value in enumerate(expected)]
    if isinstance(column, np.ndarray):
        kept = column.copy()
        codes[0] = 17
        assert (column == kept).all()


@pytest.mark.parametrize("column", [pa.array([1, NULL]), np.array([1, NULL])])
def test_the_number_that_stands_for_null_is_refused_where_there_may_be_null(column: Any) -> None:
    with pytest.raises(InputError) as refused:
        Codec((NULLED,), ("a",), Interner()).encode({"a": column})
    assert "row 1, column 'a'" in refused.value.message
    assert Codec((INT,), ("a",), Interner()).encode({"a": column}).tolist() == [[1, NULL]]


def test_names_that_are_alike_as_texts_are_one_column_too_many() -> None:
    frame = pd.DataFrame([[1, 2]], columns=[1, "1"])
    with pytest.raises(InputError, match="two columns '1'"):
        Codec((INT,), ("1",), Interner()).encode(frame)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, 2, None]), pa.array(["a", "ä", None]), pa.array(["a", "b"], pa.large_string()),
        pa.array([1.5, None]),
        pa.array([b"x", b""]), pa.array([b"x"], pa.large_binary()), pa.array([True, False, None]),
        pa.array([dt.date(2026, 1, 2)]), pa.array([dt.datetime(2026, 1, 2)], pa.timestamp("us")),
        pa.array([Decimal("1.25")], pa.decimal128(9, 2)), pa.array([], pa.string()), pa.array([3], pa.int16()),
    ],
    ids=lambda array: str(array.type),
)  # fmt: skip
def test_buffers_may_be_longer_than_their_items(array: pa.Array) -> None:
    """By a few bytes, as in a message that somebody has sent: Arrow says that this is valid, NumPy refuses it."""
    longer = [None if b is None else pa.py_buffer(b.to_pybytes() + b"\1\2\3") for b in array.buffers()]
    same = pa.Array.from_buffers(array.type, len(array), longer)
    same.validate(full=True)
    with ev.connect() as db:
        one, two = (db.table(name, pa.table({"x": array}).slice(0, 0)) for name in ("one", "two"))
        one.insert(pa.table({"x": array}))
        two.insert(pa.table({"x": same}))
        assert one.rows() == two.rows() and len(one) == len(array)
