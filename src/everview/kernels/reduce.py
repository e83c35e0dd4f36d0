"""Reduce: one output per key and time, by recomputing touched keys at the times that matter.

At loop time T the touched keys are those of the input's new batch and those put on the agenda for T earlier. For each
of them, and for each epoch of this step that has a change of the key at or before T, the reduction is evaluated over
the input at (T, epoch) and compared with what the output says there so far; the difference, as a multiset, is the new
output at exactly that time.

*Which times matter.* A change at time s makes the output differ not only at s but possibly at every join of s with
other times of the same key: forgetting those is the classic fault. So a key touched at T is put on the agenda of the
smallest times T ∨ c above T, over all loop times c in its history; being touched there, it goes on from there. That
reaches every join, because the smallest ones lead to all others.

*What is kept.* The output's trace tells what was said before. Counts and sums need no values: their input is arranged
with one diff per accumulator (see `stream`), so a group is one row however many members it has. min and max stop at
the first value present; top-k after k rows. In the middle of a step, "what was said before" is any multiset, e.g. {1:
+1, 2: +1, 5: -1}; shortcuts that expect one live value diverge.

A reduction written in Python runs in two halves: `reduce` writes the groups to evaluate into REQUESTS and asks for
the driver; the driver fills ANSWERS; `reduce_answers` compares and emits.
"""

from __future__ import annotations

from numba import njit

from everview.kernels.arrange import emit, take
from everview.kernels.batch import (
    CAP,
    D_AT,
    DATA,
    ROWS,
    T_AT,
    T_MASK,
    build_index,
    compare_rows,
    diff_at,
    find_key,
    free_batch,
    gallop,
    key_end,
    lower_bound,
    new_batch,
    time_at,
)
from everview.kernels.inbox import ROWS_AT, new_inbox, room
from everview.kernels.memory import INNER, alloc, call_pointer, copy_words, free, grow, ld, st
from everview.kernels.operator import CALL_PYTHON, operator, shared, task
from everview.kernels.scope import COORDS, FIELDS, NFIELDS, NOW, SLOT_NOW, slot_of
from everview.kernels.sort import sort_rows
from everview.kernels.step import STEP_BASE, STEP_EPOCHS, STEP_FAULT, STEP_SPLIT, STEP_TEAM
from everview.kernels.stream import FLOAT_DIGITS, FLOAT_LOW, NULL, code_float, float_code
from everview.kernels.team import both
from everview.kernels.times import leq, lub
from everview.kernels.trace import COUNT, DELTA, STAMP, T_COLS, TABLE, add_delta, clear_delta, compact
from everview.kernels.twin import close_box, twin_scope

(
    INPUT,
    OUTPUT,
    D_SCOPE,
    KEYS,
    KIND,
    SPEC,
    NSPEC,
    TODO,
    D_STREAM,
    D_STEP,
    D_FRESH,
    CURSORS,
    FOUND,
    EPOCH_LIST,
    OUT,
    OUT_N,
    REQUESTS,
    REQUESTS_N,
    ANSWERS,
    ANSWERS_N,
    TOUCHED,
    D_WORDS,
) = range(22)

DISTINCT, POSITIVE, MINIMUM, MAXIMUM, ACCUMULATE, TOP, PYTHON = range(7)
"""KIND. SPEC is a block of numbers: offset and limit for TOP; (aggregate, first accumulator, scale) for ACCUMULATE."""

COUNT_OF, SUM_INT, AVG_INT, SUM_FLOAT, AVG_FLOAT = range(5)

FAULT_OVERFLOW, FAULT_LARGE = 1, 2
DENSE = 8  # gallop through a batch if it has fewer rows than this times the touched keys


@njit(**INNER)
def _bound(step, now, time, fields, nfields):
    """A word such that `t <= bound` says whether t is at or before `time`, where words are totally ordered; -1 where
    they are not.

    Outside loops that is the time itself. In a single loop with a single epoch in the step, only the loop coordinate
    can tell times apart.
    """
    if nfields == 1:
        return time
    if nfields == 2 and ld(step, STEP_EPOCHS) == 1:
        return now | ld(fields, 1)
    return -1


@njit(**INNER)
def _seen(t, time, bound, fields, nfields):
    """Whether an update at `t` counts at `time`; `bound` as from `_bound`."""
    if bound >= 0:
        return t <= bound
    return leq(t, time, fields, nfields)


@njit(**INNER)
def _reserve(ctx, field, count_field, width, rows):
    """Room for `rows` more rows of `width` words in a growing block of the context."""
    block = ld(ctx, field)
    used = ld(ctx, count_field)
    size = 0 if block == 0 else ld(block, 0)
    if 1 + (used + rows) * width > size:
        more = max(2 * size, 1 + (used + rows) * width, 256)
        block = grow(block, more, 0 if block == 0 else 1 + used * width)
        st(block, 0, more)
        st(ctx, field, block)
    return block


