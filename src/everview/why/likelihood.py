"""The probability of a row if rows of tables are missing independently.

The equations of the row (`everview.why.equations`) are solved with decision diagrams (`everview.why.bdd`): from false
upwards, round after round, until nothing changes. The diagram of the row then describes in which worlds it exists, and
its probability takes one pass over the nodes. Variables are in depth-first order, which keeps diagrams of paths small.

That can exceed the node budget: the probability that a network connects two nodes is #P-hard. Then there are bounds.
Every *witness* (a sufficient set of rows) gives a lower bound, the probability of all its rows; every *cut* (rows of
which one is needed) an upper bound, that of any of them; for several, diagrams account for overlaps. Both are found by
removing rows from the full set as long as the result stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from everview.why.bdd import FALSE, TRUE, Diagrams, Exhausted
from everview.why.equations import Equations, Kind
from everview.why.probability import Probability

MOST_SETS = 16
"""Maximum number of witnesses, and of cuts, for bounds."""

EFFORT = 20_000_000
"""Number of unknowns examined to find them."""


def likelihood(equations: Equations, chances: dict[int, float], nodes: int) -> Probability:
    """The probability of the first unknown."""
    if equations.holding((), open_holds=False)[0]:
        return Probability(1.0, 1.0)
    if not equations.holding(list(equations.leaves), open_holds=True)[0]:
        return Probability(0.0, 0.0)
    order = equations.depth_first()
    leaves = [n for n in order if equations.kinds[n] is Kind.LEAF]
    of = [chances[n] for n in leaves]
    table = Diagrams(nodes)
    solved, complete = _solved(equations, order, leaves, table)
    lower = table.probability(solved, of)
    if complete and not any(equations.kinds[n] is Kind.OPEN for n in order):
        return Probability(lower, lower)
    sets = _Sets(equations, leaves, chances, nodes)
    lower, upper = max(lower, sets.lower()), sets.upper()
    return Probability(lower, max(lower, upper))  # bounds that meet differ by rounding


def _solved(equations: Equations, order: Sequence[int], leaves: Sequence[int], table: Diagrams) -> tuple[int, bool]:
    """The diagram of the first unknown, and whether it fits the budget; if not, it implies the true one."""
    values = dict.fromkeys(order, FALSE)
    due = set(order)
    kinds, parts, users = equations.kinds, equations.parts, equations.users
    levels = {number: level for level, number in enumerate(leaves)}
    try:
        while due:
            for number in order:
                if number not in due:
                    continue
                due.discard(number)
                if kinds[number] is Kind.LEAF:
                    new = table.variable(levels[number])
                elif kinds[number] is Kind.OPEN:
                    new = FALSE
                else:
                    every = kinds[number] is Kind.ALL
                    combine, new = (table.both, TRUE) if every else (table.either, FALSE)
                    for part in parts[number]:
                        new = combine(new, values[part])
                if new != values[number]:
                    values[number] = new
                    due.update(user for user in users[number] if user in values)
    except Exhausted:
        return values[0], False
    return values[0], True


class _Sets:
    """Witnesses and cuts of the first unknown."""

    def __init__(self, equations: Equations, leaves: Sequence[int], chances: dict[int, float], nodes: int) -> None:
        self.equations = equations
        self.leaves = leaves
        self.chances = chances
        self.nodes = nodes
        self.tests = max(100, EFFORT // (2 * len(equations.kinds)))

    def lower(self) -> float:
        """A lower bound: the probability of any of some witnesses."""

        def suffices(some: Sequence[int]) -> bool:
            return self.equations.holding(some, open_holds=False)[0]

        found = self._minimal(suffices, likely_first=False)
        return self._of(found, any_of=True) if found else 0.0

    def upper(self) -> float:
        """An upper bound: the probability of something from each of some cuts."""
        everything = set(self.leaves)

        def cuts(some: Sequence[int]) -> bool:
            return not self.equations.holding(sorted(everything.difference(some)), open_holds=True)[0]

        found = self._minimal(cuts, likely_first=True)
        return self._of(found, any_of=False) if found else 1.0

    def _minimal(self, enough: Callable[[Sequence[int]], bool], *, likely_first: bool) -> list[list[int]]:
        """Some minimal sufficient sets of leaves. What is removed first does not come back, so each next set is tried
        without the previous ones' leaves.
        """
        if not enough(self.leaves):
            return []
        found: list[list[int]] = []
        used = dict.fromkeys(self.leaves, 0)
        left = self.tests
        sign = -1 if likely_first else 1
        while left > 0 and len(found) < MOST_SETS:
            kept = sorted(self.leaves, key=lambda n: (-used[n], sign * self.chances[n], n))
            size = max(1, len(kept) // 2)
            while True:
                at = 0
                while at < len(kept):
                    tried = kept[:at] + kept[at + size :]
                    left -= 1
                    if enough(tried):
                        kept = tried
                    else:
                        at += size
                if size == 1:
                    break
                size //= 2
            if sorted(kept) in found:
                break
            found.append(sorted(kept))
            for leaf in kept:
                used[leaf] += 1
        return found

    def _of(self, sets: list[list[int]], *, any_of: bool) -> float:
        """The probability that any (all) of some sets have all (any) of their leaves, for as many sets as fit the
        budget."""
        table = Diagrams(max(self.nodes, 2 + len(self.leaves) + len(sets[0])))
        levels = {leaf: level for level, leaf in enumerate(self.leaves)}
        total = FALSE if any_of else TRUE
        inner, outer = (table.both, table.either) if any_of else (table.either, table.both)
        try:
            for leaves in sets:
                one = TRUE if any_of else FALSE
                for leaf in reversed(leaves):
                    one = inner(one, table.variable(levels[leaf]))
                total = outer(total, one)
        except Exhausted:
            pass
        return table.probability(total, [self.chances[leaf] for leaf in self.leaves])
