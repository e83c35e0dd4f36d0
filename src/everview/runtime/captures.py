"""Captures the changes that each step makes to watched traces.

A trace with a capture block appends to it what a commit adds (`everview.kernels.trace.trace`). Captures are read once,
when the step is complete, and freed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from everview.dataflow.batch_arrays import batch_arrays
from everview.dataflow.operators import Arrangement, Trace
from everview.dataflow.saved_state import image_of, image_words, packed_entries
from everview.kernels import structures
from everview.kernels.run.hypothetical import FIRST_ENTRY
from everview.kernels.trace import read
from everview.kernels.trace.image import IMAGE_HEADER_WORDS
from everview.kernels.trace.trace import TRACE_CAPTURE


class Captured(NamedTuple):
    """What a step added to a trace, in the trace's column order."""

    columns: np.ndarray
    times: np.ndarray
    diffs: np.ndarray


class Supposed:
    """What a step would add to the traces of some operators, by number; assembled on access."""

    __slots__ = ("_captured", "_images", "_words", "changed")

    def __init__(self, words: array[int] | np.ndarray) -> None:
        """From what a dataflow has copied (`everview.kernels.run.hypothetical`)."""
        self._words = words
        self._images: dict[int, list[np.ndarray]] | None = None
        self._captured: dict[int, Captured | None] | None = None
        self.changed: list[int] = words[FIRST_ENTRY : FIRST_ENTRY + 2 * words[1] : 2].tolist()
        """the numbers of operators whose traces would change"""

    @classmethod
    def of_shards(cls, packed: Iterable[np.ndarray]) -> Supposed:
        """From the results of shards."""
        made = cls(NOTHING)
        made._images = {}
        for words in packed:
            for number, image in packed_entries(words):
                made._images.setdefault(number, []).append(image)
        made.changed = [*made._images]
        return made

    def get(self, number: int) -> Captured | None:
        """What would be added to an operator's trace; None if nothing would."""
        if self._captured is None:
            self._captured = {}
        if number not in self._captured:
            parts = self._parts(number)
            self._captured[number] = _together(parts) if parts else None
        return self._captured[number]

    def _parts(self, number: int) -> Sequence[np.ndarray]:
        """The images of one trace, one from every shard that changes it."""
        if self._images is not None:
            return self._images.get(number, ())
        if number not in self.changed:
            return ()
        place = int(self._words[FIRST_ENTRY + 2 * self.changed.index(number) + 1])
        rows, cols, diffs, timed, _, weighed, _ = map(int, self._words[place : place + IMAGE_HEADER_WORDS])
        words = self._words[place : place + image_words(rows, cols, diffs, timed, weighed)]
        return [np.asarray(words, dtype=np.int64)]


NOTHING = array("q", [0] * FIRST_ENTRY)
"""The output of a step that changes nothing."""


def _together(parts: Sequence[np.ndarray]) -> Captured:
    """Merge the images of all shards."""
    images = [image_of(words) for words in parts]
    found = [(image.columns(), image.times(), image.weights()[0]) for image in images]
    if len(found) == 1:
        return Captured(*found[0])
    columns, times, diffs = zip(*found, strict=True)
    return Captured(np.concatenate(columns, axis=1), np.concatenate(times), np.concatenate(diffs))


class Captures:
    """The watched traces of one dataflow."""

    def __init__(self) -> None:
        self.watched: dict[Trace, int] = {}
        """with the blocks that receive what a step adds to them"""

    def watch(self, arrangement: Arrangement) -> None:
        """Capture each step's change of an arrangement from now on."""
        trace = arrangement.trace
        if trace not in self.watched:
            block = arrangement.operator.block([0])
            structures.poke(trace.block, TRACE_CAPTURE, block)
            self.watched[trace] = block

    def forget_freed(self) -> None:
        """Forget dropped operators, whose blocks were freed with them."""
        self.watched = {trace: block for trace, block in self.watched.items() if trace.block}

    def take(self) -> dict[Trace, Captured]:
        """Return and remove the changes since the last call."""
        found = {}
        for trace, block in self.watched.items():
            batch = structures.peek(block, 0)
            if batch:
                found[trace] = Captured(*batch_arrays(batch, trace.cols))
                read.release_at(block, 0)
        return found
