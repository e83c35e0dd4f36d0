"""Scopes: which variable a name refers to, and when a literal can be evaluated.

A name refers to one variable in the whole rule, with one exception: a name that occurs inside a negation and nowhere
outside it (except in other negations) belongs to that negation and is existential. `apart` renames such variables, so
that from then on equal names are equal variables, at any nesting depth. In

    r(Y) :- y(Y), z(Z), (y(Y), (q(Y) ; Z = 2) ; q(Y)).

the Z of `Z = 2` is z's, two brackets up. Code that looks into brackets must therefore know what is *outside* of them:
the names that the head or any surrounding literal reads.

    a relation      always
    a condition     when its variables are bound; `=` binds an unbound variable
    not (...)       when all its variables that occur outside are bound
    sum P : {...}   the same; it binds its variable
    (a ; b)         when each side can be, and all sides bind the same variables among those outside

Binding more variables never makes a literal infeasible, so the order in which literals are considered does not affect
safety.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from everview.datalog.syntax import (
    Apply,
    Atom,
    Body,
    Compare,
    Literal,
    Not,
    Or,
    Pull,
    Rule,
    Term,
    Test,
    Total,
    Var,
    Wild,
    is_record,
    mapped,
    names_of,
)

Read = Callable[[Literal], list[Literal]]
"""A literal with functions distinguished from relations, and computed arguments as separate conditions."""


def apart(rule: Rule) -> Rule:
    """The rule with variables local to a negation renamed.

    >>> from everview.datalog.grammar import parse
    >>> rule = apart(parse("p(X) :- t(X), not (t(L), L > X), not (t(X), u(L)).")[0])
    >>> [sorted({v.name for v in literal.variables()}) for literal in rule.body]
    [['X'], ["L'n0", 'X'], ["L'n1", 'X']]
    """
    head = {v.name for term in rule.head for v in term.variables()}
    return replace(rule, body=_apart(rule.body, head, itertools.count()))


def shown(name: str) -> str:
    """A variable as written; one without a name stands for a computed argument."""
    return name.split("'")[0] or "the argument"


def _apart(body: Sequence[Literal], outside: set[str], numbers: Iterator[int]) -> Body:
    found: list[Literal] = []
    for i, literal in enumerate(body):
        around = outside.union(*(positive(l) for k, l in enumerate(body) if k != i))
        if isinstance(literal, Or):
            branches = tuple(_apart(branch, around, numbers) for branch in literal.branches)
            literal = replace(literal, branches=branches)
        elif isinstance(literal, Not) and not is_simple(literal):
            own = names_of(literal.body) - around
            inner = renamed(literal.body, own, next(numbers)) if own else literal.body
            literal = replace(literal, body=_apart(inner, around, numbers))
        elif isinstance(literal, Total):
            own = {v.name for v in literal.inside()} - around - {literal.variable.name}
            total = renamed((literal,), own, next(numbers))[0] if own else literal
            assert isinstance(total, Total)
            literal = replace(total, body=_apart(total.body, around, numbers))
        found.append(literal)
    return tuple(found)


def is_simple(literal: Not) -> bool:
    """`not a(X, Y)`: a variable that occurs nowhere else is more often a mistake than existential, so it is refused."""
    return len(literal.body) == 1 and isinstance(literal.body[0], Atom)


def renamed(body: Body, names: set[str], number: int) -> Body:
    """The body with other names for some variables."""

    def change(thing: Any) -> Any:
        return (
            replace(thing, name=f"{thing.name}'n{number}") if isinstance(thing, Var) and thing.name in names else thing
        )

    return tuple(mapped(literal, change) for literal in body)


def positive(literal: Literal) -> set[str]:
    """Names that occur outside the literal's negations."""
    if isinstance(literal, Not):
        return set()
    if isinstance(literal, Total):
        return {literal.variable.name}
    if isinstance(literal, Or):
        return {name for branch in literal.branches for part in branch for name in positive(part)}
    return names_of((literal,))


def neighbours(literals: Sequence[Literal], outside: set[str]) -> list[tuple[Literal, set[str]]]:
    """Each literal of a body with the names that occur outside of it."""
    names = [names_of((literal,)) for literal in literals]
    return [(l, outside.union(*names[:i], *names[i + 1 :])) for i, l in enumerate(literals)]


# --------------------------------------------------------------------------------------------- safety