@njit(**INNER)
def _cursors(ctx, batches):
    """Scratch: current row, end and saved start for up to `batches` batches each of input and output."""
    block = ld(ctx, CURSORS)
    if block == 0 or ld(block, 0) < 6 * batches + 8:
        free(block)
        block = alloc(12 * batches + 64)
        st(block, 0, 12 * batches + 64)
        st(ctx, CURSORS, block)
    return block


@shared
def _locate(trace, data, cap, row, keys, touched, cursors, at):
    """Set the row ranges of one key in all batches of a trace: start in word at + 3b, end in at + 3b + 1."""
    table = ld(trace, TABLE)
    for b in range(ld(trace, COUNT)):
        batch = ld(table, b)
        w = at + 3 * b
        if ld(batch, ROWS) < touched * DENSE:
            start = gallop(batch, ld(cursors, w + 2), data, cap, row, keys)
        else:
            start = find_key(batch, data, cap, row, keys)
        end = start
        if start < ld(batch, ROWS):
            end = key_end(batch, start, data, cap, row, keys)
        st(cursors, w, start)
        st(cursors, w + 1, end)
        st(cursors, w + 2, start)
    return 0


@njit(**INNER)
def _plan_times(ctx, key_data, key_cap, key_row, cursors, now):
    """Collect the epochs to evaluate at this loop time into EPOCH_LIST and put the key on the agenda of later loop
    times; the number of epochs.
    """
    trace = ld(ctx, INPUT)
    scope = ld(ctx, D_SCOPE)
    step = ld(ctx, D_STEP)
    coords = ld(scope, COORDS)
    fields = ld(scope, FIELDS)
    nfields = ld(scope, NFIELDS)
    base = ld(step, STEP_BASE)
    nested = nfields > 1
    single = ld(step, STEP_EPOCHS) == 1
    epochs = ld(ctx, EPOCH_LIST)
    count = 0
    if single:
        st(epochs, 1, 1 if nested else base + 1)
        count = 1
        if not nested:
            return count
    table = ld(trace, TABLE)
    if single and nfields == 2:
        soonest = -1
        for b in range(ld(trace, COUNT)):
            batch = ld(table, b)
            data = ld(batch, DATA)
            at = ld(batch, T_AT)
            mask = ld(batch, T_MASK)
            for i in range(ld(cursors, 1 + 3 * b), ld(cursors, 2 + 3 * b)):
                c = ld(data, at + (i & mask)) & coords
                if c > now and (soonest < 0 or c < soonest):
                    soonest = c
        if soonest >= 0:
            st(epochs, 2, soonest)
            _add_to_agenda(ctx, key_data, key_cap, key_row, 1, 1)
        return count
    later = 0  # candidates for the agenda are kept behind the epochs, smallest ones only
    for b in range(ld(trace, COUNT)):
        batch = ld(table, b)
        data = ld(batch, DATA)
        for i in range(ld(cursors, 1 + 3 * b), ld(cursors, 2 + 3 * b)):
            t = time_at(batch, data, i)
            epoch = t & ~coords if nested else t - base
            c = t & coords
            after = now
            if nested:
                after = lub(now, c, fields, nfields)
            if after != now:
                later = _note_later(ctx, after, count, later, fields, nfields)
                epochs = ld(ctx, EPOCH_LIST)
            elif not single and epoch > 0:
                count, later = _note_epoch(ctx, epoch if nested else t, count, later)
                epochs = ld(ctx, EPOCH_LIST)
    if later > 0:
        _add_to_agenda(ctx, key_data, key_cap, key_row, count, later)
    return count


@njit(**INNER)
def _list_room(ctx, used):
    block = ld(ctx, EPOCH_LIST)
    size = ld(block, 0)
    if used + 2 >= size:
        block = grow(block, 2 * size, size)
        st(block, 0, 2 * size)
        st(ctx, EPOCH_LIST, block)
    return block


@njit(**INNER)
def _note_epoch(ctx, epoch, count, later):
    """Insert an epoch into the sorted list in front of the agenda candidates."""
    block = _list_room(ctx, count + later)
    i = count
    while i > 0 and ld(block, i) > epoch:
        i -= 1
    if i > 0 and ld(block, i) == epoch:
        return count, later
    k = count + later
    while k > i:
        st(block, k + 1, ld(block, k))
        k -= 1
    st(block, i + 1, epoch)
    return count + 1, later


@njit(**INNER)
def _note_later(ctx, time, count, later, fields, nfields):
    """Keep the minimal elements of the candidate times."""
    block = _list_room(ctx, count + later)
    kept = 0
    for k in range(later):
        other = ld(block, 1 + count + k)
        if leq(other, time, fields, nfields):
            return later  # something at or before it is there already; nothing was removed so far
    for k in range(later):
        other = ld(block, 1 + count + k)
        if not leq(time, other, fields, nfields):
            st(block, 1 + count + kept, other)
            kept += 1
    st(block, 1 + count + kept, time)
    return kept + 1


