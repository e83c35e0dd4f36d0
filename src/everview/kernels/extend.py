"""Extend: joins of any number of relations without intermediate state, one variable (or relation) at a time.

A join of n relations is multilinear, so a change of it is a sum of n *pipelines* (ammar-2023 §3.2, goebel-2019 §8, §9):
pipeline i begins with what is new in relation i, and looks the rest of each row up in the others. Where several
relations change in one pass, pipeline i reads relation j with this pass's change if j < i and without it if j > i.
Passes visit loop times in a total order that extends the partial one (see `scope`), and differences multiply at the
join of their times; so every combination of differences is said exactly once, in the pass of its latest, inside loops
too.

A pipeline is a list of *levels*. A level binds new variables, given those bound so far, from its *parts*: relations
arranged with the bound columns in front and the new ones behind them.

    count      how many rows each part has for the bound columns
    propose    the part with the fewest gives its distinct values, in ascending order
    validate   the others seek each value forward, and so skip what they do not share ("leapfrog")

A part that has all its columns bound after the level is *complete* there, and its diffs and times are multiplied in,
there and only there; until then it only restricts. With one variable per level this is the worst-case-optimal join,
with a whole relation per level it is the classical delta query.

The search is depth first: one row of each level at a time, so no proposals pile up, whatever the size of the output. A
level keeps, per part and batch, the range of rows that fit and the run of rows with the present value.
"""

from __future__ import annotations

from everview.kernels.batch import CAP, DATA, ROWS, compare_rows, diff_at, time_at
from everview.kernels.leaving import attempt, leave
from everview.kernels.memory import alloc, call_number, free, grow, ld, st
from everview.kernels.native import entry, inner, operator, shared, task
from everview.kernels.scope import FIELDS, NFIELDS, NOW
from everview.kernels.search import find_key
from everview.kernels.step import STEP_BASE
from everview.kernels.stream import NSINKS, R_N, REGS, TAIL, flush
from everview.kernels.sums import plus
from everview.kernels.sums import times as multiplied
from everview.kernels.times import lub
from everview.kernels.trace import COUNT, DELTA, STAMP, TABLE, trace_rows
from everview.kernels.vm import CHUNK

(
    X_STREAM,
    X_SCOPE,
    X_STEP,
    X_FRESH,
    X_INPUTS,
    X_TABLE,
    X_VARS,
    X_COLS,
    X_KEY,
    X_STATE,
    X_STATE_ROOM,
    X_WEIGHTS,
    X_WEIGHTS_ROOM,
    X_WORDS,
) = range(14)
"""X_VARS: values of the variables, then constants; the first X_COLS of them are the output's columns. X_WEIGHTS: pairs
(time, diff) that belong to the row under way, a stack.
"""

I_TRACE, I_SUB, I_ADD, I_PIPELINE, I_WORDS = range(5)
"""Per input: the arrangement whose changes start its pipeline, how its times count (see `join`), and the pipeline."""

P_LEVELS, P_MAP, P_NMAP, P_TESTS, P_NTESTS, P_PARTS, P_WORDS = range(7)
"""Pipeline: levels, variable of each source column (-1: none), tests on the source's variables, most parts of a level.
Then the level blocks."""

L_NPARTS, L_NEW, L_NNEW, L_TESTS, L_NTESTS, L_WORDS = range(6)
"""Level: parts, new variables, tests on the variables bound then; then the part blocks."""

Q_TRACE, Q_INPUT, Q_BOUND, Q_NBOUND, Q_COMPLETE, Q_SUB, Q_ADD, Q_WORDS = range(8)
"""Part: arrangement, number of its input, variables of its first columns, whether it is complete after the level."""

T_LT, T_LE, T_NE, T_EQ = range(4)
"""Tests: (kind, variable, variable)."""

V_PROPOSER, V_WAY, V_FRESH, V_WEIGHTS, V_NWEIGHTS, V_WORDS = range(6)
"""State of a level: who proposes, the way values are found (W_…), whether nothing was proposed yet, the weights of the
row so far; then for each part the number of batches and, for each batch, (batch, its data, the word where the first new
column begins, from, to, run from, run to).
"""

