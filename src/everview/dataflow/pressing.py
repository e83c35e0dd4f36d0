"""Stopping a kernel that runs: memory is refused to it.

A kernel looks at nothing but its rows; but it allocates, and where there is no memory it leaves from the middle, with
the step undone (docs/design/2026-11-16-kernels-leave-from-the-middle.md). So to stop one is to let the next allocation
fail, and to call that by its right name afterwards. The same word is a step's limit of memory.

The word belongs to the process (`kernels.memory`, CELL_LIMIT): kernels of other sessions see it, too. A step of theirs
that finds no memory because of it is run again (`disturbed`): steps are atomic. And pressing is brief where others
are at work. A dataflow is pressed only while it is `running`: elsewhere Python keeps books that must not be cut off.

A join that finds very many pairs and keeps none of them allocates nothing. It looks at the word itself
(`kernels.operators.stream.heed`) whenever a chunk of pairs is full.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from everview.errors import MemoryLimitError
from everview.kernels.guarding import CELL_LIMIT, CELL_TRACK_FROM, CELL_TRACKED_WORDS
from everview.kernels.memory import TRACKED_FROM, cell
from everview.kernels.operators.stream import PRESSED

if TYPE_CHECKING:
    from everview.dataflow.dataflow import Dataflow

PAUSE = 0.005
"""Seconds for which a step waits that others have disturbed."""

_lock = threading.Lock()
_limited: dict[Dataflow, int] = {}  # the words that may be in use while these run
_pressed: set[Dataflow] = set()
count = 0
"""how often that has changed"""
used = False
"""whether anything is: then `leave` has to look"""


def held() -> int:
    """Words in large blocks now."""
    return int(cell[CELL_TRACKED_WORDS])


def _apply() -> None:
    global count, used
    count += 1
    used = bool(_pressed or _limited)
    cell[CELL_LIMIT] = PRESSED if _pressed else min(_limited.values(), default=0)
    if _pressed:
        cell[CELL_TRACK_FROM] = 0  # small blocks are refused, too
    elif cell[CELL_TRACK_FROM] == 0:
        cell[CELL_TRACK_FROM] = TRACKED_FROM


def press(dataflow: Dataflow) -> None:
    """Refuse memory to a dataflow, if it runs."""
    global used
    with _lock:
        used = True  # before looking: whoever leaves now, sees it and waits for the lock
        if dataflow.running:
            _pressed.add(dataflow)
        _apply()


def release(dataflow: Dataflow) -> None:
    """Let a dataflow have memory again."""
    with _lock:
        _pressed.discard(dataflow)
        _apply()


def enter(dataflow: Dataflow) -> None:
    """A dataflow that has a limit begins to run."""
    if dataflow.most_words:
        with _lock:
            _limited[dataflow] = dataflow.most_words
            _apply()


def leave(dataflow: Dataflow) -> None:
    """It runs no more."""
    with _lock:
        _pressed.discard(dataflow)
        _limited.pop(dataflow, None)
        _apply()


def disturbed(dataflow: Dataflow, error: BaseException, since: int) -> bool:
    """Whether a step may have found no memory only because others are to stop, or have limits, now or since `count` was
    so: it is to be run again, after a moment.
    """
    if not isinstance(error, MemoryLimitError) or dataflow.most_words or dataflow.stopped:
        return False
    if since == count and not used:
        return False
    time.sleep(PAUSE)
    return True