@njit(**INNER)
def _add_to_agenda(ctx, key_data, key_cap, key_row, count, later):
    scope = ld(ctx, D_SCOPE)
    todo = ld(ctx, TODO)
    keys = ld(ctx, KEYS)
    block = ld(ctx, EPOCH_LIST)
    for k in range(later):
        buffer = room(todo, slot_of(scope, ld(block, 1 + count + k)), 1)
        n = ld(buffer, 0)
        at = ROWS_AT + n * (keys + 2)
        for c in range(keys):
            st(buffer, at + c, ld(key_data, c * key_cap + key_row))
        st(buffer, at + keys, 0)
        st(buffer, at + keys + 1, 1)
        st(buffer, 0, n + 1)


@njit(**INNER)
def _rewind(trace, cursors, at):
    for b in range(ld(trace, COUNT)):
        st(cursors, at + 3 * b, ld(cursors, at + 3 * b + 2))


@njit(**INNER)
def _next_value(trace, cursors, at, keys, time, bound, fields, nfields):
    """Step over the smallest value still ahead in the key's ranges: (batch, row, total of its diffs at `time`); batch
    0 at the end.
    """
    table = ld(trace, TABLE)
    best = 0
    best_row = 0
    best_data = 0
    best_cap = 0
    batches = ld(trace, COUNT)
    cols = ld(trace, T_COLS)
    for b in range(batches):
        i = ld(cursors, at + 3 * b)
        if i < ld(cursors, at + 3 * b + 1):
            batch = ld(table, b)
            data = ld(batch, DATA)
            cap = ld(batch, CAP)
            smaller = best == 0
            if not smaller:
                for c in range(keys, cols):
                    x = ld(data, c * cap + i)
                    y = ld(best_data, c * best_cap + best_row)
                    if x != y:
                        smaller = x < y
                        break
            if smaller:
                best = batch
                best_row = i
                best_data = data
                best_cap = cap
    if best == 0:
        return 0, 0, 0
    total = 0
    for b in range(batches):
        batch = ld(table, b)
        data = ld(batch, DATA)
        cap = ld(batch, CAP)
        i = ld(cursors, at + 3 * b)
        end = ld(cursors, at + 3 * b + 1)
        while i < end:
            same = True
            for c in range(keys, cols):
                if ld(data, c * cap + i) != ld(best_data, c * best_cap + best_row):
                    same = False
                    break
            if not same:
                break
            if _seen(time_at(batch, data, i), time, bound, fields, nfields):
                total += diff_at(batch, data, i, 0)
            i += 1
        st(cursors, at + 3 * b, i)
    return best, best_row, total


@njit(**INNER)
def _extreme(trace, cursors, at, keys, time, bound, fields, nfields, largest):
    """(found, value) of the smallest or largest non-NULL value present at `time`; only NULLs: (1, NULL). The largest is
    looked for from the ends of the ranges backwards.
    """
    table = ld(trace, TABLE)
    batches = ld(trace, COUNT)
    move = -1 if largest else 1
    for b in range(batches):
        st(cursors, at + 3 * b, ld(cursors, at + 3 * b + 1) - 1 if largest else ld(cursors, at + 3 * b + 2))
    null_seen = False
    while True:
        found = False
        best = 0
        for b in range(batches):
            i = ld(cursors, at + 3 * b)
            if ld(cursors, at + 3 * b + 2) <= i < ld(cursors, at + 3 * b + 1):
                batch = ld(table, b)
                x = ld(ld(batch, DATA), keys * ld(batch, CAP) + i)
                if not found or (x > best if largest else x < best):
                    found = True
                    best = x
        if not found:
            return (1, NULL) if null_seen else (0, 0)
        total = 0
        for b in range(batches):
            i = ld(cursors, at + 3 * b)
            end = ld(cursors, at + 3 * b + 1)
            start = ld(cursors, at + 3 * b + 2)
            if start <= i < end:
                batch = ld(table, b)
                data = ld(batch, DATA)
                at_value = keys * ld(batch, CAP)
                while start <= i < end and ld(data, at_value + i) == best:
                    if _seen(time_at(batch, data, i), time, bound, fields, nfields):
                        total += diff_at(batch, data, i, 0)
                    i += move
                st(cursors, at + 3 * b, i)
        if total > 0:
            if best != NULL:
                return 1, best
            null_seen = True


@njit(**INNER)
def _total(trace, cursors, at, d, time, bound, fields, nfields):
    """Sum of diff number `d` over the key's updates at or before `time`."""
    table = ld(trace, TABLE)
    total = 0
    for b in range(ld(trace, COUNT)):
        batch = ld(table, b)
        data = ld(batch, DATA)
        for i in range(ld(cursors, at + 3 * b + 2), ld(cursors, at + 3 * b + 1)):
            if _seen(time_at(batch, data, i), time, bound, fields, nfields):
                total += diff_at(batch, data, i, d)
    return total


