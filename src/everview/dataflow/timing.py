"""The time that each operator takes, measured while somebody wants to know.

While it is on, the executor reads the processor's counter (`everview.kernels.run.ticks`) around each operator, and
around each trace that a commit merges. The differences are added up, in one word for each. While it is off those words
do not exist, and a step does one comparison more per operator.

The words belong to instructions of one program. A program that is written anew has others, so `collect` adds them to
their operators first (`Operator.own_ns`), in nanoseconds, so that what was told once never becomes less: how long a
tick is, is measured again each time. Hazard: the kernels do not check sizes, so the words are removed before
the program is replaced and allocated after it (`Dataflow.assemble`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from everview.dataflow.operators import Operator
from everview.dataflow.tick_clock import TickClock
from everview.kernels import structures
from everview.kernels.run import executor as x

if TYPE_CHECKING:
    from everview.dataflow.dataflow import Dataflow


@dataclass
class Timing:
    """Times the operators of one dataflow, from its creation until `remove`."""

    dataflow: Dataflow
    _clock: TickClock = field(default_factory=TickClock)
    _owners: list[Operator | None] = field(default_factory=list)
    _merged: list[Operator] = field(default_factory=list)

    def install(self, at: Sequence[tuple[object, int]], merged: Sequence[Operator]) -> None:
        """Allocate words for the instructions of a program, by their owners, and for its traces."""
        owners = [item if isinstance(item, Operator) else None for item, _ in at]
        for name, count, size in (
            (x.EXECUTOR_TIMES, x.EXECUTOR_NTIMES, len(owners) + 1),
            (x.EXECUTOR_MERGE_TIMES, x.EXECUTOR_NMERGE_TIMES, len(merged)),
        ):
            structures.replace_list(self.dataflow.session, name, np.zeros(size, dtype=np.int64), count, size)
        self._owners, self._merged = owners, [*merged]

    def collect(self) -> None:
        """Add what was measured to the operators."""
        scale = self._clock.nanoseconds()
        times, merges = (structures.peek(self.dataflow.session, n) for n in (x.EXECUTOR_TIMES, x.EXECUTOR_MERGE_TIMES))
        for place, operator in enumerate(self._owners):
            if operator is not None:
                operator.own_ns += scale * _taken(times, place)
        for place, operator in enumerate(self._merged):
            operator.merge_ns += scale * _taken(merges, place)

    def remove(self) -> None:
        """Collect for the last time and free the words."""
        self.collect()
        self._owners, self._merged = [], []
        for name in (x.EXECUTOR_TIMES, x.EXECUTOR_MERGE_TIMES):
            block = structures.peek(self.dataflow.session, name)
            structures.poke(self.dataflow.session, name, 0)
            structures.drop_block(block)


def _taken(block: int, place: int) -> int:
    found = int(structures.peek(block, place))
    structures.poke(block, place, 0)
    return max(found, 0)