W_PROPOSE, W_LEAP, W_ZIP = range(3)
"""Ways to find values: what the module says; for one new variable that every part has in a single batch, all parts
leaping over what the others lack; for two such parts that are about as long, a merge of the two.
"""

ALIKE = 16
"""Two ranges of which one is less than so many times as long as the other are about as long: then walking costs less
than leaping, which the processor cannot foresee.
"""

R_BATCH, R_DATA, R_AT, R_LOW, R_HIGH, RUN_LOW, RUN_HIGH, R_STRIDE = range(8)


@inner
def _seek(data, at, low, high, value):
    """First row in [low, high) whose value in the column that starts at word `at` is not below `value`."""
    if low >= high or ld(data, at + low) >= value:
        return low
    step = 1
    while low + step < high and ld(data, at + low + step) < value:
        low += step
        step <<= 1
    high = min(low + step, high)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if ld(data, at + middle) < value:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _past(data, at, low, high, value):
    """First row in [low, high) whose value is above `value`; the row at `low` has that value."""
    step = 1
    while low + step < high and ld(data, at + low + step) <= value:
        low += step
        step <<= 1
    high = min(low + step, high)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if ld(data, at + middle) <= value:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _key_range_end(batch, low, key, keys):
    """End of the rows from `low` whose first columns are the key; the row at `low` has it."""
    rows = ld(batch, ROWS)
    data = ld(batch, DATA)
    cap = ld(batch, CAP)
    if keys == 1:
        return _past(data, 0, low, rows, ld(key, 0))
    step = 1
    while low + step < rows and compare_rows(data, cap, low + step, key, 1, 0, keys) == 0:
        low += step
        step <<= 1
    high = min(low + step, rows)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if compare_rows(data, cap, middle, key, 1, 0, keys) == 0:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _holds(variables, tests, count):
    """Whether all tests hold."""
    for k in range(count):
        a = ld(variables, ld(tests, 3 * k + 1))
        b = ld(variables, ld(tests, 3 * k + 2))
        kind = ld(tests, 3 * k)
        if kind == T_LT:
            if a >= b:
                return False
        elif kind == T_LE:
            if a > b:
                return False
        elif kind == T_NE:
            if a == b:
                return False
        elif a != b:
            return False
    return True


@inner
def _changed(trace, add, now):
    """The batch that this pass added to a trace, or 0."""
    return ld(trace, DELTA) if ld(trace, STAMP) + add == now else 0


@inner
def _enter(ctx, level, state, at, stride, source, whole):
    """Find the rows of each part that fit the bound variables; False if some part has none."""
    now = ld(ld(ctx, X_SCOPE), NOW)
    inputs = ld(ctx, X_TABLE)
    key = ld(ctx, X_KEY)
    variables = ld(ctx, X_VARS)
    fewest = -1
    most = 0
    single = ld(level, L_NNEW) == 1
    parts = ld(level, L_NPARTS)
    for p in range(parts):
        part = ld(level, L_WORDS + p)
        trace = ld(part, Q_TRACE)
        keys = ld(part, Q_NBOUND)
        bound = ld(part, Q_BOUND)
        for c in range(keys):
            st(key, c, ld(variables, ld(bound, c)))
        batches = ld(trace, COUNT)
        if whole == 0 and ld(part, Q_INPUT) > source:
            entry = ld(part, Q_INPUT) * I_WORDS
            if _changed(ld(inputs, entry + I_TRACE), ld(inputs, entry + I_ADD), now) != 0:
                batches -= 1
        here = at + V_WORDS + p * stride
        found = 0
        total = 0
        for b in range(batches):
            batch = ld(ld(trace, TABLE), b)
            low = find_key(batch, key, 1, 0, keys)
            rows = ld(batch, ROWS)
            if low >= rows:
                continue
            if keys == 0:
                high = rows
            elif compare_rows(ld(batch, DATA), ld(batch, CAP), low, key, 1, 0, keys) != 0:
                continue
            else:
                high = _key_range_end(batch, low, key, keys)
            range_at = here + 1 + found * R_STRIDE
            st(state, range_at + R_BATCH, batch)
            st(state, range_at + R_DATA, ld(batch, DATA))
            st(state, range_at + R_AT, keys * ld(batch, CAP))
            st(state, range_at + R_LOW, low)
            st(state, range_at + R_HIGH, high)
            found += 1
            total += high - low
        if total == 0:
            return False
        st(state, here, found)
        single &= found == 1
        if fewest < 0 or total < fewest:
            fewest = total
            st(state, at + V_PROPOSER, p)
        most = max(most, total)
    way = W_PROPOSE
    if single:
        way = W_ZIP if parts == 2 and most < ALIKE * fewest else W_LEAP
    st(state, at + V_WAY, way)
    st(state, at + V_FRESH, 1)
    return True