@njit(**INNER)
def _sum_of_floats(trace, cursors, at, first, time, bound, fields, nfields):
    """The float that the digit accumulators starting at `first` add up to."""
    nan = _total(trace, cursors, at, first + FLOAT_DIGITS, time, bound, fields, nfields)
    plus = _total(trace, cursors, at, first + FLOAT_DIGITS + 1, time, bound, fields, nfields)
    minus = _total(trace, cursors, at, first + FLOAT_DIGITS + 2, time, bound, fields, nfields)
    if nan > 0 or (plus > 0 and minus > 0):
        return float_code(float("nan"))
    if plus > 0:
        return float_code(float("inf"))
    if minus > 0:
        return float_code(float("-inf"))
    words = alloc(FLOAT_DIGITS + 2)
    carry = 0
    for k in range(FLOAT_DIGITS):
        digit = _total(trace, cursors, at, first + k, time, bound, fields, nfields) + carry
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


@njit(**INNER)
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


@njit(**INNER)
def _aggregate(ctx, s, cursors, time, bound, fields, nfields):
    """Value of aggregate number `s` of an ACCUMULATE reduction at `time`."""
    trace = ld(ctx, INPUT)
    spec = ld(ctx, SPEC)
    kind = ld(spec, 3 * s)
    first = ld(spec, 3 * s + 1)
    scale = ld(spec, 3 * s + 2)
    count = _total(trace, cursors, 1, first, time, bound, fields, nfields)
    if kind == COUNT_OF:
        return count
    if count == 0:
        return NULL
    if kind == SUM_INT or kind == AVG_INT:
        low = _total(trace, cursors, 1, first + 1, time, bound, fields, nfields)
        high = _total(trace, cursors, 1, first + 2, time, bound, fields, nfields) + (low >> 32)
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
    if _total(trace, cursors, 1, first + 1 + FLOAT_DIGITS + 3, time, bound, fields, nfields) != 0:
        st(ld(ctx, D_STEP), STEP_FAULT, FAULT_LARGE)
        return 0
    total = _sum_of_floats(trace, cursors, 1, first + 1, time, bound, fields, nfields)
    if kind == SUM_FLOAT:
        return total
    return float_code(code_float(total) / float(count))


@njit(**INNER)
def _put_found(ctx, n, width):
    """Make row n of FOUND writable and give the block."""
    block = ld(ctx, FOUND)
    if 1 + (n + 1) * width > ld(block, 0):
        size = 2 * (1 + (n + 1) * width)
        block = grow(block, size, 1 + n * width)
        st(block, 0, size)
        st(ctx, FOUND, block)
    return block


@njit(**INNER)
def _evaluate(ctx, cursors, time, bound):
    """Write the reduction's output at `time` into FOUND as rows (values, count); the number of rows."""
    kind = ld(ctx, KIND)
    trace = ld(ctx, INPUT)
    scope = ld(ctx, D_SCOPE)
    fields = ld(scope, FIELDS)
    nfields = ld(scope, NFIELDS)
    keys = ld(ctx, KEYS)
    if kind == MINIMUM or kind == MAXIMUM:
        present, value = _extreme(trace, cursors, 1, keys, time, bound, fields, nfields, kind == MAXIMUM)
        if present != 0:
            block = _put_found(ctx, 0, 2)
            st(block, 1, value)
            st(block, 2, 1)
        return present
    if kind == DISTINCT or kind == POSITIVE:
        total = _total(trace, cursors, 1, 0, time, bound, fields, nfields)
        if total <= 0:
            return 0
        st(_put_found(ctx, 0, 1), 1, 1 if kind == DISTINCT else total)
        return 1
    if kind == ACCUMULATE:
        if _total(trace, cursors, 1, 0, time, bound, fields, nfields) <= 0:
            return 0
        n = ld(ctx, NSPEC)
        block = _put_found(ctx, 0, n + 1)
        for s in range(n):
            st(block, 1 + s, _aggregate(ctx, s, cursors, time, bound, fields, nfields))
        st(block, 1 + n, 1)
        return 1
    return _top(ctx, cursors, time, bound)


@njit(**INNER)
def _top(ctx, cursors, time, bound):
    """Rows offset..offset + limit of the group, in the order of the input's columns after the key."""
    trace = ld(ctx, INPUT)
    scope = ld(ctx, D_SCOPE)
    keys = ld(ctx, KEYS)
    values = ld(trace, T_COLS) - keys
    skip = ld(ld(ctx, SPEC), 0)
    left = ld(ld(ctx, SPEC), 1)
    _rewind(trace, cursors, 1)
    n = 0
    while left > 0:
        batch, row, total = _next_value(trace, cursors, 1, keys, time, bound, ld(scope, FIELDS), ld(scope, NFIELDS))
        if batch == 0:
            break
        if total <= 0:
            continue
        hidden = min(skip, total)
        skip -= hidden
        shown = min(total - hidden, left)
        left -= shown
        if shown > 0:
            block = _put_found(ctx, n, values + 1)
            at = 1 + n * (values + 1)
            for c in range(values):
                st(block, at + c, ld(ld(batch, DATA), (keys + c) * ld(batch, CAP) + row))
            st(block, at + values, shown)
            n += 1
    return n


