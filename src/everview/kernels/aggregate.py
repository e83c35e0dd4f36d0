"""What a reduction's output should be: distinct, min and max, counts and sums, the first rows in an order.

Counts and sums need no values: their input is arranged with one diff per accumulator (see `stream`), so a group is
one row however many members it has. min and max stop at the first value present, top-k after k rows.
"""

from __future__ import annotations

from everview.kernels.batch import CAP, DATA
from everview.kernels.history import extreme, next_value, rewind, total_of
from everview.kernels.memory import alloc, free, ld, st
from everview.kernels.native import inner
from everview.kernels.reduction import (
    ACCUMULATE,
    AVG_INT,
    COUNT_OF,
    D_SCOPE,
    D_STEP,
    DISTINCT,
    FAULT_LARGE,
    FAULT_OVERFLOW,
    INPUT,
    KEYS,
    KIND,
    MAXIMUM,
    MINIMUM,
    NSPEC,
    POSITIVE,
    SPEC,
    SUM_FLOAT,
    SUM_INT,
    put_found,
)
from everview.kernels.scope import FIELDS, NFIELDS
from everview.kernels.step import STEP_FAULT
from everview.kernels.stream import FLOAT_DIGITS, FLOAT_LOW, NULL, code_float, float_code
from everview.kernels.trace import T_COLS


@inner
def _sum_of_floats(trace, cursors, at, first, time, bound, fields, nfields):
    """The float that the digit accumulators starting at `first` add up to."""
    nan = total_of(trace, cursors, at, first + FLOAT_DIGITS, time, bound, fields, nfields)
    plus = total_of(trace, cursors, at, first + FLOAT_DIGITS + 1, time, bound, fields, nfields)
    minus = total_of(trace, cursors, at, first + FLOAT_DIGITS + 2, time, bound, fields, nfields)
    if nan > 0 or (plus > 0 and minus > 0):
        return float_code(float("nan"))
    if plus > 0:
        return float_code(float("inf"))
    if minus > 0:
        return float_code(float("-inf"))
    words = alloc(FLOAT_DIGITS + 2)
    carry = 0
    for k in range(FLOAT_DIGITS):
        digit = total_of(trace, cursors, at, first + k, time, bound, fields, nfields) + carry
        st(words, k, digit & 0xFFFFFFFF)
        carry = digit >> 32
    st(words, FLOAT_DIGITS, carry & 0xFFFFFFFF)
    st(words, FLOAT_DIGITS + 1, (carry >> 32) & 0xFFFFFFFF)
    if carry < 0:  # two's complement: below, all is done with the magnitude
        carry_in = 1
        for k in range(FLOAT_DIGITS + 2):
            word = (~ld(words, k) & 0xFFFFFFFF) + carry_in
            st(words, k, word & 0xFFFFFFFF)
            carry_in = word >> 32
    total = _rounded(words, FLOAT_DIGITS + 2)
    free(words)
    return float_code(-total if carry < 0 else total)


@inner
def _rounded(words, n):
    """The float nearest to a number of `n` 32-bit words, lowest first, the lowest bit weighing 2**FLOAT_LOW.

    The leading 62 bits go into one integer whose last bit also says whether any bit follows; converting it rounds
    once, correctly.
    """
    leading = 0
    left = 62
    scale = 0
    for back in range(n):
        k = n - 1 - back
        word = ld(words, k)
        if left >= 32:
            leading = (leading << 32) | word
            if leading != 0:
                left = 62
                while left > 0 and (leading >> (62 - left)) != 0:
                    left -= 1
            scale = 32 * k
        else:
            if left > 0:
                leading = (leading << left) | (word >> (32 - left))
                word &= (1 << (32 - left)) - 1
                scale -= left
                left = 0
            if word != 0:
                leading |= 1
    return float(leading) * 2.0 ** (scale + FLOAT_LOW)


