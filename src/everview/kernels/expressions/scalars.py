"""Scalar operations: what the VM (`everview.kernels.expressions.vm`) applies to every row.

Functions take and return int64 *codes* (`everview.types`); their semantics are specified in `everview.expr.functions`.

- total functions, such as `float_add`, have a result for every input;
- partial functions come in pairs: `int_add` returns the value, `int_add_failure` an error code if there is
  none (0: there is one). The value function must return *something* for every input, without a trap: it is
  run on all rows of a chunk, also on NULLs and on rows whose branch of a `case` is not taken.

There are more than a hundred of these, so they are `fused`: compiled as part of the kernel that uses them.

Hazard: hardware division traps on `-2**63 / -1` as well as on zero, hence the special cases in `int_floordiv`.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from everview.kernels.build.native import WORD, fused, primitive
from everview.kernels.memory import bits_of_float, float_of_bits
from everview.types import NULL

ERROR_DIVISION, ERROR_OVERFLOW, ERROR_DOMAIN, ERROR_CAST, ERROR_NODES = range(1, 6)
"""Error codes of rows; texts in `everview.expr.evaluate.ERRORS`."""

INT_MAX = 2**63 - 1
INT_MIN = -(2**63)
NAN_CODE = 0x7FF8_0000_0000_0000
MINUS_ZERO = -1  # the code of -0.0
DECIMAL_LIMIT = 10**18

DAY_MICROS = 86_400_000_000  # microseconds
HOUR_MICROS = 3_600_000_000
MINUTE_MICROS = 60_000_000
SECOND_MICROS = 1_000_000
FIRST_DAY = -719_162  # 0001-01-01
LAST_DAY = 2_932_896  # 9999-12-31


inner = fused("int64")
inner_float = fused("float64")


@primitive("boolean(int64, int64)")
def product_overflows(builder: Any, x: Any, y: Any) -> Any:
    """Whether the product of two int64 needs more than 64 bits."""
    return builder.extract_value(builder.smul_with_overflow(x, y), 1)


@primitive("int64(float64)")
def truncated(builder: Any, number: Any) -> Any:
    """The int64 of a float64 that is known to fit (any rubbish if it does not)."""
    return builder.fptosi(number, WORD)


def _float_instruction(name: str) -> Any:
    """A float64 function that is one machine instruction."""

    @primitive("float64(float64)")
    def function(builder: Any, number: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [ir.DoubleType()]), [number])

    return function


_floor, _ceil, _rint = _float_instruction("floor"), _float_instruction("ceil"), _float_instruction("rint")


# ---- floats -------------------------------------------------------------------------------------------------------


@inner_float
def decode(code):
    """The float of a code."""
    return float_of_bits(code ^ ((code >> 63) & INT_MAX))


@inner
def encode(number):
    """The code of a float; every NaN becomes the same one."""
    bits = bits_of_float(number)
    return NAN_CODE if number != number else bits ^ ((bits >> 63) & INT_MAX)


@inner
def float_normal(x):
    """The same number with -0.0 as 0.0: normal codes compare like numbers, NaN last."""
    return 0 if x == MINUS_ZERO else x


@inner
def float_add(x, y):
    return encode(decode(x) + decode(y))


@inner
def float_sub(x, y):
    return encode(decode(x) - decode(y))


@inner
def float_mul(x, y):
    return encode(decode(x) * decode(y))


@inner
def float_div(x, y):
    return encode(decode(x) / decode(y))


@inner
def float_zero_divisor(x, y):
    return ERROR_DIVISION if decode(y) == 0.0 else 0


@inner
def _overflow(result, x, y):
    """Whether finite numbers had a result that is infinite."""
    return ERROR_OVERFLOW if abs(result) == math.inf and abs(x) < math.inf and abs(y) < math.inf else 0


@inner
def float_add_failure(x, y):
    a, b = decode(x), decode(y)
    return _overflow(a + b, a, b)


@inner
def float_sub_failure(x, y):
    a, b = decode(x), decode(y)
    return _overflow(a - b, a, b)


@inner
def float_mul_failure(x, y):
    """Overflow, or underflow: a product of numbers that are not zero is not zero."""
    a, b = decode(x), decode(y)
    product = a * b
    return ERROR_OVERFLOW if product == 0.0 and a != 0.0 and b != 0.0 else _overflow(product, a, b)


@inner
def float_div_failure(x, y):
    a, b = decode(x), decode(y)
    result = a / b
    lost = result == 0.0 and a != 0.0 and abs(b) < math.inf
    return ERROR_DIVISION if b == 0.0 else (ERROR_OVERFLOW if lost else _overflow(result, a, b))


@inner
def float_mod(x, y):
    """The remainder with the divisor's sign."""
    return encode(decode(x) % decode(y))


@inner
def float_floordiv(x, y):
    return encode(_floor(decode(x) / decode(y)))


@inner
def float_neg(x):
    return encode(-decode(x))


@inner
def float_abs(x):
    return encode(abs(decode(x)))


