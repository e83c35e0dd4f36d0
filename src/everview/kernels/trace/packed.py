"""Sorting many rows: those that fit into one word here, others in `wide_sort`.

If the ranges of all columns and of the time together need no more than 63 bits, which is the common case, a row is
*packed* into one word (see `row_packing`), and sorting rows is sorting words. Three things make it fast:

- If there are about as many possible words as rows, nothing is sorted: the diffs are added up in a table with a place
  for every word (group-by sums, the distinct nodes of edges).
- If all diffs are 1, words are sorted without payload.
- The source can be given back (`consume`) as soon as its rows are packed: the memory of the unsorted rows is then used
  again for sorting.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared, task
from everview.kernels.memory import alloc, copy_words, free, ld, size_of, st, zeros
from everview.kernels.run.step import STEP_SPLIT, STEP_TEAM
from everview.kernels.sums import beyond, must_fit, plus
from everview.kernels.threads.thread_pool import members
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_DIFF_AT, BATCH_DIFF_MASK, BATCH_TIME_AT, new_batch
from everview.kernels.trace.buckets import build_index
from everview.kernels.trace.radix import MERGE_SORT_WORDS, radix_sort, sort_pairs
from everview.kernels.trace.row_packing import (
    CHAIN,
    PACK_ROWS,
    PACKED_AT,
    PACKED_COL_STEP,
    PACKED_COUNTS,
    PACKED_FIRST,
    PACKED_KEPT,
    PACKED_LAST,
    PACKED_ONES,
    PACKED_OTHER_PAYLOAD,
    PACKED_OTHER_WORDS,
    PACKED_PAYLOAD,
    PACKED_PHASE,
    PACKED_RECORD_WORDS,
    PACKED_ROW_STEP,
    PACKED_SIZE,
    PACKED_SOURCE,
    PACKED_START,
    PACKED_STORED,
    PACKED_SUMS,
    PACKED_TARGET,
    PACKED_TARGET_ROW,
    PACKED_WIDTH,
    PACKED_WORDS,
    PHASE_BRING,
    PHASE_PACK,
    PHASE_SCAN,
    PHASE_SORT,
    PHASE_TALLY,
    PHASE_WRITE,
    block_of,
    bring,
    consume_source,
    free_jobs,
    limits,
    measure,
    pack_all,
    pack_block,
    pack_parts,
    run_phase,
    scan,
    set_all,
    start_jobs,
)
from everview.kernels.trace.wide_sort import sort_wide


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
        source, row, n = block_of(job, first)
        pack_block(job, source, row, n, block, 0)
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
        return scan(job)
    if phase == PHASE_TALLY:
        return _tally(job)
    if phase == PHASE_PACK:
        return pack_all(job)
    if phase == PHASE_BRING:
        return bring(job)
    if phase == PHASE_SORT:
        return _sort_part(job)
    return _unpack(job)


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
def _same_words(job, jobs):
    """Whether all jobs have their sorted words in one block."""
    if jobs != 0:
        for k in range(1, size_of(jobs)):
            if ld(ld(jobs, k), PACKED_WORDS) != ld(job, PACKED_WORDS):
                return False
    return True


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
def _sort_words(job, jobs, pool, n, cols, consume):
    """A batch of rows that fit into words; 0 if they cancel out. The jobs are freed."""
    words = alloc(n)
    payload = alloc(n) if ld(job, PACKED_STORED) != 0 else 0
    set_all(job, jobs, PACKED_WORDS, words)
    set_all(job, jobs, PACKED_PAYLOAD, payload)
    st(job, PACKED_SIZE, n)
    if jobs != 0:
        pack_parts(pool, _work(), jobs, n)
    else:
        pack_all(job)
    consume_source(ld(job, PACKED_SOURCE), consume)
    others = alloc(n)
    other_payload = alloc(n) if payload != 0 else 0
    set_all(job, jobs, PACKED_OTHER_WORDS, others)
    set_all(job, jobs, PACKED_OTHER_PAYLOAD, other_payload)
    if jobs != 0:
        run_phase(pool, _work(), PHASE_BRING, job, jobs)
    run_phase(pool, _work(), PHASE_SORT, job, jobs)
    if _same_words(job, jobs):
        if ld(job, PACKED_WORDS) == words:
            free(others)
            others = 0
        else:
            free(words)
            words = 0
    batch = _from_words(job, jobs, cols)
    if batch != 0:
        set_all(job, jobs, PACKED_TARGET, batch)
        run_phase(pool, _work(), PHASE_WRITE, job, jobs)
    free(words)
    free(others)
    free(payload)
    free(other_payload)
    free_jobs(job, jobs)
    if batch != 0:
        build_index(batch, pool)
    return batch


@shared
def sort_many(source, at, row_step, col_step, n, cols, diffs, time, consume, step):
    """A batch of n > 0 unsorted rows; 0 if they cancel out. The source's diffs may be overwritten.

    `diffs` 0: the source has neither times nor diffs, all rows are at `time` and count once. `consume`: the source is
    a block that is no longer needed; CHAIN: a chain of them. `step`: the block of the step under way, which may have a
    pool; or 0.
    """
    pool = 0
    if step != 0 and n >= ld(step, STEP_SPLIT):
        pool = ld(step, STEP_TEAM)
    job, jobs = start_jobs(pool, source, at, row_step, col_step, n, cols, diffs, 1 if consume == CHAIN else 0)
    run_phase(pool, _work(), PHASE_SCAN, job, jobs)
    bits = measure(job, jobs, time)
    per = max(diffs, 1)
    dense = bits < 40 and (per << bits) * members(pool) <= (2 * n if jobs == 0 else 4 * n)
    if bits > 63 or (diffs > 1 and not dense):
        return sort_wide(job, jobs, pool, n, cols, diffs, time, consume)
    if diffs == 1 and n > MERGE_SORT_WORDS:
        low, high = limits(job, jobs, cols + 1)
        if low == 1 and high == 1:
            set_all(job, jobs, PACKED_STORED, 0)
    if not dense:
        return _sort_words(job, jobs, pool, n, cols, consume)
    for k in range(members(pool)):
        st(job if k == 0 else ld(jobs, k), PACKED_COUNTS, zeros(per << bits))
    run_phase(pool, _work(), PHASE_TALLY, job, jobs)
    consume_source(source, consume)
    batch = _from_table(job, jobs, bits, per, cols)
    free_jobs(job, jobs)
    return batch
