"""What expressions mean, value by value, in plain Python: written from `everview.expr.functions`, not from the engine.

`value(expr, row)` is the value of a resolved expression for one row of Python values (None is NULL), or it raises
`RowError`. Nothing here is fast and nothing is shared with the code under test, apart from the expression classes, the
types and (for `hash` alone, which is defined on codes) a function that gives a value's code.
"""

from __future__ import annotations

import calendar
import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everview.expr.nodes import Call, ColumnRef, Expr, Literal, Udf
from everview.types import NULL, DataType

CodeOf = Callable[[DataType, Any], int]
EPOCH = dt.datetime(1970, 1, 1)
DAY_ZERO = dt.date(1970, 1, 1)
EXACT = Context(prec=80)


class RowError(Exception):
    """The row has no value: "division", "overflow", "domain" or "cast"."""

    @property
    def kind(self) -> str:
        return str(self.args[0])


def value(expr: Expr, row: tuple[Any, ...], code_of: CodeOf | None = None) -> Any:
    """The value of the expression for a row."""
    if isinstance(expr, ColumnRef):
        return row[expr.index]
    if isinstance(expr, Literal):
        return expr.value

    def of(part: Expr) -> Any:
        return value(part, row, code_of)

    if isinstance(expr, Udf):
        return expr.function(*map(of, expr.args))
    assert isinstance(expr, Call)
    if expr.op in LAZY:
        return LAZY[expr.op](expr.args, of)
    args = [of(a) for a in expr.args]
    if expr.op == "hash":
        assert code_of is not None
        plain = [0.0 if isinstance(v, float) and v == 0 else v for v in args]
        return hash_of([code_of(a.type, v) for a, v in zip(expr.args, plain, strict=True)])
    if expr.op in TAKES_NULL:
        return TAKES_NULL[expr.op](expr, *args)
    if any(a is None for a in args):
        return None
    if expr.op in NUMERIC and expr.type.kind == "numeric":
        return NUMERIC[expr.op](*(Decimal(a) for a in args))
    result = STRICT[expr.op](expr, *args)
    if expr.type.nullable and expr.type.kind == "int" and result == NULL:
        raise RowError("overflow")
    return result


# ---- truth and NULL


def _and(args: Any, of: Any) -> Any:
    left = of(args[0])
    if left is False:
        return False
    right = of(args[1])
    if right is False:
        return False
    return None if left is None or right is None else True


def _or(args: Any, of: Any) -> Any:
    left = of(args[0])
    if left is True:
        return True
    right = of(args[1])
    if right is True:
        return True
    return None if left is None or right is None else False


def _case(args: Any, of: Any) -> Any:
    for i in range(0, len(args) - 1, 2):
        if of(args[i]) is True:
            return of(args[i + 1])
    return of(args[-1])


def _coalesce(args: Any, of: Any) -> Any:
    for arg in args:
        found = of(arg)
        if found is not None:
            return found
    return None


LAZY: dict[str, Callable[..., Any]] = {
    "and": _and, "or": _or, "case": _case, "coalesce": _coalesce, "if_null": _coalesce,
}  # fmt: skip


def order(a: Any) -> Any:
    """A key that sorts values as `lt` does."""
    if isinstance(a, float):
        return (1, 0.0) if math.isnan(a) else (0, a)
    return a


def _nullif(expr: Call, a: Any, b: Any) -> Any:
    return None if a is not None and b is not None and order(a) == order(b) else a


def _greatest(expr: Call, *args: Any) -> Any:
    return max((a for a in args if a is not None), key=order, default=None)


def _least(expr: Call, *args: Any) -> Any:
    return min((a for a in args if a is not None), key=order, default=None)


TAKES_NULL: dict[str, Callable[..., Any]] = {
    "is_null": lambda e, a: a is None,
    "is_not_null": lambda e, a: a is not None,
    "nullif": _nullif,
    "greatest": _greatest,
    "least": _least,
    "tuple_make": lambda e, *items: items,
}


# ---- numbers


def number(kind: DataType, result: Any) -> Any:
    """The result if its type can hold it."""
    if kind.kind == "int" and not -(2**63) <= result < 2**63:
        raise RowError("overflow")
    if kind.kind == "decimal":
        scaled = result.scaleb(kind.scale, EXACT)
        if abs(scaled) >= 10**18:
            raise RowError("overflow")
        exact = result.quantize(Decimal(1).scaleb(-kind.scale), context=EXACT)
        return exact if exact else abs(exact)  # an integer times a power of ten: there is no -0
    return result


