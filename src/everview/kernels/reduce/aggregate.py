"""The correct output of a reduction: distinct, min and max, counts and sums, the first rows in an order.

Counts and sums need no values: their input is arranged with one diff per accumulator (see `stream`), so a group is one
row however many members it has. min and max stop at the first value present, top-k after k rows.

A sum that overflows makes its group fail, not the step: the group has no row, and a second reduction of the same input
(KIND_FAULTS) has one instead, which goes to the row errors.

Values with their own semantics, like the expressions of `everview.kernels.provenance`, are folded by a separate kernel.
"""

from __future__ import annotations

from everview.kernels.build.native import inner
from everview.kernels.memory import alloc, call_pointer, free, ld, st
from everview.kernels.operators.stream import FLOAT_DIGITS, FLOAT_LOW, NULL, code_float, float_code
from everview.kernels.reduce.context import (
    KIND_ACCUMULATE,
    KIND_DISTINCT,
    KIND_ENOUGH,
    KIND_FAULTS,
    KIND_FOLD,
    KIND_MAXIMUM,
    KIND_MINIMUM,
    KIND_POSITIVE,
    REDUCE_FOLDING,
    REDUCE_INPUT,
    REDUCE_KEYS,
    REDUCE_KIND,
    REDUCE_NSPEC,
    REDUCE_SCOPE,
    REDUCE_SEEN,
    REDUCE_SPEC,
    SEEN_FAULT,
    SPEC_AVG_INT,
    SPEC_COUNT,
    SPEC_SUM_FLOAT,
    SPEC_SUM_INT,
    put_found,
)
from everview.kernels.reduce.history import extreme, next_value, rewind, total_of
from everview.kernels.run.scope import SCOPE_FIELDS, SCOPE_NFIELDS
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA
from everview.kernels.trace.trace import TRACE_COLS


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
    """Value of aggregate number `s` of an ACCUMULATE reduction at `time`, and whether it does not fit."""
    trace = ld(ctx, REDUCE_INPUT)
    spec = ld(ctx, REDUCE_SPEC)
    kind = ld(spec, 3 * s)
    first = ld(spec, 3 * s + 1)
    detail = ld(spec, 3 * s + 2)
    count = total_of(trace, cursors, 1, first, time, bound, fields, nfields)
    if kind == SPEC_COUNT:
        return count, False
    if count == 0:
        return NULL, False
    if kind == SPEC_SUM_INT or kind == SPEC_AVG_INT:
        low = total_of(trace, cursors, 1, first + 1, time, bound, fields, nfields)
        high = total_of(trace, cursors, 1, first + 2, time, bound, fields, nfields) + (low >> 32)
        low &= 0xFFFFFFFF
        if kind == SPEC_AVG_INT:
            unit = 1.0
            for _ in range(detail):
                unit *= 10.0
            return float_code((float(high) * 4294967296.0 + float(low)) / unit / float(count)), False
        value = (high << 32) | low
        return value, high < -(2**31) or high >= 2**31 or (detail != 0 and value == NULL)
    if total_of(trace, cursors, 1, first + 1 + FLOAT_DIGITS + 3, time, bound, fields, nfields) != 0:
        return 0, True  # a value beyond FLOAT_LIMIT
    total = _sum_of_floats(trace, cursors, 1, first + 1, time, bound, fields, nfields)
    if kind == SPEC_SUM_FLOAT:
        return total, False
    return float_code(code_float(total) / float(count)), False


@inner
def _fault(ctx, cursors, time, bound, fields, nfields):
    """One row if the group has members and a sum of it does not fit, else none."""
    if total_of(ld(ctx, REDUCE_INPUT), cursors, 1, 0, time, bound, fields, nfields) <= 0:
        return 0
    for s in range(ld(ctx, REDUCE_NSPEC)):
        _, faulty = _aggregate(ctx, s, cursors, time, bound, fields, nfields)
        if faulty:
            st(put_found(ctx, 0, 1), 1, 1)
            return 1
    return 0


