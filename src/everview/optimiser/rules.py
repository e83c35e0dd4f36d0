"""The optimiser as rules: search space, costs and best plans of many joins at once, maintained incrementally.

    connected   sets of relations that share variables         size, flow, state   estimates of each set
    split       a set as two that are joined by a key
    side        the cost of a set as one side of a join: to compute it, to arrange it, to look its changes up
    cheapest    the least cost of all splits, recursively      joined              the split to take
    ends, ended         the whole: joined, or all at once; without its output, which is the same
    best                the cheapest of them, and its output

The paper's listing sums the costs of all alternatives of the children, and as printed never costs a join over scans;
the exact reading is the *best* of the children. Its pruning deletes rows of the search space that are needed to derive
the deletion, which no fixed point can do. Here the space is complete, since statistics never change it, and `pruning`
shows which parts the best plan does not need.

The cost common to all alternatives of a set, its output, is not part of theirs but added to the cheapest. A set whose
size changes is therefore costed once, and its possibly hundreds of splits are unchanged; only the larger sets that it
is a side of are compared again. The whole is no side of anything, so it has no `flow`: its size meets the cheapest end
in `best`, and nothing else. For the same reason statistics that always meet the same way are joined beforehand
(`expected`, `moving`, `wider`, `stage`): a size then passes through as few operators as possible.

Every relation has the number of its problem first, so that one program, installed once, serves all joins of a session.

Hazard: `everview.optimiser.model` computes the same costs, to the last bit; change both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everview.errors import PlanError
from everview.optimiser.model import MOST_CHANGES, MOST_PARTNERS, SEEK
from everview.optimiser.problem import TOP, UNIT, Problem, bits
from everview.optimiser.space import OPERATORS, And, Or
from everview.optimiser.statistic_facts import StatisticFacts

if TYPE_CHECKING:
    from everview.datalog import Rules
    from everview.session.session import Session
    from everview.session.table import Table

TABLES: dict[str, tuple[str, ...]] = {
    "relation": ("q", "r", "m", "vars", "width"),
    "rows": ("q", "r", "log"),
    "changes": ("q", "r", "log"),
    "values": ("q", "r", "v", "log"),
    "factor": ("q", "e", "log"),
    "steps": ("q", "log"),
    "index": ("q", "m", "k", "n"),
    "variable": ("q", "r", "v"),
    "forgotten": ("q", "v", "m"),
    "condition": ("q", "v"),
    "whole": ("q", "e"),
    "level": ("q", "s", "r", "i", "bound", "new", "e"),
    "part": ("q", "s", "r", "i", "m", "k", "n"),
}
"""The facts: relations with their bit, statistics, indexes by key and what follows it, pipelines of joins at once."""

STATISTICS = {
    "rows": ("q", "r"),
    "changes": ("q", "r"),
    "values": ("q", "r", "v"),
    "factor": ("q", "e"),
    "steps": ("q",),
}
"""The facts that change, and their keys."""

SPACE = """
connected(Q, M, V) :- relation(Q, _, M, V, _).
connected(Q, E bor M, V bor W) :- connected(Q, E, V), relation(Q, _, M, W, _), E band M = 0, V band W != 0.
split(Q, E, L, R, V band W) :-
    connected(Q, L, V), connected(Q, R, W), L < R, L band R = 0, V band W != 0, E = L bor R.
asked(Q, L, K) :- split(Q, _, L, _, K).
asked(Q, R, K) :- split(Q, _, _, R, K).
kept(Q, E, K, K) :- asked(Q, E, K), relation(Q, _, E, _, _).
kept(Q, E, K, 0) :- asked(Q, E, K), not relation(Q, _, E, _, _).
pair(Q, E, L, I, R, J) :- split(Q, E, L, R, K), kept(Q, L, K, I), kept(Q, R, K, J).
screened(Q, L, R, K) :-
    condition(Q, C), split(Q, _, L, R, K), connected(Q, L, V), connected(Q, R, W),
    C band (V bor W) = C, C band V != C, C band W != C.