@njit(**INNER)
def _sort_found(block, n, width):
    """Sort rows (values, count) of FOUND by value and add up equal ones; the number left, zeros dropped."""
    values = width - 1
    if n > 48:
        copy = alloc(n * (width + 1))  # as updates at time 0, so that the batch sort can do it
        for i in range(n):
            for c in range(values):
                st(copy, i * (width + 1) + c, ld(block, 1 + i * width + c))
            st(copy, i * (width + 1) + values, 0)
            st(copy, i * (width + 1) + values + 1, ld(block, 1 + i * width + values))
        batch = sort_rows(copy, 0, width + 1, 1, n, values, 1, 1, 0)
        if batch == 0:
            return 0
        kept = ld(batch, ROWS)
        data = ld(batch, DATA)
        for i in range(kept):
            for c in range(values):
                st(block, 1 + i * width + c, ld(data, c * ld(batch, CAP) + i))
            st(block, 1 + i * width + values, diff_at(batch, data, i, 0))
        free_batch(batch)
        return kept
    for i in range(1, n):
        j = i
        while j > 0 and _row_less(block, 1 + j * width, 1 + (j - 1) * width, values):
            for c in range(width):
                x = ld(block, 1 + j * width + c)
                st(block, 1 + j * width + c, ld(block, 1 + (j - 1) * width + c))
                st(block, 1 + (j - 1) * width + c, x)
            j -= 1
    kept = 0
    i = 0
    while i < n:
        total = ld(block, 1 + i * width + values)
        k = i + 1
        while k < n and not _row_less(block, 1 + i * width, 1 + k * width, values):
            total += ld(block, 1 + k * width + values)
            k += 1
        if total != 0:
            for c in range(values):
                st(block, 1 + kept * width + c, ld(block, 1 + i * width + c))
            st(block, 1 + kept * width + values, total)
            kept += 1
        i = k
    return kept


@njit(**INNER)
def _row_less(block, a, b, n):
    for c in range(n):
        x = ld(block, a + c)
        y = ld(block, b + c)
        if x != y:
            return x < y
    return False


@njit(**INNER)
def _subtract_said(ctx, cursors, out_at, time, bound, n, first_out):
    """Add to FOUND, negated, what the output says at `time`: its trace, and rows of this pass from `first_out` on; the
    number of rows.
    """
    trace = ld(ctx, OUTPUT)
    scope = ld(ctx, D_SCOPE)
    fields = ld(scope, FIELDS)
    nfields = ld(scope, NFIELDS)
    keys = ld(ctx, KEYS)
    cols = ld(trace, T_COLS)
    values = cols - keys
    width = values + 1
    table = ld(trace, TABLE)
    for b in range(ld(trace, COUNT)):
        batch = ld(table, b)
        data = ld(batch, DATA)
        cap = ld(batch, CAP)
        for i in range(ld(cursors, out_at + 3 * b), ld(cursors, out_at + 3 * b + 1)):
            if _seen(time_at(batch, data, i), time, bound, fields, nfields):
                block = _put_found(ctx, n, width)
                for c in range(values):
                    st(block, 1 + n * width + c, ld(data, (keys + c) * cap + i))
                st(block, 1 + n * width + values, -diff_at(batch, data, i, 0))
                n += 1
    out = ld(ctx, OUT)
    out_width = cols + 2
    for i in range(first_out, ld(ctx, OUT_N)):
        at = 1 + i * out_width
        if _seen(ld(out, at + cols), time, bound, fields, nfields):
            block = _put_found(ctx, n, width)
            for c in range(values):
                st(block, 1 + n * width + c, ld(out, at + keys + c))
            st(block, 1 + n * width + values, -ld(out, at + cols + 1))
            n += 1
    return n


@njit(**INNER)
def _says(ctx, cursors, out_at, time, bound, found):
    """Whether the output's trace says plainly what FOUND (at most one row) says: the usual case of a touched key that
    stays as it is.
    """
    trace = ld(ctx, OUTPUT)
    scope = ld(ctx, D_SCOPE)
    fields = ld(scope, FIELDS)
    nfields = ld(scope, NFIELDS)
    keys = ld(ctx, KEYS)
    values = ld(trace, T_COLS) - keys
    block = ld(ctx, FOUND)
    table = ld(trace, TABLE)
    total = 0
    for b in range(ld(trace, COUNT)):
        start = ld(cursors, out_at + 3 * b)
        end = ld(cursors, out_at + 3 * b + 1)
        if start < end:
            batch = ld(table, b)
            data = ld(batch, DATA)
            cap = ld(batch, CAP)
            for i in range(start, end):
                if _seen(time_at(batch, data, i), time, bound, fields, nfields):
                    if found == 0:
                        return False
                    for c in range(values):
                        if ld(data, (keys + c) * cap + i) != ld(block, 1 + c):
                            return False
                    total += diff_at(batch, data, i, 0)
    return found == 0 or total == ld(block, 1 + values)


