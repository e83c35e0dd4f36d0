"""Where a step runs: in one task that has all shards, or in a gang whose members have some each.

One task exchanges nothing, so it is the cheaper choice while a step is small and the state is no burden for one worker.
A gang runs on several cores and machines, and none of its members maps more than its share. The choice is made step by
step, by the size of the step and of the state:

- A step of more than `alone_rows` rows is spread, and so is all that follows while the state is larger than
  `alone_bytes`, or does not fit into the address space of one worker.
- Small steps after a large one stay with the gang while it is there anyway, up to SETTLE_STEPS in a row: moving the
  shards into one process would cost more.
- Where there is but one slot or one shard, one task does it all.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from everview.spark.driver.slots import gang_slots

ALONE_ROWS = 1_000_000
"""Input rows up to which one task runs all shards: several processes would spend the time on exchanging them."""

ALONE_BYTES = 1 << 30
"""Bytes of state up to which one task runs all shards; when it shrinks to half of that it does so again."""

ROW_WORDS = 4
"""Words of a row, for steps whose rows nobody has counted."""

SETTLE_STEPS = 16
"""Small steps in a row after which one task takes over from a gang."""

SLOTS_SECONDS = 5.0
"""Seconds between looks how many slots there are: asking takes a call of the JVM."""

LOG = logging.getLogger("everview.spark")


class Placing:
    """The choice for one session's steps."""

    def __init__(self, context: Any, shards: int) -> None:
        self.alone_rows = ALONE_ROWS
        self.alone_bytes = ALONE_BYTES
        self.apart = False
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
        """There are so many shards from now on."""
        self._shards = shards

    def tasks(self, words: int, state: int, *, gang_stands: bool) -> int:
        """How many tasks are to run a step with so many words of input, on so many bytes of state."""
        self._spread = state > (self.alone_bytes // 2 if self._spread else self.alone_bytes)
        large = words > ROW_WORDS * self.alone_rows or not self.alone_rows
        self._small = 0 if large else self._small + 1
        if large:
            reason = "steps are large" if self.alone_rows else "all steps are to be spread (alone_rows=0)"
        elif self.apart:
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
        """As many tasks as there can be."""
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
    """So many tasks.

    >>> in_words(1), in_words(4)
    ('one task', '4 tasks')
    """
    return "one task" if tasks == 1 else f"{tasks} tasks"
