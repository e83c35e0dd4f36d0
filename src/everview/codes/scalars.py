"""Codes of single numbers, dates and times: the kinds whose code is computed from the value alone.

Each `..._code` function converts one Python (or NumPy) value to its int64 code, or raises an `InputError`; the caller
(a codec) adds row and column. Each `..._value` function is its inverse.

Floats: the bits of a positive float64, read as a signed integer, sort like the number; those of a negative one sort
backwards, so their other 63 bits are flipped. 0.0 is 0, -0.0 is -1, +inf is below the single NaN.

>>> sorted([2.5, -1.0, float("inf"), -0.0, 0.0], key=float_code)
[-1.0, -0.0, 0.0, 2.5, inf]
"""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from everview.errors import InputError
from everview.types import Kind

LOWEST, HIGHEST = -(2**63), 2**63 - 1
FLIP = 2**63 - 1
NAN_CODE = 0x7FF8_0000_0000_0000
DIGITS = 18
"""Maximum number of digits of a decimal."""

UNIX_DAY = dt.date(1970, 1, 1).toordinal()
FIRST_DAY, LAST_DAY = 1 - UNIX_DAY, dt.date.max.toordinal() - UNIX_DAY
MICROSECONDS = 86_400_000_000
FIRST_MICROSECOND, LAST_MICROSECOND = FIRST_DAY * MICROSECONDS, (LAST_DAY + 1) * MICROSECONDS - 1

_EPOCH = dt.datetime(1970, 1, 1)
_EXACT = decimal.Context(prec=40)
_pack, _unpack = struct.Struct("<d").pack, struct.Struct("<q").unpack
_pack_bits, _unpack_float = struct.Struct("<q").pack, struct.Struct("<d").unpack


def shown(value: object) -> str:
    """Format a value for error messages: `repr`, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def wrong_type(value: object, expected: str, hint: str = "") -> InputError:
    """Return the error for a value of another type."""
    what = "None is" if value is None else f"{shown(value)} is {article(type(value).__name__)},"
    return InputError("E_TYPE", f"{what} not {expected}", hint)


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "item"), counted(2, "item")
    ('1 item', '2 items')
    """
    return f"{number} {noun}" + ("" if number == 1 else "s")


def article(name: str) -> str:
    """A noun with its article.

    >>> article("int"), article("str"), article("bytes"), article("uuid")
    ('an int', 'a str', 'bytes', 'a uuid')
    """
    if name == "bytes":
        return name
    return f"an {name}" if name[0] in "aeioAEIO" else f"a {name}"


def int_code(value: Any) -> int:
    """
    >>> int_code(-7)
    -7
    """
    if isinstance(value, (bool, np.bool_)):
        raise wrong_type(value, "an int", "write 1 or 0, or declare the column bool")
    if not isinstance(value, (int, np.integer)):
        raise wrong_type(value, "an int", "convert it with int(...), or declare the column's type differently")
    number = int(value)
    if not LOWEST <= number <= HIGHEST:
        raise InputError("E_RANGE", f"{shown(number)} does not fit 64 bits", "ints go from -2**63 to 2**63 - 1")
    return number


def float_code(value: Any) -> int:
    """
    >>> float_code(0.0), float_code(-0.0)
    (0, -1)
    """
    if type(value) is not float:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise wrong_type(value, "a float", "convert it with float(...), or declare the column's type differently")
        try:
            value = float(value)
        except OverflowError:
            raise InputError("E_RANGE", f"{shown(value)} does not fit a float", "floats end at about 1.8e308") from None
    if value != value:
        return NAN_CODE
    bits: int = _unpack(_pack(value))[0]
    return bits if bits >= 0 else bits ^ FLIP


def float_value(code: int) -> float:
    """
    >>> float_value(float_code(0.1))
    0.1
    """
    number: float = _unpack_float(_pack_bits(code if code >= 0 else code ^ FLIP))[0]
    return number


float_to_code, code_to_float = float_code, float_value


