"""Extend: joins of any number of relations without intermediate state, one variable (or relation) at a time.

A join of n relations is multilinear, so a change of it is a sum of n *pipelines* (ammar-2023 §3.2, goebel-2019 §8, §9):
pipeline i begins with what is new in relation i, and looks up the rest of each row in the others. If several relations
change in one pass, pipeline i reads relation j with this pass's change if j < i and without it if j > i. Passes visit
loop times in a total order that extends the partial one (see `scope`), and differences multiply at the join of their
times; every combination of differences is therefore output exactly once, in the pass of its latest, inside loops too.

A pipeline is a list of *levels*. A level binds new variables, given those bound so far, from its *parts*: relations
arranged with the bound columns in front and the new ones behind them.

    count      how many rows each part has for the bound columns
    propose    the part with the fewest enumerates its distinct values, in ascending order
    validate   the others seek each value forward, and so skip what they do not share ("leapfrog")

A part whose columns are all bound after the level is *complete* there, and its diffs and times are multiplied in there
and only there; until then it only restricts. With one variable per level this is the worst-case-optimal join, with a
whole relation per level the classical delta query.

The search is depth-first: one row of each level at a time, so no proposals pile up, whatever the size of the output. A
level keeps, per part and batch, the range of matching rows and the run of rows with the current value.
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner, operator, shared, task
from everview.kernels.early_exit import attempt, leave
from everview.kernels.expressions.scalars import INT_MAX
from everview.kernels.expressions.vm import VM_ROWS
from everview.kernels.memory import alloc, call_number, free, grow, ld, st
from everview.kernels.operators.stream import STREAM_N, STREAM_NSINKS, STREAM_REGS, STREAM_TAIL, flush, flush_full, heed
from everview.kernels.run.scope import SCOPE_FIELDS, SCOPE_NFIELDS, SCOPE_NOW
from everview.kernels.run.step import STEP_BASE
from everview.kernels.sums import plus
from everview.kernels.sums import times as multiplied
from everview.kernels.times import lub
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, compare_rows, diff_at, time_at
from everview.kernels.trace.search import find_key, seek_in
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_DELTA, TRACE_STAMP, TRACE_TABLE, trace_rows

(
    EXTEND_STREAM,
    EXTEND_SCOPE,
    EXTEND_STEP,
    EXTEND_FRESH,
    EXTEND_INPUTS,
    EXTEND_TABLE,
    EXTEND_VARS,
    EXTEND_COLS,
    EXTEND_KEY,
    EXTEND_STATE,
    EXTEND_STATE_ROOM,
    EXTEND_WEIGHTS,
    EXTEND_WEIGHTS_ROOM,
    EXTEND_WORDS,
) = range(14)
"""EXTEND_VARS: values of the variables, then constants; the first EXTEND_COLS of them are the output's columns.
EXTEND_WEIGHTS: pairs (time, diff) that belong to the row under way, a stack.
"""

EXTEND_INPUT_TRACE, EXTEND_INPUT_SUB, EXTEND_INPUT_ADD, EXTEND_INPUT_PIPELINE, EXTEND_INPUT_WORDS = range(5)
"""Per input: the arrangement whose changes start its pipeline, how its times count (see `join`), and the pipeline."""

PIPELINE_LEVELS, PIPELINE_MAP, PIPELINE_NMAP, PIPELINE_TESTS, PIPELINE_NTESTS, PIPELINE_PARTS, PIPELINE_WORDS = range(7)
"""Pipeline: levels, variable of each source column (-1: none), tests on the source's variables, most parts of a level.
Then the level blocks."""

LEVEL_NPARTS, LEVEL_NEW, LEVEL_NNEW, LEVEL_TESTS, LEVEL_NTESTS, LEVEL_WORDS = range(6)
"""Level: parts, new variables, tests on the variables bound then; then the part blocks."""

PART_TRACE, PART_INPUT, PART_BOUND, PART_NBOUND, PART_COMPLETE, PART_SUB, PART_ADD, PART_WORDS = range(8)
"""Part: arrangement, number of its input, variables of its first columns, whether it is complete after the level."""

TEST_LT, TEST_LE, TEST_NE, TEST_EQ = range(4)
"""Tests: (kind, variable, variable)."""

(
    LEVEL_STATE_PROPOSER,
    LEVEL_STATE_WAY,
    LEVEL_STATE_FRESH,
    LEVEL_STATE_WEIGHTS,
    LEVEL_STATE_NWEIGHTS,
    LEVEL_STATE_WORDS,
) = range(6)
"""State of a level: who proposes, the way values are found (W_…), whether nothing was proposed yet, the weights of the
row so far; then for each part the number of batches and, for each batch, (batch, its data, the word where the first new
column begins, from, to, run from, run to).
"""

WAY_PROPOSE, WAY_LEAP, WAY_ZIP = range(3)
"""Ways to find values: what the module says; for one new variable that every part has in a single batch, all parts
leaping over what the others lack; for two such parts that are about as long, a merge of the two.
"""

ZIP_RATIO = 16
"""Two ranges of which one is less than so many times as long as the other are about as long: then walking costs less
than leaping, which the processor cannot foresee.
"""

RANGE_BATCH, RANGE_DATA, RANGE_AT, RANGE_LOW, RANGE_HIGH, RANGE_RUN_LOW, RANGE_RUN_HIGH, RANGE_WORDS = range(8)


@inner
def _past(data, at, low, high, value):
    """First row in [low, high) whose value is above `value`; the row at `low` has that value."""
    return high if value == INT_MAX else seek_in(data, at, low, high, value + 1)


@inner
def _key_range_end(batch, low, key, keys):
    """End of the rows from `low` whose first columns are the key; the row at `low` has it."""
    rows = ld(batch, BATCH_ROWS)
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
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
        if kind == TEST_LT:
            if a >= b:
                return False
        elif kind == TEST_LE:
            if a > b:
                return False
        elif kind == TEST_NE:
            if a == b:
                return False
        elif a != b:
            return False
    return True


@inner
def _changed(trace, add, now):
    """The batch that this pass added to a trace, or 0."""
    return ld(trace, TRACE_DELTA) if ld(trace, TRACE_STAMP) + add == now else 0


@inner
def _enter(ctx, level, state, at, stride, source, whole):
    """Find the rows of each part that fit the bound variables; False if some part has none."""
    now = ld(ld(ctx, EXTEND_SCOPE), SCOPE_NOW)
    inputs = ld(ctx, EXTEND_TABLE)
    key = ld(ctx, EXTEND_KEY)
    variables = ld(ctx, EXTEND_VARS)
    fewest = -1
    most = 0
    single = ld(level, LEVEL_NNEW) == 1
    parts = ld(level, LEVEL_NPARTS)
    for p in range(parts):
        part = ld(level, LEVEL_WORDS + p)
        trace = ld(part, PART_TRACE)
        keys = ld(part, PART_NBOUND)
        bound = ld(part, PART_BOUND)
        for c in range(keys):
            st(key, c, ld(variables, ld(bound, c)))
        batches = ld(trace, TRACE_COUNT)
        if whole == 0 and ld(part, PART_INPUT) > source:
            entry = ld(part, PART_INPUT) * EXTEND_INPUT_WORDS
            if _changed(ld(inputs, entry + EXTEND_INPUT_TRACE), ld(inputs, entry + EXTEND_INPUT_ADD), now) != 0:
                batches -= 1
        here = at + LEVEL_STATE_WORDS + p * stride
        found = 0
        total = 0
        for b in range(batches):
            batch = ld(ld(trace, TRACE_TABLE), b)
            low = find_key(batch, key, 1, 0, keys)
            rows = ld(batch, BATCH_ROWS)
            if low >= rows:
                continue
            if keys == 0:
                high = rows
            elif compare_rows(ld(batch, BATCH_DATA), ld(batch, BATCH_CAP), low, key, 1, 0, keys) != 0:
                continue
            else:
                high = _key_range_end(batch, low, key, keys)
            range_at = here + 1 + found * RANGE_WORDS
            st(state, range_at + RANGE_BATCH, batch)
            st(state, range_at + RANGE_DATA, ld(batch, BATCH_DATA))
            st(state, range_at + RANGE_AT, keys * ld(batch, BATCH_CAP))
            st(state, range_at + RANGE_LOW, low)
            st(state, range_at + RANGE_HIGH, high)
            found += 1
            total += high - low
        if total == 0:
            return False
        st(state, here, found)
        single &= found == 1
        if fewest < 0 or total < fewest:
            fewest = total
            st(state, at + LEVEL_STATE_PROPOSER, p)
        most = max(most, total)
    way = WAY_PROPOSE
    if single:
        way = WAY_ZIP if parts == 2 and most < ZIP_RATIO * fewest else WAY_LEAP
    st(state, at + LEVEL_STATE_WAY, way)
    st(state, at + LEVEL_STATE_FRESH, 1)
    return True


@inner
def _leap(level, state, at, stride):
    """Move every part to the next value that all have; False if there is none. One after the other they seek the
    highest value seen, until nobody moves it.
    """
    parts = ld(level, LEVEL_NPARTS)
    first = at + LEVEL_STATE_WORDS + 1
    last = first + parts * stride
    r = first
    low = ld(state, r + RANGE_LOW)
    if low >= ld(state, r + RANGE_HIGH):
        return False
    value = ld(ld(state, r + RANGE_DATA), ld(state, r + RANGE_AT) + low)
    agreed = 1
    while agreed < parts:
        r += stride
        if r == last:
            r = first
        data = ld(state, r + RANGE_DATA)
        at_value = ld(state, r + RANGE_AT)
        high = ld(state, r + RANGE_HIGH)
        low = seek_in(data, at_value, ld(state, r + RANGE_LOW), high, value)
        st(state, r + RANGE_LOW, low)
        if low >= high:
            return False
        found = ld(data, at_value + low)
        agreed = agreed + 1 if found == value else 1
        value = found
    return True


@inner
def _zip(state, at, stride):
    """The same for two parts, row by row and without a branch that depends on which is ahead."""
    r = at + LEVEL_STATE_WORDS + 1
    s = r + stride
    left = ld(state, r + RANGE_DATA)
    right = ld(state, s + RANGE_DATA)
    left_at = ld(state, r + RANGE_AT)
    right_at = ld(state, s + RANGE_AT)
    i = ld(state, r + RANGE_LOW)
    j = ld(state, s + RANGE_LOW)
    i_end = ld(state, r + RANGE_HIGH)
    j_end = ld(state, s + RANGE_HIGH)
    while i < i_end and j < j_end:
        x = ld(left, left_at + i)
        y = ld(right, right_at + j)
        if x == y:
            st(state, r + RANGE_LOW, i)
            st(state, s + RANGE_LOW, j)
            return True
        i += x < y
        j += y < x
    return False


@inner
def _bind(level, state, at, stride, variables):
    """Bind the new variable to the value that all parts are at, and mark its runs."""
    first = at + LEVEL_STATE_WORDS + 1
    value = ld(ld(state, first + RANGE_DATA), ld(state, first + RANGE_AT) + ld(state, first + RANGE_LOW))
    st(variables, ld(ld(level, LEVEL_NEW), 0), value)
    for p in range(ld(level, LEVEL_NPARTS)):
        r = first + p * stride
        low = ld(state, r + RANGE_LOW)
        high = _past(ld(state, r + RANGE_DATA), ld(state, r + RANGE_AT), low, ld(state, r + RANGE_HIGH), value)
        st(state, r + RANGE_RUN_LOW, low)
        st(state, r + RANGE_RUN_HIGH, high)
        st(state, r + RANGE_LOW, high)


@inner
def _next(level, state, at, stride, variables):
    """Bind the new variables to the next values that all parts may have; False if there are no more."""
    way = ld(state, at + LEVEL_STATE_WAY)
    if way == WAY_PROPOSE:
        return _propose(level, state, at, stride, variables)
    found = _zip(state, at, stride) if way == WAY_ZIP else _leap(level, state, at, stride)
    if found:
        _bind(level, state, at, stride, variables)
    return found


@inner
def _propose(level, state, at, stride, variables):
    """Bind the new variables to the proposer's next distinct values and mark their runs; False if there are no more."""
    p = ld(state, at + LEVEL_STATE_PROPOSER)
    part = ld(level, LEVEL_WORDS + p)
    here = at + LEVEL_STATE_WORDS + p * stride
    new = ld(level, LEVEL_NEW)
    width = ld(level, LEVEL_NNEW)
    first = ld(part, PART_NBOUND)
    batches = ld(state, here)
    if width == 0:  # nothing to bind: the rows that fit are the run
        if ld(state, at + LEVEL_STATE_FRESH) == 0:
            return False
        st(state, at + LEVEL_STATE_FRESH, 0)
        for b in range(batches):
            r = here + 1 + b * RANGE_WORDS
            st(state, r + RANGE_RUN_LOW, ld(state, r + RANGE_LOW))
            st(state, r + RANGE_RUN_HIGH, ld(state, r + RANGE_HIGH))
        return True
    best = -1
    for b in range(batches):
        r = here + 1 + b * RANGE_WORDS
        if ld(state, r + RANGE_LOW) < ld(state, r + RANGE_HIGH):
            if best < 0 or _before(state, r, best, first, width):
                best = r
    if best < 0:
        return False
    batch = ld(state, best + RANGE_BATCH)
    low = ld(state, best + RANGE_LOW)
    for w in range(width):
        st(variables, ld(new, w), ld(ld(batch, BATCH_DATA), (first + w) * ld(batch, BATCH_CAP) + low))
    for b in range(batches):
        r = here + 1 + b * RANGE_WORDS
        low = ld(state, r + RANGE_LOW)
        high = ld(state, r + RANGE_HIGH)
        st(state, r + RANGE_RUN_LOW, low)
        batch = ld(state, r + RANGE_BATCH)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        if width == 1:
            value = ld(variables, ld(new, 0))
            if low < high and ld(data, first * cap + low) == value:
                low = _past(data, first * cap, low, high, value)
        else:
            while low < high and _fits(data, cap, low, first, width, new, variables):
                low += 1
        st(state, r + RANGE_RUN_HIGH, low)
        st(state, r + RANGE_LOW, low)
    return True


