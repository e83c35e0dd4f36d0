"""Stops a running kernel by denying it memory.

A kernel polls nothing, but it allocates, and on allocation failure it exits from the middle and the step is undone
(docs/design/2026-11-16-kernels-leave-from-the-middle.md). To stop it, the next allocation is made to fail, and the
resulting error is reported as what it is. The same word implements a step's memory limit.

The word is process-wide (`kernels.memory`, CELL_LIMIT), so kernels of other sessions see it, too. If one of their steps
fails because of it, the step is run again (`disturbed`): steps are atomic. Memory is denied only briefly while others
are active. A dataflow is pressed only while it is `running`: elsewhere Python does bookkeeping that must not be
interrupted.

A join that finds very many pairs and keeps none of them allocates nothing. It checks the word itself
(`kernels.operators.stream.heed`) whenever a chunk of pairs is full.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from everview.errors import MemoryLimitError
from everview.kernels.guarded_calls import CELL_LIMIT, CELL_TRACK_FROM, CELL_TRACKED_WORDS
from everview.kernels.memory import TRACKED_FROM, cell
from everview.kernels.operators.stream import PRESSED

if TYPE_CHECKING:
    from everview.dataflow.dataflow import Dataflow

PAUSE = 0.005
"""Seconds that a disturbed step waits before it is retried."""

_lock = threading.Lock()
_limited: dict[Dataflow, int] = {}  # the memory limits of running dataflows, in words
_pressed: set[Dataflow] = set()
count = 0
"""incremented on every change"""
used = False
"""whether any limit is set, so that `leave` has to check"""


def held() -> int:
    """Words currently allocated in large blocks."""
    return int(cell[CELL_TRACKED_WORDS])


def _apply() -> None:
    global count, used
    count += 1
    used = bool(_pressed or _limited)
    cell[CELL_LIMIT] = PRESSED if _pressed else min(_limited.values(), default=0)
    if _pressed:
        cell[CELL_TRACK_FROM] = 0  # small blocks are denied, too
    elif cell[CELL_TRACK_FROM] == 0:
        cell[CELL_TRACK_FROM] = TRACKED_FROM


def press(dataflow: Dataflow) -> None:
    """Deny memory to a dataflow, if it is running."""
    global used
    with _lock:
        used = True  # before the check: whoever leaves now sees it and waits for the lock
        if dataflow.running:
            _pressed.add(dataflow)
        _apply()


def release(dataflow: Dataflow) -> None:
    """Let a dataflow allocate again."""
    with _lock:
        _pressed.discard(dataflow)
        _apply()


def enter(dataflow: Dataflow) -> None:
    """Mark the start of a dataflow with a limit."""
    if dataflow.most_words:
        with _lock:
            _limited[dataflow] = dataflow.most_words
            _apply()


def leave(dataflow: Dataflow) -> None:
    """Mark its end."""
    with _lock:
        _pressed.discard(dataflow)
        _limited.pop(dataflow, None)
        _apply()


def disturbed(dataflow: Dataflow, error: BaseException, since: int) -> bool:
    """Whether a step may have run out of memory only because of limits or stop requests of others, now or since `count`
    was read: it should be retried after a moment.
    """
    if not isinstance(error, MemoryLimitError) or dataflow.most_words or dataflow.stopped:
        return False
    if since == count and not used:
        return False
    time.sleep(PAUSE)
    return True