plain(Q, E, L, I, R, J) :- pair(Q, E, L, I, R, J), not screened(Q, L, R, _).
testing(Q, E, L, I, R, J) :- pair(Q, E, L, I, R, J), screened(Q, L, R, _).
"""
"""`kept` is the key that distinguishes a side: the result of a join costs the same by any key, and has none."""

SIZES = """
member(Q, E, R) :- connected(Q, E, _), relation(Q, R, M, _, _), E band M != 0.
together(Q, E, sum(S)) :- member(Q, E, R), rows(Q, R, S).
spread(Q, E, V, A - B, B) :- member(Q, E, R), values(Q, R, V, D), A = sum(D), B = min(D).
matching(Q, E, sum(D)) :- spread(Q, E, _, D, _).
unread(Q, E, V) :- forgotten(Q, V, M), connected(Q, E, _), M band E = M.
wide(Q, E, B, V) :- spread(Q, E, V, _, B), not unread(Q, E, V).
first(Q, E, V, min(R)) :- member(Q, E, R), variable(Q, R, V).
several(Q, E, R, sum(B)) :- wide(Q, E, B, V), first(Q, E, V, R).
span_of(Q, E, R, least(B, L)) :- several(Q, E, R, B), rows(Q, R, L).
span(Q, E, S) :- connected(Q, E, _), S = sum B : { span_of(Q, E, _, B) }.
part_of(Q, S, E) :- connected(Q, S, _), connected(Q, E, _), S band E = S.
correction(Q, E, sum(F)) :- factor(Q, S, F), part_of(Q, S, E).
expected(Q, E, T - D) :- together(Q, E, T), matching(Q, E, D).
size(Q, E, greatest(S + X, 0)) :- expected(Q, E, S), correction(Q, E, X).
per_row(Q, R, C - L) :- rows(Q, R, L), changes(Q, R, C).
moving(Q, E, R, L, C, T) :- member(Q, E, R), span(Q, E, T), rows(Q, R, L), changes(Q, R, C).
single(Q, E, sum(F)) :- moving(Q, E, _, L, C, T), size(Q, E, S), F = POWER(C + least(S - L, T)).
most(Q, E, POWER(N + T)) :- span(Q, E, T), steps(Q, N), not whole(Q, E).
flow(Q, E, least(F, M)) :- single(Q, E, F), most(Q, E, M).
most_out(Q, E, POWER(N + T)) :- whole(Q, E), span(Q, E, T), steps(Q, N).
width(Q, E, sum(W)) :- member(Q, E, R), relation(Q, R, _, _, W), not whole(Q, E).
wider(Q, E, T, W) :- span(Q, E, T), width(Q, E, W).
state(Q, E, P * W) :- size(Q, E, S), wider(Q, E, T, W), P = POWER(least(S, T)).
beside(Q, L, K) :- screened(Q, L, _, K).
beside(Q, R, K) :- screened(Q, _, R, K).
different(Q, E, K, sum(B)) :- beside(Q, E, K), spread(Q, E, V, _, B), V band K != 0.
partners(Q, E, K, least(P, MOST_PARTNERS)) :-
    different(Q, E, K, B), size(Q, E, S), span(Q, E, T), P = POWER(greatest(least(S, T) - B, 0)).
tested(Q, L, R, least(F, MOST_CHANGES) * B + least(G, MOST_CHANGES) * A) :-
    screened(Q, L, R, K), flow(Q, L, F), flow(Q, R, G), partners(Q, L, K, A), partners(Q, R, K, B).
"""

COSTS = f"""
side(Q, E, K, {SEEK} * F) :- index(Q, E, K, 0), flow(Q, E, F).
side(Q, E, K, S + {SEEK + 1} * F) :- kept(Q, E, K, K), not index(Q, E, K, 0), state(Q, E, S), flow(Q, E, F).
side(Q, E, 0, A + S + {SEEK + 2} * F) :- cheapest(Q, E, A), state(Q, E, S), flow(Q, E, F).
cheapest(Q, E, min(C)) :- plain(Q, E, L, I, R, J), side(Q, L, I, A), side(Q, R, J, B), C = A + B.
cheapest(Q, E, min(C)) :-
    testing(Q, E, L, I, R, J), side(Q, L, I, A), side(Q, R, J, B), tested(Q, L, R, X), C = A + B + X.
.decl joined(q, e, left) choice-domain (q, e)
joined(Q, E, L) :- plain(Q, E, L, I, R, J), side(Q, L, I, A), side(Q, R, J, B), cheapest(Q, E, C), C = A + B.
joined(Q, E, L) :-
    testing(Q, E, L, I, R, J), side(Q, L, I, A), side(Q, R, J, B), tested(Q, L, R, X), cheapest(Q, E, C), C = A + B + X.