@inner
def float_sign(x):
    """-1.0, 0.0 or 1.0; NaN stays."""
    v = decode(x)
    return encode(1.0 if v > 0.0 else (-1.0 if v < 0.0 else abs(v)))


@inner
def float_sqrt(x, _):
    return encode(math.sqrt(decode(x)))


@inner
def float_negative(x, _):
    return ERROR_DOMAIN if decode(x) < 0.0 else 0


@inner
def float_exp(x, _):
    return encode(math.exp(decode(x)))


@inner
def float_exp_failure(x, _):
    v = decode(x)
    result = math.exp(v)
    return ERROR_OVERFLOW if (result == 0.0 or result == math.inf) and abs(v) < math.inf else 0


@inner
def float_ln(x, _):
    return encode(math.log(decode(x)))


@inner
def float_log2(x, _):
    return encode(math.log2(decode(x)))


@inner
def float_log10(x, _):
    return encode(math.log10(decode(x)))


@inner
def float_not_positive(x, _):
    return ERROR_DOMAIN if decode(x) <= 0.0 else 0


@inner
def float_pow(x, y):
    return encode(math.pow(decode(x), decode(y)))


@inner
def float_pow_failure(x, y):
    """Zero to a negative power, a negative number to a power that is not whole, results that are out of range."""
    a, b = decode(x), decode(y)
    broken = b == b and b != _floor(b)
    if (a == 0.0 and b < 0.0) or (a < 0.0 and broken):
        return ERROR_DOMAIN
    result = math.pow(a, b)
    lost = result == 0.0 and a != 0.0 and abs(a) < math.inf and abs(b) < math.inf
    return ERROR_OVERFLOW if lost else _overflow(result, a, b)


@inner
def float_floor(x):
    return encode(_floor(decode(x)))


@inner
def float_ceil(x):
    return encode(_ceil(decode(x)))


@inner
def float_round(x, power):
    """Rounded to the digits that `power` = 10**digits says, halves to even. What is too large for that has no digits
    after the point.
    """
    scaled = decode(x) * float(power)
    return x if abs(scaled) == math.inf else encode(_rint(scaled) / float(power))


# ---- whole numbers (ints, decimals, timestamps as microseconds) ----------------------------------------------------


@inner
def int_add(x, y):
    return x + y


@inner
def int_add_failure(x, y):
    r = x + y
    return ERROR_OVERFLOW if ((x ^ r) & (y ^ r)) < 0 else 0


@inner
def int_sub(x, y):
    return x - y


@inner
def int_sub_failure(x, y):
    return ERROR_OVERFLOW if ((x ^ y) & (x ^ (x - y))) < 0 else 0


@inner
def int_mul(x, y):
    return x * y


@inner
def int_mul_failure(x, y):
    return ERROR_OVERFLOW if product_overflows(x, y) else 0


@inner
def int_floordiv(x, y):
    if y == 0:
        return 0
    if y == -1:
        return -x
    return x // y


@inner
def int_floordiv_failure(x, y):
    if y == 0:
        return ERROR_DIVISION
    return ERROR_OVERFLOW if y == -1 and x == INT_MIN else 0


@inner
def int_mod(x, y):
    """The remainder with the divisor's sign."""
    if y == 0 or y == -1:
        return 0
    return x % y


@inner
def int_mod_failure(x, y):
    return ERROR_DIVISION if y == 0 else 0


@inner
def int_neg(x, _):
    return -x


@inner
def int_is_least(x, _):
    return ERROR_OVERFLOW if x == INT_MIN else 0


@inner
def int_abs(x, _):
    return -x if x < 0 else x


@inner
def int_sign(x):
    return (1 if x > 0 else 0) - (1 if x < 0 else 0)


@inner
def divide_rounding(x, divisor):
    """x / divisor (positive) to the nearest integer, halves away from zero: a decimal losing digits."""
    q = x // divisor
    r = x - q * divisor
    twice = r - (divisor - r)  # 2r - divisor without overflow
    if twice > 0 or (twice == 0 and x > 0):
        q += 1
    return q


@inner
def equal(x, y):
    return 1 if x == y else 0


@inner
def not_equal(x, y):
    return 1 if x != y else 0


@inner
def less(x, y):
    return 1 if x < y else 0


@inner
def less_equal(x, y):
    return 1 if x <= y else 0


@inner
def greatest(x, y, zero):
    """The larger, the first of equals; NULL is ignored. The code `zero` counts as 0 (for floats that of -0.0)."""
    if x == NULL:
        return y
    return y if y != NULL and (0 if y == zero else y) > (0 if x == zero else x) else x


@inner
def least(x, y, zero):
    """The smaller, the first of equals; NULL is ignored."""
    if x == NULL:
        return y
    return y if y != NULL and (0 if y == zero else y) < (0 if x == zero else x) else x


# ---- truth and NULL ------------------------------------------------------------------------------------------------


@inner
def logic_and(x, y):
    """Three-valued: false wins, then NULL."""
    if x == 0 or y == 0:
        return 0
    return NULL if x == NULL or y == NULL else 1


@inner
def logic_or(x, y):
    """Three-valued: true wins, then NULL."""
    if x == 1 or y == 1:
        return 1
    return NULL if x == NULL or y == NULL else 0


