"""Batches of a trace as one, outside the trace: where files are merged that it does not see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from everview.dataflow import saved
from everview.dataflow.operators import Trace
from everview.kernels import make
from everview.kernels.trace import trace as trace_k
from everview.store.batches import Image


@dataclass(frozen=True)
class TraceShape:
    """What is to be known of a trace to merge its batches as it would; can travel."""

    cols: int
    diffs: int
    keep: int
    """how times advance: -1 outside loops"""
    since: int
    history: int

    @classmethod
    def of(cls, trace: Trace) -> TraceShape:
        fields = (trace_k.TRACE_DIFFS, trace_k.TRACE_KEEP, trace_k.TRACE_SINCE, trace_k.TRACE_HISTORY)
        return cls(trace.cols, *(int(make.peek(trace.address, field)) for field in fields))

    def merged(self, images: Iterable[Image], time: int) -> Image | None:
        """Batches as one, with times advanced as the trace advances them, in memory; None if they cancel."""
        scratch = make.make_trace(self.cols, self.diffs, self.keep, self.since, 1, 0)
        make.poke(scratch, trace_k.TRACE_HISTORY, self.history)
        try:
            for image in images:
                saved.append(scratch, image, time)
            make.compact_trace(scratch)
            return next(saved.images_at(scratch), None)
        finally:
            make.drop_trace(scratch)
