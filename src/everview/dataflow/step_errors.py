"""Converts the executor's failure states of a step into errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.dataflow.batch_arrays import batch_arrays
from everview.dataflow.kernel_errors import PATHS
from everview.dataflow.operators import Arrange
from everview.dataflow.program import Barrier
from everview.dataflow.scopes import Scope
from everview.dataflow.traversal import loop_around
from everview.errors import ConstraintError, InputError, InternalError, LoopError
from everview.kernels import memory, structures
from everview.kernels.run import executor as x
from everview.kernels.run import step as step_k
from everview.kernels.trace import constraints as guard_k
from everview.kernels.trace import trace as trace_k

if TYPE_CHECKING:
    from everview.dataflow.dataflow import Dataflow

ABSENT_HINT = "delete only rows that the table holds, or declare a key and use upsert"


def failure(dataflow: Dataflow, answer: int, pc: int) -> Exception:
    """The error at an instruction."""
    item = dataflow.program[min(pc, len(dataflow.program) - 1)][0]
    if isinstance(item, Barrier):
        item = item.scope or loop_around(dataflow.program[pc:], dataflow.root)
    if answer == x.ENDED_ROUNDS:
        loop = item if isinstance(item, Scope) else item.scope
        error = LoopError(
            "E_LOOP_LIMIT",
            f"{loop.label} did not converge within its limit of {loop.limit} rounds",
            "bound what grows in it, so that it comes to rest; its limit is set by max_rounds= and at_limit='stop' "
            "in Python, WITH RECURSIVE (RETURN AT RECURSION LIMIT n) in SQL, a condition on the values in Datalog",
        )
        error.loop = dataflow.scopes().index(loop)
        return error
    if answer == x.ENDED_OVERFLOW:
        return PATHS[structures.peek(dataflow.step_block, step_k.STEP_FAULT)]()
    if answer == x.ENDED_VIOLATION:
        if isinstance(item, Arrange) and item.guards:
            return _refused(item)
        return InputError("E_ABSENT", f"table {item.label!r}: a row that does not exist was deleted", ABSENT_HINT)
    cell = memory.cell.tolist()
    memory.cell[:4] = 0
    return InternalError("E_MEMORY", f"bad memory access in {item.label!r}: address, index, size {cell[1:4]}")


def _refused(guard: Arrange) -> ConstraintError:
    """The error of a violated constraint, with the codes of the row in its plan's column order. For an error row it is
    that error.
    """
    assert guard.trace is not None
    rows, _, _ = batch_arrays(structures.peek(guard.trace.address, trace_k.TRACE_DELTA), guard.trace.cols)
    error = ConstraintError("E_CONSTRAINT", "a constraint does not hold", "nothing was changed")
    error.guard, error.failed = guard.guards, guard.errors_of is not None
    error.codes = tuple(rows[:, structures.peek(guard.guard_context, guard_k.GUARD_ROW)].tolist())
    return error
