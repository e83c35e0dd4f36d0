"""Sorting rows that fit into one word.

If the ranges of all columns and of the time together need no more than 63 bits, which is the common case, a row is
*packed* into one word, and sorting rows is sorting words. Three things make it fast:

- If there are about as many possible words as rows, nothing is sorted: the diffs are added up in a table with a place
  for every word (group-by sums, the distinct nodes of edges).
- If all diffs are 1, words are sorted without payload.
- Rows are read once, a block at a time, and the source can be given back (`consume`) as soon as they are packed:
  the memory of the unsorted rows is then used again for sorting.

With a team, each thread looks at half of the rows for the ranges; each packs half of them, smaller words to one end
and larger ones to the other, as parted by a *pivot* from a sample; then one sorts the smaller words and the other
the larger ones, which end up behind each other in the batch.
"""

from __future__ import annotations

from everview.kernels.batch import CAP, D_AT, D_MASK, DATA, T_AT, new_batch
from everview.kernels.buckets import build_index
from everview.kernels.inbox import NEXT, free_chain
from everview.kernels.memory import alloc, call_pointer, copy_words, free, ld, st, zeros
from everview.kernels.native import inner, shared, task
from everview.kernels.radix import SOME, radix_sort, sort_pairs
from everview.kernels.step import STEP_SPLIT, STEP_TEAM
from everview.kernels.sums import beyond, must_fit, plus
from everview.kernels.team import both

SCAN, TALLY, PART, BRING, SORT, UNPACK = range(6)
"""Phases of the work; there is one compiled task for all, because each costs its own time to load at the start."""

(
    PHASE,
    SOURCE,
    AT,
    ROW_STEP,
    COL_STEP,
    FIRST,
    LAST,
    CHAINED,
    SCANNED,
    WIDTH,
    STORED,
    WORDS,
    PAYLOAD,
    OTHER_WORDS,
    OTHER_PAYLOAD,
    PIVOT,
    LOWS,
    RUN,
    RUN_ROWS,
    RUN_2,
    RUN_2_ROWS,
    COUNTS,
    START,
    SIZE,
    KEPT,
    ONES,
    SUMS,
    TARGET,
    TARGET_ROW,
    P_WORDS,
) = range(30)
"""A job: one thread's part. Word c of source row i is word AT + i * ROW_STEP + c * COL_STEP of SOURCE; the job reads
rows FIRST to LAST (of all buffers, if they are CHAINED), later sorts SIZE words from START. STORED diffs stand behind
the WIDTH columns (time included); 0: all are 1. COUNTS is the table of diffs by word; SUMS the payload of words that
turned out to be there more than once. Behind these words stand two for each column and the first diff, its least and
its largest value, and then two more for each, its least value in all rows and the bits it needs.
"""

BLOCK = 256  # rows that are packed together, so that all their columns are read while they are in the cache
TOO_WIDE = -1
SAMPLE = 255
CHAIN = 2
"""Says that the source is an inbox's chain of buffers, which are freed."""


@inner
def bits_between(low, high):
    """Bits needed for numbers from `low` to `high`, counted from `low`.

    Hazard: signed overflow is undefined in compiled code, so `high - low < 0` is no test for it. Halves never overflow.
    """
    if (high >> 1) - (low >> 1) >= 2**62:
        return 64
    span = high - low
    n = 0
    while span > 0:
        n += 1
        span >>= 1
    return n


@inner
def _block(job, first):
    """Where row `first` of the job is: (source block, row in it, rows from there on that can be read together)."""
    source = ld(job, SOURCE)
    n = min(BLOCK, ld(job, LAST) - first)
    if ld(job, CHAINED) != 0:
        while first >= ld(source, 0):
            first -= ld(source, 0)
            source = ld(source, NEXT)
        n = min(n, ld(source, 0) - first)
    return source, first, n


@inner
def _scan(job):
    """Find the limits of the job's columns."""
    row_step = ld(job, ROW_STEP)
    for c in range(ld(job, SCANNED)):
        st(job, P_WORDS + 2 * c, 2**63 - 1)
        st(job, P_WORDS + 2 * c + 1, -(2**63))
    first = ld(job, FIRST)
    while first < ld(job, LAST):
        source, row, n = _block(job, first)
        for c in range(ld(job, SCANNED)):
            at = ld(job, AT) + c * ld(job, COL_STEP) + row * row_step
            low = ld(job, P_WORDS + 2 * c)
            high = ld(job, P_WORDS + 2 * c + 1)
            for i in range(n):
                x = ld(source, at + i * row_step)
                low = min(low, x)
                high = max(high, x)
            st(job, P_WORDS + 2 * c, low)
            st(job, P_WORDS + 2 * c + 1, high)
        first += n
    return 0


