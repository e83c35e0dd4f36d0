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
from numba import int64, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from everview.kernels.memory import INNER, OPTIONS, call_pointer, ld, st

JOB, DONE, TASK, ARGUMENT, QUIT, TEAM_WORDS = range(6)
"""JOB and DONE are locks that are held while there is nothing to do and nothing done."""

PIECES = 16  # a task that takes its work piece by piece makes about this many of it

_I8P = ir.IntType(8).as_pointer()


@intrinsic  # type: ignore[misc]
def _acquire(typingctx: Any, lock: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        shape = ir.FunctionType(ir.IntType(32), [_I8P, ir.IntType(32)])
        function = cgutils.get_or_insert_function(builder.module, shape, "PyThread_acquire_lock")
        builder.call(function, [builder.inttoptr(args[0], _I8P), ir.Constant(ir.IntType(32), 1)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic  # type: ignore[misc]
def _release(typingctx: Any, lock: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        shape = ir.FunctionType(ir.VoidType(), [_I8P])
        function = cgutils.get_or_insert_function(builder.module, shape, "PyThread_release_lock")
        builder.call(function, [builder.inttoptr(args[0], _I8P)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@njit(**INNER)
def both(team, task, mine, theirs):
    """Run task(mine) here and task(theirs) on the helper; returns when both are done."""
    st(team, TASK, task)
    st(team, ARGUMENT, theirs)
    _release(ld(team, JOB))
    call_pointer(task, mine)
    _acquire(ld(team, DONE))


@njit(int64(int64), **OPTIONS)
def serve(team):
    """The helper's life: do what the other thread asks for until told to quit."""
    while True:
        _acquire(ld(team, JOB))
        if ld(team, QUIT) != 0:
            return 0
        call_pointer(ld(team, TASK), ld(team, ARGUMENT))
        _release(ld(team, DONE))


@njit(int64(int64), **OPTIONS)
def dismiss(team):
    """Let the helper go."""
    st(team, QUIT, 1)
    _release(ld(team, JOB))
    return 0
