"""The parts of the search space that the best plan does not need, by each of the thesis's criteria (liu-2016, §4.2).

    selected   aggregate selection: only the best alternative of an OR node is passed on
    counted    reference counts: OR nodes that no remaining alternative needs are removed, recursively
    bounded    bounds: alternatives that exceed the budget of their OR node are removed
    live       all of it together: exactly the best plan

The thesis prunes *during* the search. Its rules delete the reasons for deletions, which works because its engine lets
pruning lag behind, but has no meaning as a fixed point. These are views over the whole space instead: they reproduce
the thesis's figures (how much is pruned) and never select the wrong plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.optimiser.model import SEEK
from everview.optimiser.rules import Optimiser, text
from everview.optimiser.space import OPERATORS, And, Or

VIEWS = f"""
changed(Q, E, F) :- flow(Q, E, F).
changed(Q, E, B - C) :- whole(Q, E), best(Q, B), least_end(Q, C).
arrange(Q, E, K, S + F) :- asked(Q, E, K), not index(Q, E, K, 0), state(Q, E, S), flow(Q, E, F).
join(Q, E, L, R, K, F + {SEEK} * (A + B)) :-
    split(Q, E, L, R, K), not screened(Q, L, R, _), changed(Q, E, F), flow(Q, L, A), flow(Q, R, B).
join(Q, E, L, R, K, F + {SEEK} * (A + B) + X) :-
    split(Q, E, L, R, K), tested(Q, L, R, X), changed(Q, E, F), flow(Q, L, A), flow(Q, R, B).
least_cost(Q, E, 0, 0) :- relation(Q, _, E, _, _).
least_cost(Q, E, K, 0) :- index(Q, E, K, 0).
least_cost(Q, E, 0, C + F) :- cheapest(Q, E, C), flow(Q, E, F).
least_cost(Q, E, 0, C) :- whole(Q, E), best(Q, C).
least_cost(Q, E, K, C + A) :- arrange(Q, E, K, C), least_cost(Q, E, 0, A).

way(Q, E, L, A + B) :- plain(Q, E, L, I, R, J), side(Q, L, I, A), side(Q, R, J, B).
way(Q, E, L, A + B + X) :- testing(Q, E, L, I, R, J), side(Q, L, I, A), side(Q, R, J, B), tested(Q, L, R, X).
alternative(Q, E, 0, 0, SCAN, 0) :- relation(Q, _, E, _, _).
alternative(Q, E, K, 0, INDEX, 0) :- index(Q, E, K, 0).
alternative(Q, E, K, C + A, ARRANGE, 0) :- arrange(Q, E, K, C), least_cost(Q, E, 0, A).
alternative(Q, E, 0, C + F, JOIN, L) :- way(Q, E, L, C), changed(Q, E, F).
alternative(Q, E, 0, C + F, S, 0) :- changed(Q, E, F), whole(Q, E), ends(Q, S, C), S != JOIN.
.decl plan(q, e, k, operator, left) choice-domain (q, e, k)
plan(Q, E, K, O, L) :- alternative(Q, E, K, C, O, L), least_cost(Q, E, K, C).
needs(Q, E, K, ARRANGE, 0, E, 0) :- arrange(Q, E, K, _).
needs(Q, E, 0, JOIN, L, L, K) :- split(Q, E, L, _, K).
needs(Q, E, 0, JOIN, L, R, K) :- split(Q, E, L, R, K).

counted(Q, E, 0) :- whole(Q, E).
counted(Q, F, J) :- counted(Q, E, K), needs(Q, E, K, _, _, F, J).

live(Q, E, 0) :- whole(Q, E).
live(Q, F, J) :- live(Q, E, K), plan(Q, E, K, O, L), needs(Q, E, K, O, L, F, J).

spare(Q, E, 0, max(C)) :- whole(Q, E), least_cost(Q, E, 0, C).
spare(Q, E, 0, max(least(S, B) - C)) :- spare(Q, E, K, S), least_cost(Q, E, K, B), arrange(Q, E, K, C).
spare(Q, L, K, max(least(S, B) - C - D)) :-
    spare(Q, E, 0, S), least_cost(Q, E, 0, B), join(Q, E, L, R, K, C), least_cost(Q, R, K, D).
spare(Q, R, K, max(least(S, B) - C - D)) :-
    spare(Q, E, 0, S), least_cost(Q, E, 0, B), join(Q, E, L, R, K, C), least_cost(Q, L, K, D).
bounded(Q, E, K, O, L) :- alternative(Q, E, K, C, O, L), spare(Q, E, K, S), least_cost(Q, E, K, B), C <= least(S, B).
"""


@dataclass(frozen=True)
class Left:
    """The remaining size of the space: OR nodes and AND nodes."""

    goals: int
    ways: int


class Pruned(Optimiser):
    """An optimiser that also counts what each kind of pruning leaves.

    >>> from everview.optimiser.problem import Problem, Relation
    >>> with_counts = Pruned()
    >>> names = "abcd"
    >>> number = with_counts.add(Problem(tuple(Relation(n, 1, 9999, 9999, {1: 5000}) for n in names)))
    >>> with_counts.left(number)["whole"], with_counts.left(number)["live"]
    (Left(goals=29, ways=43), Left(goals=13, ways=13))
    >>> with_counts.close()
    """

    def __init__(self) -> None:
        super().__init__(text(VIEWS))

    def ways(self, number: int) -> dict[And, int]:
        """Every alternative, with its total cost."""
        self._known(number)
        rows = self._of("alternative", number)
        return {And(Or(e, k), OPERATORS[operator], left): cost for _, e, k, cost, operator, left in rows}

    def left(self, number: int) -> dict[str, Left]:
        """What is left by each kind of pruning, by name; "whole" is the full space."""
        ways = [(*way.goal, OPERATORS.index(way.operator), way.left) for way in self.ways(number)]
        plan = [row[1:] for row in self._of("plan", number)]
        counted, live = ({row[1:] for row in self._of(name, number)} for name in ("counted", "live"))
        bounded = [row[1:] for row in self._of("bounded", number)]
        return {
            "whole": _left(ways),
            "selected": _left(plan),
            "counted": _left([way for way in ways if way[:2] in counted]),
            "bounded": _left(bounded),
            "live": _left([way for way in plan if way[:2] in live]),
        }

    def _of(self, name: str, number: int) -> list[tuple[int, ...]]:
        return list(self.rules[name].lookup((number,)))


def _left(ways: Sequence[tuple[int, ...]]) -> Left:
    return Left(len({way[:2] for way in ways}), len(ways))