@inner
def _leap(level, state, at, stride):
    """Move every part to the next value that all have; False if there is none. One after the other they seek the
    highest value seen, until nobody moves it.
    """
    parts = ld(level, L_NPARTS)
    first = at + V_WORDS + 1
    last = first + parts * stride
    r = first
    low = ld(state, r + R_LOW)
    if low >= ld(state, r + R_HIGH):
        return False
    value = ld(ld(state, r + R_DATA), ld(state, r + R_AT) + low)
    agreed = 1
    while agreed < parts:
        r += stride
        if r == last:
            r = first
        data = ld(state, r + R_DATA)
        at_value = ld(state, r + R_AT)
        high = ld(state, r + R_HIGH)
        low = _seek(data, at_value, ld(state, r + R_LOW), high, value)
        st(state, r + R_LOW, low)
        if low >= high:
            return False
        found = ld(data, at_value + low)
        agreed = agreed + 1 if found == value else 1
        value = found
    return True


@inner
def _zip(state, at, stride):
    """The same for two parts, row by row and without a branch that depends on which is ahead."""
    r = at + V_WORDS + 1
    s = r + stride
    left = ld(state, r + R_DATA)
    right = ld(state, s + R_DATA)
    left_at = ld(state, r + R_AT)
    right_at = ld(state, s + R_AT)
    i = ld(state, r + R_LOW)
    j = ld(state, s + R_LOW)
    i_end = ld(state, r + R_HIGH)
    j_end = ld(state, s + R_HIGH)
    while i < i_end and j < j_end:
        x = ld(left, left_at + i)
        y = ld(right, right_at + j)
        if x == y:
            st(state, r + R_LOW, i)
            st(state, s + R_LOW, j)
            return True
        i += x < y
        j += y < x
    return False


@inner
def _bind(level, state, at, stride, variables):
    """Bind the new variable to the value that all parts are at, and mark its runs."""
    first = at + V_WORDS + 1
    value = ld(ld(state, first + R_DATA), ld(state, first + R_AT) + ld(state, first + R_LOW))
    st(variables, ld(ld(level, L_NEW), 0), value)
    for p in range(ld(level, L_NPARTS)):
        r = first + p * stride
        low = ld(state, r + R_LOW)
        high = _past(ld(state, r + R_DATA), ld(state, r + R_AT), low, ld(state, r + R_HIGH), value)
        st(state, r + RUN_LOW, low)
        st(state, r + RUN_HIGH, high)
        st(state, r + R_LOW, high)


@inner
def _next(level, state, at, stride, variables):
    """Bind the new variables to the next values that all parts may have; False if there are no more."""
    way = ld(state, at + V_WAY)
    if way == W_PROPOSE:
        return _propose(level, state, at, stride, variables)
    found = _zip(state, at, stride) if way == W_ZIP else _leap(level, state, at, stride)
    if found:
        _bind(level, state, at, stride, variables)
    return found