@inner
def _before(state, r, best, first, width):
    """Whether the next row of one range has smaller new values than that of another."""
    a = ld(state, r + RANGE_BATCH)
    b = ld(state, best + RANGE_BATCH)
    i = ld(state, r + RANGE_LOW)
    j = ld(state, best + RANGE_LOW)
    for c in range(first, first + width):
        x = ld(ld(a, BATCH_DATA), c * ld(a, BATCH_CAP) + i)
        y = ld(ld(b, BATCH_DATA), c * ld(b, BATCH_CAP) + j)
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
    proposer = ld(state, at + LEVEL_STATE_PROPOSER)
    if ld(level, LEVEL_NPARTS) == 1:
        return True
    value = ld(variables, ld(ld(level, LEVEL_NEW), 0))
    for p in range(ld(level, LEVEL_NPARTS)):
        if p == proposer:
            continue
        column = ld(ld(level, LEVEL_WORDS + p), PART_NBOUND)
        here = at + LEVEL_STATE_WORDS + p * stride
        found = False
        for b in range(ld(state, here)):
            r = here + 1 + b * RANGE_WORDS
            batch = ld(state, r + RANGE_BATCH)
            data = ld(batch, BATCH_DATA)
            start = column * ld(batch, BATCH_CAP)
            high = ld(state, r + RANGE_HIGH)
            low = seek_in(data, start, ld(state, r + RANGE_LOW), high, value)
            st(state, r + RANGE_LOW, low)
            st(state, r + RANGE_RUN_LOW, low)
            if low < high and ld(data, start + low) == value:
                found = True
                low = _past(data, start, low, high, value)
            st(state, r + RANGE_RUN_HIGH, low)
        if not found:
            return False
    return True


