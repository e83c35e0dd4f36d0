"""Placement of steps: one task with all shards, or a gang whose members have some each.

One task exchanges nothing, so it is cheaper while a step is small and the state fits one worker. A gang uses several
cores and machines, and no member maps more than its share. The choice is made per step, by the size of the step and of
the state:

- A step of more than `alone_rows` rows is spread, and so are all later ones while the state is larger than
  `alone_bytes`, or does not fit into the address space of one worker.
- Small steps after a large one stay with a running gang, up to SETTLE_STEPS in a row: moving the shards into one
  process would cost more.
- With a single slot or a single shard, one task runs everything.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from everview.spark.driver.slots import gang_slots

ALONE_ROWS = 1_000_000
"""Input rows up to which one task runs all shards: several would spend the time on exchanging rows."""

ALONE_BYTES = 1 << 30
"""Bytes of state up to which one task runs all shards; below half of that it does so again."""

ROW_WORDS = 4
"""Assumed words per row, for steps whose rows were not counted."""

SETTLE_STEPS = 16
"""Consecutive small steps after which one task takes over from a gang."""

SLOTS_SECONDS = 5.0
"""Seconds between queries of the number of slots, each of which takes a call of the JVM."""

LOG = logging.getLogger("everview.spark")


class Placing:
    """Chooses where the steps of one session run."""

    def __init__(self, context: Any, shards: int) -> None:
        self.alone_rows = ALONE_ROWS
        self.alone_bytes = ALONE_BYTES
        self.must_spread = False
        """whether no task may run all shards"""
        self.placed = 0
        """how many tasks ran the last step, or were to"""
        self.why = ""
        self._context = context
        self._shards = shards
        self._spread = False  # because of the state's size
        self._small = 0  # small steps in a row
        self._slots, self._looked = 0, -SLOTS_SECONDS

    def reshard(self, shards: int) -> None:
        """Set the number of shards."""
        self._shards = shards

    def tasks(self, words: int, state: int, *, gang_stands: bool) -> int:
        """The number of tasks for a step with this many words of input, on this many bytes of state."""
        self._spread = state > (self.alone_bytes // 2 if self._spread else self.alone_bytes)
        large = words > ROW_WORDS * self.alone_rows or not self.alone_rows
        self._small = 0 if large else self._small + 1
        if large:
            reason = "steps are large" if self.alone_rows else "all steps are to be spread (alone_rows=0)"
        elif self.must_spread:
            reason = "one worker may not map all shards"
        elif self._spread:
            reason = f"the state has {state >> 20:,} MB"
        elif gang_stands and self._small <= SETTLE_STEPS:
            reason = "its tasks are still there"
        else:
            return self._placed(1, "steps and state are small")
        most = self.most()
        return self._placed(most, reason if most > 1 else "there is but one slot, or one shard")

    def most(self) -> int:
        """The largest possible number of tasks."""
        now = time.monotonic()
        if now - self._looked > SLOTS_SECONDS:
            self._slots, self._looked = gang_slots(self._context), now
        return min(self._shards, self._slots)

    def _placed(self, tasks: int, why: str) -> int:
        self.why = why
        if tasks != self.placed:
            LOG.info("steps run in %s: %s", in_words(tasks), why)
            self.placed = tasks
        return tasks


def in_words(tasks: int) -> str:
    """A number of tasks in words.

    >>> in_words(1), in_words(4)
    ('one task', '4 tasks')
    """
    return "one task" if tasks == 1 else f"{tasks} tasks"
