"""Sorting rows that fit into one word.

If the ranges of all columns and of the time together need no more than 63 bits, which is the common case, a row is
*packed* into one word, and sorting rows is sorting words. Three things make it fast:

- If there are about as many possible words as rows, nothing is sorted: the diffs are added up in a table with a place
  for every word (group-by sums, the distinct nodes of edges).
- If all diffs are 1, words are sorted without payload.
- Rows are read once, a block at a time, and the source can be given back (`consume`) as soon as they are packed:
  the memory of the unsorted rows is then used again for sorting.

With a team, each member looks at a range of the rows for the limits of the columns. Each packs its range and counts how
many of the words belong to each *part*, as parted by *pivots* from a sample; brings them where their parts are put
together; and sorts one part. The sorted parts end up behind each other in the batch.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared, task
from everview.kernels.memory import EVER, alloc, alloc_with, call_pointer, copy_words, free, ld, size_of, st, zeros
from everview.kernels.operators.batcher import BUFFER_NEXT, free_chain
from everview.kernels.run.step import STEP_SPLIT, STEP_TEAM
from everview.kernels.sums import beyond, must_fit, plus
from everview.kernels.threads.team import members, new_shares, together
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_DIFF_AT, BATCH_DIFF_MASK, BATCH_TIME_AT, new_batch
from everview.kernels.trace.buckets import build_index
from everview.kernels.trace.radix import MERGE_SORT_WORDS, radix_sort, sort_pairs

PHASE_SCAN, PHASE_TALLY, PHASE_PACK, PHASE_BRING, PHASE_SORT, PHASE_UNPACK = range(6)
"""Phases of the work; there is one compiled task for all, because each costs its own time to load at the start."""

(
    PACKED_PHASE,
    PACKED_SOURCE,
    PACKED_AT,
    PACKED_ROW_STEP,
    PACKED_COL_STEP,
    PACKED_FIRST,
    PACKED_LAST,
    PACKED_CHAINED,
    PACKED_SCANNED,
    PACKED_WIDTH,
    PACKED_STORED,
    PACKED_WORDS,
    PACKED_PAYLOAD,
    PACKED_OTHER_WORDS,
    PACKED_OTHER_PAYLOAD,
    PACKED_PIVOTS,
    PACKED_PARTS,
    PACKED_COUNTS,
    PACKED_START,
    PACKED_SIZE,
    PACKED_KEPT,
    PACKED_ONES,
    PACKED_SUMS,
    PACKED_TARGET,
    PACKED_TARGET_ROW,
    PACKED_RECORD_WORDS,
) = range(26)
"""A job: one thread's part. Word c of source row i is word AT + i * PACKED_ROW_STEP + c * PACKED_COL_STEP of
PACKED_SOURCE; the job reads rows PACKED_FIRST to PACKED_LAST (of all buffers, if they are PACKED_CHAINED), later
sorts PACKED_SIZE words from PACKED_START. PACKED_PIVOTS: the words with which all parts but the first begin;
PACKED_PARTS says how many words the job has in each part, then where the next of them goes. PACKED_STORED diffs stand
behind the PACKED_WIDTH columns (time included); 0: all are 1. PACKED_COUNTS is the table of diffs by word;
PACKED_SUMS the payload of words that turned out to be there more than once. Behind these words stand two for each
column and the first diff, its least and its largest value, and then two more for each, its least value in all rows
and the bits it needs.
"""

PACK_ROWS = 256  # rows that are packed together, so that all their columns are read while they are in the cache
TOO_WIDE = -1
SAMPLE_EACH = 127  # words of the sample that pivots are chosen from, for each part
CHAIN = 2
"""Says that the source is an batcher's chain of buffers, which are freed."""


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
    source = ld(job, PACKED_SOURCE)
    n = min(PACK_ROWS, ld(job, PACKED_LAST) - first)
    if ld(job, PACKED_CHAINED) != 0:
        while first >= ld(source, 0):
            first -= ld(source, 0)
            source = ld(source, BUFFER_NEXT)
        n = min(n, ld(source, 0) - first)
    return source, first, n