@inner
def logic_not(x):
    return 1 - x


@inner
def equals_constant(x, constant):
    return 1 if x == constant else 0


@inner
def differs_from_constant(x, constant):
    return 1 if x != constant else 0


@inner
def coalesce(x, y):
    return y if x == NULL else x


@inner
def both_true(x, y):
    return 1 if x == 1 and y == 1 else 0


# ---- casts ---------------------------------------------------------------------------------------------------------


@inner
def int_to_float(x):
    return encode(float(x))


@inner
def decimal_to_float(x, power):
    return encode(float(x) / float(power))


@inner
def float_to_int(x, _):
    """Towards zero."""
    return truncated(decode(x))


@inner
def float_to_int_failure(x, _):
    v = decode(x)
    if -9223372036854775808.0 <= v < 9223372036854775808.0:
        return 0
    return ERROR_OVERFLOW if abs(v) < math.inf else ERROR_CAST


@inner
def float_to_decimal(x, power):
    return truncated(_rint(decode(x) * float(power)))


@inner
def float_to_decimal_failure(x, power):
    v = decode(x)
    if abs(_rint(v * float(power))) < 1e18:
        return 0
    return ERROR_OVERFLOW if abs(v) < math.inf else ERROR_CAST


@inner
def decimal_to_int(x, power):
    """Towards zero."""
    q = x // power
    return q + 1 if x < 0 and q * power != x else q


@inner
def decimal_failure(x, limit):
    """Whether a decimal has too many digits; without a limit: more than 18."""
    most = limit if limit != 0 else DECIMAL_LIMIT
    return 0 if -most < x < most else ERROR_OVERFLOW


@inner
def times(x, factor):
    """A product that is known to fit."""
    return x * factor


# ---- dates: days since 1970-01-01, in the proleptic Gregorian calendar ---------------------------------------------


@fused("UniTuple(int64, 3)")
def _civil(days):
    """(year, month, day) of a day number; eras of 400 years that begin on 1 March."""
    z = days + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = mp + 3 if mp < 10 else mp - 9
    year = yoe + era * 400 + (1 if month <= 2 else 0)
    return year, month, doy - (153 * mp + 2) // 5 + 1


@inner
def _days(year, month, day):
    """The day number of a date."""
    y = year - 1 if month <= 2 else year
    era = y // 400
    yoe = y - era * 400
    mp = month - 3 if month > 2 else month + 9
    doy = (153 * mp + 2) // 5 + day - 1
    return era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468


@inner
def date_year(x):
    return _civil(x)[0]


@inner
def date_month(x):
    return _civil(x)[1]


@inner
def date_day(x):
    return _civil(x)[2]


@inner
def date_trunc_months(x, months):
    """The first day of the period of `months` months (1, 3 or 12) that holds day x."""
    year, month, _ = _civil(x)
    return _days(year, month - (month - 1) % months, 1)


@inner
def date_add_months(x, months):
    """The same day so many months later, or the last day of a shorter month."""
    year, month, day = _civil(x)
    m = year * 12 + (month - 1) + months
    year, month = m // 12, m % 12 + 1
    first = _days(year, month, 1)
    following = _days(year + 1, 1, 1) if month == 12 else _days(year, month + 1, 1)
    return min(first + day - 1, following - 1)


@inner
def date_add_months_failure(x, months):
    if months > 120_000 or months < -120_000:
        return ERROR_OVERFLOW
    return date_failure(date_add_months(x, months), 0)


@inner
def date_failure(x, _):
    return 0 if FIRST_DAY <= x <= LAST_DAY else ERROR_OVERFLOW


@inner
def expression_failure(x, _):
    """An expression of provenance that would have too many nodes (`everview.kernels.provenance.nodes.BEYOND`)."""
    return ERROR_NODES if x == 2 else 0


@inner
def timestamp_failure(x, _):
    return 0 if FIRST_DAY * DAY_MICROS <= x < (LAST_DAY + 1) * DAY_MICROS else ERROR_OVERFLOW


@inner
def same(x, _):
    return x


@inner
def timestamp_to_date(x):
    return x // DAY_MICROS


@inner
def time_hour(x):
    return (x % DAY_MICROS) // HOUR_MICROS


@inner
def time_minute(x):
    return (x % HOUR_MICROS) // MINUTE_MICROS


@inner
def time_second(x):
    return (x % MINUTE_MICROS) // SECOND_MICROS


@inner
def date_weekday(x):
    """Monday 1 to Sunday 7."""
    return (x + 3) % 7 + 1


@inner
def floor_to_multiple(x, unit, offset):
    """The start of the period of length `unit` that contains x; one starts at -offset."""
    return x - (x + offset) % unit


# ---- hash ----------------------------------------------------------------------------------------------------------


@inner
def mix(h, x):
    """The hash h so far and the next code x: splitmix64's finaliser."""
    z = (h ^ x) + _GOLDEN
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * _MIX1
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * _MIX2
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_MIX1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX2 = 0x94D049BB133111EB - 2**64