def gains(literal: Literal, bound: set[str], outside: set[str], read: Read) -> set[str] | None:
    """The variables that evaluating the literal binds; None if it cannot be evaluated yet."""
    names = names_of((literal,))
    if isinstance(literal, Atom):
        return names - bound
    if isinstance(literal, Compare):
        found = assigned(literal, bound)
        if found is not None:
            return {found[0].name}
        taken = opened(literal, bound)
        return taken[2] if taken is not None else set() if names <= bound else None
    if isinstance(literal, Total):
        inside = {v.name for v in literal.inside()}
        wanted = literal.aggregates()
        have = None if (inside & outside) - bound else after(literal.body, bound, outside | wanted, read)
        return {literal.variable.name} if have is not None and wanted <= have else None
    if isinstance(literal, Pull):
        return {literal.variable.name} if literal.entity.name in bound else None
    if isinstance(literal, Test):
        return set() if names <= bound else None
    if isinstance(literal, Not):
        missing = (names if is_simple(literal) else names & outside) - bound
        return None if missing or after(literal.body, bound, outside, read) is None else set()
    assert isinstance(literal, Or)
    return exports(literal, bound, outside, read)


def exports(either: Or, bound: set[str], outside: set[str], read: Read) -> set[str] | None:
    """The outer variables that every branch binds; None if branches disagree or cannot be evaluated."""
    found: set[str] | None = None
    for branch in either.branches:
        have = after(branch, bound, outside, read)
        if have is None:
            return None
        mine = (have & outside) - bound
        if found is not None and mine != found:
            return None
        found = mine
    return found


def after(body: Body, bound: set[str], outside: set[str], read: Read) -> set[str] | None:
    """The variables bound after the body, or None if it cannot be evaluated from these."""
    have = set(bound)
    pending = neighbours([part for literal in body for part in read(literal)], outside)
    while pending:
        for i, (literal, around) in enumerate(pending):
            gained = gains(literal, have, around, read)
            if gained is not None:
                have |= gained
                del pending[i]
                break
        else:
            return None
    return have


def assigned(literal: Compare, bound: set[str]) -> tuple[Var, Term] | None:
    """The variable that an equality binds, and its term."""
    if literal.op != "eq":
        return None
    for variable, term in ((literal.left, literal.right), (literal.right, literal.left)):
        names = {v.name for v in term.variables()}
        if isinstance(variable, Var) and variable.name not in bound and names <= bound and not has_wild(term):
            return variable, term
    return None


def has_wild(term: Term) -> bool:
    """Whether a record has a wildcard item, and so cannot be constructed."""
    return is_record(term) and any(isinstance(item, Wild) or has_wild(item) for item in term.args)


def opened(literal: Compare, bound: set[str]) -> tuple[Apply, Term, set[str]] | None:
    """A record that an equality destructures, the term it is taken from, and the variables it binds."""
    if literal.op != "eq":
        return None
    for record, term in ((literal.left, literal.right), (literal.right, literal.left)):
        if is_record(record) and {v.name for v in term.variables()} <= bound:
            new = {n for n in _items(record) if n not in bound}
            if (new or has_wild(record)) and {v.name for v in record.variables()} <= bound | new:
                return record, term, new
    return None


def _items(record: Apply) -> Iterator[str]:
    """The variables that are items of a record, or of nested records."""
    for item in record.args:
        if isinstance(item, Var):
            yield item.name
        elif is_record(item):
            yield from _items(item)


def stuck(pending: Sequence[tuple[Literal, set[str]]], bound: set[str]) -> tuple[Var, Literal] | None:
    """An unbound variable that prevents a literal from being evaluated."""
    found = [(v, literal) for literal, around in pending for v in _missing(literal, around) if v.name not in bound]
    return min(found, key=lambda pair: _blame(*pair), default=None)


def _missing(literal: Literal, around: set[str]) -> list[Var]:
    """The variables that a literal may need, those that it certainly needs first."""
    if isinstance(literal, Total):
        given = names_of(literal.body)
        return [v for v in literal.inside() if v.name in around or v.name not in given]
    return sorted(literal.variables(), key=lambda v: isinstance(literal, Or) and v.name not in around)


def _blame(variable: Var, literal: Literal) -> int:
    """A ranking of variables for error messages: generated ones last, ones that would be bound here late."""
    if variable.name.startswith("'"):
        return 2
    return int(isinstance(literal, Compare) and literal.op == "eq" and variable in (literal.left, literal.right))


def components(literals: Sequence[Literal], together: frozenset[str] = frozenset()) -> list[list[Literal]]:
    """The literals in groups that share no variable, in textual order; those `together` count as one.

    >>> from everview.datalog.grammar import parse
    >>> [len(group) for group in components(parse("p(X) :- a(X, Y), b(Z), c(Y), d(Z), e(_).")[0].body)]
    [2, 2, 1]
    """
    groups: list[tuple[set[str], list[int]]] = [(set(together), [])] if together else []
    for i, literal in enumerate(literals):
        names, members = names_of((literal,)), [i]
        for group in [g for g in groups if g[0] & names]:
            names |= group[0]
            members = group[1] + members
            groups.remove(group)
        groups.append((names, sorted(members)))
    return [[literals[i] for i in members] for _, members in sorted(groups, key=lambda g: g[1]) if members]