@inner
def _multiply(ctx, part, state, here, start, count):
    """Multiply weights [start, start + count) with the part's runs; the products follow them. Returns how many."""
    scope = ld(ctx, EXTEND_SCOPE)
    fields = ld(scope, SCOPE_FIELDS)
    nfields = ld(scope, SCOPE_NFIELDS)
    sub = ld(ld(ctx, EXTEND_STEP), STEP_BASE) * ld(part, PART_SUB)
    add = ld(part, PART_ADD)
    weights = ld(ctx, EXTEND_WEIGHTS)
    out = start + count
    n = 0
    for b in range(ld(state, here)):
        r = here + 1 + b * RANGE_WORDS
        batch = ld(state, r + RANGE_BATCH)
        data = ld(batch, BATCH_DATA)
        for y in range(ld(state, r + RANGE_RUN_LOW), ld(state, r + RANGE_RUN_HIGH)):
            time = max(time_at(batch, data, y) - sub, 0) + add
            diff = diff_at(batch, data, y, 0)
            room = ld(ctx, EXTEND_WEIGHTS_ROOM)
            if out + n + count > room:
                room = 2 * room + count
                weights = grow(weights, 2 * room, 2 * (out + n))
                st(ctx, EXTEND_WEIGHTS, weights)
                st(ctx, EXTEND_WEIGHTS_ROOM, room)
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
    stream = ld(ctx, EXTEND_STREAM)
    regs = ld(stream, STREAM_REGS)
    tail = ld(stream, STREAM_TAIL)
    variables = ld(ctx, EXTEND_VARS)
    weights = ld(ctx, EXTEND_WEIGHTS)
    n = ld(stream, STREAM_N)
    for k in range(start, start + count):
        n = flush_full(stream, n)
        for c in range(ld(ctx, EXTEND_COLS)):
            st(regs, c * VM_ROWS + n, ld(variables, c))
        st(tail, n, ld(weights, 2 * k))
        st(tail, VM_ROWS + n, ld(weights, 2 * k + 1))
        n += 1
    st(stream, STREAM_N, n)


