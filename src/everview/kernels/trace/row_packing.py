"""Packing rows into words, alone or with a pool: what both ways of sorting rows begin with.

A *job* is one thread's part of the rows. It finds the limits of the columns (`scan`), from which follows how many bits
each needs (`measure`); then it packs each row into one word (`pack_all`), the first column highest, so that sorting
words sorts rows. Rows are read a block at a time, so that all their columns are read while they are in the cache.

With a pool, each member scans and packs a range of the rows, and counts how many of its words belong to each *part*, as
parted by *pivots* from a sample (`pack_parts`). It moves them to where their parts are put together (`bring`), and
later sorts one part. The sorted parts follow each other, and equal rows are always in one part.
"""

from __future__ import annotations

from everview.kernels.build.native import inner
from everview.kernels.memory import EVER, alloc, alloc_with, call_pointer, free, ld, size_of, st, zeros
from everview.kernels.operators.batcher import BUFFER_NEXT, free_chain
from everview.kernels.threads.thread_pool import members, new_shares, together
from everview.kernels.trace.radix import radix_sort

PHASE_SCAN, PHASE_TALLY, PHASE_PACK, PHASE_BRING, PHASE_SORT, PHASE_WRITE = range(6)
"""Phases of the work. Each way of sorting has one compiled task for all of its phases, because each task costs its own
time to load at the start.
"""

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
    PACKED_NUMBERED,
    PACKED_CUT,
    PACKED_DROPPED,
    PACKED_TIES_FROM,
    PACKED_SIGNED,
    PACKED_RECORD_WORDS,
) = range(31)
"""A job: one thread's part. Word c of source row i is word AT + i * PACKED_ROW_STEP + c * PACKED_COL_STEP of
PACKED_SOURCE; the job reads rows PACKED_FIRST to PACKED_LAST (of all buffers, if they are PACKED_CHAINED), later
sorts PACKED_SIZE words from PACKED_START. PACKED_PIVOTS: the words with which all parts but the first begin;
PACKED_PARTS says how many words the job has in each part, then where the next of them goes. PACKED_STORED diffs stand
behind the PACKED_WIDTH columns (time included); 0: all are 1. PACKED_COUNTS is the table of diffs by word;
PACKED_SUMS the payload of words that turned out to be there more than once. Behind these words stand two for each
column and the first diff, its least and its largest value, and then two more for each, its least value in all rows
and the bits it needs.

The rest is for rows that do not fit into a word (see `wide_sort`). PACKED_NUMBERED: the payload is the number of the
row. Of column PACKED_CUT (-1: none) the lowest PACKED_DROPPED bits are left out of the word. Rows with equal words
differ from column PACKED_TIES_FROM on, if at all. PACKED_SIGNED: a single row may have a diff of 0.
"""

PACK_ROWS = 256  # rows that are packed together, so that all their columns are read while they are in the cache
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
def block_of(job, first):
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
def scan(job):
    """Find the limits of the job's columns."""
    row_step = ld(job, PACKED_ROW_STEP)
    for c in range(ld(job, PACKED_SCANNED)):
        st(job, PACKED_RECORD_WORDS + 2 * c, 2**63 - 1)
        st(job, PACKED_RECORD_WORDS + 2 * c + 1, -(2**63))
    first = ld(job, PACKED_FIRST)
    while first < ld(job, PACKED_LAST):
        source, row, n = block_of(job, first)
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
def pack_block(job, source, first, n, target, at):
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
            if c == ld(job, PACKED_CUT):
                drop = ld(job, PACKED_DROPPED) - 1  # of halves, because the difference may not fit
                for i in range(n):
                    x = ((ld(source, w + i * row_step) >> 1) - (low >> 1)) >> drop
                    st(target, at + i, (ld(target, at + i) << shift) | x)
            else:
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
def pack_all(job):
    """Pack the job's rows in their order; with pivots, count how many words are in each part."""
    words = ld(job, PACKED_WORDS)
    payload = ld(job, PACKED_PAYLOAD)
    row_step = ld(job, PACKED_ROW_STEP)
    pivots = ld(job, PACKED_PIVOTS)
    parts = ld(job, PACKED_PARTS)
    n_parts = size_of(parts) if pivots != 0 else 0
    first = ld(job, PACKED_FIRST)
    while first < ld(job, PACKED_LAST):
        source, row, n = block_of(job, first)
        pack_block(job, source, row, n, words, first)
        if ld(job, PACKED_NUMBERED) != 0:
            for i in range(n):
                st(payload, first + i, first + i)
        elif payload != 0:
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
def bring(job):
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
def new_job(source, at, row_step, col_step, first, last, scanned, width, stored):
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
    st(job, PACKED_CUT, -1)
    return job