ends(Q, JOIN, C) :- whole(Q, E), cheapest(Q, E, C).
least_end(Q, min(C)) :- ends(Q, _, C).
.decl ended(q, operator) choice-domain (q)
ended(Q, O) :- ends(Q, O, C), least_end(Q, C).
best(Q, C + least(F, M)) :- least_end(Q, C), most_out(Q, E, M), single(Q, E, F).
"""

AT_ONCE = f"""
stage(Q, R, E bxor M, {SEEK}) :- level(Q, DELTA, R, 0, _, _, E), part(Q, DELTA, R, 0, M, _, _).
stage(Q, R, E bxor M, {SEEK + 1}) :- level(Q, DELTA, R, I, _, _, E), part(Q, DELTA, R, I, M, _, _), I > 0.
total_delta(Q, sum(W)) :- stage(Q, R, D, N), size(Q, D, A), per_row(Q, R, P), W = N * POWER(P + A).
prefix(Q, V) :- relation(Q, _, _, V, _).
prefix(Q, B) :- level(Q, WCO, _, _, B, _, _).
prefix(Q, B bor N) :- level(Q, WCO, _, _, B, N, _).
some_values(Q, B, R, sum(D)) :- prefix(Q, B), values(Q, R, V, D), V band B != 0.
narrow(Q, B, R, least(S, L)) :- some_values(Q, B, R, S), rows(Q, R, L).
narrow(Q, B, R, 0) :- prefix(Q, B), relation(Q, R, _, V, _), V band B = 0.
gathered(Q, B, sum(N)) :- narrow(Q, B, _, N).
met(Q, B, sum(D)) :- prefix(Q, B), whole(Q, E), spread(Q, E, V, D, _), V band B != 0.
prefixes(Q, B, greatest(G - D, 0)) :- gathered(Q, B, G), met(Q, B, D).
fan(Q, R, I, min(Y - X)) :-
    level(Q, WCO, R, I, B, N, _), part(Q, WCO, R, I, M, _, _), relation(Q, S, M, _, _),
    narrow(Q, B, S, X), narrow(Q, B bor N, S, Y).
parts(Q, R, I, count(M)) :- part(Q, WCO, R, I, M, _, _).
inner(Q, R, I, B, 1) :- level(Q, WCO, R, I, B, _, E), not whole(Q, E).
inner(Q, R, I, B, 0) :- level(Q, WCO, R, I, B, _, E), whole(Q, E).
total_wco(Q, sum(W)) :-
    inner(Q, R, I, B, G), relation(Q, R, _, V, _), prefixes(Q, B, X), prefixes(Q, V, Y), changes(Q, R, C),
    P = C + X - Y, fan(Q, R, I, F), parts(Q, R, I, N), W = {SEEK} * N * POWER(P) + G * POWER(P + F).