@njit(**INNER)
def _say(ctx, key_data, key_cap, key_row, time, n):
    """Append FOUND's rows to OUT as updates of the key at `time`."""
    keys = ld(ctx, KEYS)
    cols = ld(ld(ctx, OUTPUT), T_COLS)
    values = cols - keys
    out = _reserve(ctx, OUT, OUT_N, cols + 2, n)
    block = ld(ctx, FOUND)
    for i in range(n):
        at = 1 + (ld(ctx, OUT_N) + i) * (cols + 2)
        for c in range(keys):
            st(out, at + c, ld(key_data, c * key_cap + key_row))
        for c in range(values):
            st(out, at + keys + c, ld(block, 1 + i * (values + 1) + c))
        st(out, at + cols, time)
        st(out, at + cols + 1, ld(block, 1 + i * (values + 1) + values))
    st(ctx, OUT_N, ld(ctx, OUT_N) + n)


@shared
def _settle_time(ctx, key_data, key_cap, key_row, cursors, out_at, time, bound, found, first_out):
    """FOUND holds the output that should be: emit what differs from the output that is."""
    width = ld(ld(ctx, OUTPUT), T_COLS) - ld(ctx, KEYS) + 1
    if found <= 1 and first_out == ld(ctx, OUT_N) and _says(ctx, cursors, out_at, time, bound, found):
        return 0
    n = _subtract_said(ctx, cursors, out_at, time, bound, found, first_out)
    if n > 0:
        n = _sort_found(ld(ctx, FOUND), n, width)
        if n > 0:
            _say(ctx, key_data, key_cap, key_row, time, n)
    return 0


@njit(**INNER)
def _ask(ctx, key_data, key_cap, key_row, cursors, time, bound):
    """PYTHON: write the group at `time` into REQUESTS: a head (-1, time, key...) and its rows (count, 0, values...)."""
    trace = ld(ctx, INPUT)
    scope = ld(ctx, D_SCOPE)
    keys = ld(ctx, KEYS)
    cols = ld(trace, T_COLS)
    width = 2 + cols
    block = _reserve(ctx, REQUESTS, REQUESTS_N, width, 1)
    at = 1 + ld(ctx, REQUESTS_N) * width
    st(block, at, 0)
    st(block, at + 1, time)
    for c in range(keys):
        st(block, at + 2 + c, ld(key_data, c * key_cap + key_row))
    for c in range(keys, cols):
        st(block, at + 2 + c, 0)
    st(ctx, REQUESTS_N, ld(ctx, REQUESTS_N) + 1)
    _rewind(trace, cursors, 1)
    while True:
        batch, row, total = _next_value(trace, cursors, 1, keys, time, bound, ld(scope, FIELDS), ld(scope, NFIELDS))
        if batch == 0:
            break
        if total != 0:
            block = _reserve(ctx, REQUESTS, REQUESTS_N, width, 1)
            at = 1 + ld(ctx, REQUESTS_N) * width
            st(block, at, total)
            st(block, at + 1, time)
            for c in range(cols):
                st(block, at + 2 + c, ld(ld(batch, DATA), c * ld(batch, CAP) + row))
            st(ctx, REQUESTS_N, ld(ctx, REQUESTS_N) + 1)


@njit(**INNER)
def _reduce_key(ctx, key_data, key_cap, key_row, touched, cursors, out_at, now):
    """Bring one key up to date at this loop time."""
    keys = ld(ctx, KEYS)
    _locate(ld(ctx, INPUT), key_data, key_cap, key_row, keys, touched, cursors, 1)
    epochs = _plan_times(ctx, key_data, key_cap, key_row, cursors, now)
    if ld(ctx, KIND) == PYTHON:
        for e in range(epochs):
            _ask(ctx, key_data, key_cap, key_row, cursors, now | ld(ld(ctx, EPOCH_LIST), 1 + e), -1)
        return
    _locate(ld(ctx, OUTPUT), key_data, key_cap, key_row, keys, touched, cursors, out_at)
    fields = ld(ld(ctx, D_SCOPE), FIELDS)
    nfields = ld(ld(ctx, D_SCOPE), NFIELDS)
    first_out = ld(ctx, OUT_N)
    for e in range(epochs):
        time = now | ld(ld(ctx, EPOCH_LIST), 1 + e)
        bound = _bound(ld(ctx, D_STEP), now, time, fields, nfields)
        found = _evaluate(ctx, cursors, time, bound)
        _settle_time(ctx, key_data, key_cap, key_row, cursors, out_at, time, bound, found, first_out)
    if epochs > 1:
        _sort_out(ctx, first_out)


@njit(**INNER)
def _sort_out(ctx, first):
    """Sort one key's output rows by value, then time: several epochs were appended one after the other."""
    cols = ld(ld(ctx, OUTPUT), T_COLS)
    width = cols + 2
    out = ld(ctx, OUT)
    for i in range(first + 1, ld(ctx, OUT_N)):
        j = i
        while j > first and _row_less(out, 1 + j * width, 1 + (j - 1) * width, cols + 1):
            for c in range(width):
                x = ld(out, 1 + j * width + c)
                st(out, 1 + j * width + c, ld(out, 1 + (j - 1) * width + c))
                st(out, 1 + (j - 1) * width + c, x)
            j -= 1


@njit(**INNER)
def _start_cursors(trace, cursors, at):
    for b in range(ld(trace, COUNT)):
        st(cursors, at + 3 * b, 0)
        st(cursors, at + 3 * b + 1, 0)
        st(cursors, at + 3 * b + 2, 0)