@inner
def _scan(job):
    """Find the limits of the job's columns."""
    row_step = ld(job, PACKED_ROW_STEP)
    for c in range(ld(job, PACKED_SCANNED)):
        st(job, PACKED_RECORD_WORDS + 2 * c, 2**63 - 1)
        st(job, PACKED_RECORD_WORDS + 2 * c + 1, -(2**63))
    first = ld(job, PACKED_FIRST)
    while first < ld(job, PACKED_LAST):
        source, row, n = _block(job, first)
        for c in range(ld(job, PACKED_SCANNED)):
            at = ld(job, PACKED_AT) + c * ld(job, PACKED_COL_STEP) + row * row_step
            low = ld(job, PACKED_RECORD_WORDS + 2 * c)
            high = ld(job, PACKED_RECORD_WORDS + 2 * c + 1)
            for i in range(n):
                x = ld(source, at + i * row_step)
                low = min(low, x)
                high = max(high, x)
            st(job, PACKED_RECORD_WORDS + 2 * c, low)
            st(job, PACKED_RECORD_WORDS + 2 * c + 1, high)
        first += n
    return 0


@inner
def _pack_block(job, source, first, n, target, at):
    """The words of n rows from row `first` of a source on, to word `at` of block `target`."""
    row_step = ld(job, PACKED_ROW_STEP)
    bits = PACKED_RECORD_WORDS + 2 * (ld(job, PACKED_WIDTH) + 1)
    for i in range(n):
        st(target, at + i, 0)
    for c in range(ld(job, PACKED_WIDTH)):
        shift = ld(job, bits + 2 * c + 1)
        if shift > 0:
            low = ld(job, bits + 2 * c)
            w = ld(job, PACKED_AT) + c * ld(job, PACKED_COL_STEP) + first * row_step
            for i in range(n):
                st(target, at + i, (ld(target, at + i) << shift) | (ld(source, w + i * row_step) - low))


@inner
def _part_of(pivots, n, x):
    """Which of n parts a word is in: as many pivots as are not above it."""
    part = 0
    step = 1
    while 2 * step < n:
        step *= 2
    while step > 0:
        if part + step < n and ld(pivots, part + step - 1) <= x:
            part += step
        step >>= 1
    return part


@inner
def _pack_all(job):
    """Pack the job's rows in their order; with pivots, count how many words are in each part."""
    words = ld(job, PACKED_WORDS)
    payload = ld(job, PACKED_PAYLOAD)
    row_step = ld(job, PACKED_ROW_STEP)
    pivots = ld(job, PACKED_PIVOTS)
    parts = ld(job, PACKED_PARTS)
    n_parts = size_of(parts) if pivots != 0 else 0
    first = ld(job, PACKED_FIRST)
    while first < ld(job, PACKED_LAST):
        source, row, n = _block(job, first)
        _pack_block(job, source, row, n, words, first)
        if payload != 0:
            w = ld(job, PACKED_AT) + ld(job, PACKED_WIDTH) * ld(job, PACKED_COL_STEP) + row * row_step
            for i in range(n):
                st(payload, first + i, ld(source, w + i * row_step))
        if pivots != 0:
            for i in range(n):
                part = _part_of(pivots, n_parts, ld(words, first + i))
                st(parts, part, ld(parts, part) + 1)
        first += n
    return 0


@inner
def _bring(job):
    """Bring the job's words to their parts in the other blocks, where they are sorted from then on."""
    words = ld(job, PACKED_WORDS)
    payload = ld(job, PACKED_PAYLOAD)
    others = ld(job, PACKED_OTHER_WORDS)
    other_payload = ld(job, PACKED_OTHER_PAYLOAD)
    parts = ld(job, PACKED_PARTS)
    n_parts = size_of(parts)
    for i in range(ld(job, PACKED_FIRST), ld(job, PACKED_LAST)):
        x = ld(words, i)
        part = _part_of(ld(job, PACKED_PIVOTS), n_parts, x)
        at = ld(parts, part)
        st(others, at, x)
        if payload != 0:
            st(other_payload, at, ld(payload, i))
        st(parts, part, at + 1)
    st(job, PACKED_WORDS, others)
    st(job, PACKED_PAYLOAD, other_payload)
    st(job, PACKED_OTHER_WORDS, words)
    st(job, PACKED_OTHER_PAYLOAD, payload)
    return 0


