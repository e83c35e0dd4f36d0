"""Replaces nodes of a plan."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import fields, replace
from typing import Any

from everview.plan.deep_recursion import drive
from everview.plan.nodes import Node


def over_inputs(node: Node, rewritten: Callable[[Node], Node]) -> Node:
    """The same node over rewritten inputs; the identical node if none of them changed.

    >>> from everview.plan.nodes import Negate, Table
    >>> from everview.types import INT
    >>> a, b = (Table(i, (INT,)) for i in range(2))
    >>> over_inputs(Negate(a), lambda node: b) == Negate(b)
    True
    """
    changes: dict[str, Any] = {}
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        if isinstance(value, Node):
            changes[field.name] = rewritten(value)
        elif isinstance(value, tuple) and any(isinstance(v, Node) for v in value):
            changes[field.name] = tuple(rewritten(v) if isinstance(v, Node) else v for v in value)
    same = all(changes[name] == getattr(node, name) for name in changes)
    return node if same else replace(node, **changes)  # type: ignore[type-var]


def substituted(node: Node, new: Mapping[Node, Node]) -> Node:
    """The same plan over other nodes; parts that read none of the replaced nodes stay identical.

    >>> from everview.plan.nodes import Negate, Table, Union
    >>> from everview.types import INT
    >>> a, b, c = (Table(i, (INT,)) for i in range(3))
    >>> substituted(Union((Negate(a), b)), {a: c}) == Union((Negate(c), b))
    True
    """

    def step(one: Node) -> Generator[Node, Node, Node]:
        if one in new:
            return new[one]
        made: dict[int, Node] = {}
        for child in one.children():
            made[id(child)] = yield child
        return over_inputs(one, lambda child: made[id(child)])

    return drive(step, node, {})
