"""Images: batches as plain words, for files and messages.

An image is seven words (rows, columns, diffs per row, whether all times are equal and which, whether all diffs are 1)
and then the columns, the times unless equal, the diffs unless 1. `pack` writes the images of a step's changes to many
traces, each behind the number of its trace, into one array; `unpack` appends such an array to another process's
traces, as if the step had been run there. That is all a replica needs, because between steps every operator's state
is in its trace.

`adopt` appends a batch whose columns are in foreign memory (a mapped file): nothing is copied, and `free_batch` does
not free the columns. Hazards: the owner must outlive the trace, and the memory must be writable (map it privately),
because advancing times rewrites them in place. The debug build copies, since it can only check its own blocks. `lie_at`
does the same for a batch that a step has just created and that was then written to a file: its own memory is freed.
Batches in files are not merged with others here (`trace.settle`).
"""

from __future__ import annotations

from everview.kernels.build.native import DEBUG, entry, inner
from everview.kernels.memory import alloc, ld, raw_load, raw_store, st
from everview.kernels.run.executor import (
    EXECUTOR_STEP,
    reset_agendas,
    settle_if_possible,
    touch_all,
    touched,
    touched_trace,
)
from everview.kernels.run.step import STEP_READY
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_COLS,
    BATCH_DATA,
    BATCH_DIFF_AT,
    BATCH_DIFF_MASK,
    BATCH_DIFFS,
    BATCH_MAPPED,
    BATCH_ROWS,
    BATCH_TIME_AT,
    BATCH_TIME_MASK,
    BATCH_WORDS,
    batch_words,
    diff_at,
    free_batch,
    move_index,
    new_batch,
    no_index,
    time_at,
)
from everview.kernels.trace.buckets import build_index
from everview.kernels.trace.merge import MERGE_RESULT
from everview.kernels.trace.trace import (
    TRACE_COUNT,
    TRACE_MERGES,
    TRACE_OLD,
    TRACE_TABLE,
    append_committed,
    clear_trace,
    fold,
    publish,
)

IMAGE_HEADER_WORDS = 7


@inner
def fresh(trace):
    """What the step under way, folded, adds to a trace; 0 if nothing."""
    if trace == 0 or ld(trace, TRACE_COUNT) == ld(trace, TRACE_OLD):
        return 0
    return ld(ld(trace, TRACE_TABLE), ld(trace, TRACE_OLD))


@inner
def image_words(batch):
    """Words of a batch's image."""
    rows = ld(batch, BATCH_ROWS)
    words = IMAGE_HEADER_WORDS + rows * ld(batch, BATCH_COLS)
    if ld(batch, BATCH_TIME_MASK) != 0:
        words += rows
    if ld(batch, BATCH_DIFF_MASK) != 0:
        words += rows * ld(batch, BATCH_DIFFS)
    return words


@inner
def _write_header(batch, out, at):
    data = ld(batch, BATCH_DATA)
    one_time = ld(batch, BATCH_TIME_MASK) == 0
    ones = ld(batch, BATCH_DIFF_MASK) == 0
    raw_store(out, at, ld(batch, BATCH_ROWS))
    raw_store(out, at + 1, ld(batch, BATCH_COLS))
    raw_store(out, at + 2, ld(batch, BATCH_DIFFS))
    raw_store(out, at + 3, 1 if one_time else 0)
    raw_store(out, at + 4, time_at(batch, data, 0) if one_time else 0)
    raw_store(out, at + 5, 1 if ones else 0)
    raw_store(out, at + 6, diff_at(batch, data, 0, 0) if ones else 0)


@inner
def write_image(batch, out, at):
    """Write a batch's image from word `at` on; gives the word behind it."""
    rows = ld(batch, BATCH_ROWS)
    cols = ld(batch, BATCH_COLS)
    diffs = ld(batch, BATCH_DIFFS)
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
    one_time = ld(batch, BATCH_TIME_MASK) == 0
    ones = ld(batch, BATCH_DIFF_MASK) == 0
    _write_header(batch, out, at)
    at += IMAGE_HEADER_WORDS
    for c in range(cols):
        for i in range(rows):
            raw_store(out, at + i, ld(data, c * cap + i))
        at += rows
    if not one_time:
        for i in range(rows):
            raw_store(out, at + i, time_at(batch, data, i))
        at += rows
    if not ones:
        for d in range(diffs):
            for i in range(rows):
                raw_store(out, at + i, diff_at(batch, data, i, d))
            at += rows
    return at


