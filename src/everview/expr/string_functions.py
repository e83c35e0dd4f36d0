"""Functions of texts, which the VM cannot compute because ids do not reveal contents.

Two tables, both implementing `everview.expr.functions` exactly:

- `ARRAYS`: functions of an Arrow array and constants, by Arrow's compute kernels;
- `VALUES`: functions of single Python values, for arguments that vary per row and where Arrow has no kernel.

`everview.expr.evaluate` calls either on *distinct* values where possible, without NULLs. Results that are numbers,
dates or times are codes already (dates as days, decimals times 10**scale); floats, bools, texts and bytes are plain
values. A function without a result raises `RowFailure`.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everview.codes.digits import float_of
from everview.codes.scalars import ENCODERS
from everview.errors import InputError
from everview.kernels.expressions.scalars import (
    DAY_MICROS,
    DECIMAL_LIMIT,
    ERROR_CAST,
    ERROR_DOMAIN,
    ERROR_OVERFLOW,
    FIRST_DAY,
    INT_MAX,
    INT_MIN,
    LAST_DAY,
)
from everview.types import DataType

MOST_LETTERS = 64 * 1024 * 1024
"""Maximum length of a text that a function produces, to protect against filling the memory by mistake."""

SPACE = " \t\n\r\v\f"


ERROR_MORE_ROWS = 6
"""A scalar subquery returned more than one row. The VM, whose errors are 1 to 5, never produces it."""


class RowFailure(Exception):
    """This row has no value; `code` is the reason."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


# ---- whole arrays ----------------------------------------------------------------------------------------------------


def _length(array: pa.Array) -> pa.Array:
    return pc.utf8_length(array) if pa.types.is_string(array.type) else pc.binary_length(array)


def _substr_array(array: pa.Array, start: int, count: int | None = None) -> pa.Array:
    if count is not None and count < 0:
        raise RowFailure(ERROR_DOMAIN)
    stop = None if count is None else max(start - 1 + count, 0)
    return pc.utf8_slice_codeunits(array, max(start - 1, 0), stop)


def _trim_array(kernel: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    def trim(array: pa.Array, characters: str = SPACE) -> pa.Array:
        return kernel(array, characters) if characters else array

    return trim


def _replace_array(array: pa.Array, part: str, by: str) -> pa.Array:
    return pc.replace_substring(array, part, by) if part else array


def text_word(text: str, at: int) -> int:
    """Bytes 8 * at to 8 * at + 7 of a text as an int that sorts like them; the last byte of the fourth is the length,
    32 for all texts longer than 31 bytes (`everview.plan.prefixes`).

    >>> text_word("a", 0) < text_word("ab", 0) < text_word("b", 0), text_word("abc", 3) & 255
    (True, 3)
    """
    data = text.encode()
    piece = data[8 * at : 8 * at + 8].ljust(8, b"\0")
    if at == 3:
        piece = piece[:7] + bytes((min(len(data), 32),))
    return int.from_bytes(piece, "big") - 2**63


def _text_words(array: pa.Array, at: int) -> pa.Array:
    """The same for many texts."""
    array = array.cast(pa.large_binary())
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    held = array.buffers()[2]
    data = np.frombuffer(held, dtype=np.uint8) if held is not None and held.size else np.zeros(1, dtype=np.uint8)
    starts, ends = offsets[:-1], offsets[1:]
    found = np.zeros(len(array), dtype=np.uint64)
    for i in range(8):
        if at == 3 and i == 7:
            byte = np.minimum(ends - starts, 32).astype(np.uint64)
        else:
            place = starts + 8 * at + i
            byte = np.where(place < ends, data[np.minimum(place, len(data) - 1)], 0).astype(np.uint64)
        found = (found << np.uint64(8)) | byte
    return pa.array((found ^ np.uint64(2**63)).view(np.int64))


ARRAYS: dict[str, Callable[..., pa.Array]] = {
    "text_word": _text_words,
    "length": _length,
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "reverse": pc.utf8_reverse,
    "trim": _trim_array(pc.utf8_trim),
    "ltrim": _trim_array(pc.utf8_ltrim),
    "rtrim": _trim_array(pc.utf8_rtrim),
    "substr": _substr_array,
    "contains": pc.match_substring,
    "startswith": pc.starts_with,
    "endswith": pc.ends_with,
    "like": pc.match_like,
    "regexp_matches": pc.match_substring_regex,
    "replace": _replace_array,
}
"""Functions of an Arrow array and constants."""


# ---- single values ---------------------------------------------------------------------------------------------------


def _substr(text: str, start: int, count: int | None = None) -> str:
    if count is None:
        return text[max(start - 1, 0) :]
    if count < 0:
        raise RowFailure(ERROR_DOMAIN)
    return text[max(start - 1, 0) : max(start - 1 + count, 0)]


def _split_part(text: str, separator: str, number: int) -> str:
    if number == 0:
        raise RowFailure(ERROR_DOMAIN)
    parts = text.split(separator) if separator else [text]
    if abs(number) > len(parts):
        return ""
    return parts[number - 1] if number > 0 else parts[number]


def _lpad(text: str, width: int, fill: str = " ") -> str:
    width = max(width, 0)
    return _padding(width - len(text), fill) + text[:width]


def _rpad(text: str, width: int, fill: str = " ") -> str:
    width = max(width, 0)
    return text[:width] + _padding(width - len(text), fill)


def _padding(width: int, fill: str) -> str:
    if width <= 0 or not fill:
        return ""
    if width > MOST_LETTERS:
        raise RowFailure(ERROR_OVERFLOW)
    return (fill * (width // len(fill) + 1))[:width]


VALUES: dict[str, Callable[..., Any]] = {
    "text_word": text_word,
    "trim": lambda text, characters=SPACE: text.strip(characters),
    "ltrim": lambda text, characters=SPACE: text.lstrip(characters),
    "rtrim": lambda text, characters=SPACE: text.rstrip(characters),
    "substr": _substr,
    "contains": lambda text, part: part in text,
    "startswith": lambda text, part: text.startswith(part),
    "endswith": lambda text, part: text.endswith(part),
    "replace": lambda text, part, by: text.replace(part, by) if part else text,
    "split_part": _split_part,
    "lpad": _lpad,
    "rpad": _rpad,
    "position": lambda text, part: text.find(part) + 1,
}
"""Functions of single values."""


# ---- casts -----------------------------------------------------------------------------------------------------------

_INT = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?)?"
    r"(?:(Z)|([+-])([0-9]{2}):([0-9]{2}))?"
)
_TRUE, _FALSE = {"true", "t", "yes", "y", "on", "1"}, {"false", "f", "no", "n", "off", "0"}
_EXACT = decimal.Context(prec=60, rounding=decimal.ROUND_HALF_UP)


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text.strip(SPACE))
    if match is None:
        raise RowFailure(ERROR_CAST)
    return match


