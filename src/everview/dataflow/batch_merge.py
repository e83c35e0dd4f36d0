"""Merges batches of a trace outside it, for files that it does not hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from everview.dataflow import saved_state
from everview.dataflow.operators import Trace
from everview.kernels import structures
from everview.kernels.trace import trace as trace_k
from everview.store.batches import Image


@dataclass(frozen=True)
class TraceShape:
    """What is needed to merge batches as their trace would; serialisable."""

    cols: int
    diffs: int
    keep: int
    """how times advance: -1 outside loops"""
    since: int
    history: int
    held: int
    """the oldest time that a reader keeps, however long ago it was"""

    @classmethod
    def of(cls, trace: Trace) -> TraceShape:
        diffs, keep, history = (
            int(structures.peek(trace.address, field))
            for field in (trace_k.TRACE_DIFFS, trace_k.TRACE_KEEP, trace_k.TRACE_HISTORY)
        )
        return cls(trace.cols, diffs, keep, trace.since, history, trace.held)

    def merged(self, images: Iterable[Image], time: int) -> Image | None:
        """Merge batches in memory, advancing times as the trace would; None if they cancel."""
        scratch = structures.make_trace(self.cols, self.diffs, self.keep, self.since, 1, 0)
        structures.poke(scratch, trace_k.TRACE_HISTORY, self.history)
        structures.poke(scratch, trace_k.TRACE_HOLD, self.held)
        try:
            for image in images:
                saved_state.append(scratch, image, time)
            structures.compact_trace(scratch)
            return next(saved_state.images_at(scratch), None)
        finally:
            structures.drop_trace(scratch)
