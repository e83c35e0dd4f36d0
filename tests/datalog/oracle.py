"""Datalog evaluated from scratch, as slowly and plainly as possible: the meaning that views are compared with.

A solution of a body is a value for every variable in it, `_` being a variable without a name. Bodies are solved by
trying every row; relations of a loop are recomputed from the round before until nothing changes. What a variable
inside brackets means depends on where else it stands, which is looked up in the text itself, bracket by bracket.
Nothing here knows plans, types, joins or differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import networkx as nx

from everview.datalog.aggregates import split
from everview.datalog.syntax import (
    Aggregate,
    Apply,
    Atom,
    Compare,
    Const,
    Literal,
    Not,
    Or,
    Rule,
    Term,
    Test,
    Var,
    Wild,
)

Row = tuple[Any, ...]
Env = dict[Any, Any]
Tables = Mapping[str, Counter[Row]]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "neg": lambda a: -a,
    "abs": abs,
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": lambda a, b: b in a,
    "substr": lambda s, start, n: s[start - 1 : start - 1 + n],
    "least": min,
    "greatest": max,
    "str": str,
    "int": int,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


RELATIONS: ContextVar[frozenset[str]] = ContextVar("RELATIONS", default=frozenset())
"""Names that are relations even if they are functions, too."""


class Unsafe(Exception):
    """The program has no meaning: a literal needs variables that nothing binds."""


def safe(rule: Rule) -> bool:
    """Whether everything in the rule has a value."""
    names = _names(rule.head)
    found = order(rule.body, frozenset(), (names, names))
    return found is not None and names <= found[1]


def evaluate(program: list[Rule], tables: Tables) -> dict[str, set[Row]]:
    """The rows of every relation that the program defines."""
    rules: dict[str, list[Rule]] = {}
    for number, rule in enumerate(program):
        for part in split(rule, number):
            rules.setdefault(part.name, []).append(part)
    RELATIONS.set(frozenset([*rules, *tables]))
    if not all(safe(rule) for mine in rules.values() for rule in mine):
        raise Unsafe
    known: dict[str, Counter[Row]] = dict(tables)
    for group in _groups(rules):
        now: dict[str, Counter[Row]] = {name: Counter() for name in group}
        while True:
            then = {name: _relation(rules[name], {**known, **now}) for name in group}
            if then == now:
                break
            now = then
        known.update(now)
    return {name: set(known[name]) for name in rules if "'" not in name}


def _groups(rules: dict[str, list[Rule]]) -> list[list[str]]:
    graph = nx.DiGraph()
    graph.add_nodes_from(rules)
    for name, mine in rules.items():
        for rule in mine:
            for literal in rule.body:
                graph.add_edges_from((atom.name, name) for atom, _ in literal.atoms() if atom.name in rules)
    order = nx.condensation(graph)
    return [sorted(order.nodes[n]["members"]) for n in nx.topological_sort(order)]


def _relation(rules: list[Rule], known: Tables) -> Counter[Row]:
    kinds: list[str | None] = [None] * len(rules[0].head)
    for rule in rules:
        kinds = [t.kind if isinstance(t, Aggregate) else k for t, k in zip(rule.head, kinds, strict=True)]
    groups: dict[Row, list[Row]] = {}
    for rule in rules:
        names = _names(rule.head)
        for found_env, count in solve(rule.body, {}, known, (names, names)).items():
            env = dict(found_env)
            keys = tuple(value(t, env) for t, k in zip(rule.head, kinds, strict=True) if k is None)
            row = tuple(_given(t, env) for t, k in zip(rule.head, kinds, strict=True) if k is not None)
            groups.setdefault(keys, []).extend([row] * count)
    found: Counter[Row] = Counter()
    for keys, rows in groups.items():
        columns = iter(zip(*rows, strict=True))
        key = iter(keys)
        found[tuple(next(key) if k is None else _aggregate(k, list(next(columns))) for k in kinds)] = 1
    return found


def _given(term: Term, env: Env) -> Any:
    if isinstance(term, Aggregate):
        return 1 if term.arg is None else value(term.arg, env)
    return value(term, env)


def _aggregate(kind: str, values: list[Any]) -> Any:
    return {
        "count": len,
        "count_distinct": lambda v: len(set(v)),
        "sum": sum,
        "avg": lambda v: sum(v) / len(v),
        "min": min,
        "max": max,
    }[kind](values)


# ----------------------------------------------------------------------------- bodies, and their order

Scope = tuple[frozenset[str], frozenset[str]]
"""Names that occur outside a body: those outside all negations, and all."""


def positive(literal: Literal) -> frozenset[str]:
    """Names in a literal that stand outside its negations."""
    if isinstance(literal, Not):
        return frozenset()
    if isinstance(literal, Or):
        return frozenset(n for branch in literal.branches for l in branch for n in positive(l))
    return frozenset(v.name for v in literal.variables())


def _scope(body: Sequence[Literal], i: int, outside: Scope) -> Scope:
    """What occurs outside literal number i."""
    others = [l for k, l in enumerate(body) if k != i]
    bindable = outside[0].union(*map(positive, others))
    if isinstance(body[i], Not):
        return bindable, bindable  # equal names in two negations are two variables
    return bindable, outside[1].union(v.name for l in others for v in l.variables())


def _opened(body: Sequence[Literal]) -> list[Literal]:
    """The body with computed arguments of relations as equalities of their own."""
    found: list[Literal] = []
    for literal in body:
        if isinstance(literal, Atom) and (literal.name not in FUNCTIONS or literal.name in RELATIONS.get()):
            deep = [a for a in literal.args if isinstance(a, Apply | Aggregate)]
            args = tuple(Var(f"'{id(a)}") if isinstance(a, Apply | Aggregate) else a for a in literal.args)
            found += [replace(literal, args=args), *(Compare("eq", Var(f"'{id(a)}"), a) for a in deep)]
        else:
            found.append(literal)
    return found


def order(body: Sequence[Literal], bound: frozenset[str], outside: Scope) -> tuple[list[int], frozenset[str]] | None:
    """An order in which the literals can be taken, and what is bound after them; None: the body is unsafe."""
    body = _opened(body)
    taken: list[int] = []
    while len(taken) < len(body):
        for i, literal in enumerate(body):
            gained = None if i in taken else _gains(literal, bound, _scope(body, i, outside))
            if gained is not None:
                taken.append(i)
                bound |= gained
                break
        else:
            return None
    return taken, bound


def _gains(literal: Literal, bound: frozenset[str], outside: Scope) -> frozenset[str] | None:
    """The names a literal binds; None: not yet."""
    names = frozenset(v.name for v in literal.variables())
    match literal:
        case Atom() if literal.name not in FUNCTIONS or literal.name in RELATIONS.get():
            return names
        case Compare(op="eq"):
            for variable, term in ((literal.left, literal.right), (literal.right, literal.left)):
                if isinstance(variable, Var) and {v.name for v in term.variables()} <= bound:
                    return frozenset({variable.name})
            return frozenset() if names <= bound else None
        case Not():
            simple = len(literal.body) == 1 and isinstance(literal.body[0], Atom)
            missing = names - bound if simple else (names & outside[0]) - bound
            return None if missing or order(literal.body, bound, outside) is None else frozenset()
        case Or():
            found = [order(branch, bound, outside) for branch in literal.branches]
            gains = {f[1] & outside[1] for f in found if f is not None}
            return None if None in found or len(gains) != 1 else next(iter(gains)) - bound
    return frozenset() if names <= bound else None


Key = frozenset[tuple[Any, Any]]
"""An environment that can be counted."""


def solve(body: Sequence[Literal], env: Env, known: Tables, outside: Scope) -> Counter[Key]:
    """Every way to make the body hold, `_` being a variable without a name, and how often it does."""
    planned = order(body, frozenset(n for n in env if isinstance(n, str)), outside)
    if planned is None:
        raise Unsafe
    body = _opened(body)
    found: Counter[Key] = Counter({frozenset(env.items()): 1})
    for i in planned[0]:
        more: Counter[Key] = Counter()
        for key, count in found.items():
            for extended, times in _ways(body[i], dict(key), known, _scope(body, i, outside)).items():
                more[extended] += count * times
        found = more
    return found


def _ways(literal: Literal, env: Env, known: Tables, outside: Scope) -> Counter[Key]:
    found: Counter[Key] = Counter()
    match literal:
        case Atom() if literal.name in known:
            for row, count in known[literal.name].items():
                extended = _match(literal.args, row, env)
                if extended is not None and count:
                    found[frozenset(extended.items())] += count
            return found
        case Or():
            for branch in literal.branches:
                found |= solve(branch, env, known, outside)  # the larger count of both
            return found
        case Not():
            holds = not solve(literal.body, env, known, outside)
        case Atom():
            holds = FUNCTIONS[literal.name](*(value(a, env) for a in literal.args))
        case Compare():
            return _compare(literal, env)
        case Test():
            holds = value(literal.term, env)
    return Counter({frozenset(env.items()): 1} if holds else {})


def _compare(literal: Compare, env: Env) -> Counter[Key]:
    for variable, term in ((literal.left, literal.right), (literal.right, literal.left)):
        if literal.op == "eq" and isinstance(variable, Var) and variable.name not in env:
            return Counter({frozenset({**env, variable.name: value(term, env)}.items()): 1})
    holds = FUNCTIONS[literal.op](value(literal.left, env), value(literal.right, env))
    return Counter({frozenset(env.items()): 1} if holds else {})


def _match(args: tuple[Term, ...], row: Row, env: Env) -> Env | None:
    if len(args) != len(row):
        raise Unsafe(f"{len(args)} arguments for {len(row)} columns")
    env = dict(env)
    for arg, have in zip(args, row, strict=True):
        if isinstance(arg, Wild):
            env[id(arg)] = have
        elif isinstance(arg, Var) and arg.name not in env:
            env[arg.name] = have
    same = all(isinstance(a, Wild) or value(a, env) == have for a, have in zip(args, row, strict=True))
    return env if same else None


def value(term: Term, env: Env) -> Any:
    """The term's value; all its variables have one."""
    match term:
        case Const():
            return term.value
        case Var():
            return env[term.name]
        case Apply():
            return FUNCTIONS[term.op](*(value(a, env) for a in term.args))
    raise Unsafe(f"no value: {term!r}")


def _names(terms: tuple[Term, ...]) -> frozenset[str]:
    return frozenset(v.name for t in terms for v in t.variables())