@inner
def _top(ctx, cursors, time, bound):
    """Rows offset..offset + limit of the group, in the order of the input's columns after the key."""
    trace = ld(ctx, REDUCE_INPUT)
    scope = ld(ctx, REDUCE_SCOPE)
    keys = ld(ctx, REDUCE_KEYS)
    values = ld(trace, TRACE_COLS) - keys
    skip = ld(ld(ctx, REDUCE_SPEC), 0)
    left = ld(ld(ctx, REDUCE_SPEC), 1)
    rewind(trace, cursors, 1)
    n = 0
    while left > 0:
        batch, row, total = next_value(
            trace, cursors, 1, keys, time, bound, ld(scope, SCOPE_FIELDS), ld(scope, SCOPE_NFIELDS)
        )
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
                st(block, at + c, ld(ld(batch, BATCH_DATA), (keys + c) * ld(batch, BATCH_CAP) + row))
            st(block, at + values, shown)
            n += 1
    return n


@inner
def _folded(ctx, cursors, time, bound):
    """One row if values are present: what the kernel that the reduction names makes of them."""
    trace = ld(ctx, REDUCE_INPUT)
    scope = ld(ctx, REDUCE_SCOPE)
    keys = ld(ctx, REDUCE_KEYS)
    rewind(trace, cursors, 1)
    n = 0
    while True:
        batch, row, total = next_value(
            trace, cursors, 1, keys, time, bound, ld(scope, SCOPE_FIELDS), ld(scope, SCOPE_NFIELDS)
        )
        if batch == 0:
            break
        if total > 0:
            st(put_found(ctx, n, 1), 1 + n, ld(ld(batch, BATCH_DATA), keys * ld(batch, BATCH_CAP) + row))
            n += 1
    if n == 0:
        return 0
    value = ld(put_found(ctx, 1, 1), 1)
    if n > 1:
        st(ctx, REDUCE_FOLDING, n)
        value = call_pointer(ld(ld(ctx, REDUCE_SPEC), 0), ctx)
    block = put_found(ctx, 0, 2)
    st(block, 1, value)
    st(block, 2, 1)
    return 1


@inner
def evaluate(ctx, cursors, time, bound):
    """Write the reduction's output at `time` into FOUND as rows (values, count); the number of rows."""
    kind = ld(ctx, REDUCE_KIND)
    trace = ld(ctx, REDUCE_INPUT)
    scope = ld(ctx, REDUCE_SCOPE)
    fields = ld(scope, SCOPE_FIELDS)
    nfields = ld(scope, SCOPE_NFIELDS)
    keys = ld(ctx, REDUCE_KEYS)
    if kind == KIND_MINIMUM or kind == KIND_MAXIMUM:
        present, value = extreme(trace, cursors, 1, keys, time, bound, fields, nfields, kind == KIND_MAXIMUM)
        if present != 0:
            block = put_found(ctx, 0, 2)
            st(block, 1, value)
            st(block, 2, 1)
        return present
    if kind == KIND_DISTINCT or kind == KIND_POSITIVE:
        total = total_of(trace, cursors, 1, 0, time, bound, fields, nfields)
        if total <= 0:
            return 0
        st(put_found(ctx, 0, 1), 1, 1 if kind == KIND_DISTINCT else total)
        return 1
    if kind == KIND_ENOUGH:
        if total_of(trace, cursors, 1, 0, time, bound, fields, nfields) < ld(ld(ctx, REDUCE_SPEC), 0):
            return 0
        st(put_found(ctx, 0, 1), 1, 1)
        return 1
    if kind == KIND_ACCUMULATE:
        members = total_of(trace, cursors, 1, 0, time, bound, fields, nfields)
        if members <= 0:
            return 0
        n = ld(ctx, REDUCE_NSPEC)
        block = put_found(ctx, 0, n + 1)
        for s in range(n):
            if ld(ld(ctx, REDUCE_SPEC), 3 * s) == SPEC_COUNT and ld(ld(ctx, REDUCE_SPEC), 3 * s + 1) == 0:
                st(block, 1 + s, members)  # count(*): not added up twice
            else:
                value, faulty = _aggregate(ctx, s, cursors, time, bound, fields, nfields)
                if faulty:
                    st(ctx, REDUCE_SEEN, ld(ctx, REDUCE_SEEN) | SEEN_FAULT)
                    return 0  # KIND_FAULTS has the row
                st(block, 1 + s, value)
        st(block, 1 + n, 1)
        return 1
    if kind == KIND_FAULTS:
        return _fault(ctx, cursors, time, bound, fields, nfields)
    if kind == KIND_FOLD:
        return _folded(ctx, cursors, time, bound)
    return _top(ctx, cursors, time, bound)
