"""What of the search space the best plan does not need, by each of the thesis' ways to find out (liu-2016, §4.2).

    selected   aggregate selection: of an OR node only the best way is passed on; others are suppressed at their source
    counted    reference counts: an OR node that no way left needs goes, with its ways, and so on downwards
    bounded    bounds: a way that costs more than its OR node may, given what its parents can still spend, goes
    live       all of it together: exactly the best plan

The thesis prunes *while* it searches. Its rules then delete the reasons for deleting, which works because its engine
lets pruning lag behind, and has no meaning as a fixed point. These are views over the whole space instead: they give
the thesis' figures (how much is pruned) and never the wrong plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.optimiser.rules import Optimiser, text

VIEWS = """
node(Q, E, K) :- best(Q, E, K, _).
needs(Q, E, K, ARRANGE, 0, E, 0) :- way(Q, E, K, _, ARRANGE, _).
needs(Q, E, 0, JOIN, L, L, K) :- join(Q, E, L, _, K, _).
needs(Q, E, 0, JOIN, L, R, K) :- join(Q, E, L, R, K, _).

counted(Q, E, 0) :- whole(Q, E).
counted(Q, F, J) :- counted(Q, E, K), needs(Q, E, K, _, _, F, J).

live(Q, E, 0) :- whole(Q, E).
live(Q, F, J) :- live(Q, E, K), plan(Q, E, K, O, L), needs(Q, E, K, O, L, F, J).

spare(Q, E, 0, max(C)) :- whole(Q, E), best(Q, E, 0, C).
spare(Q, E, 0, max(least(S, B) - C)) :- spare(Q, E, K, S), best(Q, E, K, B), arrange(Q, E, K, C).
spare(Q, L, K, max(least(S, B) - C - D)) :-
    spare(Q, E, 0, S), best(Q, E, 0, B), join(Q, E, L, R, K, C), best(Q, R, K, D).
spare(Q, R, K, max(least(S, B) - C - D)) :-
    spare(Q, E, 0, S), best(Q, E, 0, B), join(Q, E, L, R, K, C), best(Q, L, K, D).
bounded(Q, E, K, O, L) :- way(Q, E, K, C, O, L), spare(Q, E, K, S), best(Q, E, K, B), C <= least(S, B).
"""


@dataclass(frozen=True)
class Left:
    """How much of the space is left by a way of pruning: OR nodes and AND nodes."""

    goals: int
    ways: int


class Pruned(Optimiser):
    """An optimiser that also counts what each way of pruning leaves.

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

    def left(self, number: int) -> dict[str, Left]:
        """What is left by each way of pruning, by its name; "whole" is what there is."""
        self._known(number)
        ways = [(e, k, operator, left) for _, e, k, _, operator, left in self._of("way", number)]
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