@inner
def fold_all(session, time):
    """Fold what the step added to each trace into one batch; `time` is the step's last epoch."""
    if ld(ld(session, EXECUTOR_STEP), STEP_READY) == 0:
        touch_all(session)
    for k in range(touched(session)):
        fold(touched_trace(session, k), time)


@entry("int", "int")
def fold_step(session, time):
    """The same, for whoever reads it from outside."""
    fold_all(session, time)
    return 0


@entry("int")
def settle_step(session):
    """The folded step is complete: make it part of the traces."""
    for k in range(touched(session)):
        publish(touched_trace(session, k))
    reset_agendas(session)
    settle_if_possible(session, 0)
    return 0


@entry("words", "int")
def packed_words(traces, n, limit):
    """Words that `pack` will write."""
    words = 0
    for i in range(n):
        batch = fresh(raw_load(traces, i))
        if batch != 0 and image_words(batch) <= limit:
            words += 1 + image_words(batch)
    return words


@entry("words", "int", "words")
def pack(traces, n, limit, out, _out):
    """Write the folded step's batch of every trace, each behind the trace's number; gives how many are over the
    limit.
    """
    at = 0
    large = 0
    for i in range(n):
        batch = fresh(raw_load(traces, i))
        if batch != 0:
            if image_words(batch) <= limit:
                raw_store(out, at, i)
                at = write_image(batch, out, at + 1)
            else:
                large += 1
    return large


@entry("int")
def fresh_words(trace):
    """Words of the image of what the folded step adds to a trace; 0 if it adds nothing."""
    batch = fresh(trace)
    return 0 if batch == 0 else image_words(batch)


@entry("int", "words")
def write_fresh(trace, out, _n):
    """Write the image of what the folded step adds to a trace."""
    return write_image(fresh(trace), out, 0)


@entry("int", "words")
def fresh_header(trace, out, _n):
    """Write the first words of the image of what the folded step adds to a trace; gives the address where the others
    lie, or 0 if they do not lie together.
    """
    batch = fresh(trace)
    _write_header(batch, out, 0)
    gap = (
        ld(batch, BATCH_TIME_MASK) == 0 and ld(batch, BATCH_DIFF_MASK) != 0
    )  # the time of all rows stands between columns and diffs
    return 0 if ld(batch, BATCH_CAP) != ld(batch, BATCH_ROWS) or gap else ld(batch, BATCH_DATA)


@entry("int", "int")
def stored_words(trace, i):
    """Words of the image of a trace's batch number `i`; 0 if there is none."""
    return 0 if i >= ld(trace, TRACE_COUNT) else image_words(ld(ld(trace, TRACE_TABLE), i))


@entry("int", "int", "words")
def write_stored(trace, i, out, _n):
    """Write the image of a trace's batch number `i`."""
    return write_image(ld(ld(trace, TRACE_TABLE), i), out, 0)


@inner
def _copied(words, at):
    """A batch with the contents of the image at word `at` of an array."""
    rows = raw_load(words, at)
    cols = raw_load(words, at + 1)
    diffs = raw_load(words, at + 2)
    one_time = raw_load(words, at + 3) != 0
    ones = raw_load(words, at + 5) != 0
    batch = new_batch(rows, cols, diffs, one_time, ones)
    data = ld(batch, BATCH_DATA)
    read = at + IMAGE_HEADER_WORDS
    for i in range(cols * rows):
        st(data, i, raw_load(words, read + i))
    read += cols * rows
    t = ld(batch, BATCH_TIME_AT)
    if one_time:
        st(data, t, raw_load(words, at + 4))
    else:
        for i in range(rows):
            st(data, t + i, raw_load(words, read + i))
        read += rows
    d = ld(batch, BATCH_DIFF_AT)
    if ones:
        st(data, d, raw_load(words, at + 6))
    else:
        for i in range(diffs * rows):
            st(data, d + i, raw_load(words, read + i))
    build_index(batch, 0)
    return batch


