"""Sorting rows that do not fit into one word.

Rows are sorted by the beginning of their order: as many bits of their first columns as tell nearly all of them apart
are packed into a word, which is sorted with the number of its row. Rows whose words are equal (*ties*) are few in most
tables. A handful of them is sorted by comparing them. Many, as where the first columns have few values, are sorted in
the same way again, by the columns that are left; the limits of those columns are closer among them, so this ends.

Then equal rows are neighbours. Their diffs are added up in the first of them, in the source, which is used up. Without
diffs in the source (bulk loads) they are counted instead. At last the rows are copied, in order, into the batch.

With a pool, the words are parted as in `row_packing`; each member sorts one part, resolves its ties and copies its
rows.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared, task
from everview.kernels.memory import alloc, alloc_with, free, ld, size_of, st
from everview.kernels.operators.batcher import unchained
from everview.kernels.sums import plus
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_COLS,
    BATCH_DATA,
    BATCH_DIFF_AT,
    BATCH_DIFF_MASK,
    BATCH_DIFFS,
    BATCH_TIME_AT,
    BATCH_TIME_MASK,
    compare_from,
    new_batch,
)
from everview.kernels.trace.buckets import build_index
from everview.kernels.trace.radix import INSERTION_WORDS, digit_bits, radix_sort, sort_pairs
from everview.kernels.trace.row_packing import (
    CHAIN,
    PACKED_AT,
    PACKED_CHAINED,
    PACKED_COL_STEP,
    PACKED_CUT,
    PACKED_DROPPED,
    PACKED_KEPT,
    PACKED_NUMBERED,
    PACKED_ONES,
    PACKED_OTHER_PAYLOAD,
    PACKED_OTHER_WORDS,
    PACKED_PAYLOAD,
    PACKED_PHASE,
    PACKED_RECORD_WORDS,
    PACKED_ROW_STEP,
    PACKED_SCANNED,
    PACKED_SIGNED,
    PACKED_SIZE,
    PACKED_SOURCE,
    PACKED_START,
    PACKED_STORED,
    PACKED_SUMS,
    PACKED_TARGET,
    PACKED_TARGET_ROW,
    PACKED_TIES_FROM,
    PACKED_WIDTH,
    PACKED_WORDS,
    PHASE_BRING,
    PHASE_PACK,
    PHASE_SORT,
    PHASE_WRITE,
    bits_between,
    bring,
    free_jobs,
    limits,
    pack_all,
    pack_parts,
    run_phase,
    set_all,
)

SPARE_BITS = 12  # bits of a word beyond those that number the rows: one row in 4,096 is a tie by chance
COPIED_ROWS = 256  # rows that are copied together where they are stored one after the other


@inner
def _bits_for(n):
    """How many bits of rows are sorted at first: enough to tell n of them apart, in whole passes of a radix sort."""
    bits = SPARE_BITS
    while n > 0:
        bits += 1
        n >>= 1
    digit = digit_bits(1 << (bits - SPARE_BITS))
    return min((bits + digit - 1) // digit * digit, 63)


@inner
def _choose(job, jobs, n):
    """Choose what the words are made of: whole columns, then the highest bits of the next one."""
    width = ld(job, PACKED_WIDTH)
    room = _bits_for(n)
    for c in range(width):
        at = PACKED_RECORD_WORDS + 2 * (width + 1) + 2 * c
        bits = ld(job, at + 1)
        if bits <= room:
            room -= bits
            set_all(job, jobs, PACKED_TIES_FROM, c + 1)
            continue
        if room > 0:
            low, high = limits(job, jobs, c)
            low &= ~1  # halves are packed
            set_all(job, jobs, PACKED_CUT, c)
            set_all(job, jobs, PACKED_DROPPED, bits_between(low, high) - room)
            set_all(job, jobs, at, low)
        set_all(job, jobs, at + 1, room)
        for later in range(c + 1, width):
            set_all(job, jobs, at + 2 * (later - c) + 1, 0)
        break


@inner
def _by_insertion(source, at, row_step, col_step, width, rows, start, n, first):
    for i in range(start + 1, start + n):
        row = ld(rows, i)
        j = i - 1
        while j >= start:
            other = at + ld(rows, j) * row_step
            if compare_from(source, col_step, other, source, col_step, at + row * row_step, first, width) <= 0:
                break
            st(rows, j + 1, ld(rows, j))
            j -= 1
        st(rows, j + 1, row)


@inner
def _range_of(source, at, row_step, rows, start, n):
    """Smallest and largest word of a column among some rows."""
    low = ld(source, at + ld(rows, start) * row_step)
    high = low
    for i in range(start + 1, start + n):
        x = ld(source, at + ld(rows, i) * row_step)
        low = min(low, x)
        high = max(high, x)
    return low, high


@inner
def _pack_ties(source, at, row_step, col_step, width, words, rows, start, n, first):
    """Pack n ties by the columns from `first` on; (bits of the words, the first column that is not whole in them)."""
    room = _bits_for(n)
    total = 0
    c = first
    for i in range(start, start + n):
        st(words, i, 0)
    while c < width and total < room:
        column = at + c * col_step
        low, high = _range_of(source, column, row_step, rows, start, n)
        low &= ~1
        bits = bits_between(low, high)
        drop = max(bits - (room - total), 0)
        if drop > 0:
            for i in range(start, start + n):
                x = ((ld(source, column + ld(rows, i) * row_step) >> 1) - (low >> 1)) >> (drop - 1)
                st(words, i, (ld(words, i) << (bits - drop)) | x)
            return room, c
        if bits > 0:
            for i in range(start, start + n):
                x = ld(source, column + ld(rows, i) * row_step) - low
                st(words, i, (ld(words, i) << bits) | x)
        total += bits
        c += 1
    return total, c


@inner
def _sort_level(source, at, row_step, col_step, width, words, rows, other_words, other_rows, start, n, first):
    """Sort n ties by as much of the columns from `first` on as fits; the first column that is not whole in that."""
    bits, first = _pack_ties(source, at, row_step, col_step, width, words, rows, start, n, first)
    if radix_sort(words, rows, other_words, other_rows, start, n, bits) != 0:
        for i in range(start, start + n):
            st(words, i, ld(other_words, i))
            st(rows, i, ld(other_rows, i))
    return first


@shared
def sort_ties(source, at, row_step, col_step, width, words, rows, other_words, other_rows, start, n, first):
    """Sort n row numbers, from word `start` of `rows` on, whose rows agree in all columns before `first`. The words at
    the same places of the other blocks are scratch.
    """
    if n <= INSERTION_WORDS:
        _by_insertion(source, at, row_step, col_step, width, rows, start, n, first)
        return 0
    pending = alloc_with(3 * (n // INSERTION_WORDS + 1), n)  # ties of ties that are many: (start, how many, first)
    st(pending, 0, start)
    st(pending, 1, n)
    st(pending, 2, first)
    left = 1
    while left > 0:
        left -= 1
        i = ld(pending, 3 * left)
        last = i + ld(pending, 3 * left + 1)
        c = _sort_level(
            source,
            at,
            row_step,
            col_step,
            width,
            words,
            rows,
            other_words,
            other_rows,
            i,
            last - i,
            ld(pending, 3 * left + 2),
        )
        while i < last and c < width:
            end = i + 1
            while end < last and ld(words, end) == ld(words, i):
                end += 1
            if end - i > INSERTION_WORDS:
                st(pending, 3 * left, i)
                st(pending, 3 * left + 1, end - i)
                st(pending, 3 * left + 2, c)
                left += 1
            elif end - i > 1:
                _by_insertion(source, at, row_step, col_step, width, rows, i, end - i, c)
            i = end
    free(pending)
    return 0


@inner
def _alive(job, row):
    """Whether a row has a diff other than 0."""
    at = ld(job, PACKED_AT) + row * ld(job, PACKED_ROW_STEP) + ld(job, PACKED_WIDTH) * ld(job, PACKED_COL_STEP)
    for d in range(ld(job, PACKED_STORED)):
        if ld(ld(job, PACKED_SOURCE), at + d * ld(job, PACKED_COL_STEP)) != 0:
            return True
    return False


@inner
def _add(job, row, other):
    """Add the diffs of one source row to those of another that is equal."""
    source = ld(job, PACKED_SOURCE)
    step = ld(job, PACKED_COL_STEP)
    at = ld(job, PACKED_AT) + ld(job, PACKED_WIDTH) * step
    to = at + row * ld(job, PACKED_ROW_STEP)
    of = at + other * ld(job, PACKED_ROW_STEP)
    for d in range(ld(job, PACKED_STORED)):
        st(source, to + d * step, plus(ld(source, to + d * step), ld(source, of + d * step)))


@inner
def _equal(job, row, other):
    source = ld(job, PACKED_SOURCE)
    step = ld(job, PACKED_COL_STEP)
    at = ld(job, PACKED_AT)
    one = at + row * ld(job, PACKED_ROW_STEP)
    two = at + other * ld(job, PACKED_ROW_STEP)
    return compare_from(source, step, one, source, step, two, ld(job, PACKED_TIES_FROM), _columns(job)) == 0


@inner
def _columns(job):
    """How many columns the rows of the source have, the time among them if it is there."""
    return ld(job, PACKED_WIDTH) - (1 if ld(job, PACKED_STORED) == 0 else 0)


@inner
def _count(job, kept, count):
    """Note that a row without stored diffs is there `count` times, the part's row number `kept`."""
    sums = ld(job, PACKED_SUMS)
    if count > 1 and sums == 0:
        sums = alloc(ld(job, PACKED_SIZE))
        for k in range(kept):
            st(sums, k, 1)
        st(job, PACKED_SUMS, sums)
        st(job, PACKED_ONES, 0)
    if sums != 0:
        st(sums, kept, count)


