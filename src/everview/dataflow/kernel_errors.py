"""Errors from within kernels, and their messages.

A kernel that runs out of memory, or finds a multiplicity overflow, raises an error with nothing but a code
(`everview.kernels.early_exit`). This module adds the location: the operator that was running, or that the step was
being committed. Python's own MemoryError, from arrays, becomes the same error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.errors import (
    EverviewError,
    InputError,
    InternalError,
    LoopError,
    MemoryLimitError,
    out_of_memory,
    overflow,
)
from everview.kernels.frontier.budget import FAULT_BUDGET
from everview.kernels.frontier.offers import FAULT_CYCLE, FAULT_PATH
from everview.kernels.provenance.nodes import FAULT_CLASH, FAULT_NODES, FAULT_UNKNOWN

if TYPE_CHECKING:
    from everview.dataflow.operators import Operator

MAKERS = {"E_MEMORY": out_of_memory, "E_OVERFLOW": overflow}


def from_kernels(error: BaseException | None) -> bool:
    """Whether an error was raised inside a kernel, which has leaked memory.

    >>> from_kernels(out_of_memory()), from_kernels(KeyError())
    (True, False)
    """
    return isinstance(error, EverviewError) and error.code in MAKERS


def located(error: BaseException, operator: Operator | None) -> EverviewError | None:
    """The same error with the operator that was running (None: the step was being committed); None for other errors.

    >>> print(located(MemoryError(), None))
    [E_MEMORY] committing the step: there is not enough memory; nothing was changed
      hint: join on more columns, bound what grows in a loop, load in smaller transactions, or give the process more
    """
    if isinstance(error, MemoryError) and not isinstance(error, EverviewError):
        error = out_of_memory()
    if not isinstance(error, EverviewError) or error.args != MAKERS.get(error.code, _nothing)().args:
        return None
    found = MAKERS[error.code](f"operator '{operator.describe()}'" if operator else "committing the step")
    found.operator = operator.number if operator else None
    return found


def _too_long() -> EverviewError:
    hint = "scale the weights down, or cast them to float"
    return InputError("E_OVERFLOW", "the weights of a path do not fit into 64 bits", hint)


def _negative_cycle() -> EverviewError:
    hint = "delete one of its edges, or make no weight negative"
    return LoopError("E_LOOP_LIMIT", "edges form a cycle with a negative weight, so that no path is the shortest", hint)


def _spent() -> EverviewError:
    hint = "ask less, drop a view of the graph, or give it a larger budget"
    return MemoryLimitError("E_BUDGET", "the graph's budget is spent: there is no memory for another question", hint)


def _too_many_nodes() -> EverviewError:
    hint = 'keep provenance="lazy", allow expressions fewer nodes, or keep it for a smaller view'
    return MemoryLimitError("E_BUDGET", "the expressions of provenance have too many nodes together", hint)


def _clash() -> EverviewError:
    hint = "drop the view with provenance and make it again after a change to its tables"
    return InternalError("E_INTERNAL", "two expressions of provenance have one code, which is next to impossible", hint)


def _unknown_node() -> EverviewError:
    return InternalError("E_INTERNAL", "a row refers to an unknown provenance expression")


PATHS = {
    FAULT_PATH: _too_long,
    FAULT_CYCLE: _negative_cycle,
    FAULT_BUDGET: _spent,
    FAULT_NODES: _too_many_nodes,
    FAULT_CLASH: _clash,
    FAULT_UNKNOWN: _unknown_node,
}
"""What is wrong with a step whose recursion found no result, by STEP_FAULT."""


def _nothing() -> EverviewError:
    return EverviewError("", "")