@njit(**INNER)
def _sorted_batch(out, n, cols):
    """A batch of n > 0 rows (columns, time, diff) that are sorted and consolidated already, from word 1 of `out` on."""
    width = cols + 2
    one_time = True
    ones = True
    time = ld(out, 1 + cols)
    for i in range(n):
        if ld(out, 1 + i * width + cols) != time:
            one_time = False
        if ld(out, 1 + i * width + cols + 1) != 1:
            ones = False
    batch = new_batch(n, cols, 1, one_time, ones)
    data = ld(batch, DATA)
    st(data, ld(batch, T_AT), time)
    st(data, ld(batch, D_AT), 1)
    for c in range(cols):
        for i in range(n):
            st(data, c * n + i, ld(out, 1 + i * width + c))
    if not one_time:
        for i in range(n):
            st(data, ld(batch, T_AT) + i, ld(out, 1 + i * width + cols))
    if not ones:
        for i in range(n):
            st(data, ld(batch, D_AT) + i, ld(out, 1 + i * width + cols + 1))
    build_index(batch)
    return batch


@shared
def _publish(ctx):
    """The rows collected in OUT, already sorted, become the output's delta."""
    output = ld(ctx, OUTPUT)
    n = ld(ctx, OUT_N)
    if n == 0:
        clear_delta(output)
        return 0
    st(ctx, OUT_N, 0)
    batch = _sorted_batch(ld(ctx, OUT), n, ld(output, T_COLS))
    if n > 1 << 16:
        free(ld(ctx, OUT))
        st(ctx, OUT, 0)
    add_delta(output, batch, ld(ld(ctx, D_SCOPE), NOW), ld(ctx, D_STEP))
    emit(ld(ctx, D_STREAM), batch)
    return 0


H_CTX, H_DELTA, H_FROM, H_TO, H_TODO, H_TODO_FROM, H_TODO_TO, H_TOUCHED, H_WORDS = range(9)
"""A share of the touched keys: rows of the input's delta and of the agenda. H_TOUCHED counts those of all shares."""


@task
def _reduce_share(share):
    """Bring the keys of a share up to date; their output is appended to OUT in order."""
    ctx = ld(share, H_CTX)
    delta = ld(share, H_DELTA)
    todo = ld(share, H_TODO)
    trace = ld(ctx, INPUT)
    output = ld(ctx, OUTPUT)
    keys = ld(ctx, KEYS)
    now = ld(ld(ctx, D_SCOPE), NOW)
    touched = ld(share, H_TOUCHED)
    in_count = ld(trace, COUNT)
    cursors = _cursors(ctx, in_count + ld(output, COUNT))
    out_at = 1 + 3 * in_count
    _start_cursors(trace, cursors, 1)
    _start_cursors(output, cursors, out_at)
    i = ld(share, H_FROM)
    d_rows = ld(share, H_TO)
    j = ld(share, H_TODO_FROM)
    t_rows = ld(share, H_TODO_TO)
    while i < d_rows or j < t_rows:
        order = -1
        if i >= d_rows:
            order = 1
        elif j < t_rows:
            order = compare_rows(ld(delta, DATA), ld(delta, CAP), i, ld(todo, DATA), ld(todo, CAP), j, keys)
        source = delta if order <= 0 else todo
        row = i if order <= 0 else j
        data = ld(source, DATA)
        cap = ld(source, CAP)
        _reduce_key(ctx, data, cap, row, touched, cursors, out_at, now)
        if order >= 0:
            j += 1
        if order <= 0:
            i = key_end(delta, i, data, cap, row, keys)
    return 0


