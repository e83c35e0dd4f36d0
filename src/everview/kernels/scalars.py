"""One value at a time: what the machine of `everview.kernels.vm` applies to every row.

Functions take and give int64 *codes* (`everview.types`). Two kinds:

- total functions, such as `float_add`, have a result for every input;
- partial functions come in pairs: `int_add` gives the value, `int_add_failure` says with an error code why there is
  none (0: there is one). The value function must come back with *something* for every input, without a trap: it is
  run on all rows of a chunk, also on NULLs and on rows whose branch of a `case` is not taken.

Hazard: hardware division traps on `-2**63 / -1` as well as on zero, hence the detours in `int_floordiv`.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import njit
from numba import types as nbtypes
from numba.extending import intrinsic

from everview.kernels.memory import bits_of_float, float_of_bits
from everview.types import NULL

INLINE: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
"""Options of functions that only live inside other kernels (those are cached with all that is in them)."""

OVERFLOW, DIVISION, DOMAIN, CAST, DATE_RANGE, RESERVED, TEXT = range(1, 8)
"""Error codes of rows; texts in `everview.expr.evaluate.ERRORS`."""

MAX = 2**63 - 1
MIN = -(2**63)
NAN_CODE = 0x7FF8_0000_0000_0000
MINUS_ZERO = -1  # the code of -0.0

DAY = 86_400_000_000  # microseconds
HOUR = 3_600_000_000
MINUTE = 60_000_000
SECOND = 1_000_000
FIRST_DAY = -719_162  # 0001-01-01
LAST_DAY = 2_932_896  # 9999-12-31


@intrinsic  # type: ignore[misc]
def product_overflows(typingctx: Any, x: Any, y: Any) -> Any:
    """Whether the product of two int64 needs more than 64 bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_value(builder.smul_with_overflow(args[0], args[1]), 1)

    return nbtypes.boolean(nbtypes.int64, nbtypes.int64), codegen


@intrinsic  # type: ignore[misc]
def truncated(typingctx: Any, number: Any) -> Any:
    """The int64 of a float64 that is known to fit (any rubbish if it does not)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fptosi(args[0], ir.IntType(64))

    return nbtypes.int64(nbtypes.float64), codegen


# ---- floats -------------------------------------------------------------------------------------------------------


@njit(**INLINE)
def decode(code):
    """The float of a code."""
    return float_of_bits(code ^ ((code >> 63) & MAX))


@njit(**INLINE)
def encode(number):
    """The code of a float; every NaN becomes the same one."""
    bits = bits_of_float(number)
    return NAN_CODE if number != number else bits ^ ((bits >> 63) & MAX)


@njit(**INLINE)
def float_normal(x):
    """The same number with -0.0 as 0.0: normal codes compare like numbers, NaN last."""
    return 0 if x == MINUS_ZERO else x


@njit(**INLINE)
def float_add(x, y):
    return encode(decode(x) + decode(y))


@njit(**INLINE)
def float_sub(x, y):
    return encode(decode(x) - decode(y))


@njit(**INLINE)
def float_mul(x, y):
    return encode(decode(x) * decode(y))


@njit(**INLINE)
def float_div(x, y):
    return encode(decode(x) / decode(y))


@njit(**INLINE)
def float_zero_divisor(x, y):
    return DIVISION if decode(y) == 0.0 else 0


@njit(**INLINE)
def float_mod(x, y):
    """The remainder with the divisor's sign."""
    a, b = decode(x), decode(y)
    r = math.fmod(a, b)
    if r != 0.0 and (r < 0.0) != (b < 0.0):
        r += b
    elif r == 0.0:
        r = math.copysign(0.0, b)
    return encode(r)


@njit(**INLINE)
def float_floordiv(x, y):
    return encode(math.floor(decode(x) / decode(y)) * 1.0)


@njit(**INLINE)
def float_neg(x):
    return encode(-decode(x))


@njit(**INLINE)
def float_abs(x):
    return encode(abs(decode(x)))


@njit(**INLINE)
def float_sign(x):
    v = decode(x)
    return encode(1.0 if v > 0.0 else (-1.0 if v < 0.0 else v))


@njit(**INLINE)
def float_sqrt(x):
    return encode(math.sqrt(decode(x)))


@njit(**INLINE)
def float_negative(x, _):
    return DOMAIN if decode(x) < 0.0 else 0


@njit(**INLINE)
def float_exp(x):
    return encode(math.exp(decode(x)))


@njit(**INLINE)
def float_ln(x, _):
    return encode(math.log(decode(x)))


@njit(**INLINE)
def float_log2(x, _):
    return encode(math.log2(decode(x)))


@njit(**INLINE)
def float_log10(x, _):
    return encode(math.log10(decode(x)))


@njit(**INLINE)
def float_not_positive(x, _):
    return DOMAIN if decode(x) <= 0.0 else 0


@njit(**INLINE)
def float_pow(x, y):
    return encode(math.pow(decode(x), decode(y)))


@njit(**INLINE)
def float_pow_failure(x, y):
    """Zero to a negative power, a negative number to a power that is not whole."""
    a, b = decode(x), decode(y)
    if a == 0.0 and b < 0.0:
        return DIVISION
    if a < 0.0 and a != -math.inf and b != math.floor(b) and b == b:
        return DOMAIN
    return 0


@njit(**INLINE)
def float_floor(x):
    return encode(_floor(decode(x)))


@njit(**INLINE)
def float_ceil(x):
    return encode(-_floor(-decode(x)))


@njit(**INLINE)
def _floor(v):
    """Floor that stays a float (math.floor gives an int in Numba and fails for large numbers)."""
    if not abs(v) < 4503599627370496.0:
        return v
    t = float(truncated(v))
    if t > v:
        t -= 1.0
    return math.copysign(t, v)


@njit(**INLINE)
def _round_half_away(v):
    """The nearest whole number, halves away from zero, as a float."""
    if not abs(v) < 4503599627370496.0:
        return v
    a = abs(v)
    t = float(truncated(a))
    if a - t >= 0.5:
        t += 1.0
    return math.copysign(t, v)