def bool_code(value: Any) -> int:
    """
    >>> bool_code(True)
    1
    """
    if not isinstance(value, (bool, np.bool_)):
        raise wrong_type(value, "a bool", "write True or False")
    return int(value)


def date_code(value: Any) -> int:
    """
    >>> date_code(dt.date(1970, 1, 2))
    1
    """
    if isinstance(value, np.datetime64) and np.datetime_data(value)[0] == "D":
        value = value.item()
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        hint = "take its .date()" if isinstance(value, dt.datetime) else "write datetime.date(year, month, day)"
        raise wrong_type(value, "a date", hint)
    return int(value.toordinal()) - UNIX_DAY


def date_value(code: int) -> dt.date:
    """
    >>> date_value(0)
    datetime.date(1970, 1, 1)
    """
    return dt.date.fromordinal(code + UNIX_DAY)


def timestamp_code(value: Any) -> int:
    """Microseconds since 1970 in UTC; a naive datetime is UTC already.

    >>> timestamp_code(dt.datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    if type(value) is not dt.datetime:
        value = _plain_datetime(value)
    if value.tzinfo is None:
        return _microseconds(value - _EPOCH)
    code = _microseconds(value.replace(tzinfo=None) - _EPOCH - (value.utcoffset() or dt.timedelta()))
    if not FIRST_MICROSECOND <= code <= LAST_MICROSECOND:
        raise InputError("E_RANGE", f"{shown(value)} is outside the years 1 to 9999 in UTC", "clip it")
    return code


def _microseconds(span: dt.timedelta) -> int:
    return span.days * MICROSECONDS + span.seconds * 1_000_000 + span.microseconds


def _plain_datetime(value: Any) -> Any:
    """Convert NumPy's and pandas' datetimes."""
    if isinstance(value, np.datetime64):
        return _from_datetime64(value)
    if not isinstance(value, dt.datetime):
        raise wrong_type(value, "a datetime", "write datetime.datetime(...)")
    if getattr(value, "nanosecond", 0):
        raise InputError("E_RANGE", f"{shown(value)} has nanoseconds", "round it to microseconds")
    return value


def _from_datetime64(value: np.datetime64) -> Any:
    micro = value.astype("datetime64[us]")
    if micro != value:
        raise InputError("E_RANGE", f"{shown(value)} has nanoseconds", "round it to microseconds")
    return micro.item()


def timestamp_value(code: int) -> dt.datetime:
    """
    >>> timestamp_value(1)
    datetime.datetime(1970, 1, 1, 0, 0, 0, 1)
    """
    return _EPOCH + dt.timedelta(microseconds=code)


def timestamptz_code(value: Any) -> int:
    """Microseconds since 1970 in UTC; a naive datetime is taken as UTC.

    >>> timestamptz_code(dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))))
    0
    """
    return timestamp_code(value)


def timestamptz_value(code: int) -> dt.datetime:
    """
    >>> timestamptz_value(0).isoformat()
    '1970-01-01T00:00:00+00:00'
    """
    return timestamp_value(code).replace(tzinfo=dt.UTC)


def time_code(value: Any) -> int:
    """Microseconds since midnight.

    >>> time_code(dt.time(0, 0, 1))
    1000000
    """
    if not isinstance(value, dt.time):
        raise wrong_type(value, "a time", "write datetime.time(hour, minute)")
    if value.tzinfo is not None:
        raise InputError("E_TYPE", f"{shown(value)} has a time zone", "leave it out, or keep a timestamptz")
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def time_value(code: int) -> dt.time:
    """
    >>> time_value(1_500_000)
    datetime.time(0, 0, 1, 500000)
    """
    seconds, micros = divmod(code, 1_000_000)
    return dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)


def decimal_code(value: Any, scale: int) -> int:
    """The number times 10**scale, exactly.

    >>> decimal_code(decimal.Decimal("1.50"), 2)
    150
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (decimal.Decimal, int, np.integer)):
        hint = "write Decimal(str(x))" if isinstance(value, (float, np.floating)) else "write Decimal('1.25')"
        raise wrong_type(value, "a Decimal", hint)
    number = decimal.Decimal(int(value)) if not isinstance(value, decimal.Decimal) else value
    if not number.is_finite():
        raise InputError("E_RANGE", f"{shown(value)} is not a number", "decimals have no NaN and no infinity")
    if not number:
        return 0
    if number.adjusted() + scale >= DIGITS:
        problem = f"{shown(value)} needs more than {DIGITS} digits at scale {scale}"
        raise InputError("E_RANGE", problem, "declare a smaller scale")
    if number.adjusted() < -scale:
        raise _too_fine(value, scale)
    top, bottom = number.as_integer_ratio()
    if top * 10**scale % bottom:
        raise _too_fine(value, scale)
    return int(top * 10**scale // bottom)


def quick_decimal(scale: int, digits: int, otherwise: Callable[[Any], int]) -> Callable[[Any], int]:
    """An encoder of decimals with at most this many digits at this scale. Values that are not plainly such decimals
    (other types, NULL, infinities, too large or too fine) are passed to `otherwise`, which raises for some of them.

    >>> quick_decimal(2, 18, otherwise=lambda value: -1)(decimal.Decimal("1.50"))
    150
    """
    factor: int = 10**scale
    most = digits - scale

    def encode(value: Any) -> int:
        # the place of its first digit also bounds the fraction: 1E+999999 would be a number of megabytes
        if type(value) is decimal.Decimal and -scale <= value.adjusted() < most and value.is_finite():
            exact: tuple[int, int] = value.as_integer_ratio()
            code, rest = divmod(exact[0] * factor, exact[1])
            if not rest:
                return code
        return otherwise(value)

    return encode


def _too_fine(value: object, scale: int) -> InputError:
    hint = "round it, or declare a larger scale, e.g. 'decimal(6)'"
    return InputError("E_RANGE", f"{shown(value)} has more than {scale} digits after the point", hint)


def decimal_value(code: int, scale: int) -> decimal.Decimal:
    """
    >>> decimal_value(150, 2)
    Decimal('1.50')
    """
    return decimal.Decimal(code).scaleb(-scale, _EXACT)


def kind_of(value: object) -> Kind | None:
    """The natural kind of a value, without a declared type; None if there is none.

    >>> kind_of(True), kind_of("x"), kind_of({})
    ('bool', 'str', None)
    """
    return next((kind for types, kind in _KINDS if isinstance(value, types)), None)


_KINDS: tuple[tuple[tuple[type, ...], Kind], ...] = (
    ((bool, np.bool_), "bool"),
    ((int, np.integer), "int"),
    ((float, np.floating), "float"),
    ((str,), "str"),
    ((bytes, bytearray), "bytes"),
    ((dt.datetime, np.datetime64), "timestamp"),
    ((dt.date,), "date"),
    ((decimal.Decimal,), "decimal"),
    ((tuple,), "tuple"),
)

ENCODERS: dict[str, Callable[[Any, int], int]] = {
    "int": lambda value, scale: int_code(value),
    "float": lambda value, scale: float_code(value),
    "bool": lambda value, scale: bool_code(value),
    "date": lambda value, scale: date_code(value),
    "timestamp": lambda value, scale: timestamp_code(value),
    "timestamptz": lambda value, scale: timestamptz_code(value),
    "time": lambda value, scale: time_code(value),
    "decimal": decimal_code,
}
"""Kind to function (value, scale) -> code."""

DECODERS: dict[str, Callable[[int, int], Any]] = {
    "int": lambda code, scale: int(code),
    "float": lambda code, scale: float_value(code),
    "bool": lambda code, scale: bool(code),
    "date": lambda code, scale: date_value(code),
    "timestamp": lambda code, scale: timestamp_value(code),
    "timestamptz": lambda code, scale: timestamptz_value(code),
    "time": lambda code, scale: time_value(code),
    "decimal": decimal_value,
}
"""Kind to function (code, scale) -> value."""
