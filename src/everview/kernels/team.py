"""A second thread that large pieces of work are shared with.

The executor runs operators one after the other; where an operator has many rows before it, it cuts them in two (or in
many pieces that are taken one by one) and runs the same *task* here and on the helper. Nobody else notices: when
the operator returns, all is done. Operators with few rows never ask, because waking a thread takes as long as
thousands of rows.

The helper is a Python thread that stays inside `serve`, without the GIL, asleep on a lock of Python's own (they
need no GIL either, and exist on every platform). A step's block names the team and the number of rows from which
sharing pays (`SPLIT`); without a team that is 0.

Hazards: a task must write only to blocks that the other half does not touch (see `twin` for streams and agendas) and
must not ask for the team itself. Both halves may allocate.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from everview.kernels.leaving import attempt, leave
from everview.kernels.memory import call_number, ld, st
from everview.kernels.native import POINTER, entry, external, inner, primitive

JOB, DONE, TASK, ARGUMENT, CALL, LEFT, QUIT, TEAM_WORDS = range(8)
"""JOB and DONE are locks that are held while there is nothing to do and nothing done. CALL: the number of the call that
the task is a part of; LEFT: the code with which it left, see `leaving`.
"""

PIECES = 16  # a task that takes its work piece by piece makes about this many of it

_HALF = ir.IntType(32)


@primitive("void(int64)")
def _acquire(builder: Any, lock: Any) -> None:
    function = external(builder, "PyThread_acquire_lock", _HALF, POINTER, _HALF)
    builder.call(function, [builder.inttoptr(lock, POINTER), ir.Constant(_HALF, 1)])


@primitive("void(int64)")
def _release(builder: Any, lock: Any) -> None:
    function = external(builder, "PyThread_release_lock", ir.VoidType(), POINTER)
    builder.call(function, [builder.inttoptr(lock, POINTER)])


@inner
def both(team, task, mine, theirs):
    """Run task(mine) here and task(theirs) on the helper; returns when both are done, and leaves if one did."""
    number = call_number()
    st(team, TASK, task)
    st(team, ARGUMENT, theirs)
    st(team, CALL, number)
    _release(ld(team, JOB))
    code = attempt(task, mine, number)
    _acquire(ld(team, DONE))
    if code == 0:
        code = ld(team, LEFT)
    if code != 0:
        leave(code)


@entry("int")
def serve(team):
    """The helper's life: do what the other thread asks for until told to quit."""
    while True:
        _acquire(ld(team, JOB))
        if ld(team, QUIT) != 0:
            return 0
        st(team, LEFT, attempt(ld(team, TASK), ld(team, ARGUMENT), ld(team, CALL)))
        _release(ld(team, DONE))


@entry("int")
def dismiss(team):
    """Let the helper go."""
    st(team, QUIT, 1)
    _release(ld(team, JOB))
    return 0
