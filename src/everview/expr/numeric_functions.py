"""Functions of numerics, intervals, times and zones, and casts between types that the VM does not support.

Numerics: `add sub mod` have the larger scale, `mul` the sum of both, `div` has a free scale. Only `div` rounds (half
away from zero); a result that needs more than 38 digits fails (see `everview.expr.python_function_types` for the
scales). Numerics of a free scale keep all digits of a result, up to 38 before and 38 after the point; quotients have as
many as in PostgreSQL.

Interval arithmetic follows PostgreSQL: months first (clamping to the month's last day), then days, then the time.
"""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from everview.codes import intervals, packed
from everview.codes.intervals import DAY, HOUR, MINUTE, SECOND, Interval
from everview.expr import python_function_types
from everview.expr.moment_texts import in_zone, parse_moment, zone_of
from everview.expr.nodes import Call
from everview.expr.string_functions import RowFailure
from everview.expr.text_conversion import EXACT, aware, char_of, float_text, of_text, plain_text, rounded, text_of
from everview.kernels.expressions.scalars import ERROR_CAST, ERROR_DIVISION, ERROR_DOMAIN
from everview.types import FREE, MOST_DIGITS, DataType, bounds

Function = Callable[..., Any]
_EPOCH = dt.datetime(1970, 1, 1)

# ---- casts


def cast(call: Call) -> Function:
    """Cast one value; the target is the call's type."""
    return converter(call.args[0].type, call.type)


def converter(source: DataType, target: DataType) -> Function:
    """A function from values of one type to values of another."""
    if target.kind == "str":
        return text_of(source)
    if source.kind in ("str", "char"):
        read = of_text(target)
        return lambda text: read(text.rstrip(" ") if source.kind == "char" else text)
    if target.kind == "char":
        text = text_of(source)
        return lambda value: char_of(text(value), target)
    known = _CONVERSIONS.get((source.kind, target.kind))
    if known is not None:
        return known(source, target)
    raise RowFailure(ERROR_CAST)


def _items(source: DataType, target: DataType) -> Function:
    inner = nullable(source.items[0], target.items[0])
    return lambda value: [inner(v) for v in value]


def _fields(source: DataType, target: DataType) -> Function:
    inner = [nullable(s, t) for s, t in zip(source.items, target.items, strict=True)]
    return lambda value: [f(v) for f, v in zip(inner, value.values(), strict=True)]


def _pairs(source: DataType, target: DataType) -> Function:
    key, item = nullable(source.items[0], target.items[0]), nullable(source.items[1], target.items[1])
    return lambda value: [(key(k), item(v)) for k, v in value.items()]


def nullable(source: DataType, target: DataType) -> Function:
    """Make a conversion accept None."""
    if source.optional() == target.optional():
        return lambda value: value
    convert = converter(source, target)
    return lambda value: None if value is None else convert(value)


def _number(source: DataType, target: DataType) -> Function:
    """Numbers to numbers: rounded half away from zero, as in SQL; overflow fails."""

    def run(value: Any) -> Any:
        if target.kind == "bool":
            return bool(value)
        if target.kind == "float":
            return float(value)
        if isinstance(value, float):
            if value != value or abs(value) == float("inf"):
                raise RowFailure(ERROR_CAST)
            value = Decimal(repr(value))
        number = rounded(Decimal(value), target.scale if target.kind != "int" else 0)
        if target.kind == "decimal" and target.width and abs(number.scaleb(target.scale)) >= 10**target.width:
            raise OverflowError(value)
        if target.kind != "int":
            return number
        low, high = bounds(target.width or 64)
        if not low <= number <= high:
            raise OverflowError(value)
        return int(number)

    return run


def _json_to(source: DataType, target: DataType) -> Function:
    number = _number(source, target)

    def run(value: Any) -> Any:
        if target.kind == "bool" and isinstance(value, bool):
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)) or target.kind == "bool":
            raise RowFailure(ERROR_CAST)
        return number(value)

    return run


def _plain(function: Function) -> Callable[[DataType, DataType], Function]:
    return lambda source, target: function