@inner
def _propose(level, state, at, stride, variables):
    """Bind the new variables to the proposer's next distinct values and mark their runs; False if there are no more."""
    p = ld(state, at + V_PROPOSER)
    part = ld(level, L_WORDS + p)
    here = at + V_WORDS + p * stride
    new = ld(level, L_NEW)
    width = ld(level, L_NNEW)
    first = ld(part, Q_NBOUND)
    batches = ld(state, here)
    if width == 0:  # nothing to bind: the rows that fit are the run
        if ld(state, at + V_FRESH) == 0:
            return False
        st(state, at + V_FRESH, 0)
        for b in range(batches):
            r = here + 1 + b * R_STRIDE
            st(state, r + RUN_LOW, ld(state, r + R_LOW))
            st(state, r + RUN_HIGH, ld(state, r + R_HIGH))
        return True
    best = -1
    for b in range(batches):
        r = here + 1 + b * R_STRIDE
        if ld(state, r + R_LOW) < ld(state, r + R_HIGH):
            if best < 0 or _before(state, r, best, first, width):
                best = r
    if best < 0:
        return False
    batch = ld(state, best + R_BATCH)
    low = ld(state, best + R_LOW)
    for w in range(width):
        st(variables, ld(new, w), ld(ld(batch, DATA), (first + w) * ld(batch, CAP) + low))
    for b in range(batches):
        r = here + 1 + b * R_STRIDE
        low = ld(state, r + R_LOW)
        high = ld(state, r + R_HIGH)
        st(state, r + RUN_LOW, low)
        batch = ld(state, r + R_BATCH)
        data = ld(batch, DATA)
        cap = ld(batch, CAP)
        if width == 1:
            value = ld(variables, ld(new, 0))
            if low < high and ld(data, first * cap + low) == value:
                low = _past(data, first * cap, low, high, value)
        else:
            while low < high and _fits(data, cap, low, first, width, new, variables):
                low += 1
        st(state, r + RUN_HIGH, low)
        st(state, r + R_LOW, low)
    return True


@inner
def _before(state, r, best, first, width):
    """Whether the next row of one range has smaller new values than that of another."""
    a = ld(state, r + R_BATCH)
    b = ld(state, best + R_BATCH)
    i = ld(state, r + R_LOW)
    j = ld(state, best + R_LOW)
    for c in range(first, first + width):
        x = ld(ld(a, DATA), c * ld(a, CAP) + i)
        y = ld(ld(b, DATA), c * ld(b, CAP) + j)
        if x != y:
            return x < y
    return False


@inner
def _fits(data, cap, row, first, width, new, variables):
    for w in range(width):
        if ld(data, (first + w) * cap + row) != ld(variables, ld(new, w)):
            return False
    return True


@inner
def _validate(level, state, at, stride, variables):
    """Whether every other part has the proposed value; marks its runs."""
    proposer = ld(state, at + V_PROPOSER)
    if ld(level, L_NPARTS) == 1:
        return True
    value = ld(variables, ld(ld(level, L_NEW), 0))
    for p in range(ld(level, L_NPARTS)):
        if p == proposer:
            continue
        column = ld(ld(level, L_WORDS + p), Q_NBOUND)
        here = at + V_WORDS + p * stride
        found = False
        for b in range(ld(state, here)):
            r = here + 1 + b * R_STRIDE
            batch = ld(state, r + R_BATCH)
            data = ld(batch, DATA)
            start = column * ld(batch, CAP)
            high = ld(state, r + R_HIGH)
            low = _seek(data, start, ld(state, r + R_LOW), high, value)
            st(state, r + R_LOW, low)
            st(state, r + RUN_LOW, low)
            if low < high and ld(data, start + low) == value:
                found = True
                low = _past(data, start, low, high, value)
            st(state, r + RUN_HIGH, low)
        if not found:
            return False
    return True