@inner
def _search(ctx, pipeline, source, whole, stride, per_level):
    """All completions of the row that the source's variables hold, whose weight is number 0."""
    levels = ld(pipeline, PIPELINE_LEVELS)
    if levels == 0:
        _emit(ctx, 0, 1)
        return
    state = ld(ctx, EXTEND_STATE)
    variables = ld(ctx, EXTEND_VARS)
    depth = 0
    st(state, LEVEL_STATE_WEIGHTS, 0)
    st(state, LEVEL_STATE_NWEIGHTS, 1)
    if not _enter(ctx, ld(pipeline, PIPELINE_WORDS), state, 0, stride, source, whole):
        return
    while depth >= 0:
        heed()
        level = ld(pipeline, PIPELINE_WORDS + depth)
        at = depth * per_level
        if not _next(level, state, at, stride, variables):
            depth -= 1
            continue
        if not _holds(variables, ld(level, LEVEL_TESTS), ld(level, LEVEL_NTESTS)):
            continue
        if ld(state, at + LEVEL_STATE_WAY) == WAY_PROPOSE and not _validate(level, state, at, stride, variables):
            continue
        start = ld(state, at + LEVEL_STATE_WEIGHTS)
        count = ld(state, at + LEVEL_STATE_NWEIGHTS)
        for p in range(ld(level, LEVEL_NPARTS)):
            part = ld(level, LEVEL_WORDS + p)
            if ld(part, PART_COMPLETE) != 0 and count > 0:
                more = _multiply(ctx, part, state, at + LEVEL_STATE_WORDS + p * stride, start, count)
                start += count
                count = more
        if count == 0:
            continue
        if depth == levels - 1:
            _emit(ctx, start, count)
            continue
        at += per_level
        st(state, at + LEVEL_STATE_WEIGHTS, start)
        st(state, at + LEVEL_STATE_NWEIGHTS, count)
        if _enter(ctx, ld(pipeline, PIPELINE_WORDS + depth + 1), state, at, stride, source, whole):
            depth += 1


