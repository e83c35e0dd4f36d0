"""Aggregates: which relation they belong to, and what they range over.

An aggregate in the head belongs to the *relation*, not to the rule: all rules of the relation contribute their
solutions, grouped by the other columns. A shortest path is therefore written directly,

    dist(X, 0)          :- root(X).
    dist(Y, min(D + W)) :- dist(X, D), edge(X, Y, W).

and a node has one distance, not one per rule. `D2 = min(D + W)` in the body with D2 in the head is equivalent. A rule
that continues to compute with its aggregate (`N = count(Y), N > 3`) becomes two rules, the first without a name:

    fan'1(X, count(Y)) :- edge(X, Y).
    fan(X)             :- fan'1(X, N), N > 3.

Aggregates range over solutions: a value for every variable of the body, with the multiplicity of the table rows that it
is made of. A solution shared by several sides of a disjunction counts once; equal ones of two rules count twice. A
group without solutions does not exist: a count is never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from everview.datalog.syntax import Aggregate, Atom, Body, Compare, Const, Literal, Rule, Term, Var, names_of

MIXES = ("sum", "min", "max")
"""Aggregates to which a rule may contribute a plain value."""

RECURSIVE = ("min", "max")
"""Aggregates that may be recursive."""


def split(rule: Rule, number: int) -> list[Rule]:
    """The rule with its aggregates in the head; two rules if it continues to compute with them.

    >>> from everview.datalog.grammar import parse
    >>> [r.name for r in split(parse("fan(X) :- edge(X, Y), N = count(Y), N > 3.")[0], 1)]
    ["fan'1", 'fan']
    >>> split(parse("fan(X, N) :- edge(X, Y), N = count(Y).")[0], 1)[0].head[1].kind
    'count'
    """
    found: dict[str, Aggregate] = {}
    rest: list[Literal] = []
    for literal in rule.body:
        pair = _binding(literal)
        if pair is None:
            rest.append(literal)
        elif pair[0].name in found:
            raise literal.place.error("E_AGGREGATE", f"{pair[0].name} is two aggregates", "use two variables")
        else:
            found[pair[0].name] = replace(pair[1], name=pair[0].name)
    if not found:
        return [rule]
    before, after = _parted(rest, set(found))
    in_head = [t.name for t in rule.head if isinstance(t, Var) and t.name in found]
    read = {v.name for t in rule.head if not isinstance(t, Var) for v in t.variables()}
    if not after and sorted(in_head) == sorted(found) and not read & set(found):
        head = tuple(found[t.name] if isinstance(t, Var) and t.name in found else t for t in rule.head)
        return [replace(rule, head=head, body=before)]
    return _two_rules(rule, before, after, found, f"{rule.name}'{number}")


def _binding(literal: Literal) -> tuple[Var, Aggregate] | None:
    if isinstance(literal, Compare) and literal.op == "eq":
        for variable, value in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(variable, Var) and isinstance(value, Aggregate):
                return variable, value
    return None


def _parted(literals: Sequence[Literal], later: set[str]) -> tuple[Body, Body]:
    """The literals that do not depend on the aggregates, and those that do."""
    before, after = list(literals), list[Literal]()
    while True:
        depends = [l for l in before if later & {v.name for v in l.variables()}]
        if not depends:
            return tuple(before), tuple(l for l in literals if l in after)
        before = [l for l in before if l not in depends]
        after += depends
        later = later | (names_of(tuple(depends)) - names_of(tuple(before)))


def _two_rules(rule: Rule, before: Body, after: Body, found: dict[str, Aggregate], name: str) -> list[Rule]:
    read = {v.name for t in rule.head for v in t.variables()} | names_of(after)
    groups = sorted(names_of(before) & read)
    keys: list[Term] = [Var(n, place=rule.place) for n in groups]
    inner = Rule(name, (*keys, *found.values()), before, rule.place)
    values = tuple(Var(n, place=rule.place) for n in (*groups, *found))
    return [inner, replace(rule, body=(Atom(name, values, place=rule.place), *after))]


@dataclass(frozen=True)
class Shape:
    """The columns of a relation: the aggregate of each, or None for grouping columns."""

    kinds: tuple[str | None, ...]

    @property
    def aggregates(self) -> bool:
        return any(self.kinds)


def shape(rules: Sequence[Rule]) -> Shape:
    """Which columns of a relation are aggregates; refuses rules that disagree."""
    kinds: list[str | None] = []
    for i in range(len(rules[0].head)):
        terms = [rule.head[i] for rule in rules]
        given = list(dict.fromkeys(t.kind for t in terms if isinstance(t, Aggregate)))
        kinds.append(given[0] if given else None)
        for term, rule in zip(terms, rules, strict=True):
            plain = not isinstance(term, Aggregate)
            if given and plain and given[0] not in MIXES:
                raise term.place.error(
                    "E_AGGREGATE",
                    f"column {i + 1} of {rule.name} is a {given[0]} in another rule and a plain value here",
                    "give this rule's relation another name",
                )
            if isinstance(term, Aggregate) and term.kind != given[0]:
                raise term.place.error(
                    "E_AGGREGATE",
                    f"column {i + 1} of {rule.name} is {given[0]} in one rule and {term.kind} here",
                    "the rules of a relation are aggregated together; use another name",
                )
    return Shape(tuple(kinds))


def contribution(term: Term) -> Term:
    """The value that a rule's solution contributes to an aggregate (or the column itself)."""
    if not isinstance(term, Aggregate):
        return term
    return term.arg if term.arg is not None else Const(1, place=term.place)