@inner
def _tally(job):
    """Add up the job's diffs by word."""
    counts = ld(job, PACKED_COUNTS)
    stored = ld(job, PACKED_STORED)
    row_step = ld(job, PACKED_ROW_STEP)
    col_step = ld(job, PACKED_COL_STEP)
    block = alloc(PACK_ROWS)
    first = ld(job, PACKED_FIRST)
    sizes = 0
    while first < ld(job, PACKED_LAST):
        source, row, n = _block(job, first)
        _pack_block(job, source, row, n, block, 0)
        if stored == 0:
            for i in range(n):
                at = ld(block, i)
                st(counts, at, ld(counts, at) + 1)
        else:
            w = ld(job, PACKED_AT) + ld(job, PACKED_WIDTH) * col_step + row * row_step
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
    """Sort PACKED_SIZE words from PACKED_START on, add up equal ones and close the gaps: PACKED_KEPT words are left,
    from PACKED_START on.
    """
    n = ld(job, PACKED_SIZE)
    start = ld(job, PACKED_START)
    words = ld(job, PACKED_WORDS)
    payload = ld(job, PACKED_PAYLOAD)
    kept = 0
    ones = True
    sums = 0
    sizes = 0
    if n > 0:
        total_bits = 0
        for c in range(ld(job, PACKED_WIDTH)):
            total_bits += ld(job, PACKED_RECORD_WORDS + 2 * (ld(job, PACKED_WIDTH) + 1) + 2 * c + 1)
        others = ld(job, PACKED_OTHER_WORDS)
        other_payload = ld(job, PACKED_OTHER_PAYLOAD)
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
    st(job, PACKED_WORDS, words)
    st(job, PACKED_PAYLOAD, payload)
    st(job, PACKED_SUMS, sums)
    st(job, PACKED_KEPT, kept)
    st(job, PACKED_ONES, 1 if ones else 0)
    return 0


@inner
def _unpack(job):
    """Write the job's sorted words as rows of the batch PACKED_TARGET, from row PACKED_TARGET_ROW on."""
    batch = ld(job, PACKED_TARGET)
    row = ld(job, PACKED_TARGET_ROW)
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
    words = ld(job, PACKED_WORDS)
    start = ld(job, PACKED_START)
    kept = ld(job, PACKED_KEPT)
    width = ld(job, PACKED_WIDTH)
    bits = PACKED_RECORD_WORDS + 2 * (width + 1)
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
            st(data, ld(batch, BATCH_TIME_AT), low)
        else:
            to = ld(batch, BATCH_TIME_AT) + row
            for k in range(kept):
                st(data, to + k, (ld(words, start + k) & mask) + low)
        shift += b
    to = ld(batch, BATCH_DIFF_AT)
    if ld(batch, BATCH_DIFF_MASK) == 0:
        st(data, to, 1)
    elif ld(job, PACKED_PAYLOAD) != 0:
        copy_words(data, to + row, ld(job, PACKED_PAYLOAD), start, kept)
    elif ld(job, PACKED_SUMS) != 0:
        copy_words(data, to + row, ld(job, PACKED_SUMS), 0, kept)
    else:
        for k in range(kept):
            st(data, to + row + k, 1)
    return 0


@task
def _work(job):
    """What the job is to do next."""
    phase = ld(job, PACKED_PHASE)
    if phase == PHASE_SCAN:
        return _scan(job)
    if phase == PHASE_TALLY:
        return _tally(job)
    if phase == PHASE_PACK:
        return _pack_all(job)
    if phase == PHASE_BRING:
        return _bring(job)
    if phase == PHASE_SORT:
        return _sort_part(job)
    return _unpack(job)


@inner
def _new_job(source, at, row_step, col_step, first, last, scanned, width, stored):
    job = alloc_with(PACKED_RECORD_WORDS + 4 * (width + 1), 2 * (last - first))
    for w in range(PACKED_RECORD_WORDS):
        st(job, w, 0)
    st(job, PACKED_SOURCE, source)
    st(job, PACKED_AT, at)
    st(job, PACKED_ROW_STEP, row_step)
    st(job, PACKED_COL_STEP, col_step)
    st(job, PACKED_FIRST, first)
    st(job, PACKED_LAST, last)
    st(job, PACKED_SCANNED, scanned)
    st(job, PACKED_WIDTH, width)
    st(job, PACKED_STORED, stored)
    return job


