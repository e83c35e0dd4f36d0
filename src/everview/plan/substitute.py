"""A plan with some of its nodes replaced by others."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import fields, replace
from typing import Any

from everview.plan.deep import drive
from everview.plan.nodes import Node


def substituted(node: Node, new: Mapping[Node, Node]) -> Node:
    """The same plan over other nodes; what reads none of those that are replaced stays the very node.

    >>> from everview.plan.nodes import Negate, Table, Union
    >>> from everview.types import INT
    >>> a, b, c = (Table(i, (INT,)) for i in range(3))
    >>> substituted(Union((Negate(a), b)), {a: c}) == Union((Negate(c), b))
    True
    """

    def step(one: Node) -> Generator[Node, Node, Node]:
        if one in new:
            return new[one]
        changed: dict[str, Any] = {}
        for field in fields(one):  # type: ignore[arg-type]
            value = getattr(one, field.name)
            if isinstance(value, Node):
                made: Any = yield value
            elif isinstance(value, tuple) and any(isinstance(v, Node) for v in value):
                items: list[Any] = []
                for item in value:
                    items.append((yield item) if isinstance(item, Node) else item)
                made = tuple(items)
                if all(a is b for a, b in zip(value, made, strict=True)):
                    made = value
            else:
                continue
            if made is not value:
                changed[field.name] = made
        return replace(one, **changed) if changed else one  # type: ignore[type-var]

    return drive(step, node, {})