@entry("words", "words", "int")
def unpack(traces, _n, words, n, time):
    """Append packed batches to traces (an address per number, 0: not wanted here); `time` is the last epoch so far."""
    at = 0
    while at < n:
        trace = raw_load(traces, raw_load(words, at))
        rows = raw_load(words, at + 1)
        size = rows * raw_load(words, at + 2)
        size += 0 if raw_load(words, at + 4) != 0 else rows
        size += 0 if raw_load(words, at + 6) != 0 else rows * raw_load(words, at + 3)
        if trace != 0:
            append_committed(trace, _copied(words, at + 1), time)
        at += 1 + IMAGE_HEADER_WORDS + size
    return 0


@inner
def mapped_batch(address, header):
    """A batch whose columns lie at `address`, without index."""
    rows = raw_load(header, 0)
    cols = raw_load(header, 1)
    one_time = raw_load(header, 3) != 0
    ones = raw_load(header, 5) != 0
    batch = alloc(BATCH_WORDS + 2)
    st(batch, BATCH_ROWS, rows)
    st(batch, BATCH_COLS, cols)
    st(batch, BATCH_DIFFS, raw_load(header, 2))
    st(batch, BATCH_DATA, address)
    st(batch, BATCH_CAP, rows)
    at = cols * rows
    constants = (batch - address) // 8 + BATCH_WORDS  # words of the header, as seen from the columns
    st(batch, BATCH_WORDS, raw_load(header, 4))
    st(batch, BATCH_WORDS + 1, raw_load(header, 6))
    st(batch, BATCH_TIME_AT, constants if one_time else at)
    st(batch, BATCH_TIME_MASK, 0 if one_time else -1)
    at += 0 if one_time else rows
    st(batch, BATCH_DIFF_AT, constants + 1 if ones else at)
    st(batch, BATCH_DIFF_MASK, 0 if ones else -1)
    no_index(batch)
    st(batch, BATCH_MAPPED, 1)
    return batch


@entry("int", "int", "words", "int")
def adopt(trace, address, header, _n, time):
    """Append a batch whose columns lie at `address`, one after the other; `header` is its image's first words."""
    rows = raw_load(header, 0)
    cols = raw_load(header, 1)
    diffs = raw_load(header, 2)
    one_time = raw_load(header, 3) != 0
    ones = raw_load(header, 5) != 0
    if DEBUG:
        batch = new_batch(rows, cols, diffs, one_time, ones)
        data = ld(batch, BATCH_DATA)
        words = cols * rows
        for i in range(words):
            st(data, i, raw_load(address, i))
        st(data, ld(batch, BATCH_TIME_AT), raw_load(header, 4))
        if not one_time:
            for i in range(rows):
                st(data, ld(batch, BATCH_TIME_AT) + i, raw_load(address, words + i))
            words += rows
        st(data, ld(batch, BATCH_DIFF_AT), raw_load(header, 6))
        if not ones:
            for i in range(rows * diffs):
                st(data, ld(batch, BATCH_DIFF_AT) + i, raw_load(address, words + i))
    else:
        batch = mapped_batch(address, header)
    build_index(batch, 0)
    append_committed(trace, batch, time)
    return 0


@entry("int", "int", "words")
def lie_at(trace, address, header, _n):
    """What the folded step adds to a trace lies at `address` too: read it there, and give its own memory back."""
    if DEBUG:
        return 0
    own = fresh(trace)
    batch = mapped_batch(address, header)
    move_index(own, batch)
    free_batch(own)
    st(ld(trace, TRACE_TABLE), ld(trace, TRACE_OLD), batch)
    return 0


@entry("words", "words")
def owned(traces, n, out, _n):
    """For each trace (0: none) how many batches it has, and the words of its own memory that their columns take."""
    for i in range(n):
        trace = raw_load(traces, i)
        words = 0
        count = 0
        if trace != 0:
            count = ld(trace, TRACE_COUNT)
            for k in range(count):
                batch = ld(ld(trace, TRACE_TABLE), k)
                merge = ld(ld(trace, TRACE_MERGES), k)
                words += batch_words(batch) if ld(batch, BATCH_MAPPED) == 0 else 0
                words += batch_words(ld(merge, MERGE_RESULT)) if merge != 0 else 0
        raw_store(out, 2 * i, count)
        raw_store(out, 2 * i + 1, words)
    return 0


@entry("int")
def forget(trace):
    """Forget a trace's batches: they come again, from files."""
    return clear_trace(trace)