@inner
def _pack_block(job, source, first, n, target, at):
    """The words of n rows from row `first` of a source on, to word `at` of block `target`."""
    row_step = ld(job, ROW_STEP)
    bits = P_WORDS + 2 * (ld(job, WIDTH) + 1)
    for i in range(n):
        st(target, at + i, 0)
    for c in range(ld(job, WIDTH)):
        shift = ld(job, bits + 2 * c + 1)
        if shift > 0:
            low = ld(job, bits + 2 * c)
            w = ld(job, AT) + c * ld(job, COL_STEP) + first * row_step
            for i in range(n):
                st(target, at + i, (ld(target, at + i) << shift) | (ld(source, w + i * row_step) - low))


@inner
def _pack_all(job):
    """Pack the job's rows in their order."""
    words = ld(job, WORDS)
    payload = ld(job, PAYLOAD)
    row_step = ld(job, ROW_STEP)
    first = ld(job, FIRST)
    while first < ld(job, LAST):
        source, row, n = _block(job, first)
        _pack_block(job, source, row, n, words, first)
        if payload != 0:
            w = ld(job, AT) + ld(job, WIDTH) * ld(job, COL_STEP) + row * row_step
            for i in range(n):
                st(payload, first + i, ld(source, w + i * row_step))
        first += n


@inner
def _pack_parted(job):
    """Pack the job's rows, words below the pivot from its first row upwards, the others from its last downwards."""
    words = ld(job, WORDS)
    payload = ld(job, PAYLOAD)
    row_step = ld(job, ROW_STEP)
    pivot = ld(job, PIVOT)
    low = ld(job, FIRST)
    high = ld(job, LAST) - 1
    block = alloc(BLOCK)
    first = low
    while first < ld(job, LAST):
        source, row, n = _block(job, first)
        _pack_block(job, source, row, n, block, 0)
        if payload == 0:
            for i in range(n):  # both ends are written, one of them moves on: no branch to mispredict
                x = ld(block, i)
                st(words, low, x)
                st(words, high, x)
                small = 1 if x < pivot else 0
                low += small
                high -= 1 - small
        else:
            w = ld(job, AT) + ld(job, WIDTH) * ld(job, COL_STEP) + row * row_step
            for i in range(n):
                x = ld(block, i)
                y = ld(source, w + i * row_step)
                st(words, low, x)
                st(words, high, x)
                st(payload, low, y)
                st(payload, high, y)
                small = 1 if x < pivot else 0
                low += small
                high -= 1 - small
        first += n
    free(block)
    st(job, LOWS, low - ld(job, FIRST))
    return 0


@inner
def _tally(job):
    """Add up the job's diffs by word."""
    counts = ld(job, COUNTS)
    stored = ld(job, STORED)
    row_step = ld(job, ROW_STEP)
    col_step = ld(job, COL_STEP)
    block = alloc(BLOCK)
    first = ld(job, FIRST)
    sizes = 0
    while first < ld(job, LAST):
        source, row, n = _block(job, first)
        _pack_block(job, source, row, n, block, 0)
        if stored == 0:
            for i in range(n):
                at = ld(block, i)
                st(counts, at, ld(counts, at) + 1)
        else:
            w = ld(job, AT) + ld(job, WIDTH) * col_step + row * row_step
            for i in range(n):
                at = ld(block, i) * stored
                for d in range(stored):
                    total = ld(counts, at + d) + ld(source, w + i * row_step + d * col_step)
                    st(counts, at + d, total)
                    sizes |= beyond(total)
        first += n
    free(block)
    must_fit(sizes)
    return 0