@inner
def _keep(job, rows, start, end, kept):
    """Add up equal rows of `rows` from `start` to `end`, which are sorted; those that are left follow the `kept` first
    of the part. How many are kept then.
    """
    stored = ld(job, PACKED_STORED)
    first = ld(job, PACKED_START)
    i = start
    while i < end:
        row = ld(rows, i)
        count = 1
        while i + count < end and _equal(job, row, ld(rows, i + count)):
            if stored != 0:
                _add(job, row, ld(rows, i + count))
            count += 1
        i += count
        if count > 1:
            st(job, PACKED_ONES, 0)
        if stored == 0:
            _count(job, kept, count)
        if stored == 0 or (count == 1 and ld(job, PACKED_SIGNED) == 0) or _alive(job, row):
            st(rows, first + kept, row)
            kept += 1
    return kept


@inner
def _sort_part(job):
    """Sort the job's part, resolve its ties and add up equal rows: PACKED_KEPT row numbers are left, from PACKED_START
    of the payload on.
    """
    words = ld(job, PACKED_WORDS)
    rows = ld(job, PACKED_PAYLOAD)
    other_words = ld(job, PACKED_OTHER_WORDS)
    other_rows = ld(job, PACKED_OTHER_PAYLOAD)
    start = ld(job, PACKED_START)
    end = start + ld(job, PACKED_SIZE)
    width = ld(job, PACKED_WIDTH)
    bits = 0
    for c in range(width):
        bits += ld(job, PACKED_RECORD_WORDS + 2 * (width + 1) + 2 * c + 1)
    flipped = 0
    if start == 0:
        flipped = sort_pairs(words, rows, other_words, other_rows, end, bits)
    elif end > start:
        flipped = radix_sort(words, rows, other_words, other_rows, start, end - start, bits)
    if flipped != 0:
        words, other_words = other_words, words
        rows, other_rows = other_rows, rows
    kept = 0
    i = start
    while i < end:
        after = i + 1
        while after < end and ld(words, after) == ld(words, i):
            after += 1
        if after - i > 1:
            sort_ties(
                ld(job, PACKED_SOURCE),
                ld(job, PACKED_AT),
                ld(job, PACKED_ROW_STEP),
                ld(job, PACKED_COL_STEP),
                _columns(job),
                words,
                rows,
                other_words,
                other_rows,
                i,
                after - i,
                ld(job, PACKED_TIES_FROM),
            )
        kept = _keep(job, rows, i, after, kept)
        i = after
    st(job, PACKED_PAYLOAD, rows)
    st(job, PACKED_KEPT, kept)
    return 0