_NUMBERS = ("int", "float", "decimal", "numeric")
_CONVERSIONS: dict[tuple[str, str], Callable[[DataType, DataType], Function]] = {
    **{(a, b): _number for a in _NUMBERS for b in _NUMBERS},
    **{("json", b): _json_to for b in (*_NUMBERS, "bool")},
    ("bool", "numeric"): _number,
    ("bool", "int"): _number,
    ("numeric", "bool"): _number,
    ("array", "array"): _items,
    ("struct", "struct"): _fields,
    ("map", "map"): _pairs,
    ("timestamp", "time"): _plain(lambda value: value.time()),
    ("interval", "time"): _plain(lambda value: _clock(value.microseconds)),
    ("time", "interval"): _plain(lambda value: Interval(microseconds=micros(value))),
    ("timestamptz", "date"): _plain(lambda value: value.date()),
    ("timestamptz", "timestamp"): _plain(lambda value: value.replace(tzinfo=None)),
    ("timestamp", "timestamptz"): _plain(lambda value: value),
}


def is_small_cast(call: Call) -> bool:
    """Whether it casts a number other than an int, whose range the VM checks, to a small int."""
    return call.op == "cast_int" and bool(call.type.width) and call.args[0].type.kind != "int"


def small_cast(call: Call) -> Function:
    """Cast to a small int."""
    source = call.args[0].type
    if source.kind == "bool":
        return int
    if source.kind in ("date", "timestamp"):
        raise RowFailure(ERROR_CAST)
    return converter(source, call.type)


# ---- numerics


def _exactly(function: Callable[[Decimal, Decimal], Decimal]) -> Callable[[Call], Function]:
    return lambda call: function


def _divided(call: Call) -> Function:
    given = call.type.scale

    def run(a: Decimal, b: Decimal) -> Decimal:
        if not b:
            raise RowFailure(ERROR_DIVISION)
        scale = given if given < FREE else quotient_scale(a, b)
        (top, under), (by, over) = a.as_integer_ratio(), b.as_integer_ratio()
        above, below = abs(top) * over * 10**scale, under * abs(by)
        found = (2 * above + below) // (2 * below)
        return packed.numeric_value(-found if (top < 0) != (by < 0) else found, scale)

    return run


def quotient_scale(a: Decimal, b: Decimal) -> int:
    """Digits after the point of a quotient: PostgreSQL's rule, at least 16 significant ones.

    >>> quotient_scale(Decimal(1), Decimal(3)), quotient_scale(Decimal("5000000"), Decimal(3))
    (20, 12)
    """
    (weight, leading, after), (by_weight, by_leading, by_after) = _leading(a), _leading(b)
    quotient_weight = weight - by_weight - (leading <= by_leading)
    return min(max(python_function_types.DIVISION_SCALE - 4 * quotient_weight, after, by_after, 0), MOST_DIGITS)


def _leading(number: Decimal) -> tuple[int, int, int]:
    """Place and value of the first base-10,000 digit (PostgreSQL's base), and the digits after the point."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    after = -exponent if exponent < 0 else 0
    if not number:
        return 0, 0, after
    weight, first = divmod(len(digits) - 1 + exponent, 4)
    value = 0
    for digit in digits[: first + 1]:
        value = 10 * value + digit
    return weight, value * 10 ** max(0, first + 1 - len(digits)), after


def _modulo(a: Decimal, b: Decimal) -> Decimal:
    """Floored modulo: it has the divisor's sign."""
    if not b:
        raise RowFailure(ERROR_DIVISION)
    rest = EXACT.remainder(a, b)
    return EXACT.add(rest, b) if rest and (rest < 0) != (b < 0) else rest