@inner
def _sort_part(job):
    """Sort SIZE words from START on, add up equal ones and close the gaps: KEPT words are left, from START on."""
    n = ld(job, SIZE)
    start = ld(job, START)
    words = ld(job, WORDS)
    payload = ld(job, PAYLOAD)
    kept = 0
    ones = True
    sums = 0
    sizes = 0
    if n > 0:
        total_bits = 0
        for c in range(ld(job, WIDTH)):
            total_bits += ld(job, P_WORDS + 2 * (ld(job, WIDTH) + 1) + 2 * c + 1)
        others = ld(job, OTHER_WORDS)
        other_payload = ld(job, OTHER_PAYLOAD)
        if payload != 0 and start == 0:
            flipped = sort_pairs(words, payload, others, other_payload, n, total_bits)
        else:
            flipped = radix_sort(words, payload, others, other_payload, start, n, total_bits)
        if flipped != 0:
            words, payload = others, other_payload
    if payload != 0:
        i = start
        while i < start + n:
            x = ld(words, i)
            total = ld(payload, i)
            i += 1
            while i < start + n and ld(words, i) == x:
                total += ld(payload, i)
                sizes |= beyond(total)
                i += 1
            if total != 0:
                if total != 1:
                    ones = False
                st(words, start + kept, x)
                st(payload, start + kept, total)
                kept += 1
    else:
        i = start
        while i < start + n:
            x = ld(words, i)
            first = i
            i += 1
            while i < start + n and ld(words, i) == x:
                i += 1
            if i - first > 1 and ones:  # a row that is there twice: from here on diffs must be kept
                ones = False
                sums = alloc(n)
                for k in range(kept):
                    st(sums, k, 1)
            st(words, start + kept, x)
            if not ones:
                st(sums, kept, i - first)
            kept += 1
    must_fit(sizes)
    st(job, WORDS, words)
    st(job, PAYLOAD, payload)
    st(job, SUMS, sums)
    st(job, KEPT, kept)
    st(job, ONES, 1 if ones else 0)
    return 0


@inner
def _unpack(job):
    """Write the job's sorted words as rows of the batch TARGET, from row TARGET_ROW on."""
    batch = ld(job, TARGET)
    row = ld(job, TARGET_ROW)
    data = ld(batch, DATA)
    cap = ld(batch, CAP)
    words = ld(job, WORDS)
    start = ld(job, START)
    kept = ld(job, KEPT)
    width = ld(job, WIDTH)
    bits = P_WORDS + 2 * (width + 1)
    shift = 0
    for back in range(width):
        c = width - 1 - back
        b = ld(job, bits + 2 * c + 1)
        low = ld(job, bits + 2 * c)
        mask = (1 << b) - 1
        if c < width - 1:
            to = c * cap + row
            for k in range(kept):
                st(data, to + k, ((ld(words, start + k) >> shift) & mask) + low)
        elif b == 0:
            st(data, ld(batch, T_AT), low)
        else:
            to = ld(batch, T_AT) + row
            for k in range(kept):
                st(data, to + k, (ld(words, start + k) & mask) + low)
        shift += b
    to = ld(batch, D_AT)
    if ld(batch, D_MASK) == 0:
        st(data, to, 1)
    elif ld(job, PAYLOAD) != 0:
        copy_words(data, to + row, ld(job, PAYLOAD), start, kept)
    elif ld(job, SUMS) != 0:
        copy_words(data, to + row, ld(job, SUMS), 0, kept)
    else:
        for k in range(kept):
            st(data, to + row + k, 1)
    return 0


@inner
def _bring(job):
    """Bring the job's two runs of words together, from START on in the other blocks, and sort there."""
    start = ld(job, START)
    first = ld(job, RUN_ROWS)
    second = ld(job, RUN_2_ROWS)
    copy_words(ld(job, OTHER_WORDS), start, ld(job, WORDS), ld(job, RUN), first)
    copy_words(ld(job, OTHER_WORDS), start + first, ld(job, WORDS), ld(job, RUN_2), second)
    if ld(job, PAYLOAD) != 0:
        copy_words(ld(job, OTHER_PAYLOAD), start, ld(job, PAYLOAD), ld(job, RUN), first)
        copy_words(ld(job, OTHER_PAYLOAD), start + first, ld(job, PAYLOAD), ld(job, RUN_2), second)
    words = ld(job, WORDS)
    payload = ld(job, PAYLOAD)
    st(job, WORDS, ld(job, OTHER_WORDS))
    st(job, PAYLOAD, ld(job, OTHER_PAYLOAD))
    st(job, OTHER_WORDS, words)
    st(job, OTHER_PAYLOAD, payload)
    st(job, SIZE, first + second)
    return 0


@task
def _work(job):
    """What the job is to do next."""
    phase = ld(job, PHASE)
    if phase == SCAN:
        return _scan(job)
    if phase == TALLY:
        return _tally(job)
    if phase == PART:
        return _pack_parted(job)
    if phase == BRING:
        return _bring(job)
    if phase == SORT:
        return _sort_part(job)
    return _unpack(job)


