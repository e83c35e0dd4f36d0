"""A second thread that large pieces of work are shared with.

The executor runs operators one after the other; where an operator has many rows before it, it cuts them in two (or in
many pieces that are taken one by one) and runs the same *task* here and on the helper. Nobody else notices: when
the operator returns, all is done. Operators with few rows never ask, because waking a thread takes as long as
thousands of rows.

The helper is a Python thread that stays inside `serve`, without the GIL, asleep on a lock of Python's own (they
need no GIL either, and exist on every platform). A step's block names the thread and the number of rows from which
sharing pays (`SPLIT`); without a thread that is 0.

Hazards: a task must write only to blocks that the other half does not touch (see `private` for streams and agendas) and
must not ask for the thread itself. Both halves may allocate.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from everview.kernels.build.native import POINTER, entry, external, inner, primitive
from everview.kernels.guarding import HALF
from everview.kernels.leaving import attempt, leave
from everview.kernels.memory import EVER, add_atomically, alloc_with, call_number, free, ld, st

HELPER_JOB, HELPER_DONE, HELPER_TASK, HELPER_ARGUMENT, HELPER_CALL, HELPER_LEFT, HELPER_QUIT, HELPER_WORDS = range(8)
"""HELPER_JOB and HELPER_DONE are locks that are held while there is nothing to do and nothing done. HELPER_CALL: the
number of the call that the task is a part of; HELPER_LEFT: the code with which it left, see `leaving`.
"""

SHARE_TAKEN = 0
"""The word of a share with the block that counts the chunks taken."""

SHARED_CHUNKS = 16  # a task that takes its work piece by piece makes about this many of it


@primitive("void(int64)")
def _acquire(builder: Any, lock: Any) -> None:
    function = external(builder, "PyThread_acquire_lock", HALF, POINTER, HALF)
    builder.call(function, [builder.inttoptr(lock, POINTER), ir.Constant(HALF, 1)])


@primitive("void(int64)")
def _release(builder: Any, lock: Any) -> None:
    function = external(builder, "PyThread_release_lock", ir.VoidType(), POINTER)
    builder.call(function, [builder.inttoptr(lock, POINTER)])


@inner
def both(thread, task, mine, theirs):
    """Run task(mine) here and task(theirs) on the helper; returns when both are done, and leaves if one did."""
    number = call_number()
    st(thread, HELPER_TASK, task)
    st(thread, HELPER_ARGUMENT, theirs)
    st(thread, HELPER_CALL, number)
    _release(ld(thread, HELPER_JOB))
    code = attempt(task, mine, number)
    _acquire(ld(thread, HELPER_DONE))
    if code == 0:
        code = ld(thread, HELPER_LEFT)
    if code != 0:
        leave(code)


@inner
def both_by_chunks(thread, task, mine, theirs):
    """`both`, where each takes the next chunk of the work until all are taken (`next_chunk`). The first word of both
    shares is for the counter; they are freed here.
    """
    taken = alloc_with(1, EVER)
    st(taken, 0, 0)
    st(mine, SHARE_TAKEN, taken)
    st(theirs, SHARE_TAKEN, taken)
    both(thread, task, mine, theirs)
    free(mine)
    free(theirs)
    free(taken)


@inner
def next_chunk(share, rows):
    """Where the next chunk of so many rows begins that nobody has taken."""
    return rows * add_atomically(ld(share, SHARE_TAKEN), 0, 1)


@entry("int")
def serve(thread):
    """The helper's life: do what the other thread asks for until told to quit."""
    while True:
        _acquire(ld(thread, HELPER_JOB))
        if ld(thread, HELPER_QUIT) != 0:
            return 0
        st(thread, HELPER_LEFT, attempt(ld(thread, HELPER_TASK), ld(thread, HELPER_ARGUMENT), ld(thread, HELPER_CALL)))
        _release(ld(thread, HELPER_DONE))


@entry("int")
def dismiss(thread):
    """Let the helper go."""
    st(thread, HELPER_QUIT, 1)
    _release(ld(thread, HELPER_JOB))
    return 0