def _floor_divided(a: Decimal, b: Decimal) -> Decimal:
    if not b:
        raise RowFailure(ERROR_DIVISION)
    return Decimal(Fraction(a) // Fraction(b))


def _rounded_number(call: Call) -> Function:
    digits = int(call.args[1].value) if len(call.args) == 2 else 0  # type: ignore[attr-defined]
    return lambda value, *_: rounded(value, digits)


def _whole(how: str) -> Callable[[Call], Function]:
    return lambda call: lambda value: value.to_integral_value(how)


def _sum_of_limbs(call: Call) -> Function:
    """A sum from the sums of its limbs (see `limb`)."""
    scale = min(call.type.scale, MOST_DIGITS)

    def run(*sums: int) -> Decimal:
        return packed.numeric_value(sum(part * LIMB**i for i, part in enumerate(sums)), scale)

    return run


LIMB = 10**10
"""A numeric is summed in limbs of ten digits, so that int sums suffice for a billion rows."""


def limbs(declared: DataType) -> int:
    """The number of limbs for numbers of a type: four, or eight if there can be 38 digits on each side of the point."""
    return 8 if declared.scale == FREE else 4


def _limb(call: Call) -> Function:
    """Limb n of a numeric's digits, with the number's sign."""
    at = int(call.args[1].value)  # type: ignore[attr-defined]
    declared = call.args[0].type
    if declared.scale == FREE:
        declared = DataType("numeric", scale=MOST_DIGITS, width=2 * MOST_DIGITS)

    def run(value: Decimal, _: int) -> int:
        code = packed.numeric_code(value, declared)
        part: int = abs(code) // LIMB**at % LIMB
        return -part if code < 0 else part

    return run


def _average(call: Call) -> Function:
    divided = _divided(call)
    return lambda total, count: divided(total, Decimal(count))


# ---- comparison


def _compare(test: Callable[[Any, Any], bool]) -> Callable[[Call], Function]:
    def make(call: Call) -> Function:
        key = packed.order_key(call.args[0].type)
        if key is None:
            return test
        return lambda a, b: test(key(a), key(b))

    return make


def _extreme(best: Callable[..., Any]) -> Callable[[Call], Function]:
    def make(call: Call) -> Function:
        key = packed.order_key(call.args[0].type)

        def run(*values: Any) -> Any:
            known = [v for v in values if v is not None]
            return best(known, key=key) if known else None

        return run

    return make


# ---- intervals, moments, times


def micros(value: dt.time) -> int:
    """Microseconds since midnight."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * SECOND + value.microsecond


def _clock(microseconds: int) -> dt.time:
    """The time of day this long after midnight."""
    return (_EPOCH + dt.timedelta(microseconds=microseconds % DAY)).time()


def moved(moment: dt.datetime, by: Interval) -> dt.datetime:
    """A moment shifted by an interval: by months, then days, then the time.

    >>> moved(dt.datetime(2024, 1, 31), Interval(months=1, days=1))
    datetime.datetime(2024, 3, 1, 0, 0)
    """
    if by.months:
        month = moment.year * 12 + moment.month - 1 + by.months
        year, month = divmod(month, 12)
        if not 1 <= year <= 9999:
            raise OverflowError(moment)
        last = calendar.monthrange(year, month + 1)[1]
        moment = moment.replace(year=year, month=month + 1, day=min(moment.day, last))
    return moment + dt.timedelta(days=by.days, microseconds=by.microseconds)


def _moment_add(call: Call) -> Function:
    """In a zone, months and days preserve local time; the rest is elapsed time."""
    if call.args[0].type.kind == "timestamp":
        return lambda moment, by, zone=None: moved(moment, by)

    def run(moment: dt.datetime, by: Interval, zone: str = "UTC") -> dt.datetime:
        if by.months or by.days:
            there = moment.astimezone(zone_of(zone)).replace(tzinfo=None, fold=0)
            moment = aware(in_zone(moved(there, Interval(by.months, by.days)), zone))
        return moment + dt.timedelta(microseconds=by.microseconds)

    return run


def difference(a: dt.datetime, b: dt.datetime) -> Interval:
    """Days and time from b to a, with one sign.

    >>> str(difference(dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2, 1)))
    '-1 days -01:00:00'
    """
    span = (a - b) // dt.timedelta(microseconds=1)
    sign = -1 if span < 0 else 1
    days, rest = divmod(abs(span), DAY)
    return Interval(0, sign * days, sign * rest)


def _factor(value: Any) -> Fraction:
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        raise RowFailure(ERROR_DOMAIN)
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def _interval_over(value: Interval, by: Any) -> Interval:
    if not by:
        raise RowFailure(ERROR_DIVISION)
    return value * (1 / _factor(by))


_PARTS: dict[str, Callable[[Interval], Any]] = {
    "millennium": lambda v: _toward(v.months, 12_000),
    "century": lambda v: _toward(v.months, 1200),
    "decade": lambda v: _toward(v.months, 120),
    "year": lambda v: _toward(v.months, 12),
    "quarter": lambda v: (v.months - 12 * _toward(v.months, 12)) // 3 + 1,
    "month": lambda v: v.months - 12 * _toward(v.months, 12),
    "day": lambda v: v.days,
    "hour": lambda v: _toward(v.microseconds, HOUR),
    "minute": lambda v: _toward(v.microseconds - HOUR * _toward(v.microseconds, HOUR), MINUTE),
    "millisecond": lambda v: Decimal(v.microseconds - MINUTE * _toward(v.microseconds, MINUTE)).scaleb(-3),
    "microsecond": lambda v: v.microseconds - MINUTE * _toward(v.microseconds, MINUTE),
    "second": lambda v: Decimal(v.microseconds - MINUTE * _toward(v.microseconds, MINUTE)).scaleb(-6),
    "epoch": lambda v: Decimal(
        (_toward(v.months, 12) * 31_557_600 + (v.months - 12 * _toward(v.months, 12)) * 2_592_000) * SECOND
        + v.days * DAY
        + v.microseconds
    ).scaleb(-6),
}


def _toward(amount: int, unit: int) -> int:
    """Division that truncates towards zero."""
    return amount // unit if amount >= 0 else -(-amount // unit)


def _interval_part(call: Call) -> Function:
    part = _PARTS[str(call.args[0].value)]  # type: ignore[attr-defined]
    return lambda _, value: part(value)


INTERVAL_PARTS = tuple(_PARTS)
"""Fields that can be extracted from an interval."""


def _zoned(call: Call) -> Function:
    """A moment as local time of a zone."""
    return lambda moment, zone: moment.astimezone(_zone(zone)).replace(tzinfo=None)


def _zone(name: str) -> dt.tzinfo:
    try:
        return zone_of(name)
    except ValueError:
        raise RowFailure(ERROR_DOMAIN) from None


def _unzoned(call: Call) -> Function:
    """The moment of a local timestamp in a zone."""

    def run(moment: dt.datetime, zone: str) -> dt.datetime:
        _zone(zone)
        return aware(in_zone(moment, zone))

    return run


def _zoned_text(call: Call) -> Function:
    text = text_of(call.args[0].type)
    return lambda moment, zone: text(moment.astimezone(_zone(zone)))


def _text_in_zone(call: Call) -> Function:
    def run(text: str, zone: str) -> dt.datetime:
        found = parse_moment(text)
        return aware(found if found.tzinfo is not None else in_zone(found, zone))

    return run


def _fitting(text: str, width: int) -> str:
    if len(text) > width:
        raise OverflowError(text)
    return text


def _total(call: Call) -> Function:
    return lambda value: value.total


def _of(function: Function) -> Callable[[Call], Function]:
    return lambda call: function


MAKERS: dict[str, Callable[[Call], Function]] = {
    "numeric_limb": _limb,
    "numeric_sum": _sum_of_limbs,
    "numeric_average": _average,
    "interval_order": _total,
    "interval_make": _of(lambda months, days, microseconds: Interval(months, days, microseconds)),
    "interval_months": _of(lambda value: value.months),
    "interval_days": _of(lambda value: value.days),
    "interval_microseconds": _of(lambda value: value.microseconds),
    "interval_part": _interval_part,
    "interval_mul": _of(lambda value, by: value * _factor(by)),
    "interval_div": _of(_interval_over),
    "moment_add": _moment_add,
    "moment_sub": _of(difference),
    "time_add": _of(lambda value, by: _clock(micros(value) + by.microseconds)),
    "time_sub": _of(lambda a, b: Interval(microseconds=micros(a) - micros(b))),
    "date_time": _of(lambda day, time: dt.datetime.combine(day, time)),
    "char_fit": _of(lambda text, width: _fitting(text.rstrip(" "), width)),
    "zone_local": _zoned,
    "zone_moment": _unzoned,
    "zone_text": _zoned_text,
    "zone_read": _text_in_zone,
    "float_text": _of(float_text),
    "timestamp_text": _of(plain_text),
}


OF_PACKED: dict[str, Callable[[Call], Function]] = {
    "add": _of(lambda a, b: a + b if isinstance(a, Interval) else EXACT.add(a, b)),
    "sub": _of(lambda a, b: a - b if isinstance(a, Interval) else EXACT.subtract(a, b)),
    "mul": _exactly(EXACT.multiply),
    "div": _divided,
    "mod": _exactly(_modulo),
    "floordiv": _exactly(_floor_divided),
    "neg": _of(lambda value: -value if isinstance(value, Interval) else value.copy_negate()),
    "abs": _of(lambda value: value.copy_abs()),
    "floor": _whole("ROUND_FLOOR"),
    "ceil": _whole("ROUND_CEILING"),
    "round": _rounded_number,
    "sign": _of(lambda value: (value > 0) - (value < 0)),
    "lt": _compare(lambda a, b: a < b),
    "le": _compare(lambda a, b: a <= b),
    "gt": _compare(lambda a, b: a > b),
    "ge": _compare(lambda a, b: a >= b),
    "greatest": _extreme(max),
    "least": _extreme(min),
}

__all__ = ["INTERVAL_PARTS", "MAKERS", "OF_PACKED", "cast", "converter", "intervals", "limbs", "small_cast"]