@inner
def _multiply(ctx, part, state, here, start, count):
    """Multiply weights [start, start + count) with the part's runs; the products follow them. Returns how many."""
    scope = ld(ctx, X_SCOPE)
    fields = ld(scope, FIELDS)
    nfields = ld(scope, NFIELDS)
    sub = ld(ld(ctx, X_STEP), STEP_BASE) * ld(part, Q_SUB)
    add = ld(part, Q_ADD)
    weights = ld(ctx, X_WEIGHTS)
    out = start + count
    n = 0
    for b in range(ld(state, here)):
        r = here + 1 + b * R_STRIDE
        batch = ld(state, r + R_BATCH)
        data = ld(batch, DATA)
        for y in range(ld(state, r + RUN_LOW), ld(state, r + RUN_HIGH)):
            time = max(time_at(batch, data, y) - sub, 0) + add
            diff = diff_at(batch, data, y, 0)
            room = ld(ctx, X_WEIGHTS_ROOM)
            if out + n + count > room:
                room = 2 * room + count
                weights = grow(weights, 2 * room, 2 * (out + n))
                st(ctx, X_WEIGHTS, weights)
                st(ctx, X_WEIGHTS_ROOM, room)
            for k in range(start, start + count):
                t = lub(ld(weights, 2 * k), time, fields, nfields)
                d = multiplied(ld(weights, 2 * k + 1), diff)
                same = out
                while same < out + n and ld(weights, 2 * same) != t:
                    same += 1
                if same == out + n:
                    st(weights, 2 * same, t)
                    st(weights, 2 * same + 1, d)
                    n += 1
                else:
                    st(weights, 2 * same + 1, plus(ld(weights, 2 * same + 1), d))
    kept = 0
    for k in range(out, out + n):
        if ld(weights, 2 * k + 1) != 0:
            st(weights, 2 * (out + kept), ld(weights, 2 * k))
            st(weights, 2 * (out + kept) + 1, ld(weights, 2 * k + 1))
            kept += 1
    return kept


@inner
def _emit(ctx, start, count):
    """Say the row with these weights."""
    stream = ld(ctx, X_STREAM)
    regs = ld(stream, REGS)
    tail = ld(stream, TAIL)
    variables = ld(ctx, X_VARS)
    weights = ld(ctx, X_WEIGHTS)
    n = ld(stream, R_N)
    for k in range(start, start + count):
        if n == CHUNK:
            st(stream, R_N, n)
            flush(stream)
            n = 0
        for c in range(ld(ctx, X_COLS)):
            st(regs, c * CHUNK + n, ld(variables, c))
        st(tail, n, ld(weights, 2 * k))
        st(tail, CHUNK + n, ld(weights, 2 * k + 1))
        n += 1
    st(stream, R_N, n)


@inner
def _search(ctx, pipeline, source, whole, stride, per_level):
    """All completions of the row that the source's variables hold, whose weight is number 0."""
    levels = ld(pipeline, P_LEVELS)
    if levels == 0:
        _emit(ctx, 0, 1)
        return
    state = ld(ctx, X_STATE)
    variables = ld(ctx, X_VARS)
    depth = 0
    st(state, V_WEIGHTS, 0)
    st(state, V_NWEIGHTS, 1)
    if not _enter(ctx, ld(pipeline, P_WORDS), state, 0, stride, source, whole):
        return
    while depth >= 0:
        level = ld(pipeline, P_WORDS + depth)
        at = depth * per_level
        if not _next(level, state, at, stride, variables):
            depth -= 1
            continue
        if not _holds(variables, ld(level, L_TESTS), ld(level, L_NTESTS)):
            continue
        if ld(state, at + V_WAY) == W_PROPOSE and not _validate(level, state, at, stride, variables):
            continue
        start = ld(state, at + V_WEIGHTS)
        count = ld(state, at + V_NWEIGHTS)
        for p in range(ld(level, L_NPARTS)):
            part = ld(level, L_WORDS + p)
            if ld(part, Q_COMPLETE) != 0 and count > 0:
                more = _multiply(ctx, part, state, at + V_WORDS + p * stride, start, count)
                start += count
                count = more
        if count == 0:
            continue
        if depth == levels - 1:
            _emit(ctx, start, count)
            continue
        at += per_level
        st(state, at + V_WEIGHTS, start)
        st(state, at + V_NWEIGHTS, count)
        if _enter(ctx, ld(pipeline, P_WORDS + depth + 1), state, at, stride, source, whole):
            depth += 1