@shared
def extend_batch(ctx, source, batch, at_least, whole):
    """Run a pipeline from all rows of a batch, whose times count as no earlier than `at_least`; `whole`: the others are
    read with all they have.
    """
    entry = source * EXTEND_INPUT_WORDS
    table = ld(ctx, EXTEND_TABLE)
    pipeline = ld(table, entry + EXTEND_INPUT_PIPELINE)
    sub = ld(ld(ctx, EXTEND_STEP), STEP_BASE) * ld(table, entry + EXTEND_INPUT_SUB)
    add = ld(table, entry + EXTEND_INPUT_ADD)
    most = 1
    for l in range(ld(pipeline, PIPELINE_LEVELS)):
        level = ld(pipeline, PIPELINE_WORDS + l)
        for p in range(ld(level, LEVEL_NPARTS)):
            most = max(most, ld(ld(ld(level, LEVEL_WORDS + p), PART_TRACE), TRACE_COUNT))
    stride = 1 + most * RANGE_WORDS
    per_level = LEVEL_STATE_WORDS + ld(pipeline, PIPELINE_PARTS) * stride
    words = per_level * ld(pipeline, PIPELINE_LEVELS)
    if ld(ctx, EXTEND_STATE_ROOM) < words:
        state = alloc(words)
        free(ld(ctx, EXTEND_STATE))
        st(ctx, EXTEND_STATE, state)
        st(ctx, EXTEND_STATE_ROOM, words)
    variables = ld(ctx, EXTEND_VARS)
    columns = ld(pipeline, PIPELINE_MAP)
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
    for i in range(ld(batch, BATCH_ROWS)):
        for c in range(ld(pipeline, PIPELINE_NMAP)):
            if ld(columns, c) >= 0:
                st(variables, ld(columns, c), ld(data, c * cap + i))
        if not _holds(variables, ld(pipeline, PIPELINE_TESTS), ld(pipeline, PIPELINE_NTESTS)):
            continue
        weights = ld(ctx, EXTEND_WEIGHTS)
        st(weights, 0, max(time_at(batch, data, i) - sub, at_least) + add)
        st(weights, 1, diff_at(batch, data, i, 0))
        _search(ctx, pipeline, source, whole, stride, per_level)
    return 0


