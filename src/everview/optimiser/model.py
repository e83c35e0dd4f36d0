"""The cost model, shared by rules and procedures.

The cost of a maintained query is not that of reading its tables once. It pays for its *state*, arrangements that do not
exist already, and for *work per change* as long as it lives:

    size(E)      rows of a join E: the product of its relations' rows, divided for every variable by the numbers of
                 values that all its relations but the one with the fewest have; times observed corrections
    span(E)      the number of combined values of the variables of E still read, of each relation's at most as many as
                 it has rows: equal rows are one row with a weight, so no more are kept, nor changed by one change
    flow(E)      changes of E: each change of a relation r meets size(E) / rows(r) rows of the others; but what one
                 transaction does to a row is one change, so a transaction makes at most span(E) of them
    state(E)     words of E: its rows times the width of a row

    join         flow(E) rows come out, and each change of either side is looked up in the other; if a condition is
                 tested there that neither side could test, also every pair that is found to test it on
    arrange      E must be kept by the join's variables: state(E), and flow(E) rows pass through it; an index that
                 is there costs nothing
    delta, wco   for every level of every pipeline: a look-up per prefix and part, and what comes out; at the end
                 flow(E), as of a join, since the same rows come out; and each arrangement that is missing, once

Sizes do not depend on the order of joins, so they belong to sets of relations; a plan chooses which sets to
materialise. The unit is the cost of one row that passes through a join, some 50 ns.

Hazard: the text in `rules` implements the same in Datalog, to the last bit. Tests compare the two on random problems.
"""

from __future__ import annotations

from functools import cache

from everview.optimiser.problem import Level, Problem, bits, power

SEEK = 3
"""The cost of a look-up, in rows passed."""

MOST_CHANGES, MOST_PARTNERS = 1 << 30, 1 << 20
"""Limits of the changes of a side and of the partners of each, so that their product is at most that of other costs."""


class Model:
    """Sizes and costs of one problem's parts, computed lazily.

    >>> from everview.optimiser.problem import Relation, logarithm
    >>> big, small = logarithm(1 << 20), logarithm(1 << 10)
    >>> fact = Relation("fact", 1, big, big, {1: small})
    >>> dimension = Relation("dimension", 1, small, 0, {1: small})
    >>> model = Model(Problem((fact, dimension)))
    >>> power(model.size(3)), model.flow(3)
    (1048576, 1049600)
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.size = cache(self._size)
        self.flow = cache(self._flow)
        self.span = cache(self._span)
        self._prefixes = cache(self._prefixes_of)

    def _size(self, mask: int) -> int:
        members = list(self.problem.members(mask))
        log = sum(relation.rows for relation in members)
        for variable in bits(self.problem.variables(mask)):
            values = [r.values[variable] for r in members if variable & r.variables]
            log -= sum(values) - min(values)
        log += sum(factor for part, factor in self.problem.factors.items() if part & mask == part)
        return max(log, 0)

    def _span(self, mask: int) -> int:
        members, left, log = list(self.problem.members(mask)), self.problem.still_read(mask), 0
        for relation in members:  # a variable of several counts with the first
            mine, left = left & relation.variables, left & ~relation.variables
            several = sum(min(r.values[v] for r in members if v & r.variables) for v in bits(mine))
            log += min(several, relation.rows)
        return log

    def _flow(self, mask: int) -> int:
        size, span = self.size(mask), self.span(mask)
        single = sum(power(r.changes + min(size - r.rows, span)) for r in self.problem.members(mask))
        return min(single, power(self.problem.steps + span))

    def held(self, mask: int) -> int:
        """The number of distinct rows of a join."""
        return min(self.size(mask), self.span(mask))

    def state(self, mask: int) -> int:
        """Words needed to store a join."""
        return power(self.held(mask)) * sum(r.width for r in self.problem.members(mask))

    def arranging(self, mask: int) -> int:
        """The cost of arranging a join in a new order."""
        return self.state(mask) + self.flow(mask)

    def joining(self, left: int, right: int) -> int:
        """The cost of a join whose sides are arranged."""
        tested = self.tested(left, right) if self.problem.is_screened(left, right) else 0
        return self.flow(left | right) + SEEK * (self.flow(left) + self.flow(right)) + tested

    def tested(self, left: int, right: int) -> int:
        """The pairs that changes of either side make, before conditions are tested on them."""
        pairs = 0
        for side, other in ((left, right), (right, left)):
            pairs += min(self.flow(side), MOST_CHANGES) * self._partners(other, side)
        return pairs

    def _partners(self, mask: int, other: int) -> int:
        """The rows of a join with the same values of the variables that it shares with another."""
        log = self.held(mask)
        for variable in bits(self.problem.variables(mask) & self.problem.variables(other)):
            log -= min(r.values[variable] for r in self.problem.members(mask) if variable & r.variables)
        return min(power(max(log, 0)), MOST_PARTNERS)

    def at_once(self, strategy: str) -> int:
        """The cost of the whole join at once, with only indexes stored."""
        pipelines = self.problem.pipelines[strategy]
        work = self._delta_level if strategy == "delta" else self._wco_level
        total = sum(work(source, level) for source, levels in enumerate(pipelines) for level in levels)
        total += self.flow(self.problem.whole)
        needed = {part for levels in pipelines for level in levels for part in level.parts}
        missing = [part for part in needed if not self.problem.is_indexed(*part)]
        return total + sum(self.arranging(mask) for mask, _, _ in missing)

    def _delta_level(self, source: int, level: Level) -> int:
        relation = self.problem.relations[source]
        per_change = relation.changes - relation.rows
        before = level.relations & ~level.parts[0][0]
        out = 0 if level.relations == self.problem.whole else power(per_change + self.size(level.relations))
        return SEEK * power(per_change + self.size(before)) + out

    def _wco_level(self, source: int, level: Level) -> int:
        relation = self.problem.relations[source]
        prefixes = relation.changes + self._prefixes(level.bound) - self._prefixes(relation.variables)
        fan = min(self._narrow(m, level.bound | level.new) - self._narrow(m, level.bound) for m, _, _ in level.parts)
        out = 0 if level.relations == self.problem.whole else power(prefixes + fan)
        return SEEK * len(level.parts) * power(prefixes) + out

    def _prefixes_of(self, variables: int) -> int:
        """The number of combined values of some variables in the whole join."""
        log = sum(self._narrow(1 << i, variables) for i in range(len(self.problem.relations)))
        for variable in bits(variables):
            values = [r.values[variable] for r in self.problem.relations if variable & r.variables]
            log -= sum(values) - min(values)
        return max(log, 0)

    def _narrow(self, mask: int, variables: int) -> int:
        """The number of combined values of some variables in one relation."""
        relation = self.problem.relations[mask.bit_length() - 1]
        return min(sum(relation.values[v] for v in bits(variables & relation.variables)), relation.rows)
