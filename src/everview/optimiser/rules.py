"""The optimiser as rules: search space, costs and the best plan of many joins at once, maintained.

    connected   sets of relations that share variables         size, flow, state   estimates of each set
    split       a set as two that are joined by a key          join, arrange       what such a step costs by itself
    best        the least cost of a set in an order: `min`, going around through the sets it is joined from
    way         every alternative with its whole cost          plan                the cheapest, ties by rank

The paper's listing sums the costs of all alternatives of the children, and as printed never costs a join over
scans; what it means, and what is exact, is the *best* of the children. Its pruning deletes rows of the search space
that were needed to find out that they can be deleted, which no fixed point can do. Here the space is whole, since
statistics never change it, and `pruning` shows what of it the best plan does not need.

Every relation has the number of its problem first, so that one program, installed once, serves all joins of a session.

Hazard: `everview.optimiser.model` computes the same costs, to the last bit; change both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everview.errors import PlanError
from everview.optimiser.model import SEEK
from everview.optimiser.problem import TOP, UNIT, Problem, bits
from everview.optimiser.space import OPERATORS, And, Or

if TYPE_CHECKING:
    from everview.datalog import Rules
    from everview.session.session import Session

TABLES: dict[str, tuple[str, ...]] = {
    "relation": ("q", "r", "m", "vars", "width"),
    "rows": ("q", "r", "log"),
    "changes": ("q", "r", "log"),
    "values": ("q", "r", "v", "log"),
    "factor": ("q", "e", "log"),
    "index": ("q", "m", "k", "n"),
    "whole": ("q", "e"),
    "level": ("q", "s", "r", "i", "bound", "new", "e"),
    "part": ("q", "s", "r", "i", "m", "k", "n"),
}
"""The facts: relations with their bit, statistics, indexes by key and what follows it, pipelines of joins at once."""

STATISTICS = {"rows": ("q", "r"), "changes": ("q", "r"), "values": ("q", "r", "v"), "factor": ("q", "e")}
"""The facts that change, and their keys."""

SPACE = """
connected(Q, M, V) :- relation(Q, _, M, V, _).
connected(Q, E bor M, V bor W) :- connected(Q, E, V), relation(Q, _, M, W, _), E band M = 0, V band W != 0.
split(Q, E, L, R, V band W) :-
    connected(Q, L, V), connected(Q, R, W), L < R, L band R = 0, V band W != 0, E = L bor R.
asked(Q, L, K) :- split(Q, _, L, _, K).
asked(Q, R, K) :- split(Q, _, _, R, K).
"""

SIZES = """
member(Q, E, R) :- connected(Q, E, _), relation(Q, R, M, _, _), E band M != 0.
together(Q, E, sum(S)) :- member(Q, E, R), rows(Q, R, S).
spread(Q, E, V, A - B) :- member(Q, E, R), values(Q, R, V, D), A = sum(D), B = min(D).
matching(Q, E, sum(D)) :- spread(Q, E, _, D).
part_of(Q, S, E) :- connected(Q, S, _), connected(Q, E, _), S band E = S.
inside(Q, E, S, F) :- factor(Q, S, F), part_of(Q, S, E).
size(Q, E, greatest(T - D + X, 0)) :- together(Q, E, T), matching(Q, E, D), X = sum F : { inside(Q, E, _, F) }.
flow(Q, E, sum(F)) :-
    member(Q, E, R), size(Q, E, S), rows(Q, R, L), changes(Q, R, C), F = POWER(C + S - L).
width(Q, E, sum(W)) :- member(Q, E, R), relation(Q, R, _, _, W).
state(Q, E, P * W) :- size(Q, E, S), width(Q, E, W), P = POWER(S).
"""

COSTS = f"""
join(Q, E, L, R, K, F + {SEEK} * (A + B)) :- split(Q, E, L, R, K), flow(Q, E, F), flow(Q, L, A), flow(Q, R, B).
keeping(Q, E, S + F) :- state(Q, E, S), flow(Q, E, F).
arrange(Q, E, K, C) :- asked(Q, E, K), not index(Q, E, K, 0), keeping(Q, E, C).
best(Q, E, 0, min(0)) :- relation(Q, _, E, _, _).
best(Q, E, K, min(0)) :- index(Q, E, K, 0).
best(Q, E, 0, min(C)) :- whole(Q, E), at_once(Q, _, C).
best(Q, E, K, min(C + A)) :- arrange(Q, E, K, C), best(Q, E, 0, A).
best(Q, E, 0, min(C + A + B)) :- join(Q, E, L, R, K, C), best(Q, L, K, A), best(Q, R, K, B).
"""

AT_ONCE = f"""
delta_work(Q, R, I, {SEEK} * POWER(P + A) + POWER(P + B)) :-
    level(Q, DELTA, R, I, _, _, E), part(Q, DELTA, R, I, M, _, _), size(Q, E bxor M, A), size(Q, E, B),
    changes(Q, R, C), rows(Q, R, L), P = C - L.
