"""Work on whole columns, shared between threads.

Python's threads are enough here: kernels, NumPy and Arrow release the GIL while they work on long columns. Threads are
started for each call, which costs as much as a few hundred rows, and end with it: there is nothing to close, and a
forked child has nothing to miss.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

SHARED_ROWS = 32_768
"""Number of rows from which encoding is shared between threads."""


def each(count: int, threads: int, work: Callable[[int], None]) -> None:
    """Call `work` with 0 .. count - 1 on some threads, the caller's included, and wait for all of them. If calls fail,
    the error of the lowest number is raised, so it does not depend on the threads.

    >>> found = [0] * 5
    >>> each(5, 3, lambda i: found.__setitem__(i, i * i))
    >>> found
    [0, 1, 4, 9, 16]
    """
    numbers, errors = iter(range(count)), dict[int, BaseException]()

    def take() -> None:
        for number in numbers:  # an iterator gives each number once, whoever asks
            try:
                work(number)
            except Exception as error:
                errors[number] = error

    helpers = [threading.Thread(target=take, name="everview columns") for _ in range(min(threads, count) - 1)]
    for helper in helpers:
        helper.start()
    try:
        take()
    finally:
        for _ in numbers:  # after an interrupt, nobody begins another one
            pass
        for helper in helpers:
            helper.join()
    if errors:
        raise errors[min(errors)]


def ranges(count: int, parts: int) -> list[tuple[int, int]]:
    """Cut 0 .. count into ranges of about the same length.

    >>> ranges(10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    return [(count * k // parts, count * (k + 1) // parts) for k in range(parts)]