@inner
def _set(job, jobs, field, value):
    st(job, field, value)
    if jobs != 0:
        for k in range(1, size_of(jobs)):
            st(ld(jobs, k), field, value)


@inner
def _run(team, phase, job, jobs):
    """Do a phase of all jobs: of `job` alone, or of a block of them, whose first it is."""
    _set(job, jobs, PACKED_PHASE, phase)
    if jobs != 0:
        together(team, _work(), jobs)
    else:
        call_pointer(_work(), job)


@inner
def _measure(job, jobs, time):
    """Bits of every column and of all together, from the limits that were found. Rows without stored times are at
    `time`.
    """
    width = ld(job, PACKED_WIDTH)
    total = 0
    for c in range(width):
        low = time
        high = time
        if c < ld(job, PACKED_SCANNED):
            low = ld(job, PACKED_RECORD_WORDS + 2 * c)
            high = ld(job, PACKED_RECORD_WORDS + 2 * c + 1)
            if jobs != 0:
                for k in range(1, size_of(jobs)):
                    low = min(low, ld(ld(jobs, k), PACKED_RECORD_WORDS + 2 * c))
                    high = max(high, ld(ld(jobs, k), PACKED_RECORD_WORDS + 2 * c + 1))
        b = bits_between(low, high)
        total += b
        at = PACKED_RECORD_WORDS + 2 * (width + 1) + 2 * c
        _set(job, jobs, at, low)
        _set(job, jobs, at + 1, b)
    return total


@inner
def _all_ones(job, jobs):
    """Whether all the diffs that the jobs scanned are 1; a job without rows has scanned none."""
    at = PACKED_RECORD_WORDS + 2 * ld(job, PACKED_WIDTH)
    low = ld(job, at)
    high = ld(job, at + 1)
    if jobs != 0:
        for k in range(1, size_of(jobs)):
            low = min(low, ld(ld(jobs, k), at))
            high = max(high, ld(ld(jobs, k), at + 1))
    return low == 1 and high == 1


@inner
def _from_table(job, jobs, bits, diffs, cols):
    """The batch of the sums in the jobs' tables; 0 if all are zero."""
    counts = ld(job, PACKED_COUNTS)
    if jobs != 0:
        for k in range(1, size_of(jobs)):
            other = ld(ld(jobs, k), PACKED_COUNTS)
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
    at = PACKED_RECORD_WORDS + 2 * (ld(job, PACKED_WIDTH) + 1)
    one_time = ld(job, at + 2 * cols + 1) == 0
    batch = new_batch(kept, cols, diffs, one_time, ones)
    data = ld(batch, BATCH_DATA)
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
                    st(data, ld(batch, BATCH_TIME_AT) + k, value)
            if not ones or k == 0:
                for d in range(diffs):
                    st(data, ld(batch, BATCH_DIFF_AT) + d * kept + k, ld(counts, word * diffs + d))
            k += 1
    free(counts)
    build_index(batch, 0)
    return batch