@inner
def set_all(job, jobs, field, value):
    st(job, field, value)
    if jobs != 0:
        for k in range(1, size_of(jobs)):
            st(ld(jobs, k), field, value)


@inner
def run_phase(pool, work, phase, job, jobs):
    """Do a phase of all jobs with the task `work`: of `job` alone, or of a block of them, whose first it is."""
    set_all(job, jobs, PACKED_PHASE, phase)
    if jobs != 0:
        together(pool, work, jobs)
    else:
        call_pointer(work, job)


@inner
def start_jobs(pool, source, at, row_step, col_step, n, cols, diffs, chained):
    """(job, jobs): the first member's share of n unsorted rows, and a block of all shares (0: there is no pool).
    `diffs` 0: the source has neither times nor diffs.
    """
    width = cols + 1
    scanned = cols if diffs == 0 else width + (1 if diffs == 1 else 0)
    job = new_job(source, at, row_step, col_step, 0, n // members(pool), scanned, width, diffs)
    jobs = 0
    if pool != 0:
        jobs = new_shares(pool)
        st(jobs, 0, job)
        for k in range(1, members(pool)):
            first = n * k // members(pool)
            last = n * (k + 1) // members(pool)
            st(jobs, k, new_job(source, at, row_step, col_step, first, last, scanned, width, diffs))
    set_all(job, jobs, PACKED_CHAINED, chained)
    return job, jobs


@inner
def limits(job, jobs, c):
    """Least and largest value of a scanned column; a job without rows has found none."""
    low = ld(job, PACKED_RECORD_WORDS + 2 * c)
    high = ld(job, PACKED_RECORD_WORDS + 2 * c + 1)
    if jobs != 0:
        for k in range(1, size_of(jobs)):
            low = min(low, ld(ld(jobs, k), PACKED_RECORD_WORDS + 2 * c))
            high = max(high, ld(ld(jobs, k), PACKED_RECORD_WORDS + 2 * c + 1))
    return low, high


@inner
def measure(job, jobs, time):
    """Bits of every column and of all together, from the limits that were found. Rows without stored times are at
    `time`.
    """
    width = ld(job, PACKED_WIDTH)
    total = 0
    for c in range(width):
        low = time
        high = time
        if c < ld(job, PACKED_SCANNED):
            low, high = limits(job, jobs, c)
        b = bits_between(low, high)
        total += b
        at = PACKED_RECORD_WORDS + 2 * (width + 1) + 2 * c
        set_all(job, jobs, at, low)
        set_all(job, jobs, at + 1, b)
    return total


@inner
def _pivots(job, n, parts):
    """A block of the words that begin all parts but the first, from a sample."""
    sample = SAMPLE_EACH * parts + 1
    words = alloc(sample)
    others = alloc(sample)
    for k in range(sample):
        source, row, _ = block_of(job, k * (n - 1) // (sample - 1))
        pack_block(job, source, row, 1, words, k)
    flipped = radix_sort(words, 0, others, 0, 0, sample, 63)
    pivots = alloc_with(parts - 1, EVER)
    for k in range(1, parts):
        st(pivots, k - 1, ld(others if flipped != 0 else words, k * sample // parts))
    free(words)
    free(others)
    return pivots


@inner
def pack_parts(pool, work, jobs, n):
    """Pack with a pool; afterwards each job knows where its words of each part go, and which part it sorts."""
    parts = size_of(jobs)
    pivots = _pivots(ld(jobs, 0), n, parts)
    for k in range(parts):
        st(ld(jobs, k), PACKED_PIVOTS, pivots)
        st(ld(jobs, k), PACKED_PARTS, zeros(parts))
    run_phase(pool, work, PHASE_PACK, ld(jobs, 0), jobs)
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
def free_jobs(job, jobs):
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
def consume_source(source, consume):
    if consume == CHAIN:
        free_chain(source)
    elif consume != 0:
        free(source)