def finite(result: Any, *args: Any) -> Any:
    """A result that is not infinite, unless an argument is."""
    if isinstance(result, float) and math.isinf(result) and not any(map(math.isinf, args)):
        raise RowError("overflow")
    return result


def _add(e: Call, a: Any, b: Any) -> Any:
    return finite(number(e.type, EXACT.add(a, b) if isinstance(a, Decimal) else a + b), a, b)


def _sub(e: Call, a: Any, b: Any) -> Any:
    return finite(number(e.type, EXACT.subtract(a, b) if isinstance(a, Decimal) else a - b), a, b)


def _mul(e: Call, a: Any, b: Any) -> Any:
    if isinstance(a, float) and a * b == 0 and a and b:
        raise RowError("overflow")
    return finite(number(e.type, EXACT.multiply(a, b) if isinstance(a, Decimal) else a * b), a, b)


def _nonzero(b: Any) -> None:
    if b == 0:
        raise RowError("division")


def _div(e: Call, a: float, b: float) -> float:
    _nonzero(b)
    if a / b == 0 and a and not math.isinf(b):
        raise RowError("overflow")
    return finite(a / b, a, b)


def _floordiv(e: Call, a: Any, b: Any) -> Any:
    _nonzero(b)
    if isinstance(a, float):
        return float(np.floor(a / b))
    if isinstance(a, Decimal):
        unit = 10 ** e.args[0].type.scale
        return number(e.type, int(a * unit) // int(b * unit))
    return number(e.type, a // b)


def _places(b: int) -> int:
    if not 0 <= b < 64:
        raise RowError("domain")
    return b


def _int64(bits: int) -> int:
    return (bits + 2**63) % 2**64 - 2**63


def _mod(e: Call, a: Any, b: Any) -> Any:
    _nonzero(b)
    if isinstance(a, Decimal):
        unit = 10**e.type.scale
        return Decimal(int(a * unit) % int(b * unit)).scaleb(-e.type.scale, EXACT)
    return a % b


def _neg(e: Call, a: Any) -> Any:
    return number(e.type, EXACT.minus(a) if isinstance(a, Decimal) else -a)


def _pow(e: Call, a: float, b: float) -> float:
    if (a == 0 and b < 0) or (a < 0 and math.isfinite(b) and b != math.floor(b)):
        raise RowError("domain")
    try:
        result = math.pow(a, b)
    except OverflowError:
        raise RowError("overflow") from None
    if result == 0 and a and math.isfinite(a) and math.isfinite(b):
        raise RowError("overflow")
    return result


def _exp(e: Call, a: float) -> float:
    try:
        result = math.exp(a)
    except OverflowError:
        raise RowError("overflow") from None
    if result == 0 and math.isfinite(a):
        raise RowError("overflow")
    return result


def _sqrt(e: Call, a: float) -> float:
    if a < 0:
        raise RowError("domain")
    return math.sqrt(a)


def _logarithm(function: Callable[[float], float]) -> Callable[[Call, float], float]:
    def logarithm(e: Call, a: float) -> float:
        if a <= 0:
            raise RowError("domain")
        return function(a)

    return logarithm


def _whole(rounding: str, floats: Callable[[float], Any]) -> Callable[[Call, Any], Any]:
    def whole(e: Call, a: Any) -> Any:
        if isinstance(a, float):
            return float(floats(a))
        return number(e.type, a.to_integral_value(rounding, EXACT)) if isinstance(a, Decimal) else a

    return whole


def _round(e: Call, a: Any, digits: int = 0) -> Any:
    if isinstance(a, float):
        power = 10.0**digits
        return a if math.isinf(a * power) else float(np.rint(a * power) / power)
    if isinstance(a, Decimal):
        unit = Decimal(1).scaleb(-min(digits, e.type.scale))
        return number(e.type, a.quantize(unit, ROUND_HALF_UP, EXACT))
    return a


def _sign(e: Call, a: Any) -> Any:
    if isinstance(a, float):
        return a if math.isnan(a) else float((a > 0) - (a < 0))
    return (a > 0) - (a < 0)


# ---- casts

SPACE = " \t\n\r\v\f"


def _cast_int(e: Call, a: Any) -> int:
    if isinstance(a, str):
        if not re.fullmatch(r"[+-]?[0-9]+", a.strip(SPACE)):
            raise RowError("cast")
        return _in_range(int(a))
    if isinstance(a, float):
        if not math.isfinite(a):
            raise RowError("cast")
        return _in_range(int(a))
    if isinstance(a, dt.datetime):
        return (a - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(a, dt.date):
        return (a - DAY_ZERO).days
    return int(a)


def _in_range(a: int) -> int:
    if not -(2**63) <= a < 2**63:
        raise RowError("overflow")
    return a


def _cast_float(e: Call, a: Any) -> float:
    if isinstance(a, str):
        try:
            if "_" in a:
                raise ValueError
            return float(a)
        except ValueError:
            raise RowError("cast") from None
    if isinstance(a, Decimal):
        scale = e.args[0].type.scale
        return float(int(a.scaleb(scale, EXACT))) / 10.0**scale
    return float(a)


def _cast_bool(e: Call, a: Any) -> bool:
    if isinstance(a, str):
        word = a.strip(SPACE).lower()
        if word in ("true", "t", "yes", "y", "on", "1"):
            return True
        if word in ("false", "f", "no", "n", "off", "0"):
            return False
        raise RowError("cast")
    return bool(a != 0)


def _cast_str(e: Call, a: Any) -> str:
    if isinstance(a, bool):
        return "true" if a else "false"
    if isinstance(a, float):
        return repr(a)
    if isinstance(a, bytes):
        try:
            return a.decode("utf-8")
        except UnicodeDecodeError:
            raise RowError("cast") from None
    if isinstance(a, dt.datetime):
        text = f"{a.year:04}-{a.month:02}-{a.day:02} {a.hour:02}:{a.minute:02}:{a.second:02}"
        return f"{text}.{a.microsecond:06}" if a.microsecond else text
    if isinstance(a, dt.date):
        return f"{a.year:04}-{a.month:02}-{a.day:02}"
    if isinstance(a, Decimal):
        return f"{a:.{e.args[0].type.scale}f}"
    return str(a)


def _cast_date(e: Call, a: Any) -> dt.date:
    if isinstance(a, str):
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", a.strip(SPACE), re.ASCII):
            raise RowError("cast")
        try:
            return dt.date.fromisoformat(a.strip(SPACE))
        except ValueError:
            raise RowError("cast") from None
    if isinstance(a, dt.datetime):
        return a.date()
    return plus_days(DAY_ZERO, a) if isinstance(a, int) else a


def _cast_timestamp(e: Call, a: Any) -> dt.datetime:
    if isinstance(a, str):
        return _parse_timestamp(a.strip(SPACE))
    if isinstance(a, dt.datetime):
        return a
    if isinstance(a, dt.date):
        return dt.datetime(a.year, a.month, a.day)
    return plus_microseconds(EPOCH, a)


def _parse_timestamp(text: str) -> dt.datetime:
    clock = r"[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
    if not re.fullmatch(rf"\d{{4}}-\d\d-\d\d({clock})?(Z|[+-]\d\d:\d\d)?", text, re.ASCII):
        raise RowError("cast")
    try:
        zone = re.search(r"(Z|[+-]\d\d:\d\d)$", text[10:])
        body = text[: 10 + zone.start()] if zone else text
        body += " 00:00" if len(body) == 10 else ""
        head, _, fraction = body.partition(".")
        found = dt.datetime.fromisoformat(head).replace(microsecond=int(fraction.ljust(6, "0")) if fraction else 0)
        if zone and zone.group() != "Z":
            hours, minutes = int(zone.group()[1:3]), int(zone.group()[4:])
            if hours > 23 or minutes > 59:
                raise ValueError
            shift = dt.timedelta(hours=hours, minutes=minutes)
            found = found - shift if zone.group()[0] == "+" else found + shift
        return found
    except ValueError:
        raise RowError("cast") from None
    except OverflowError:
        raise RowError("overflow") from None


def _cast_decimal(e: Call, a: Any) -> Decimal:
    unit = Decimal(1).scaleb(-e.type.scale)
    if isinstance(a, str):
        if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", a.strip(SPACE), re.ASCII):
            raise RowError("cast")
        a = Decimal(a.strip(SPACE))
        if a and a.adjusted() > 40:
            raise RowError("overflow")
    if isinstance(a, float):
        if not math.isfinite(a):
            raise RowError("cast")
        scaled = a * 10.0**e.type.scale
        if not abs(np.rint(scaled)) < 1e18:
            raise RowError("overflow")
        return Decimal(int(np.rint(scaled))).scaleb(-e.type.scale, EXACT)
    return number(e.type, Decimal(a).quantize(unit, ROUND_HALF_UP, EXACT))


# ---- texts


def _substr(e: Call, s: str, start: int, n: int | None = None) -> str:
    if n is not None and n < 0:
        raise RowError("domain")
    stop = math.inf if n is None else start + n
    return "".join(c for i, c in enumerate(s, 1) if start <= i < stop)


def _split_part(e: Call, s: str, sep: str, n: int) -> str:
    if n == 0:
        raise RowError("domain")
    parts = s.split(sep) if sep else [s]
    index = n - 1 if n > 0 else len(parts) + n
    return parts[index] if 0 <= index < len(parts) else ""


def _lpad(e: Call, s: str, n: int, fill: str = " ") -> str:
    s = s[: max(n, 0)]
    return (fill * max(n, 0))[: max(n - len(s), 0)] + s if fill else s


def _rpad(e: Call, s: str, n: int, fill: str = " ") -> str:
    s = s[: max(n, 0)]
    return s + (fill * max(n, 0))[: max(n - len(s), 0)] if fill else s


def _like(e: Call, s: str, pattern: str) -> bool:
    regex, escaped = "", False
    for c in pattern:
        if escaped or c not in "%_\\":
            regex, escaped = regex + re.escape(c), False
        elif c == "\\":
            escaped = True
        else:
            regex += ".*" if c == "%" else "."
    return re.fullmatch(regex, s, re.DOTALL) is not None


# ---- dates


def plus_days(day: dt.date, n: int) -> dt.date:
    try:
        return day + dt.timedelta(days=n)
    except OverflowError:
        raise RowError("overflow") from None


def plus_microseconds(moment: dt.datetime, n: int) -> dt.datetime:
    try:
        return moment + dt.timedelta(microseconds=n)
    except OverflowError:
        raise RowError("overflow") from None


def _add_months(e: Call, a: Any, n: int) -> Any:
    months = a.year * 12 + a.month - 1 + n
    year, month = months // 12, months % 12 + 1
    if not 1 <= year <= 9999:
        raise RowError("overflow")
    return a.replace(year=year, month=month, day=min(a.day, calendar.monthrange(year, month)[1]))


def _date_trunc(e: Call, unit: str, a: Any) -> Any:
    day = a.date() if isinstance(a, dt.datetime) else a
    starts = {
        "year": lambda: day.replace(month=1, day=1),
        "quarter": lambda: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
        "month": lambda: day.replace(day=1),
        "week": lambda: day - dt.timedelta(days=day.weekday()),
        "day": lambda: day,
    }
    if unit in starts:
        day = starts[unit]()
        return dt.datetime(day.year, day.month, day.day) if isinstance(a, dt.datetime) else day
    cleared = {"hour": {"minute": 0, "second": 0}, "minute": {"second": 0}, "second": {}}[unit]
    return a.replace(microsecond=0, **cleared)


def _extract_epoch(e: Call, a: Any) -> float:
    if isinstance(a, dt.datetime):
        return float((a - EPOCH) // dt.timedelta(microseconds=1)) / 1e6
    return float((a - DAY_ZERO).days * 86_400)


def hash_of(codes: list[int]) -> int:
    h, mask = 0, 2**64 - 1
    for code in codes:
        z = ((h ^ (code & mask)) + 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        h = z ^ (z >> 31)
    return h - 2**64 if h >= 2**63 else h


def _by_arrow(kernel: Callable[[Any], Any]) -> Callable[[Call, str], Any]:
    return lambda e, s: kernel(pa.array([s]))[0].as_py()


def _quotient(a: Decimal, b: Decimal) -> Decimal:
    """Division with the digits that PostgreSQL's `select_div_scale` asks for: 16 that count, or those of the inputs."""
    if not b:
        raise RowError("division")
    (weight, first), (by_weight, by_first) = _leading_digits(a), _leading_digits(b)
    weight -= by_weight + (first <= by_first)
    scale = min(max(16 - 4 * weight, *(max(0, -int(x.as_tuple().exponent)) for x in (a, b))), 1000)
    wide = Context(prec=2000)
    return wide.divide(a, b).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, wide)


def _leading_digits(x: Decimal) -> tuple[int, int]:
    """The place of the first digit to base 10,000 that is not 0, and the digit."""
    if not x:
        return 0, 0
    weight = x.adjusted() // 4
    return weight, int(abs(x).scaleb(-4 * weight, EXACT))


NUMERIC: dict[str, Callable[..., Decimal]] = {
    "cast_numeric": lambda a: a,
    "add": lambda a, b: EXACT.add(a, b),
    "sub": lambda a, b: EXACT.subtract(a, b),
    "mul": lambda a, b: EXACT.multiply(a, b),
    "div": _quotient,
    "numeric_average": _quotient,
}
"""Operations of numerics, which are as exact as PostgreSQL's."""


STRICT: dict[str, Callable[..., Any]] = {
    "band": lambda e, a, b: a & b, "bor": lambda e, a, b: a | b, "bxor": lambda e, a, b: a ^ b, "bnot": lambda e, a: ~a,
    "bshl": lambda e, a, b: _int64(a << _places(b)), "bshr": lambda e, a, b: a >> _places(b),
    "bshru": lambda e, a, b: _int64((a % 2**64) >> _places(b)),
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "floordiv": _floordiv, "mod": _mod, "neg": _neg,
    "abs": lambda e, a: number(e.type, abs(a)),
    "pow": _pow, "sqrt": _sqrt, "exp": _exp,
    "ln": _logarithm(math.log), "log2": _logarithm(math.log2), "log10": _logarithm(math.log10),
    "floor": _whole(ROUND_FLOOR, np.floor), "ceil": _whole(ROUND_CEILING, np.ceil), "round": _round, "sign": _sign,
    "eq": lambda e, a, b: order(a) == order(b),
    "ne": lambda e, a, b: order(a) != order(b),
    "lt": lambda e, a, b: order(a) < order(b),
    "le": lambda e, a, b: order(a) <= order(b),
    "gt": lambda e, a, b: order(a) > order(b),
    "ge": lambda e, a, b: order(a) >= order(b),
    "not": lambda e, a: not a,
    "cast_int": _cast_int, "cast_float": _cast_float, "cast_bool": _cast_bool, "cast_str": _cast_str,
    "cast_bytes": lambda e, a: a.encode("utf-8") if isinstance(a, str) else a,
    "cast_date": _cast_date, "cast_timestamp": _cast_timestamp, "cast_decimal": _cast_decimal,
    "length": lambda e, s: len(s),
    "lower": _by_arrow(pc.utf8_lower), "upper": _by_arrow(pc.utf8_upper),
    "reverse": lambda e, s: s[::-1],
    "trim": lambda e, s, chars=SPACE: s.strip(chars),
    "ltrim": lambda e, s, chars=SPACE: s.lstrip(chars),
    "rtrim": lambda e, s, chars=SPACE: s.rstrip(chars),
    "substr": _substr,
    "concat": lambda e, *parts: "".join(parts),
    "contains": lambda e, s, part: part in s,
    "startswith": lambda e, s, part: s.startswith(part),
    "endswith": lambda e, s, part: s.endswith(part),
    "like": _like,
    "regexp_matches": lambda e, s, pattern: re.search(pattern, s) is not None,
    "replace": lambda e, s, part, by: s.replace(part, by) if part else s,
    "split_part": _split_part, "lpad": _lpad, "rpad": _rpad,
    "position": lambda e, s, part: s.find(part) + 1,
    "year": lambda e, a: a.year, "month": lambda e, a: a.month, "day": lambda e, a: a.day,
    "dayofweek": lambda e, a: a.isoweekday(),
    "hour": lambda e, a: a.hour, "minute": lambda e, a: a.minute, "second": lambda e, a: a.second,
    "date_trunc": _date_trunc,
    "date_add_days": lambda e, a, n: plus_days(a, n),
    "date_diff_days": lambda e, a, b: (a - b).days,
    "add_months": _add_months,
    "extract_epoch": _extract_epoch,
    "timestamp_add": lambda e, a, n: plus_microseconds(a, n),
    "timestamp_diff": lambda e, a, b: (a - b) // dt.timedelta(microseconds=1),
    "tuple_get": lambda e, items, index: items[index],
}  # fmt: skip
"""Functions that are NULL if an argument is: of the call and the arguments' values."""