prefix(Q, V) :- relation(Q, _, _, V, _).
prefix(Q, B) :- level(Q, WCO, _, _, B, _, _).
prefix(Q, B bor N) :- level(Q, WCO, _, _, B, N, _).
some_values(Q, B, R, sum(D)) :- prefix(Q, B), values(Q, R, V, D), V band B != 0.
narrow(Q, B, R, least(S, L)) :- some_values(Q, B, R, S), rows(Q, R, L).
narrow(Q, B, R, 0) :- prefix(Q, B), relation(Q, R, _, V, _), V band B = 0.
gathered(Q, B, sum(N)) :- narrow(Q, B, _, N).
met(Q, B, sum(D)) :- prefix(Q, B), whole(Q, E), spread(Q, E, V, D), V band B != 0.
prefixes(Q, B, greatest(G - D, 0)) :- gathered(Q, B, G), met(Q, B, D).
fan(Q, R, I, min(Y - X)) :-
    level(Q, WCO, R, I, B, N, _), part(Q, WCO, R, I, M, _, _), relation(Q, S, M, _, _),
    narrow(Q, B, S, X), narrow(Q, B bor N, S, Y).
parts(Q, R, I, count(M)) :- part(Q, WCO, R, I, M, _, _).
wco_work(Q, R, I, {SEEK} * N * POWER(P) + POWER(P + F)) :-
    level(Q, WCO, R, I, B, _, _), relation(Q, R, _, V, _), prefixes(Q, B, X), prefixes(Q, V, Y), changes(Q, R, C),
    P = C + X - Y, fan(Q, R, I, F), parts(Q, R, I, N).
