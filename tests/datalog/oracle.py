"""Datalog evaluated from scratch, as slowly and plainly as possible: the meaning that views are compared with.

Bodies are solved by trying every row; relations of a loop are recomputed from the round before until nothing changes.
Nothing here knows plans, types, joins or differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import networkx as nx

from everview.datalog.aggregates import split
from everview.datalog.syntax import (
    Aggregate,
    Apply,
    Atom,
    Body,
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
Env = dict[str, Any]
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


class Stuck(Exception):
    """A literal needs variables that have no value yet."""


def evaluate(program: list[Rule], tables: Tables) -> dict[str, set[Row]]:
    """The rows of every relation that the program defines."""
    rules: dict[str, list[Rule]] = {}
    for number, rule in enumerate(program):
        for part in split(rule, number):
            rules.setdefault(part.name, []).append(part)
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
        for env, count in solve(list(rule.body), {}, known, _names(rule.head)):
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


def solve(body: list[Literal], env: Env, known: Tables, needed: set[str]) -> Iterator[tuple[Env, int]]:
    """Every way to make the body hold, with its multiplicity."""
    if not body:
        yield env, 1
        return
    order = sorted(range(len(body)), key=lambda i: isinstance(body[i], Not) + 0.5 * isinstance(body[i], Or))
    for i in order:
        rest = body[:i] + body[i + 1 :]
        others = [l for l in rest if not (isinstance(l, Not) and isinstance(body[i], Not))]
        outside = needed | {v.name for literal in others for v in literal.variables()}
        try:
            ways = list(_ways(body[i], env, known, outside))
        except Stuck:
            continue
        for extended, count in ways:
            for whole, more in solve(rest, extended, known, needed):
                yield whole, count * more
        return
    raise Stuck


def _ways(literal: Literal, env: Env, known: Tables, outside: set[str]) -> Iterator[tuple[Env, int]]:
    match literal:
        case Atom() if literal.name in known:
            for row, count in known[literal.name].items():
                extended = _match(literal.args, row, env)
                if extended is not None and count:
                    yield extended, count
        case Atom():
            if FUNCTIONS[literal.name](*(value(a, env) for a in literal.args)):
                yield env, 1
        case Compare():
            yield from _compare(literal, env)
        case Test():
            if value(literal.term, env):
                yield env, 1
        case Not():
            if {v.name for v in literal.variables()} & outside - set(env):
                raise Stuck
            if next(solve(list(literal.body), env, known, set()), None) is None:
                yield env, 1
        case Or():
            yield from _either(literal.branches, env, known, outside)


def _compare(literal: Compare, env: Env) -> Iterator[tuple[Env, int]]:
    for variable, term in ((literal.left, literal.right), (literal.right, literal.left)):
        if literal.op == "eq" and isinstance(variable, Var) and variable.name not in env:
            yield {**env, variable.name: value(term, env)}, 1
            return
    if FUNCTIONS[literal.op](value(literal.left, env), value(literal.right, env)):
        yield env, 1


def _either(branches: tuple[Body, ...], env: Env, known: Tables, outside: set[str]) -> Iterator[tuple[Env, int]]:
    """A set: each binding of the variables that others read, once."""
    found: dict[Row, Env] = {}
    for branch in branches:
        for extended, _ in solve(list(branch), env, known, outside):
            kept = {n: v for n, v in extended.items() if n in env or n in outside}
            found[tuple(sorted(kept.items(), key=lambda item: item[0]))] = kept
    for kept in found.values():
        yield kept, 1


def _match(args: tuple[Term, ...], row: Row, env: Env) -> Env | None:
    env = dict(env)
    for arg, have in zip(args, row, strict=True):
        if isinstance(arg, Wild):
            continue
        if isinstance(arg, Var) and arg.name not in env:
            env[arg.name] = have
        elif value(arg, env) != have:
            return None
    return env


def value(term: Term, env: Env) -> Any:
    """The term's value; all its variables must have one."""
    match term:
        case Const():
            return term.value
        case Var():
            if term.name not in env:
                raise Stuck
            return env[term.name]
        case Apply():
            return FUNCTIONS[term.op](*(value(a, env) for a in term.args))
    raise TypeError(f"no value: {term!r}")


def _names(terms: tuple[Term, ...]) -> set[str]:
    return {v.name for t in terms for v in t.variables()}
