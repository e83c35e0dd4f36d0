"""Traversals of a dataflow: the contents of a scope, and the dependencies of an operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from everview.dataflow.operators import Operator
from everview.dataflow.scopes import Scope


def operators_in(scope: Scope) -> Iterator[Operator]:
    """The operators of a scope and of the loops in it, in program order."""
    for item in scope.items:
        if isinstance(item, Scope):
            yield from operators_in(item)
        else:
            yield item


def loops_in(scope: Scope) -> Iterator[Scope]:
    """The loops in a scope, outer ones first."""
    for item in scope.items:
        if isinstance(item, Scope):
            yield item
            yield from loops_in(item)


def needed(roots: Iterable[Operator], *, errors: bool = True) -> set[Operator]:
    """The given operators and everything they depend on, including those that hold their errors."""
    live: set[Operator] = set()
    todo = list(roots)
    while todo:
        operator = todo.pop()
        if operator not in live:
            live.add(operator)
            todo.extend(operator.inputs)
            if errors and operator.errors is not None:
                todo.append(operator.errors)
    return live


def loop_around(program: Iterable[tuple[object, int]], root: Scope) -> Scope:
    """The loop that contains a position of the program, derived from what follows it; `root` if there is none."""
    ended: set[Scope] = set()
    for item, which in program:
        if isinstance(item, Scope) and which == 0:
            ended.add(item)
        elif isinstance(item, Scope) and item not in ended:
            return item
    return root
