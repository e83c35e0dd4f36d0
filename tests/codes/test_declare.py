# ruff: noqa: E501 (one case, one line)
"""Declared types and Arrow's names for them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, Optional, Union

import pyarrow as pa
import pytest
from hypothesis import given

from everview.codes import arrow_field, arrow_type, data_type
from everview.errors import InputError
from everview.types import DataType
from tests.codes.strategies import types


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (int, "int"), (float, "float"), (bool, "bool"), (str, "str"), (bytes, "bytes"), (dt.date, "date"),
        (dt.datetime, "timestamp"), (Decimal, "decimal(6)"), (Optional[int], "int?"), (str | None, "str?"),  # noqa: UP045
        (Union[None, Decimal], "decimal(6)?"), (tuple[int, str | None], "tuple(int, str?)"), (tuple[()], "tuple()"),  # noqa: UP007
        ((int, "str?"), "tuple(int, str?)"), ("int", "int"), (" str? ", "str?"), ("decimal(2)?", "decimal(2)?"),
        ("Decimal", "decimal(6)"), ("datetime", "timestamp"), ("tuple(int, tuple(str, date)?)", "tuple(int, tuple(str, date)?)"),
        (DataType("int", True), "int?"), (pa.uint8(), "int"), (pa.float32(), "float"), (pa.large_string(), "str"),
        (pa.dictionary(pa.int8(), pa.string()), "str"), (pa.timestamp("ns", "UTC"), "timestamp"), (pa.date64(), "date"),
        (pa.decimal128(10, 3), "decimal(3)"), (pa.binary_view(), "bytes"), (pa.field("x", pa.bool_()), "bool?"),
        (pa.struct([pa.field("a", pa.int64(), False), ("b", pa.string())]), "tuple(int, str?)"),
    ],
)  # fmt: skip
def test_what_people_write(declared: Any, text: str) -> None:
    assert repr(data_type(declared)) == text


@given(types(depth=2))
def test_types_survive_their_names_and_arrow(declared: DataType) -> None:
    assert data_type(repr(declared)) == declared
    assert data_type(arrow_field("x", declared)) == declared
    assert arrow_type(declared) == arrow_type(declared.optional())


KNOWN = (
    "use int, float, bool, str, bytes, datetime.date, time, datetime or timedelta, decimal.Decimal, uuid.UUID, "
    "tuple[...], list[...], dict[...], 'timestamptz', 'json', 'numeric(38, 10)', or X | None of these"
)


@pytest.mark.parametrize(
    ("declared", "message", "hint"),
    [
        (list, "<class 'list'> is not a column type", KNOWN),
        (None, "None is not a column type", KNOWN),
        (set[int], "set[int] is not a column type", KNOWN),
        (pa.null(), "DataType(null) is not a column type", KNOWN),
        (int | str, "int | str is not a column type", "a column has one type; only X | None is allowed"),
        (tuple[int, ...], "tuple[int, ...] is not a column type", "a tuple has a fixed number of items: write tuple[int, int]"),
        ("itn", "'itn' is not a column type", "did you mean 'int'?"),
        ("text", "'text' is not a column type", "did you mean 'str'?"),
        ("VARCHAR(10)?", "'VARCHAR(10)' is not a column type", "did you mean 'str'?"),
        ("decimal(19)", "a decimal cannot have scale 19", "scales go from 0 to 18"),
    ],
)  # fmt: skip
def test_what_is_no_type(declared: Any, message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        data_type(declared)
    assert (caught.value.code, caught.value.message, caught.value.hint) == ("E_TYPE", message, hint)