@inner
def _pivots(job, n, parts):
    """A block of the words that begin all parts but the first, from a sample."""
    sample = SAMPLE_EACH * parts + 1
    words = alloc(sample)
    others = alloc(sample)
    for k in range(sample):
        source, row, _ = _block(job, k * (n - 1) // (sample - 1))
        _pack_block(job, source, row, 1, words, k)
    flipped = radix_sort(words, 0, others, 0, 0, sample, 63)
    pivots = alloc_with(parts - 1, EVER)
    for k in range(1, parts):
        st(pivots, k - 1, ld(others if flipped != 0 else words, k * sample // parts))
    free(words)
    free(others)
    return pivots


@inner
def _pack_parts(team, jobs, n):
    """Pack with a team; afterwards each job knows where its words of each part go, and which part it sorts."""
    parts = size_of(jobs)
    pivots = _pivots(ld(jobs, 0), n, parts)
    for k in range(parts):
        st(ld(jobs, k), PACKED_PIVOTS, pivots)
        st(ld(jobs, k), PACKED_PARTS, zeros(parts))
    _run(team, PHASE_PACK, ld(jobs, 0), jobs)
    at = 0
    for part in range(parts):
        st(ld(jobs, part), PACKED_START, at)
        for k in range(parts):
            counts = ld(ld(jobs, k), PACKED_PARTS)
            more = ld(counts, part)
            st(counts, part, at)
            at += more
        st(ld(jobs, part), PACKED_SIZE, at - ld(ld(jobs, part), PACKED_START))


@inner
def _same_words(job, jobs):
    """Whether all jobs have their sorted words in one block."""
    if jobs != 0:
        for k in range(1, size_of(jobs)):
            if ld(ld(jobs, k), PACKED_WORDS) != ld(job, PACKED_WORDS):
                return False
    return True


@inner
def _free_jobs(job, jobs):
    if jobs != 0:
        free(ld(job, PACKED_PIVOTS))
        for k in range(1, size_of(jobs)):
            free(ld(ld(jobs, k), PACKED_SUMS))
            free(ld(ld(jobs, k), PACKED_PARTS))
            free(ld(jobs, k))
        free(jobs)
    free(ld(job, PACKED_SUMS))
    free(ld(job, PACKED_PARTS))
    free(job)


@inner
def _from_words(job, jobs, cols):
    """The batch of the jobs' sorted words; 0 if there are none."""
    kept = ld(job, PACKED_KEPT)
    ones = ld(job, PACKED_ONES) != 0
    if jobs != 0:
        for k in range(1, size_of(jobs)):
            st(ld(jobs, k), PACKED_TARGET_ROW, kept)
            kept += ld(ld(jobs, k), PACKED_KEPT)
            ones = ones and ld(ld(jobs, k), PACKED_ONES) != 0
    if kept == 0:
        return 0
    one_time = ld(job, PACKED_RECORD_WORDS + 2 * (ld(job, PACKED_WIDTH) + 1) + 2 * cols + 1) == 0
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
    job = _new_job(source, at, row_step, col_step, 0, n // members(team), scanned, width, diffs)
    jobs = 0
    if team != 0:
        jobs = new_shares(team)
        st(jobs, 0, job)
        for k in range(1, members(team)):
            first = n * k // members(team)
            last = n * (k + 1) // members(team)
            st(jobs, k, _new_job(source, at, row_step, col_step, first, last, scanned, width, diffs))
    _set(job, jobs, PACKED_CHAINED, 1 if consume == CHAIN else 0)
    _run(team, PHASE_SCAN, job, jobs)
    bits = _measure(job, jobs, time)
    if diffs == 1 and n > MERGE_SORT_WORDS and _all_ones(job, jobs):
        _set(job, jobs, PACKED_STORED, 0)
    per = max(diffs, 1)
    dense = bits < 40 and (per << bits) * members(team) <= (2 * n if jobs == 0 else 4 * n)
    if bits > 63 or (diffs > 1 and not dense):
        _free_jobs(job, jobs)
        return TOO_WIDE
    if dense:
        for k in range(members(team)):
            st(job if k == 0 else ld(jobs, k), PACKED_COUNTS, zeros(per << bits))
        _run(team, PHASE_TALLY, job, jobs)
        _consume(source, consume)
        batch = _from_table(job, jobs, bits, per, cols)
        _free_jobs(job, jobs)
        return batch
    words = alloc(n)
    payload = alloc(n) if ld(job, PACKED_STORED) != 0 else 0
    _set(job, jobs, PACKED_WORDS, words)
    _set(job, jobs, PACKED_PAYLOAD, payload)
    st(job, PACKED_SIZE, n)
    if jobs != 0:
        _pack_parts(team, jobs, n)
    else:
        _pack_all(job)
    _consume(source, consume)
    others = alloc(n)
    other_payload = alloc(n) if payload != 0 else 0
    _set(job, jobs, PACKED_OTHER_WORDS, others)
    _set(job, jobs, PACKED_OTHER_PAYLOAD, other_payload)
    if jobs != 0:
        _run(team, PHASE_BRING, job, jobs)
    _run(team, PHASE_SORT, job, jobs)
    if _same_words(job, jobs):
        if ld(job, PACKED_WORDS) == words:
            free(others)
            others = 0
        else:
            free(words)
            words = 0
    batch = _from_words(job, jobs, cols)
    if batch != 0:
        _set(job, jobs, PACKED_TARGET, batch)
        _run(team, PHASE_UNPACK, job, jobs)
    free(words)
    free(others)
    free(payload)
    free(other_payload)
    _free_jobs(job, jobs)
    if batch != 0:
        build_index(batch, team)
    return batch