@njit(**INNER)
def _cut(source, other, keys):
    """The row behind the key in the middle of a batch; the first row of the other one whose key is not before it."""
    rows = ld(source, ROWS)
    data = ld(source, DATA)
    cap = ld(source, CAP)
    at = key_end(source, rows // 2, data, cap, rows // 2, keys)
    if other == 0:
        return at, 0
    if at == rows:
        return at, ld(other, ROWS)
    return at, lower_bound(ld(other, DATA), ld(other, CAP), 0, ld(other, ROWS), data, cap, at, keys)


@njit(**INNER)
def _reduce_shared(ctx, share, team):
    """Reduce the smaller half of the keys here, the larger half on the helper with a context of its own."""
    keys = ld(ctx, KEYS)
    delta = ld(share, H_DELTA)
    todo = ld(share, H_TODO)
    if ld(share, H_TO) >= ld(share, H_TODO_TO):
        d_cut, t_cut = _cut(delta, todo, keys)
    else:
        t_cut, d_cut = _cut(todo, delta, keys)
    helper = alloc(D_WORDS)
    copy_words(helper, 0, ctx, 0, D_WORDS)
    for field in (CURSORS, OUT, REQUESTS, ANSWERS):
        st(helper, field, 0)
    for field in (FOUND, EPOCH_LIST):
        block = alloc(64)
        st(block, 0, 64)
        st(helper, field, block)
    scope = ld(ctx, D_SCOPE)
    st(helper, D_SCOPE, twin_scope(scope))
    st(helper, TODO, new_inbox(keys + 2, ld(helper, D_SCOPE)))
    theirs = alloc(H_WORDS)
    copy_words(theirs, 0, share, 0, H_WORDS)
    st(theirs, H_CTX, helper)
    st(theirs, H_FROM, d_cut)
    st(theirs, H_TODO_FROM, t_cut)
    st(share, H_TO, d_cut)
    st(share, H_TODO_TO, t_cut)
    both(team, _reduce_share(), share, theirs)
    close_box(ld(helper, TODO), ld(helper, D_SCOPE), ld(ctx, TODO), scope)
    more = ld(helper, OUT_N)
    if more > 0:
        width = ld(ld(ctx, OUTPUT), T_COLS) + 2
        out = _reserve(ctx, OUT, OUT_N, width, more)
        copy_words(out, 1 + ld(ctx, OUT_N) * width, ld(helper, OUT), 1, more * width)
        st(ctx, OUT_N, ld(ctx, OUT_N) + more)
    for field in (CURSORS, FOUND, EPOCH_LIST, OUT):
        free(ld(helper, field))
    free(helper)
    free(theirs)


@operator
def reduce(ctx):
    """Compiled operator; see the module."""
    trace = ld(ctx, INPUT)
    scope = ld(ctx, D_SCOPE)
    now = ld(scope, NOW)
    keys = ld(ctx, KEYS)
    st(ctx, OUT_N, 0)  # a step that failed may have left something
    st(ctx, REQUESTS_N, 0)
    if ld(ctx, D_FRESH) != 0:
        st(ctx, D_FRESH, 0)
        compact(trace)
        delta = ld(ld(trace, TABLE), 0) if ld(trace, COUNT) > 0 else 0
    else:
        delta = ld(trace, DELTA) if ld(trace, STAMP) == now else 0
    todo = take(ld(ctx, TODO), ld(scope, SLOT_NOW), keys, 1, ld(ctx, D_STEP))
    if delta == 0 and todo == 0:
        clear_delta(ld(ctx, OUTPUT))
        return 0
    share = alloc(H_WORDS)
    st(share, H_CTX, ctx)
    st(share, H_DELTA, delta)
    st(share, H_FROM, 0)
    st(share, H_TO, 0 if delta == 0 else ld(delta, ROWS))
    st(share, H_TODO, todo)
    st(share, H_TODO_FROM, 0)
    st(share, H_TODO_TO, 0 if todo == 0 else ld(todo, ROWS))
    touched = ld(share, H_TO) + ld(share, H_TODO_TO)
    st(share, H_TOUCHED, touched)
    step = ld(ctx, D_STEP)
    team = ld(step, STEP_TEAM)
    if team != 0 and touched >= ld(step, STEP_SPLIT) and ld(ctx, KIND) != PYTHON and keys > 0:
        _reduce_shared(ctx, share, team)
    else:
        call_pointer(_reduce_share(), share)
    free(share)
    st(ctx, TOUCHED, ld(ctx, TOUCHED) + touched)
    free_batch(todo)
    if ld(ctx, KIND) == PYTHON:
        return CALL_PYTHON
    _publish(ctx)
    return 0


@operator
def reduce_answers(ctx):
    """Second half of a Python reduction: ANSWERS holds, per request in order, a head (-1, time, key...) and rows
    (count, 0, values...).
    """
    output = ld(ctx, OUTPUT)
    keys = ld(ctx, KEYS)
    cols = ld(output, T_COLS)
    values = cols - keys
    width = 2 + cols
    n = ld(ctx, ANSWERS_N)
    block = ld(ctx, ANSWERS)
    key = alloc(keys + 1)
    cursors = _cursors(ctx, ld(output, COUNT) + 1)
    first_out = 0
    i = 0
    while i < n:
        at = 1 + i * width
        time = ld(block, at + 1)
        same = i > 0
        for c in range(keys):
            if same and ld(key, c) != ld(block, at + 2 + c):
                same = False
            st(key, c, ld(block, at + 2 + c))
        if not same:
            if i > 0:
                _sort_out(ctx, first_out)
            first_out = ld(ctx, OUT_N)
        _start_cursors(output, cursors, 1)
        _locate(output, key, 1, 0, keys, 0, cursors, 1)
        found = 0
        i += 1
        while i < n and ld(block, 1 + i * width) != 0:
            at = 1 + i * width
            into = _put_found(ctx, found, values + 1)
            for c in range(values):
                st(into, 1 + found * (values + 1) + c, ld(block, at + 2 + keys + c))
            st(into, 1 + found * (values + 1) + values, ld(block, at))
            found += 1
            i += 1
        _settle_time(ctx, key, 1, 0, cursors, 1, time, -1, found, first_out)
    if n > 0:
        _sort_out(ctx, first_out)
    free(key)
    st(ctx, REQUESTS_N, 0)
    st(ctx, ANSWERS_N, 0)
    _publish(ctx)
    return 0