@inner
def _copy_column(job, rows, start, n, c, to):
    """Copy column c of the n source rows of `rows` from `start` on to word `to` of the target's data."""
    source = ld(job, PACKED_SOURCE)
    data = ld(ld(job, PACKED_TARGET), BATCH_DATA)
    at = ld(job, PACKED_AT) + c * ld(job, PACKED_COL_STEP)
    row_step = ld(job, PACKED_ROW_STEP)
    for k in range(n):
        st(data, to + k, ld(source, at + ld(rows, start + k) * row_step))


@inner
def _copy_rows(job, first, n):
    """Copy n of the part's rows, from the one numbered `first` on, into the target."""
    batch = ld(job, PACKED_TARGET)
    rows = ld(job, PACKED_PAYLOAD)
    start = ld(job, PACKED_START) + first
    to = ld(job, PACKED_TARGET_ROW) + first
    cols = ld(batch, BATCH_COLS)
    cap = ld(batch, BATCH_CAP)
    for c in range(cols):
        _copy_column(job, rows, start, n, c, c * cap + to)
    if ld(batch, BATCH_TIME_MASK) != 0:
        _copy_column(job, rows, start, n, cols, ld(batch, BATCH_TIME_AT) + to)
    if ld(batch, BATCH_DIFF_MASK) == 0:
        return
    at = ld(batch, BATCH_DIFF_AT) + to
    if ld(job, PACKED_STORED) != 0:
        for d in range(ld(batch, BATCH_DIFFS)):
            _copy_column(job, rows, start, n, cols + 1 + d, at + d * cap)
        return
    sums = ld(job, PACKED_SUMS)
    for k in range(n):
        st(ld(batch, BATCH_DATA), at + k, ld(sums, first + k) if sums != 0 else 1)