@inner
def _new_job(source, at, row_step, col_step, first, last, scanned, width, stored):
    job = alloc(P_WORDS + 4 * (width + 1))
    for w in range(P_WORDS):
        st(job, w, 0)
    st(job, SOURCE, source)
    st(job, AT, at)
    st(job, ROW_STEP, row_step)
    st(job, COL_STEP, col_step)
    st(job, FIRST, first)
    st(job, LAST, last)
    st(job, SCANNED, scanned)
    st(job, WIDTH, width)
    st(job, STORED, stored)
    return job


@inner
def _set(job, mate, field, value):
    st(job, field, value)
    if mate != 0:
        st(mate, field, value)


@inner
def _run(team, phase, job, mate):
    """Do a phase of the job, and next to it that of its mate if there is one."""
    _set(job, mate, PHASE, phase)
    if mate != 0:
        both(team, _work(), job, mate)
    else:
        call_pointer(_work(), job)


@inner
def _measure(job, mate, time):
    """Bits of every column and of all together, from the limits that were found. Rows without stored times are at
    `time`.
    """
    width = ld(job, WIDTH)
    total = 0
    for c in range(width):
        low = time
        high = time
        if c < ld(job, SCANNED):
            low = ld(job, P_WORDS + 2 * c)
            high = ld(job, P_WORDS + 2 * c + 1)
            if mate != 0:
                low = min(low, ld(mate, P_WORDS + 2 * c))
                high = max(high, ld(mate, P_WORDS + 2 * c + 1))
        b = bits_between(low, high)
        total += b
        at = P_WORDS + 2 * (width + 1) + 2 * c
        st(job, at, low)
        st(job, at + 1, b)
        if mate != 0:
            st(mate, at, low)
            st(mate, at + 1, b)
    return total


@inner
def _all_ones(job):
    """Whether all the diffs that the job scanned are 1."""
    at = P_WORDS + 2 * ld(job, WIDTH)
    return ld(job, at) == 1 and ld(job, at + 1) == 1


@inner
def _from_table(job, mate, bits, diffs, cols):
    """The batch of the sums in the jobs' tables; 0 if all are zero."""
    counts = ld(job, COUNTS)
    if mate != 0:
        other = ld(mate, COUNTS)
        for i in range(diffs << bits):
            st(counts, i, plus(ld(counts, i), ld(other, i)))
        free(other)
    kept = 0
    ones = diffs == 1
    for word in range(1 << bits):
        alive = False
        for d in range(diffs):
            x = ld(counts, word * diffs + d)
            alive = alive or x != 0
            ones = ones and (x == 0 or x == 1)
        kept += 1 if alive else 0
    if kept == 0:
        free(counts)
        return 0
    at = P_WORDS + 2 * (ld(job, WIDTH) + 1)
    one_time = ld(job, at + 2 * cols + 1) == 0
    batch = new_batch(kept, cols, diffs, one_time, ones)
    data = ld(batch, DATA)
    k = 0
    for word in range(1 << bits):
        alive = False
        for d in range(diffs):
            alive = alive or ld(counts, word * diffs + d) != 0
        if alive:
            rest = word
            for back in range(cols + 1):
                c = cols - back
                b = ld(job, at + 2 * c + 1)
                value = (rest & ((1 << b) - 1)) + ld(job, at + 2 * c)
                rest >>= b
                if c < cols:
                    st(data, c * kept + k, value)
                elif not one_time or k == 0:
                    st(data, ld(batch, T_AT) + k, value)
            if not ones or k == 0:
                for d in range(diffs):
                    st(data, ld(batch, D_AT) + d * kept + k, ld(counts, word * diffs + d))
            k += 1
    free(counts)
    build_index(batch, 0)
    return batch


