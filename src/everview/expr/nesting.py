"""Deep statements and expressions: enlarges Python's recursion limit for what is nested a thousand levels deep.

sqlglot's parser and the binder recurse into brackets, CASE, subqueries and operators: some twenty Python calls per
level. Python's default limit of 1,000 calls allows about fifty levels, and generated SQL is deeper. While a statement
is parsed and bound, up to `FRAMES` calls are therefore allowed. A view evaluates its expressions later, when rows
arrive: `room_for` raises the limit for those that are deep, and costs nothing for others.

Python-to-Python calls take nothing of the thread's own stack, but some go through C code and do. `FRAMES` of a
statement's calls fit in 8 MB, the default stack size, with room to spare; for smaller stacks there are fewer. Deeper
texts are refused (E_DEPTH).

Hazard: the limit is process-wide. A runaway recursion in another thread at the same time is stopped later than usual.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from everview.expr.nodes import Expr

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

FRAMES = 30_000
"""Call depth that a statement may need: 1,000 brackets take 20,000."""

_STACK_OF_A_FRAME = 256
"""Stack bytes per call, on average and at most."""

_DEFAULT_STACK = 2 << 20
"""The assumed stack size of a thread without a limit."""

_lock = threading.Lock()
_inside = 0
_before = 0


def frames() -> int:
    """The call depth that fits a thread's stack.

    >>> 0 < frames() <= FRAMES
    True
    """
    size = threading.stack_size()
    if not size and resource is not None:
        size = resource.getrlimit(resource.RLIMIT_STACK)[0]
        size = _DEFAULT_STACK if size == resource.RLIM_INFINITY else size
    return min(FRAMES, (size or _DEFAULT_STACK) // _STACK_OF_A_FRAME)


@contextmanager
def room() -> Iterator[None]:
    """Allow deeper recursion inside.

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


def has_room() -> bool:
    """Whether there is more room than usual now.

    >>> with room():
    ...     has_room()
    True
    """
    return _inside > 0


SHALLOW = 80
"""Levels of an expression that Python's usual stack has room for, wherever it is evaluated."""


def room_for(exprs: Iterable[Expr]) -> AbstractContextManager[None]:
    """Room for functions that call themselves for every level of these expressions.

    >>> from everview.expr.nodes import Literal
    >>> from everview.types import INT
    >>> with room_for([Literal(INT, 1)]):
    ...     pass
    """
    return room() if any(expr.depth > SHALLOW for expr in exprs) else nullcontext()