@inner
def _write(job):
    """Copy the part's rows into the target: a block of rows at a time where they are stored as rows, else a column at a
    time, as little as can be of the source being read at once.
    """
    kept = ld(job, PACKED_KEPT)
    piece = COPIED_ROWS if ld(job, PACKED_COL_STEP) == 1 else max(kept, 1)
    first = 0
    while first < kept:
        _copy_rows(job, first, min(piece, kept - first))
        first += piece
    return 0


@task
def _work(job):
    """What the job is to do next."""
    phase = ld(job, PACKED_PHASE)
    if phase == PHASE_PACK:
        return pack_all(job)
    if phase == PHASE_BRING:
        return bring(job)
    if phase == PHASE_SORT:
        return _sort_part(job)
    return _write(job)


@inner
def _prepare(job, jobs, diffs, consume):
    """Make the jobs ready for rows that are numbered, in one block."""
    if consume == CHAIN:
        set_all(job, jobs, PACKED_SOURCE, unchained(ld(job, PACKED_SOURCE), ld(job, PACKED_ROW_STEP)))
        set_all(job, jobs, PACKED_CHAINED, 0)
    width = ld(job, PACKED_WIDTH)
    signed = diffs > 1
    ones = diffs <= 1
    if diffs == 1:
        low, high = limits(job, jobs, width)
        signed = low <= 0 <= high
        ones = low == 1 and high == 1
    set_all(job, jobs, PACKED_STORED, diffs)
    set_all(job, jobs, PACKED_SIGNED, 1 if signed else 0)
    set_all(job, jobs, PACKED_ONES, 1 if ones else 0)
    set_all(job, jobs, PACKED_NUMBERED, 1)


@inner
def _new_target(job, jobs, cols, diffs, time):
    """A batch for the rows that are kept, with its constant words; 0 if there are none."""
    kept = ld(job, PACKED_KEPT)
    ones = ld(job, PACKED_ONES) != 0
    if jobs != 0:
        for k in range(1, size_of(jobs)):
            st(ld(jobs, k), PACKED_TARGET_ROW, kept)
            kept += ld(ld(jobs, k), PACKED_KEPT)
            ones = ones and ld(ld(jobs, k), PACKED_ONES) != 0
    if kept == 0:
        return 0
    low = time
    high = time
    if cols < ld(job, PACKED_SCANNED):
        low, high = limits(job, jobs, cols)
    batch = new_batch(kept, cols, max(diffs, 1), low == high, ones)
    if low == high:
        st(ld(batch, BATCH_DATA), ld(batch, BATCH_TIME_AT), low)
    if ones:
        st(ld(batch, BATCH_DATA), ld(batch, BATCH_DIFF_AT), 1)
    return batch


@inner
def sort_wide(job, jobs, pool, n, cols, diffs, time, consume):
    """A batch of the n > 0 unsorted rows of jobs that were scanned and measured; 0 if they cancel out. See
    `packed.sort_many` for the arguments. The jobs are freed.
    """
    _prepare(job, jobs, diffs, consume)
    _choose(job, jobs, n)
    words = alloc(n)
    rows = alloc(n)
    set_all(job, jobs, PACKED_WORDS, words)
    set_all(job, jobs, PACKED_PAYLOAD, rows)
    st(job, PACKED_SIZE, n)
    if jobs != 0:
        pack_parts(pool, _work(), jobs, n)
    else:
        pack_all(job)
    other_words = alloc(n)
    other_rows = alloc(n)
    set_all(job, jobs, PACKED_OTHER_WORDS, other_words)
    set_all(job, jobs, PACKED_OTHER_PAYLOAD, other_rows)
    if jobs != 0:
        run_phase(pool, _work(), PHASE_BRING, job, jobs)
    run_phase(pool, _work(), PHASE_SORT, job, jobs)
    free(words)
    free(other_words)
    batch = _new_target(job, jobs, cols, diffs, time)
    if batch != 0:
        set_all(job, jobs, PACKED_TARGET, batch)
        run_phase(pool, _work(), PHASE_WRITE, job, jobs)
    free(rows)
    free(other_rows)
    if consume != 0:
        free(ld(job, PACKED_SOURCE))
    free_jobs(job, jobs)
    if batch != 0:
        build_index(batch, pool)
    return batch