@inner
def _pivot(job, n):
    """The middle one of a sample of words."""
    words = alloc(SAMPLE)
    others = alloc(SAMPLE)
    for k in range(SAMPLE):
        source, row, _ = _block(job, k * (n - 1) // (SAMPLE - 1))
        _pack_block(job, source, row, 1, words, k)
    flipped = radix_sort(words, 0, others, 0, 0, SAMPLE, 63)
    pivot = ld(others if flipped != 0 else words, SAMPLE // 2)
    free(words)
    free(others)
    return pivot


@inner
def _part(team, job, mate, n):
    """Pack with two threads; afterwards the job's runs are the words below the pivot, its mate's those from it on."""
    st(job, PIVOT, _pivot(job, n))
    st(mate, PIVOT, ld(job, PIVOT))
    _run(team, PART, job, mate)
    half = ld(mate, FIRST)
    low = ld(job, LOWS)
    low_2 = ld(mate, LOWS)
    st(job, RUN, 0)
    st(job, RUN_ROWS, low)
    st(job, RUN_2, half)
    st(job, RUN_2_ROWS, low_2)
    st(mate, START, low + low_2)
    st(mate, RUN, low)
    st(mate, RUN_ROWS, half - low)
    st(mate, RUN_2, half + low_2)
    st(mate, RUN_2_ROWS, n - half - low_2)


@inner
def _from_words(job, mate, cols):
    """The batch of the jobs' sorted words; 0 if there are none."""
    kept = ld(job, KEPT)
    ones = ld(job, ONES) != 0
    if mate != 0:
        st(mate, TARGET_ROW, kept)
        kept += ld(mate, KEPT)
        ones = ones and ld(mate, ONES) != 0
    if kept == 0:
        return 0
    one_time = ld(job, P_WORDS + 2 * (ld(job, WIDTH) + 1) + 2 * cols + 1) == 0
    return new_batch(kept, cols, 1, one_time, ones)


@inner
def _consume(source, consume):
    if consume == CHAIN:
        free_chain(source)
    elif consume != 0:
        free(source)


@shared
def sort_packed(source, at, row_step, col_step, n, cols, diffs, time, consume, step):
    """A batch of n > 0 unsorted rows; 0 if they cancel out, TOO_WIDE (and nothing done) if they do not fit.

    `diffs` 0: the source has neither times nor diffs, all rows are at `time` and count once. `consume`: the source is
    a block that is no longer needed; CHAIN: a chain of them. `step`: the block of the step under way, which may have a
    team; or 0.
    """
    width = cols + 1
    team = 0
    if step != 0 and n >= ld(step, STEP_SPLIT):
        team = ld(step, STEP_TEAM)
    scanned = cols if diffs == 0 else width + (1 if diffs == 1 else 0)
    middle = n // 2 if team != 0 else n
    job = _new_job(source, at, row_step, col_step, 0, middle, scanned, width, diffs)
    mate = 0
    if team != 0:
        mate = _new_job(source, at, row_step, col_step, middle, n, scanned, width, diffs)
    _set(job, mate, CHAINED, 1 if consume == CHAIN else 0)
    _run(team, SCAN, job, mate)
    bits = _measure(job, mate, time)
    if diffs == 1 and n > SOME and _all_ones(job) and (mate == 0 or _all_ones(mate)):
        _set(job, mate, STORED, 0)
    per = max(diffs, 1)
    dense = bits < 40 and (per << bits) <= 2 * n
    if bits > 63 or (diffs > 1 and not dense):
        free(job)
        free(mate)
        return TOO_WIDE
    if dense:
        st(job, COUNTS, zeros(per << bits))
        if mate != 0:
            st(mate, COUNTS, zeros(per << bits))
        _run(team, TALLY, job, mate)
        _consume(source, consume)
        batch = _from_table(job, mate, bits, per, cols)
        free(job)
        free(mate)
        return batch
    words = alloc(n)
    payload = alloc(n) if ld(job, STORED) != 0 else 0
    _set(job, mate, WORDS, words)
    _set(job, mate, PAYLOAD, payload)
    if mate != 0:
        _part(team, job, mate, n)
    else:
        _pack_all(job)
    _consume(source, consume)
    others = alloc(n)
    other_payload = alloc(n) if payload != 0 else 0
    _set(job, mate, OTHER_WORDS, others)
    _set(job, mate, OTHER_PAYLOAD, other_payload)
    st(job, SIZE, n)
    if mate != 0:
        _run(team, BRING, job, mate)
    _run(team, SORT, job, mate)
    if mate == 0 or ld(job, WORDS) == ld(mate, WORDS):
        if ld(job, WORDS) == words:
            free(others)
            others = 0
        else:
            free(words)
            words = 0
    batch = _from_words(job, mate, cols)
    if batch != 0:
        _set(job, mate, TARGET, batch)
        _run(team, UNPACK, job, mate)
    free(words)
    free(others)
    free(payload)
    free(other_payload)
    free(ld(job, SUMS))
    free(job)
    if mate != 0:
        free(ld(mate, SUMS))
        free(mate)
    if batch != 0:
        build_index(batch, team)
    return batch
