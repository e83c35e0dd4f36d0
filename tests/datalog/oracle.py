"""Datalog evaluated from scratch, as slowly and plainly as possible: the meaning that views are compared with.

A solution of a body is a value for every variable in it, `_` being a variable without a name. Bodies are solved by
trying every row; relations of a loop are recomputed from the round before until nothing changes. What a variable
inside brackets means depends on where else it stands, which is looked up in the text itself, bracket by bracket.
Nothing here knows plans, types, joins or differences.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import networkx as nx

from everview.codes.immutable import FrozenList
from everview.datalog.aggregates import split
from everview.datalog.syntax import (
    Aggregate,
    Apply,
    Atom,
    Compare,
    Const,
    Dominance,
    Literal,
    Not,
    Or,
    Program,
    Rule,
    Term,
    Test,
    Total,
    Var,
    Variant,
    Wild,
    is_record,
)

Row = tuple[Any, ...]
Env = dict[Any, Any]
Tables = Mapping[str, Counter[Row]]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "pow": lambda a, b: math.pow(a, b),
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
    "tuple_make": lambda *items: items,
    "range": range,
    "div": lambda a, b: a / b,
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "bnot": lambda a: ~a,
    "bshl": lambda a, b: a << b,
    "bshr": lambda a, b: a >> b,
    "bshru": lambda a, b: (a % 2**64) >> b,
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
    for order_ in program.dominance if isinstance(program, Program) else ():
        names = _names((*order_.lower, *order_.upper))
        if order(order_.body, frozenset(names), (names, names)) is None:
            raise Unsafe
    known: dict[str, Counter[Row]] = dict(tables)
    for group in _groups(rules):
        now: dict[str, Counter[Row]] = {name: Counter() for name in group}
        while True:
            then = {name: _limited(program, name, rules, {**known, **now}) for name in group}
            if then == now:
                break
            now = then
        known.update(now)
    return {name: set(known[name]) for name in rules if "'" not in name}


def _limited(program: list[Rule], name: str, rules: dict[str, list[Rule]], known: Tables) -> Counter[Row]:
    """The rows of a relation, without dominated ones, and one for each value of what chooses."""
    rows = set(_relation(rules[name], known))
    for order_ in program.dominance if isinstance(program, Program) else ():
        if order_.name == name:
            rows -= {low for low in rows for high in rows - {low} if _dominated(order_, low, high, known)}
    declared = program.declared.get(name) if isinstance(program, Program) else None
    if declared is not None and declared.choice is not None:
        first: dict[Row, Row] = {}
        at = [declared.columns.index(c) for c in declared.choice]
        for row in sorted(rows):
            first.setdefault(tuple(row[i] for i in at), row)
        rows = set(first.values())
    return Counter(rows)


def _dominated(order_: Dominance, low: Row, high: Row, known: Tables) -> bool:
    env = _match(order_.lower, low, {})
    env = None if env is None else _match(order_.upper, high, env)
    names = _names((*order_.lower, *order_.upper))
    return env is not None and bool(solve(order_.body, env, known, (names, names)))


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
    return {  # type: ignore[operator]
        "count": len,
        "count_distinct": lambda v: len(set(v)),
        "sum": sum,
        "avg": lambda v: sum(v) / len(v),
        "min": min,
        "max": max,
        "median": lambda v: float(statistics.median(v)),
        "variance": lambda v: float(statistics.variance(v)) if len(v) > 1 else None,
        "variance_pop": lambda v: float(statistics.pvariance(v)),
        "stddev": lambda v: math.sqrt(statistics.variance(v)) if len(v) > 1 else None,
        "stddev_pop": lambda v: math.sqrt(statistics.pvariance(v)),
    }[kind](values)


# ----------------------------------------------------------------------------- bodies, and their order

Scope = tuple[frozenset[str], frozenset[str]]
"""Names that occur outside a body: those outside all negations, and all."""


def positive(literal: Literal) -> frozenset[str]:
    """Names in a literal that stand outside its negations."""
    if isinstance(literal, Not):
        return frozenset()
    if isinstance(literal, Total):
        return frozenset({literal.variable.name})
    if isinstance(literal, Or):
        return frozenset(n for branch in literal.branches for l in branch for n in positive(l))
    return frozenset(v.name for v in literal.variables())


def _scope(body: Sequence[Literal], i: int, outside: Scope) -> Scope:
    """What occurs outside literal number i."""
    others = [l for k, l in enumerate(body) if k != i]
    bindable = outside[0].union(*map(positive, others))
    if isinstance(body[i], Not | Total):
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
                if isinstance(variable, Var) and {v.name for v in term.variables()} <= bound and not _open(term):
                    return frozenset({variable.name})
            for record, term in ((literal.left, literal.right), (literal.right, literal.left)):
                if is_record(record) and {v.name for v in term.variables()} <= bound:
                    items = frozenset(_items(record))
                    return items if {v.name for v in record.variables()} <= bound | items else None
            return frozenset() if names <= bound else None
        case Total():
            inside = frozenset(v.name for v in literal.inside())
            wanted = frozenset() if literal.arg is None else _names((literal.arg,))
            around = (outside[0] | wanted, outside[1] | wanted)
            found_ = None if (inside & outside[0]) - bound else order(literal.body, bound, around)
            return frozenset({literal.variable.name}) if found_ is not None and wanted <= found_[1] else None
        case Not():
            simple = len(literal.body) == 1 and isinstance(literal.body[0], Atom)
            missing = names - bound if simple else (names & outside[0]) - bound
            return None if missing or order(literal.body, bound, outside) is None else frozenset()
        case Or():
            found = [order(branch, bound, outside) for branch in literal.branches]
            gains = {f[1] & outside[1] for f in found if f is not None}
            return None if None in found or len(gains) != 1 else next(iter(gains)) - bound
    return frozenset() if names <= bound else None


def _items(record: Apply) -> Iterator[str]:
    for item in record.args:
        if isinstance(item, Var):
            yield item.name
        elif is_record(item):
            yield from _items(item)


def _open(term: Term) -> bool:
    return is_record(term) and any(isinstance(a, Wild) or _open(a) for a in term.args)


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
                mine: Counter[Key] = Counter()
                for key, count in solve(branch, env, known, outside).items():
                    mine[frozenset((n, v) for n, v in key if n in env or not str(n).startswith("'"))] += count
                found |= mine  # the larger count of both; what was only computed is no variable
            return found
        case Not():
            holds = not solve(literal.body, env, known, outside)
        case Atom():
            holds = FUNCTIONS[literal.name](*(value(a, env) for a in literal.args))
        case Compare():
            return _compare(literal, env)
        case Total():
            wanted = frozenset() if literal.arg is None else _names((literal.arg,))
            outside = (outside[0] | wanted, outside[1] | wanted)
            values = [
                1 if literal.arg is None else value(literal.arg, dict(key))
                for key, count in solve(literal.body, env, known, outside).items()
                for _ in range(count)
            ]
            if not values and literal.default is None:
                return found
            total = _aggregate(literal.kind, values) if values else value(literal.default or Wild(), env)
            extended = _match((literal.variable,), (total,), env)
            return Counter({frozenset(extended.items()): 1} if extended is not None else {})
        case Test():
            holds = value(literal.term, env)
    return Counter({frozenset(env.items()): 1} if holds else {})


def _compare(literal: Compare, env: Env) -> Counter[Key]:
    sides = ((literal.left, literal.right), (literal.right, literal.left))
    for variable, term in sides if literal.op == "eq" else ():
        if isinstance(term, Apply) and term.op == "range":
            numbers = value(term, env)
            found = (_match((variable,), (n,), env) for n in numbers)
            return Counter(frozenset(e.items()) for e in found if e is not None)
        if is_record(variable) and not _open(term) and _names((term,)) <= set(env):
            extended = _taken_apart(variable, value(term, env), env)
            return Counter({frozenset(extended.items()): 1} if extended is not None else {})
        if isinstance(variable, Var) and variable.name not in env:
            return Counter({frozenset({**env, variable.name: value(term, env)}.items()): 1})
    holds = FUNCTIONS[literal.op](value(literal.left, env), value(literal.right, env))
    return Counter({frozenset(env.items()): 1} if holds else {})


def _match(args: tuple[Term, ...], row: Row, env: Env) -> Env | None:
    if not args and row == (True,):
        return env
    if len(args) != len(row):
        raise Unsafe(f"{len(args)} arguments for {len(row)} columns")
    extended: Env | None = dict(env)
    for arg, have in zip(args, row, strict=True):
        if extended is None:
            return None
        if isinstance(arg, Wild):
            extended[id(arg)] = have
        elif isinstance(arg, Var):
            extended = extended if extended.setdefault(arg.name, have) == have else None
        elif is_record(arg):
            extended = _taken_apart(arg, have, extended)
        elif value(arg, extended) != have:
            return None
    return extended


def _taken_apart(record: Apply, have: Any, env: Env) -> Env | None:
    """What a record or a variant says about its items."""
    if isinstance(record, Variant):
        return _match(record.args, tuple(have[1:]), env) if have[0] == record.tag else None
    return _match(record.args, have, env) if len(have) == len(record.args) else None


def value(term: Term, env: Env) -> Any:
    """The term's value; all its variables have one."""
    match term:
        case Variant():
            return FrozenList([term.tag, *(value(a, env) for a in term.args)])
        case Const():
            return term.value
        case Var():
            return env[term.name]
        case Apply():
            return FUNCTIONS[term.op](*(value(a, env) for a in term.args))
    raise Unsafe(f"no value: {term!r}")


def _names(terms: tuple[Term, ...]) -> frozenset[str]:
    return frozenset(v.name for t in terms for v in t.variables())
