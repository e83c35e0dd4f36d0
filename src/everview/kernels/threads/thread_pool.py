"""Helper threads that share large pieces of work.

The executor runs operators one after the other; an operator with many input rows splits them into a *share* for each
member of the pool (or into many chunks that are taken one by one) and runs the same *task* here and on the helpers.
When the operator returns, everything is done. Operators with few rows do not share, because waking a thread takes as
long as thousands of rows.

A helper is a Python thread that stays inside `serve`, without the GIL, blocked on a Python lock (which needs no GIL
either, and exists on every platform). A step's block contains the pool and the number of rows from which sharing pays
(`SPLIT`); without helpers the pool is 0.

Hazards: a task must write only to blocks that no other share touches (see `private_copy` for streams and agendas) and
must not use the pool itself. All may allocate.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from everview.kernels.build.native import POINTER, entry, external, inner, primitive, shared
from everview.kernels.early_exit import attempt, leave
from everview.kernels.guarded_calls import HALF
from everview.kernels.memory import EVER, add_atomically, alloc_with, call_number, free, ld, st

HELPER_JOB, HELPER_DONE, HELPER_TASK, HELPER_ARGUMENT, HELPER_CALL, HELPER_LEFT, HELPER_QUIT, HELPER_WORDS = range(8)
"""HELPER_JOB and HELPER_DONE are locks that are held while there is nothing to do and nothing done. HELPER_CALL: the
number of the call that the task is a part of; HELPER_LEFT: the code with which it left, see `leaving`.
"""

TEAM_SIZE = 0
"""The word of a pool with the number of its members; the helpers' blocks stand behind it, one less than that."""

SHARE_TAKEN = 0
"""The word of a share with the block that counts the chunks taken."""

TAKEN_CHUNKS, TAKEN_MEMBERS, TAKEN_WORDS = range(3)

CHUNKS_EACH = 8  # work that is taken chunk by chunk is cut into about this many for each member


@primitive("void(int64)")
def _acquire(builder: Any, lock: Any) -> None:
    function = external(builder, "PyThread_acquire_lock", HALF, POINTER, HALF)
    builder.call(function, [builder.inttoptr(lock, POINTER), ir.Constant(HALF, 1)])


@primitive("void(int64)")
def _release(builder: Any, lock: Any) -> None:
    function = external(builder, "PyThread_release_lock", ir.VoidType(), POINTER)
    builder.call(function, [builder.inttoptr(lock, POINTER)])


@inner
def members(pool):
    """How many share the work, whoever asks included."""
    return ld(pool, TEAM_SIZE) if pool != 0 else 1


@inner
def _ask(helper, task, argument, number):
    st(helper, HELPER_TASK, task)
    st(helper, HELPER_ARGUMENT, argument)
    st(helper, HELPER_CALL, number)
    _release(ld(helper, HELPER_JOB))


@inner
def _wait(pool, code):
    """Until all helpers are done; leaves if one of them did, or with `code`."""
    for k in range(1, ld(pool, TEAM_SIZE)):
        _acquire(ld(ld(pool, k), HELPER_DONE))
        if code == 0:
            code = ld(ld(pool, k), HELPER_LEFT)
    if code != 0:
        leave(code)


@shared
def everyone(pool, task, argument):
    """Run task(argument) on every member; returns when all are done, and leaves if one did."""
    number = call_number()
    for k in range(1, ld(pool, TEAM_SIZE)):
        _ask(ld(pool, k), task, argument, number)
    _wait(pool, attempt(task, argument, number))
    return 0


@shared
def together(pool, task, shares):
    """Run the task on every member, each with its share of a block of them; the first is done here."""
    number = call_number()
    for k in range(1, ld(pool, TEAM_SIZE)):
        _ask(ld(pool, k), task, ld(shares, k), number)
    _wait(pool, attempt(task, ld(shares, 0), number))
    return 0


@shared
def by_chunks(pool, task, shares):
    """`together`, where each takes the next chunk of the work until all are taken (`next_chunk`). The first word of
    every share is for the counter.
    """
    taken = alloc_with(TAKEN_WORDS, EVER)
    st(taken, TAKEN_CHUNKS, 0)
    st(taken, TAKEN_MEMBERS, ld(pool, TEAM_SIZE))
    for k in range(ld(pool, TEAM_SIZE)):
        st(ld(shares, k), SHARE_TAKEN, taken)
    together(pool, task, shares)
    free(taken)
    return 0


@inner
def new_shares(pool):
    """A block for a share of every member."""
    return alloc_with(ld(pool, TEAM_SIZE), EVER)


@inner
def free_shares(pool, shares):
    """Give a block of shares back, and them."""
    for k in range(ld(pool, TEAM_SIZE)):
        free(ld(shares, k))
    free(shares)


@inner
def chunk_rows(share, rows, least):
    """How many of so many rows make a chunk."""
    return max(rows // (CHUNKS_EACH * ld(ld(share, SHARE_TAKEN), TAKEN_MEMBERS)), least)


@inner
def next_chunk(share, rows):
    """Where the next chunk of so many rows begins that nobody has taken."""
    return rows * add_atomically(ld(share, SHARE_TAKEN), TAKEN_CHUNKS, 1)


@entry("int")
def serve(helper):
    """A helper's life: do what it is asked for until told to quit."""
    while True:
        _acquire(ld(helper, HELPER_JOB))
        if ld(helper, HELPER_QUIT) != 0:
            return 0
        st(helper, HELPER_LEFT, attempt(ld(helper, HELPER_TASK), ld(helper, HELPER_ARGUMENT), ld(helper, HELPER_CALL)))
        _release(ld(helper, HELPER_DONE))


@entry("int")
def dismiss(helper):
    """Let a helper go."""
    st(helper, HELPER_QUIT, 1)
    _release(ld(helper, HELPER_JOB))
    return 0
