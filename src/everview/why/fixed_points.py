"""Loops at their end: the final contents of their variables."""

from __future__ import annotations

from everview.why.column_blocks import Bag, Bound
from everview.why.contents import new_serial
from everview.why.loops import History


class Final:
    """The variables of a loop at its end."""

    def __init__(self, history: History) -> None:
        self.serial = new_serial()
        self.size = 1000
        self.partial = False
        self._history = history

    def rows(self, index: int, bound: Bound) -> Bag:
        return self._history.result(index, bound)
