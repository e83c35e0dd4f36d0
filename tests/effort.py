"""How much work a call does, counted so that a test may assert it: a busy machine changes seconds, never counts.

`calls` counts function calls, Python's and C's. They stand for the time of planning and binding, which run in Python;
what compiled kernels do is one call. Seconds belong in benchmarks/.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls(action: Callable[[], Any]) -> int:
    """How many functions `action` calls on this thread.

    >>> calls(lambda: [abs(i) for i in range(100)]) >= 100
    True
    """
    count = 0

    def tick(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count
