"""Deep statements: room on Python's stack for a text that is nested a thousand levels deep.

sqlglot's parser and the binder call themselves for what is inside brackets, CASE, subqueries and operators: some twenty
Python calls for a level. Python stops at 1,000 calls by default, which is about fifty levels, and programs write SQL
that is deeper. So while a statement is read and bound, there may be up to `FRAMES` calls.

A call of one Python function by another takes nothing of the thread's own stack, but some go by way of C code and do.
`FRAMES` of the calls that a statement makes fit in 8 MB, the usual size of a stack, with room to spare; where stacks
are smaller there are fewer. Deeper texts are refused (E_DEPTH), as before.

Hazard: the limit is one for the whole process. Another thread that recurses without end at the same time is stopped
later than usual.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

FRAMES = 30_000
"""Calls inside of each other that a statement may need: 1,000 brackets take 20,000."""

_STACK_OF_A_FRAME = 256
"""Bytes of the thread's stack for a call, on average and at most."""

_SMALL = 2 << 20
"""The stack of a thread where nothing limits it."""

_lock = threading.Lock()
_inside = 0
_before = 0


def frames() -> int:
    """Calls that a thread's stack has room for.

    >>> 0 < frames() <= FRAMES
    True
    """
    size = threading.stack_size()
    if not size and resource is not None:
        size = resource.getrlimit(resource.RLIMIT_STACK)[0]
        size = _SMALL if size == resource.RLIM_INFINITY else size
    return min(FRAMES, (size or _SMALL) // _STACK_OF_A_FRAME)


@contextmanager
def room() -> Iterator[None]:
    """More calls inside of each other than usual, for what runs here.

    >>> def down(n):
    ...     return 0 if n == 0 else 1 + down(n - 1)
    >>> with room():
    ...     down(4_000)
    4000
    """
    global _inside, _before
    with _lock:
        if not _inside:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, frames()))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                sys.setrecursionlimit(_before)