@shared
def extend_all(ctx):
    """Join the whole of all relations, as if all of it had just come: from the smallest."""
    table = ld(ctx, EXTEND_TABLE)
    nested = ld(ld(ctx, EXTEND_SCOPE), SCOPE_NFIELDS) > 1
    at_least = 1 if nested else ld(ld(ctx, EXTEND_STEP), STEP_BASE) + 1
    source = 0
    for i in range(ld(ctx, EXTEND_INPUTS)):
        if trace_rows(ld(table, i * EXTEND_INPUT_WORDS + EXTEND_INPUT_TRACE)) < trace_rows(
            ld(table, source * EXTEND_INPUT_WORDS + EXTEND_INPUT_TRACE)
        ):
            source = i
    trace = ld(table, source * EXTEND_INPUT_WORDS + EXTEND_INPUT_TRACE)
    for b in range(ld(trace, TRACE_COUNT)):
        extend_batch(ctx, source, ld(ld(trace, TRACE_TABLE), b), at_least, 1)
    flush(ld(ctx, EXTEND_STREAM))
    return 0


@task
def _extend_all(ctx):
    return extend_all(ctx)


@entry("int", "int")
def replay_extend(ctx, stream):
    """Send all the join has ever said down another stream."""
    own = ld(ctx, EXTEND_STREAM)
    st(ctx, EXTEND_STREAM, stream)
    code = attempt(_extend_all(), ctx, call_number())
    st(ctx, EXTEND_STREAM, own)
    if code != 0:
        leave(code)
    return 0


@operator
def extend(ctx):
    """Compiled operator; see the module. EXTEND_FRESH: the operator is new, its arrangements may be older."""
    stream = ld(ctx, EXTEND_STREAM)
    st(stream, STREAM_N, 0)  # a step that failed may have left something
    if ld(ctx, EXTEND_FRESH) != 0:
        st(ctx, EXTEND_FRESH, 0)
        extend_all(ctx)
        return 0
    if ld(stream, STREAM_NSINKS) == 0:
        return 0
    table = ld(ctx, EXTEND_TABLE)
    now = ld(ld(ctx, EXTEND_SCOPE), SCOPE_NOW)
    for i in range(ld(ctx, EXTEND_INPUTS)):
        batch = _changed(
            ld(table, i * EXTEND_INPUT_WORDS + EXTEND_INPUT_TRACE),
            ld(table, i * EXTEND_INPUT_WORDS + EXTEND_INPUT_ADD),
            now,
        )
        if batch != 0:
            extend_batch(ctx, i, batch, 0, 0)
    flush(stream)
    return 0
