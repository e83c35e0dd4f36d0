"""The changes that each step makes to the traces somebody watches.

A trace with a capture block appends to it what a commit adds (`everview.kernels.trace.trace`). They are read once, when
the step is complete, and given back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from everview.dataflow.dataflow import batch_arrays
from everview.dataflow.operators import Arrangement, Operator, Trace
from everview.dataflow.saved import image_of, packed_entries
from everview.kernels import make
from everview.kernels.trace import read
from everview.kernels.trace.trace import TRACE_CAPTURE


class Captured(NamedTuple):
    """What a step added to a trace, in the trace's order of columns."""

    columns: np.ndarray
    times: np.ndarray
    diffs: np.ndarray


class Supposed(Mapping[Trace, Captured]):
    """What a step would add to some operators' traces, from what the shards say (or the only one): put together where
    somebody looks.
    """

    def __init__(self, packed: Iterable[np.ndarray], operators: Iterable[Operator]) -> None:
        self._images: dict[int, list[np.ndarray]] = {}
        for words in packed:
            for number, image in packed_entries(words):
                self._images.setdefault(number, []).append(image)
        self._numbers = {o.trace: o.number for o in operators if o.trace is not None and o.number in self._images}
        self._captured: dict[Trace, Captured] = {}

    def __getitem__(self, trace: Trace) -> Captured:
        found = self._captured.get(trace)
        if found is None:
            found = self._captured[trace] = self._together(trace)
        return found

    def __contains__(self, trace: object) -> bool:
        return trace in self._numbers

    def _together(self, trace: Trace) -> Captured:
        images = [image_of(words) for words in self._images[self._numbers[trace]]]
        parts = [(image.columns(), image.times(), image.weights()[0]) for image in images]
        if len(parts) == 1:
            return Captured(*parts[0])
        columns, times, diffs = zip(*parts, strict=True)
        return Captured(np.concatenate(columns, axis=1), np.concatenate(times), np.concatenate(diffs))

    def __iter__(self) -> Iterator[Trace]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


class Captures:
    """The traces of one dataflow that are watched."""

    def __init__(self) -> None:
        self.watched: dict[Trace, int] = {}
        """and the blocks that receive what a step adds to them"""

    def watch(self, arrangement: Arrangement) -> None:
        """Have each step's change of an arrangement kept, from now on."""
        trace = arrangement.trace
        if trace not in self.watched:
            block = arrangement.operator.block([0])
            make.poke(trace.address, TRACE_CAPTURE, block)
            self.watched[trace] = block

    def forget_freed(self) -> None:
        """Operators were dropped: their blocks went with them."""
        self.watched = {trace: block for trace, block in self.watched.items() if trace.address}

    def take(self) -> dict[Trace, Captured]:
        """The changes since the last time, which are forgotten here."""
        found = {}
        for trace, block in self.watched.items():
            batch = make.peek(block, 0)
            if batch:
                found[trace] = Captured(*batch_arrays(batch, trace.cols))
                read.release_at(block, 0)
        return found
