"""Serves operators that need Python in the middle of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from everview import cancellation
from everview.dataflow import shield
from everview.dataflow.batch_arrays import batch_arrays
from everview.dataflow.operators import Operator, PythonMap, Reduce
from everview.dataflow.program import Barrier
from everview.dataflow.scopes import EPOCH_MASK, Scope
from everview.errors import InternalError
from everview.kernels import structures
from everview.kernels.trace import trace as trace_k

if TYPE_CHECKING:
    from everview.dataflow.dataflow import Dataflow


def serve(dataflow: Dataflow, item: Operator | Scope | Barrier) -> None:
    """Run the Python part of an operator."""
    if isinstance(item, PythonMap):
        assert item.trace is not None
        if item.stream is None:  # nobody reads it; one created now would come with an operator that no replica has
            return
        columns, times, diffs = batch_arrays(structures.peek(item.trace.address, trace_k.TRACE_DELTA), item.trace.cols)
        out, rows, errors = _call(dataflow, item.run, columns)
        structures.emit_columns(item.stream.address, np.ascontiguousarray(out), times[rows], diffs[rows])
        if np.count_nonzero(errors):  # quicker than `any`
            bad = np.flatnonzero(errors)
            outside = times[bad] if item.scope.is_root else (times[bad] & EPOCH_MASK) + dataflow.time_base()
            found = np.stack([errors[bad], outside, diffs[bad]], axis=1)
            structures.push_rows(item.errors_to, np.ascontiguousarray(found).ravel(), len(bad))
    elif isinstance(item, Reduce):
        assert item.run is not None
        width = 2 + item.source.cols
        requests = np.empty((structures.requested(item.context), width), dtype=np.int64)
        structures.take_requests(item.context, requests)
        answers = _call(dataflow, item.run, requests)
        structures.give_answers(item.context, np.ascontiguousarray(answers, dtype=np.int64).reshape(-1, 2 + item.cols))
    else:
        raise InternalError("E_INTERNAL", f"{item} asked for Python")


def _call(dataflow: Dataflow, function: Callable[..., Any], rows: np.ndarray) -> Any:
    """Call a function that calls user code."""
    return shield.openly(cancellation.beside, function, rows) if dataflow.timed else shield.openly(function, rows)