@inner
def _aggregate(ctx, s, cursors, time, bound, fields, nfields):
    """Value of aggregate number `s` of an ACCUMULATE reduction at `time`."""
    trace = ld(ctx, INPUT)
    spec = ld(ctx, SPEC)
    kind = ld(spec, 3 * s)
    first = ld(spec, 3 * s + 1)
    scale = ld(spec, 3 * s + 2)
    count = total_of(trace, cursors, 1, first, time, bound, fields, nfields)
    if kind == COUNT_OF:
        return count
    if count == 0:
        return NULL
    if kind == SUM_INT or kind == AVG_INT:
        low = total_of(trace, cursors, 1, first + 1, time, bound, fields, nfields)
        high = total_of(trace, cursors, 1, first + 2, time, bound, fields, nfields) + (low >> 32)
        low &= 0xFFFFFFFF
        if kind == AVG_INT:
            unit = 1.0
            for _ in range(scale):
                unit *= 10.0
            return float_code((float(high) * 4294967296.0 + float(low)) / unit / float(count))
        if high < -(2**31) or high >= 2**31:
            st(ld(ctx, D_STEP), STEP_FAULT, FAULT_OVERFLOW)
            return 0
        return (high << 32) | low
    if total_of(trace, cursors, 1, first + 1 + FLOAT_DIGITS + 3, time, bound, fields, nfields) != 0:
        st(ld(ctx, D_STEP), STEP_FAULT, FAULT_LARGE)
        return 0
    total = _sum_of_floats(trace, cursors, 1, first + 1, time, bound, fields, nfields)
    if kind == SUM_FLOAT:
        return total
    return float_code(code_float(total) / float(count))


@inner
def _top(ctx, cursors, time, bound):
    """Rows offset..offset + limit of the group, in the order of the input's columns after the key."""
    trace = ld(ctx, INPUT)
    scope = ld(ctx, D_SCOPE)
    keys = ld(ctx, KEYS)
    values = ld(trace, T_COLS) - keys
    skip = ld(ld(ctx, SPEC), 0)
    left = ld(ld(ctx, SPEC), 1)
    rewind(trace, cursors, 1)
    n = 0
    while left > 0:
        batch, row, total = next_value(trace, cursors, 1, keys, time, bound, ld(scope, FIELDS), ld(scope, NFIELDS))
        if batch == 0:
            break
        if total <= 0:
            continue
        hidden = min(skip, total)
        skip -= hidden
        shown = min(total - hidden, left)
        left -= shown
        if shown > 0:
            block = put_found(ctx, n, values + 1)
            at = 1 + n * (values + 1)
            for c in range(values):
                st(block, at + c, ld(ld(batch, DATA), (keys + c) * ld(batch, CAP) + row))
            st(block, at + values, shown)
            n += 1
    return n


@inner
def evaluate(ctx, cursors, time, bound):
    """Write the reduction's output at `time` into FOUND as rows (values, count); the number of rows."""
    kind = ld(ctx, KIND)
    trace = ld(ctx, INPUT)
    scope = ld(ctx, D_SCOPE)
    fields = ld(scope, FIELDS)
    nfields = ld(scope, NFIELDS)
    keys = ld(ctx, KEYS)
    if kind == MINIMUM or kind == MAXIMUM:
        present, value = extreme(trace, cursors, 1, keys, time, bound, fields, nfields, kind == MAXIMUM)
        if present != 0:
            block = put_found(ctx, 0, 2)
            st(block, 1, value)
            st(block, 2, 1)
        return present
    if kind == DISTINCT or kind == POSITIVE:
        total = total_of(trace, cursors, 1, 0, time, bound, fields, nfields)
        if total <= 0:
            return 0
        st(put_found(ctx, 0, 1), 1, 1 if kind == DISTINCT else total)
        return 1
    if kind == ACCUMULATE:
        members = total_of(trace, cursors, 1, 0, time, bound, fields, nfields)
        if members <= 0:
            return 0
        n = ld(ctx, NSPEC)
        block = put_found(ctx, 0, n + 1)
        for s in range(n):
            if ld(ld(ctx, SPEC), 3 * s) == COUNT_OF and ld(ld(ctx, SPEC), 3 * s + 1) == 0:
                st(block, 1 + s, members)  # count(*): not added up twice
            else:
                st(block, 1 + s, _aggregate(ctx, s, cursors, time, bound, fields, nfields))
        st(block, 1 + n, 1)
        return 1
    return _top(ctx, cursors, time, bound)