missing(Q, S, M, K, N, C) :- part(Q, S, _, _, M, K, N), not index(Q, M, K, N), keeping(Q, M, C).
indexing(Q, S, C) :- part(Q, S, _, _, _, _, _), C = sum X : {{ missing(Q, S, _, _, _, X) }}.
at_once(Q, DELTA, C + X) :- total_delta(Q, C), indexing(Q, DELTA, X).
at_once(Q, WCO, C + X) :- total_wco(Q, C), indexing(Q, WCO, X).
total_delta(Q, sum(C)) :- delta_work(Q, _, _, C).
total_wco(Q, sum(C)) :- wco_work(Q, _, _, C).
"""

PLANS = """
way(Q, E, 0, 0, SCAN, 0) :- relation(Q, _, E, _, _).
way(Q, E, K, 0, INDEX, 0) :- index(Q, E, K, 0).
way(Q, E, K, C + A, ARRANGE, 0) :- arrange(Q, E, K, C), best(Q, E, 0, A).
way(Q, E, 0, C + A + B, JOIN, L) :- join(Q, E, L, R, K, C), best(Q, L, K, A), best(Q, R, K, B).
way(Q, E, 0, C, S, 0) :- whole(Q, E), at_once(Q, S, C).
.decl plan(q, e, k, operator, left) choice-domain (q, e, k)
plan(Q, E, K, O, L) :- way(Q, E, K, C, O, L), best(Q, E, K, C).
"""


def text(*parts: str) -> str:
    """Rules with operators by number and powers written out."""
    whole = "".join(parts)
    for number, name in enumerate(OPERATORS):
        whole = whole.replace(name.upper(), str(number))
    return _with_powers(whole)


def _with_powers(rules: str) -> str:
    """`POWER(x)`: `problem.power` of x, in the functions that Datalog has."""
    before, found, after = rules.partition("POWER(")
    if not found:
        return rules
    depth, end = 1, 0
    while depth:
        depth += {"(": 1, ")": -1}.get(after[end], 0)
        end += 1
    argument, rest = after[: end - 1], after[end:]
    return f"{before}int(floor(pow(2.0, least({argument}, {TOP}) / {UNIT}.0))){_with_powers(rest)}"


@dataclass(frozen=True)
class Best:
    """The cheapest plan of a problem: what each OR node on it is made by, and the cost of the whole."""

    cost: int
    chosen: dict[Or, And]


class Optimiser:
    """Problems, and the cheapest plan of each at any time, in a session of its own.

    >>> from everview.optimiser.problem import Relation, logarithm
    >>> big, small = logarithm(1_000_000), logarithm(1_000)
    >>> chain = Problem((
    ...     Relation("orders", 0b01, big, big, {1: small}),
    ...     Relation("customers", 0b11, small, 0, {1: small, 2: small}),
    ...     Relation("vips", 0b10, 0, 0, {2: 0}),
    ... ))
    >>> optimiser = Optimiser()
    >>> number = optimiser.add(chain)
    >>> optimiser.best(number).chosen[Or(0b111, 0)].left  # orders last
    1
    >>> optimiser.observe(number, rows={2: big}, values={(2, 2): small})
    >>> optimiser.best(number).cost > 1_000_000
    True
    >>> optimiser.close()
    """

    def __init__(self, more: str = "") -> None:
        from everview import connect

        self.session: Session = connect()
        for name, columns in TABLES.items():
            self.session.table(name, dict.fromkeys(columns, int), key=list(STATISTICS.get(name, columns)))
        self.rules: Rules = self.session.datalog(text(SPACE, SIZES, COSTS, AT_ONCE, PLANS, more))
        self._problems: dict[int, Problem] = {}
        self._added = 0

    def close(self) -> None:
        """Give up the session."""
        self.session.close()

    def add(self, problem: Problem) -> int:
        """Take a problem; its number."""
        self._added += 1
        number = self._added
        with self.session.transaction():
            for table, rows in _facts(problem).items():
                self.session[table].insert([(number, *row) for row in rows])
        self._problems[number] = problem
        return number

    def remove(self, number: int) -> None:
        """Forget a problem."""
        problem = self._known(number)
        with self.session.transaction():
            for table in _facts(problem):
                gone = [row for row in self.session[table].rows() if row[0] == number]
                self.session[table].delete(gone)
        del self._problems[number]

    def observe(
        self,
        number: int,
        *,
        rows: Mapping[int, int] | None = None,
        changes: Mapping[int, int] | None = None,
        values: Mapping[tuple[int, int], int] | None = None,
        factors: Mapping[int, int] | None = None,
    ) -> None:
        """Tell statistics that are other than was said: of relations by their place, of variables by their bit, of
        sets of relations by their mask.
        """
        self._known(number)
        told: dict[str, list[tuple[int, ...]]] = {
            "rows": [(r, log) for r, log in (rows or {}).items()],
            "changes": [(r, log) for r, log in (changes or {}).items()],
            "values": [(r, v, log) for (r, v), log in (values or {}).items()],
            "factor": [(e, log) for e, log in (factors or {}).items()],
        }
        with self.session.transaction():
            for table, several in told.items():
                if several:
                    self.session[table].upsert([(number, *row) for row in several])

    def best(self, number: int) -> Best:
        """The cheapest plan as things are."""
        problem = self._known(number)
        root = Or(problem.whole, 0)
        cost = self.cost(number)
        chosen: dict[Or, And] = {}
        todo = [root]
        while todo:
            goal = todo.pop()
            chosen[goal] = self.chosen(number, goal)
            todo += chosen[goal].needs(problem)
        return Best(cost, chosen)

    def cost(self, number: int) -> int:
        """What the cheapest plan costs; a fraction of the work of asking for the plan."""
        root = Or(self._known(number).whole, 0)
        return next(int(row[3]) for row in self.rules.best.lookup((number, *root)))

    def chosen(self, number: int, goal: Or) -> And:
        """The cheapest way to an OR node."""
        (*_, operator, left) = self.rules.plan.lookup((number, *goal))[0]
        return And(goal, OPERATORS[operator], left)

    def ways(self, number: int, goal: Or | None = None) -> dict[And, int]:
        """Every alternative there is, of one OR node or of all, with what it costs whole."""
        self._known(number)
        rows = self.rules.way.lookup((number, *(goal or ())))
        return {And(Or(e, k), OPERATORS[operator], left): cost for _, e, k, cost, operator, left in rows}

    def _known(self, number: int) -> Problem:
        if number not in self._problems:
            raise PlanError("E_PLAN", f"there is no problem {number}", "`add` gives the number of one")
        return self._problems[number]


def _facts(problem: Problem) -> dict[str, Iterable[tuple[Any, ...]]]:
    relations = list(enumerate(problem.relations))
    levels = [
        (OPERATORS.index(strategy), source, i, level)
        for strategy, pipelines in problem.pipelines.items()
        for source, of in enumerate(pipelines)
        for i, level in enumerate(of)
    ]
    return {
        "relation": [(r, 1 << r, of.variables, of.width) for r, of in relations],
        "rows": [(r, of.rows) for r, of in relations],
        "changes": [(r, of.changes) for r, of in relations],
        "values": [(r, v, of.values[v]) for r, of in relations for v in bits(of.variables)],
        "factor": list(problem.factors.items()),
        "index": [(1 << r, *index) for r, of in relations for index in sorted(of.indexes)],
        "whole": [(problem.whole,)],
        "level": [(s, r, i, level.bound, level.new, level.relations) for s, r, i, level in levels],
        "part": [(s, r, i, *part) for s, r, i, level in levels for part in level.parts],
    }