keeping(Q, M, S + F) :- relation(Q, _, M, _, _), state(Q, M, S), flow(Q, M, F).
missing(Q, S, M, K, N, C) :- part(Q, S, _, _, M, K, N), not index(Q, M, K, N), keeping(Q, M, C).
indexing(Q, S, C) :- part(Q, S, _, _, _, _, _), C = sum X : {{ missing(Q, S, _, _, _, X) }}.
ends(Q, DELTA, C + X) :- total_delta(Q, C), indexing(Q, DELTA, X).
ends(Q, WCO, C + X) :- total_wco(Q, C), indexing(Q, WCO, X).
"""


def text(*parts: str) -> str:
    """Rules with operators by number and powers expanded."""
    whole = "".join(parts)
    limits = {"MOST_CHANGES": MOST_CHANGES, "MOST_PARTNERS": MOST_PARTNERS}
    for name, number in limits.items():
        whole = whole.replace(name, str(number))
    for number, name in enumerate(OPERATORS):
        whole = whole.replace(name.upper(), str(number))
    return _with_powers(whole)


def _with_powers(rules: str) -> str:
    """`POWER(x)`: `problem.power` of x, in functions available in Datalog."""
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
    """The cheapest plan of a problem: the alternative of each OR node on it, and the total cost."""

    cost: int
    chosen: dict[Or, And]


class Optimiser:
    """Maintains the cheapest plan of each of several problems, in its own session.

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

        self.session: Session = connect(history=0)
        self._tables: dict[str, Table] = {
            name: self.session.table(name, dict.fromkeys(columns, int), key=list(STATISTICS.get(name, columns)))
            for name, columns in TABLES.items()
        }
        self._statistics = StatisticFacts(self.session, [self._tables[name] for name in STATISTICS])
        self.rules: Rules = self.session.datalog(text(SPACE, SIZES, COSTS, AT_ONCE, more), plan="delta")
        self._problems: dict[int, Problem] = {}
        self._added = 0

    def close(self) -> None:
        """Close the session."""
        self.session.close()

    def add(self, problem: Problem) -> int:
        """Add a problem; return its number."""
        self._added += 1
        number = self._added
        facts = {name: [(number, *row) for row in rows] for name, rows in _facts(problem).items()}
        statistics = {name: {row[:-1]: row[-1] for row in facts.pop(name)} for name in STATISTICS}
        self._statistics.change(statistics, [(self._tables[name], rows, 1) for name, rows in facts.items() if rows])
        self._problems[number] = problem
        return number

    def remove(self, number: int) -> None:
        """Remove a problem."""
        self._known(number)
        with self.session.transaction():
            for table in self._tables.values():
                table.delete([row for row in table.rows() if row[0] == number])
        self._statistics.forget()
        del self._problems[number]

    def observe(
        self,
        number: int,
        *,
        rows: Mapping[int, int] | None = None,
        changes: Mapping[int, int] | None = None,
        values: Mapping[tuple[int, int], int] | None = None,
        factors: Mapping[int, int] | None = None,
        steps: int | None = None,
        indexes: Mapping[int, frozenset[tuple[int, int]]] | None = None,
    ) -> None:
        """Update changed statistics: of relations by position, of variables by bit, of sets of relations by mask; the
        number of transactions; and the complete set of indexes of a relation.
        """
        problem = self._known(number)
        told: dict[str, dict[tuple[int, ...], int]] = {}
        for name, several in (("rows", rows), ("changes", changes), ("factor", factors)):
            if several:
                told[name] = {(number, of): log for of, log in several.items()}
        if values:
            told["values"] = {(number, r, v): log for (r, v), log in values.items()}
        if steps is not None:
            told["steps"] = {(number,): steps}
        self._statistics.change(told, self._indexed(number, indexes) if indexes else ())
        if indexes:
            relations = [replace(of, indexes=indexes.get(r, of.indexes)) for r, of in enumerate(problem.relations)]
            self._problems[number] = replace(problem, relations=tuple(relations))

    def _indexed(
        self, number: int, indexes: Mapping[int, frozenset[tuple[int, int]]]
    ) -> Iterator[tuple[Table, list[tuple[int, ...]], int]]:
        """The indexes that come and go."""
        for r, now in indexes.items():
            before = self._problems[number].relations[r].indexes
            for some, diff in ((before - now, -1), (now - before, 1)):
                if some:
                    yield self._tables["index"], [(number, 1 << r, *index) for index in some], diff

    def best(self, number: int) -> Best:
        """The current cheapest plan."""
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
        """The cost of the cheapest plan."""
        self._known(number)
        return next(int(cost) for _, cost in self.rules.best.lookup((number,)))

    def chosen(self, number: int, goal: Or) -> And:
        """The cheapest alternative of an OR node."""
        problem = self._known(number)
        if goal.key:
            return And(goal, "index" if problem.is_indexed(*goal) else "arrange")
        if goal.relations.bit_count() == 1:
            return And(goal, "scan")
        if goal.relations == problem.whole:
            (_, operator) = self.rules.ended.lookup((number,))[0]
            if OPERATORS[operator] != "join":
                return And(goal, OPERATORS[operator])
        (*_, left) = self.rules.joined.lookup((number, goal.relations))[0]
        return And(goal, "join", left)

    def last_steps(self, number: int) -> dict[And, int]:
        """Every possible last step, and the cost of the cheapest plan that ends with it."""
        whole = self._known(number).whole
        goal = Or(whole, 0)
        ((_, least),) = self.rules.least_end.lookup((number,))
        flow = self.cost(number) - least
        ends = {And(goal, OPERATORS[operator]): cost + flow for _, operator, cost in self.rules.ends.lookup((number,))}
        ends.pop(And(goal, "join"), None)  # the cheapest of those that follow
        tested = {(left, right): pairs for _, left, right, pairs in self.rules.tested.lookup((number,))}
        joins = {
            And(goal, "join", left): flow
            + self._side(number, left, key)
            + self._side(number, right, other)
            + tested.get((left, right), 0)
            for _, _, left, key, right, other in self.rules.pair.lookup((number, whole))
        }
        return joins | ends

    def _side(self, number: int, mask: int, key: int) -> int:
        ((*_, cost),) = self.rules.side.lookup((number, mask, key))
        return int(cost)

    def _known(self, number: int) -> Problem:
        if number not in self._problems:
            raise PlanError("E_PLAN", f"there is no problem {number}", "`add` returns the number of a problem")
        return self._problems[number]


def _facts(problem: Problem) -> dict[str, Iterable[tuple[Any, ...]]]:
    relations = list(enumerate(problem.relations))
    no_corrections = {1 << r: 0 for r, _ in relations}  # every set has a correction then, and needs no default
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
        "factor": list({**no_corrections, **problem.factors}.items()),
        "steps": [(problem.steps,)],
        "index": [(1 << r, *index) for r, of in relations for index in sorted(of.indexes)],
        "variable": [(r, v) for r, of in relations for v in bits(of.variables)],
        "forgotten": list(problem.forgotten.items()),
        "condition": [(v,) for v in sorted(problem.conditions)],
        "whole": [(problem.whole,)],
        "level": [(s, r, i, level.bound, level.new, level.relations) for s, r, i, level in levels],
        "part": [(s, r, i, *part) for s, r, i, level in levels for part in level.parts],
    }
