"""VM programs over columns at arbitrary addresses.

A column is an address and optionally the address of row numbers (0: row i is word i). Joins and filters produce row
numbers; values are fetched only when a program reads them.
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner
from everview.kernels.expressions.vm import VM_ROWS, run
from everview.kernels.memory import alloc, free, ld, raw_load, raw_store, st
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_DATA,
    BATCH_DIFF_AT,
    BATCH_DIFF_MASK,
    BATCH_ROWS,
    BATCH_TIME_AT,
    BATCH_TIME_MASK,
)
from everview.kernels.trace.trace import TRACE_OLD, TRACE_TABLE

FOUND_ROWS, FOUND_CAP, FOUND_DATA, FOUND_TIMES, FOUND_DIFFS, FOUND_BATCH, FOUND_WORDS = range(7)
"""What `batches_of` tells of each batch. FOUND_TIMES, FOUND_DIFFS: the word where they begin, or -1 minus it if one
word says it for all rows.
"""


@entry("int", "words", brief=True)
def batches_of(trace, out, room):
    """The locations of the committed batches of a trace; returns how many there are, even if there is no room for
    all."""
    table = ld(trace, TRACE_TABLE)
    n = ld(trace, TRACE_OLD)
    if n * FOUND_WORDS > room:
        return n
    for b in range(n):
        batch = ld(table, b)
        at = b * FOUND_WORDS
        times, diffs = ld(batch, BATCH_TIME_AT), ld(batch, BATCH_DIFF_AT)
        raw_store(out, at + FOUND_ROWS, ld(batch, BATCH_ROWS))
        raw_store(out, at + FOUND_CAP, ld(batch, BATCH_CAP))
        raw_store(out, at + FOUND_DATA, ld(batch, BATCH_DATA))
        raw_store(out, at + FOUND_TIMES, times if ld(batch, BATCH_TIME_MASK) != 0 else -1 - times)
        raw_store(out, at + FOUND_DIFFS, diffs if ld(batch, BATCH_DIFF_MASK) != 0 else -1 - diffs)
        raw_store(out, at + FOUND_BATCH, batch)
    return n


@inner
def _fetch(regs, r, address, places, start, n):
    """Rows start .. start + n of a column into a register."""
    if places == 0:
        for i in range(n):
            st(regs, r * VM_ROWS + i, raw_load(address, start + i))
    else:
        for i in range(n):
            st(regs, r * VM_ROWS + i, raw_load(address, raw_load(places, start + i)))


@inner
def _copied(code, words):
    program = alloc(max(words, 1))
    for w in range(words):
        st(program, w, raw_load(code, w))
    return program


@entry("matrix", "int", "words", "words", "words", "int", "matrix", lasting=False)
def compute(
    code, instructions, words, registers, addresses, cols, places, _places, wanted, n_wanted, error, out, _o, n
):
    """Run a program over n rows; the wanted registers become rows of `out`. Returns the number of failed rows."""
    regs = alloc(registers * VM_ROWS)
    program = _copied(code, instructions * words)
    failed = 0
    for start in range(0, n, VM_ROWS):
        some = min(VM_ROWS, n - start)
        for r in range(cols):
            if raw_load(addresses, r) != 0:
                _fetch(regs, r, raw_load(addresses, r), raw_load(places, r), start, some)
        run(program, instructions, regs, some)
        if error >= 0:
            for i in range(some):
                failed += ld(regs, error * VM_ROWS + i) != 0
        for k in range(n_wanted):
            register = raw_load(wanted, k) * VM_ROWS
            for i in range(some):
                raw_store(out, k * n + start + i, ld(regs, register + i))
    free(program)
    free(regs)
    return failed


@entry("matrix", "int", "words", "words", "int", "int", "words", lasting=False)
def select(code, instructions, words, registers, addresses, cols, places, _places, keep, error, out, n):
    """The numbers of the rows, of n, for which register `keep` is 1; returns how many, or -1 if a row failed."""
    regs = alloc(registers * VM_ROWS)
    program = _copied(code, instructions * words)
    found = 0
    failed = 0
    for start in range(0, n, VM_ROWS):
        some = min(VM_ROWS, n - start)
        for r in range(cols):
            if raw_load(addresses, r) != 0:
                _fetch(regs, r, raw_load(addresses, r), raw_load(places, r), start, some)
        run(program, instructions, regs, some)
        if error >= 0:
            for i in range(some):
                failed += ld(regs, error * VM_ROWS + i) != 0
        for i in range(some):
            raw_store(out, found, start + i)
            found += ld(regs, keep * VM_ROWS + i) == 1
    free(program)
    free(regs)
    return -1 if failed != 0 else found