@shared
def extend_batch(ctx, source, batch, at_least, whole):
    """Run a pipeline from all rows of a batch, whose times count as no earlier than `at_least`; `whole`: the others are
    read with all they have.
    """
    entry = source * I_WORDS
    table = ld(ctx, X_TABLE)
    pipeline = ld(table, entry + I_PIPELINE)
    sub = ld(ld(ctx, X_STEP), STEP_BASE) * ld(table, entry + I_SUB)
    add = ld(table, entry + I_ADD)
    most = 1
    for l in range(ld(pipeline, P_LEVELS)):
        level = ld(pipeline, P_WORDS + l)
        for p in range(ld(level, L_NPARTS)):
            most = max(most, ld(ld(ld(level, L_WORDS + p), Q_TRACE), COUNT))
    stride = 1 + most * R_STRIDE
    per_level = V_WORDS + ld(pipeline, P_PARTS) * stride
    words = per_level * ld(pipeline, P_LEVELS)
    if ld(ctx, X_STATE_ROOM) < words:
        state = alloc(words)
        free(ld(ctx, X_STATE))
        st(ctx, X_STATE, state)
        st(ctx, X_STATE_ROOM, words)
    variables = ld(ctx, X_VARS)
    columns = ld(pipeline, P_MAP)
    data = ld(batch, DATA)
    cap = ld(batch, CAP)
    for i in range(ld(batch, ROWS)):
        for c in range(ld(pipeline, P_NMAP)):
            if ld(columns, c) >= 0:
                st(variables, ld(columns, c), ld(data, c * cap + i))
        if not _holds(variables, ld(pipeline, P_TESTS), ld(pipeline, P_NTESTS)):
            continue
        weights = ld(ctx, X_WEIGHTS)
        st(weights, 0, max(time_at(batch, data, i) - sub, at_least) + add)
        st(weights, 1, diff_at(batch, data, i, 0))
        _search(ctx, pipeline, source, whole, stride, per_level)
    return 0


@shared
def extend_all(ctx):
    """Join the whole of all relations, as if all of it had just come: from the smallest."""
    table = ld(ctx, X_TABLE)
    nested = ld(ld(ctx, X_SCOPE), NFIELDS) > 1
    at_least = 1 if nested else ld(ld(ctx, X_STEP), STEP_BASE) + 1
    source = 0
    for i in range(ld(ctx, X_INPUTS)):
        if trace_rows(ld(table, i * I_WORDS + I_TRACE)) < trace_rows(ld(table, source * I_WORDS + I_TRACE)):
            source = i
    trace = ld(table, source * I_WORDS + I_TRACE)
    for b in range(ld(trace, COUNT)):
        extend_batch(ctx, source, ld(ld(trace, TABLE), b), at_least, 1)
    flush(ld(ctx, X_STREAM))
    return 0


@task
def _extend_all(ctx):
    return extend_all(ctx)


@entry("int", "int")
def replay_extend(ctx, stream):
    """Send all the join has ever said down another stream."""
    own = ld(ctx, X_STREAM)
    st(ctx, X_STREAM, stream)
    code = attempt(_extend_all(), ctx, call_number())
    st(ctx, X_STREAM, own)
    if code != 0:
        leave(code)
    return 0


@operator
def extend(ctx):
    """Compiled operator; see the module. X_FRESH: the operator is new, its arrangements may be older."""
    stream = ld(ctx, X_STREAM)
    st(stream, R_N, 0)  # a step that failed may have left something
    if ld(ctx, X_FRESH) != 0:
        st(ctx, X_FRESH, 0)
        extend_all(ctx)
        return 0
    if ld(stream, NSINKS) == 0:
        return 0
    table = ld(ctx, X_TABLE)
    now = ld(ld(ctx, X_SCOPE), NOW)
    for i in range(ld(ctx, X_INPUTS)):
        batch = _changed(ld(table, i * I_WORDS + I_TRACE), ld(table, i * I_WORDS + I_ADD), now)
        if batch != 0:
            extend_batch(ctx, i, batch, 0, 0)
    flush(stream)
    return 0
