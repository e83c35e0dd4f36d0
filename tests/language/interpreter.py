"""A tiny interpreter of plans over Python dictionaries: it says what a plan means, so that rewrites can be checked.

Only what the tests here need; the engine's oracle is in tests/oracle.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from everview.expr import nodes
from everview.language.collection import Collection, Column
from everview.language.relation import relation_of
from everview.plan.nodes import (
    Aggregate,
    Filter,
    FlatMap,
    Join,
    Loop,
    LoopResult,
    Negate,
    Node,
    Project,
    PythonReduce,
    Reduce,
    Table,
    Threshold,
    TopK,
    Union,
    Variable,
)
from everview.types import DataType

Bag = Counter[tuple[Any, ...]]
Tables = dict[int, Bag]


def table(number: int, label: str, session: Any = None, **columns: DataType) -> Collection:
    """A base table without an engine."""
    node = Table(number, tuple(columns.values()))
    return Collection(node, [Column(n, t) for n, t in columns.items()], session, label=label)


def rows(collection: Collection, tables: Tables) -> Bag:
    """What the collection holds."""
    return run(relation_of(collection).node, tables, {})


def run(node: Node, tables: Tables, variables: dict[tuple[int, int], Bag]) -> Bag:
    out: Bag = Counter()
    match node:
        case Table():
            out.update(tables[node.id])
        case Variable():
            out.update(variables[node.depth, node.index])
        case LoopResult():
            out.update(_loop(node.loop, tables, variables)[node.index])
        case Join():
            _join(node, run(node.left, tables, variables), run(node.right, tables, variables), out)
        case Union():
            for child in node.inputs:
                for row, n in run(child, tables, variables).items():
                    out[row] += n
        case _:
            _one_input(node, run(node.children()[0], tables, variables), out)
    return Counter({row: n for row, n in out.items() if n})


def _one_input(node: Node, child: Bag, out: Bag) -> None:
    match node:
        case Project():
            for row, n in child.items():
                out[tuple(value(e, row) for e in node.exprs)] += n
        case Filter():
            out.update({row: n for row, n in child.items() if value(node.predicate, row) is True})
        case FlatMap():
            for row, n in child.items():
                for new in node.function(*row):
                    out[new] += n
        case Negate():
            out.update({row: -n for row, n in child.items()})
        case Threshold():
            out.update({row: 1 if node.kind == "distinct" else n for row, n in child.items() if n > 0})
        case Reduce():
            for key, group in _groups(child, node.keys).items():
                out[(*key, *(_aggregate(a, group) for a in node.aggregates))] += 1
        case TopK():
            for group in _groups(child, node.keys).values():
                expanded = [row for row, n in group.items() for _ in range(n)]
                expanded.sort(key=lambda row: tuple(_rank(v, False) for v in row))
                expanded.sort(key=lambda row: tuple(_rank(row[c], descending) for c, descending in node.order))
                out.update(expanded[node.offset : node.offset + node.limit])
        case PythonReduce():
            for key, group in _groups(child, node.keys).items():
                for new in node.function(key, sorted(group.items())):
                    out[(*key, *new)] += 1
        case _:
            raise NotImplementedError(type(node))


def _rank(v: Any, descending: bool) -> tuple[bool, Any]:
    return (True, 0) if v is None else (False, -v if descending else v)


def _join(node: Join, left: Bag, right: Bag, out: Bag) -> None:
    for a, n in left.items():
        for b, m in right.items():
            pairs = [(a[i], b[j]) for i, j in zip(node.left_keys, node.right_keys, strict=True)]
            if all(x is not None and x == y for x, y in pairs):
                out[a + b] += n * m


def _groups(bag: Bag, keys: tuple[int, ...]) -> dict[tuple[Any, ...], Bag]:
    found: dict[tuple[Any, ...], Bag] = defaultdict(Counter)
    for row, n in bag.items():
        found[tuple(row[k] for k in keys)][row] += n
    return found


def _aggregate(aggregate: Aggregate, group: Bag) -> Any:
    if aggregate.column is None:
        return sum(group.values())
    values = [row[aggregate.column] for row, n in group.items() for _ in range(n) if row[aggregate.column] is not None]
    if aggregate.kind == "count":
        return len(values)
    if aggregate.kind == "count_distinct":
        return len(set(values))
    if not values:
        return None
    if aggregate.kind == "avg":
        return sum(values) / len(values)
    functions: dict[str, Callable[[list[Any]], Any]] = {"sum": sum, "min": min, "max": max}
    return functions[aggregate.kind](values)


def _loop(loop: Loop, tables: Tables, variables: dict[tuple[int, int], Bag]) -> list[Bag]:
    now = [Counter() if i is None else run(i, tables, variables) for i in loop.initials]
    for _ in range(1000):
        inside = variables | {(loop.depth, i): bag for i, bag in enumerate(now)}
        new = [run(b, tables, inside) for b in loop.bodies]
        if new == now:
            return new
        now = new
    raise AssertionError("the loop does not converge")


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def value(e: nodes.Expr, row: tuple[Any, ...]) -> Any:
    if isinstance(e, nodes.ColumnRef):
        return row[e.index]
    if isinstance(e, nodes.Literal):
        return e.value
    args = [value(a, row) for a in e.children()]
    if isinstance(e, nodes.Udf):
        return e.function(*args)
    assert isinstance(e, nodes.Call)
    match e.op:
        case "is_null":
            return args[0] is None
        case "coalesce" | "if_null":
            return next((a for a in args if a is not None), None)
        case "and":
            return False if False in args else None if None in args else True
        case "or":
            return True if True in args else None if None in args else False
        case "case":
            taken = (v for c, v in zip(args[:-1:2], args[1::2], strict=True) if c is True)
            return next(taken, args[-1])
        case "tuple_make":
            return tuple(args)
    if None in args:
        return None
    unary: dict[str, Callable[[Any], Any]] = {
        "neg": lambda a: -a,
        "not": lambda a: not a,
        "cast_float": float,
        "cast_int": int,
    }
    return unary[e.op](*args) if e.op in unary else _BINARY[e.op](*args)
