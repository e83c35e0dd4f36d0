"""Boolean functions of possibly missing rows, as binary decision diagrams.

A diagram tests one variable after the other, in a fixed order, and ends at false (0) or true (1). A node is (level,
low, high): what remains if the variable of the level is false, and if it is true. Nodes are unique, and none has low ==
high, so two functions are equal exactly if their numbers are. (Bryant 1986; liu-2016 §3.3.1.)

Diagrams of some functions are large in any order, network reliability among them. A table therefore has a node budget,
and raises `Exhausted` beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

FALSE, TRUE = 0, 1

LAST = 2**62
"""The level of false and true."""


class Exhausted(Exception):
    """The node budget is exhausted."""


class Diagrams:
    """A table of nodes.

    >>> table = Diagrams(100)
    >>> x, y = table.variable(0), table.variable(1)
    >>> table.both(x, y) == table.both(y, x), table.either(x, table.both(x, y)) == x
    (True, True)
    >>> table.probability(table.either(x, y), [0.5, 0.5])
    0.75
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.level = [LAST, LAST]
        self.low = [FALSE, TRUE]
        self.high = [FALSE, TRUE]
        self._known: dict[tuple[int, int, int], int] = {}
        self._both: dict[tuple[int, int], int] = {}
        self._either: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.level)

    def node(self, level: int, low: int, high: int) -> int:
        """The function that is `low` where a variable is false, else `high`; both depend on later variables only."""
        if low == high:
            return low
        key = (level, low, high)
        found = self._known.get(key)
        if found is None:
            found = len(self.level)
            if found >= self.budget:
                raise Exhausted
            self._known[key] = found
            self.level.append(level)
            self.low.append(low)
            self.high.append(high)
        return found

    def variable(self, level: int) -> int:
        """The function that is a variable."""
        return self.node(level, FALSE, TRUE)

    def both(self, a: int, b: int) -> int:
        """a and b."""
        return self._combined(self._both, _both_end, a, b)

    def either(self, a: int, b: int) -> int:
        """a or b."""
        return self._combined(self._either, _either_end, a, b)

    def _combined(
        self, known: dict[tuple[int, int], int], end: Callable[[int, int], int], left: int, right: int
    ) -> int:
        """Traverse both diagrams together, level by level; iterative, because there may be many levels."""
        results: list[int] = []
        todo: list[tuple[int, int, bool]] = [(left, right, False)]
        while todo:
            a, b, ready = todo.pop()
            if a > b:
                a, b = b, a
            if ready:
                high, low = results.pop(), results.pop()
                made = known[a, b] = self.node(min(self.level[a], self.level[b]), low, high)
                results.append(made)
                continue
            found = end(a, b)
            if found < 0:
                found = known.get((a, b), -1)
            if found >= 0:
                results.append(found)
                continue
            level = min(self.level[a], self.level[b])
            a_low, a_high = (self.low[a], self.high[a]) if self.level[a] == level else (a, a)
            b_low, b_high = (self.low[b], self.high[b]) if self.level[b] == level else (b, b)
            todo += [(a, b, True), (a_high, b_high, False), (a_low, b_low, False)]
        return results.pop()

    def without(self, f: int, level: int) -> int:
        """A function with a variable set to false.

        >>> table = Diagrams(100)
        >>> x, y = table.variable(0), table.variable(1)
        >>> table.without(table.either(x, y), 0) == y, table.without(table.both(x, y), 1) == FALSE
        (True, True)
        """
        left = {FALSE: FALSE, TRUE: TRUE}
        for node in self.below(f):
            low = left[self.low[node]]
            if self.level[node] == level:
                left[node] = low
            else:
                left[node] = self.node(self.level[node], low, left[self.high[node]])
        return left[f]

    def below(self, f: int) -> list[int]:
        """The nodes of a diagram, bottom-up."""
        seen: set[int] = set()
        found: list[int] = []
        todo = [(f, False)]
        while todo:
            node, ready = todo.pop()
            if ready:
                found.append(node)
            elif node > TRUE and node not in seen:
                seen.add(node)
                todo += [(node, True), (self.high[node], False), (self.low[node], False)]
        return found

    def probability(self, f: int, of: Sequence[float]) -> float:
        """The probability of a function if the variable of each level is independently true with `of[level]`."""
        likely = {FALSE: 0.0, TRUE: 1.0}
        for node in self.below(f):
            p = of[self.level[node]]
            likely[node] = (1 - p) * likely[self.low[node]] + p * likely[self.high[node]]
        return likely[f]


def _both_end(a: int, b: int) -> int:
    """a and b if trivial, with a <= b; else -1."""
    if a in (FALSE, b):
        return a
    return b if a == TRUE else -1


def _either_end(a: int, b: int) -> int:
    """a or b if trivial, with a <= b; else -1."""
    if a in (TRUE, b):
        return a
    return b if a == FALSE else -1