def _text_to_int(text: str, _: DataType) -> int:
    digits = _matched(_INT, text).group()
    if len(digits.lstrip("+-0")) > 19 or not INT_MIN <= int(digits) <= INT_MAX:
        raise RowFailure(ERROR_OVERFLOW)
    return int(digits)


def _text_to_float(text: str, _: DataType) -> float:
    try:
        return float_of(text)
    except ValueError:
        raise RowFailure(ERROR_CAST) from None
    except OverflowError:
        raise RowFailure(ERROR_OVERFLOW) from None


def _text_to_bool(text: str, _: DataType) -> bool:
    word = text.strip(SPACE).lower()
    if word not in _TRUE | _FALSE:
        raise RowFailure(ERROR_CAST)
    return word in _TRUE


def _text_to_date(text: str, _: DataType) -> int:
    year, month, day = map(int, _matched(_DATE, text).groups())
    return _code("date", lambda: dt.date(year, month, day))


def _text_to_timestamp(text: str, _: DataType) -> int:
    *parts, fraction, _utc, sign, hours, minutes = _matched(_TIMESTAMP, text).groups()
    year, month, day, hour, minute, second = (int(p or 0) for p in parts)
    micros = int((fraction or "0").ljust(6, "0"))
    code = _code("timestamp", lambda: dt.datetime(year, month, day, hour, minute, second, micros))
    if sign is None:
        return code
    if int(hours) > 23 or int(minutes) > 59:
        raise RowFailure(ERROR_CAST)
    offset = (int(hours) * 60 + int(minutes)) * 60_000_000
    moved = code - offset if sign == "+" else code + offset
    if not FIRST_DAY * DAY_MICROS <= moved < (LAST_DAY + 1) * DAY_MICROS:
        raise RowFailure(ERROR_OVERFLOW)
    return moved


def _code(kind: str, make: Callable[[], Any]) -> int:
    try:
        return ENCODERS[kind](make(), 0)
    except (ValueError, OverflowError, InputError):
        raise RowFailure(ERROR_CAST) from None


def _text_to_decimal(text: str, target: DataType) -> int:
    number = decimal.Decimal(_matched(_DECIMAL, text).group())
    if number.adjusted() > 18:
        raise RowFailure(ERROR_OVERFLOW)
    code = int(_EXACT.to_integral_value(_EXACT.scaleb(number, target.scale)))
    if abs(code) >= (10**target.width if target.width else DECIMAL_LIMIT):
        raise RowFailure(ERROR_OVERFLOW)
    return code


def _bytes_to_text(data: bytes, _: DataType) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RowFailure(ERROR_CAST) from None


def _timestamp_text(moment: dt.datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(" ")


CASTS: dict[tuple[str, str], Callable[[Any, DataType], Any]] = {
    ("str", "int"): _text_to_int,
    ("str", "float"): _text_to_float,
    ("str", "bool"): _text_to_bool,
    ("str", "date"): _text_to_date,
    ("str", "timestamp"): _text_to_timestamp,
    ("str", "decimal"): _text_to_decimal,
    ("str", "bytes"): lambda text, _: text.encode(),
    ("bytes", "str"): _bytes_to_text,
    ("int", "str"): lambda number, _: str(number),
    ("float", "str"): lambda number, _: repr(number),
    ("bool", "str"): lambda truth, _: "true" if truth else "false",
    ("date", "str"): lambda day, _: day.isoformat(),
    ("timestamp", "str"): lambda moment, _: _timestamp_text(moment),
    ("decimal", "str"): lambda number, _: format(number, "f"),
}
"""(from, to) to a function of the value and the target type."""
