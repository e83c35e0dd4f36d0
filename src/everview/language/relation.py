"""The internals of a collection, for the rest of Everview.

The attributes of a `Collection` are its columns (`edges.src`), so it has no other public ones. Planner, sessions and
languages use its `Relation` instead, through one function:

    relation_of(edges).columns        relation_of(edges).node        relation_of(edges).label

Tables and views have more (`everview.session.relations`). Each collection has one relation; renaming a table or
replanning a view changes it there, for all users.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from everview.language.active_loops import Token, check_running

if TYPE_CHECKING:
    from everview.expr.resolve import Column
    from everview.language.collection import Collection
    from everview.plan.nodes import Node

_numbers = itertools.count()

RuleTexts = Callable[[], Mapping[str, str]]
"""The rules of a program as written, by the digests of their plans. Digests are computed on demand, by `why` and
directories only."""


class Relation:
    """A plan, the names of its columns, and their origins."""

    def __init__(
        self,
        node: Node,
        columns: Sequence[Column],
        owner: Any,
        *,
        label: str = "",
        parents: Sequence[Collection] = (),
        loop_tokens: frozenset[Token] | None = None,
    ) -> None:
        self.number = next(_numbers)
        self.node = node
        self.columns = tuple(replace(c, origins=((self.number, i), *c.origins)) for i, c in enumerate(columns))
        self.owner = owner
        self.label = label
        self.parents = tuple(parents)
        self.loop_tokens: frozenset[Token] = (
            frozenset().union(*(relation_of(p).loop_tokens for p in parents)) if loop_tokens is None else loop_tokens
        )
        self.meaning: Node | None = None
        """an equivalent plan without time dependence, if this one has any: for recognising a definition"""
        self.plan_why = ""
        """why its joins are maintained as passed to `db.view`, if that was not requested explicitly"""
        self.calls: tuple[str, ...] = ()
        self.text: tuple[str, ...] = ()
        """of a CREATE VIEW, if it was made by one: its dialect, the words before its name and the text behind it"""
        self.rules: tuple[RuleTexts, ...] = ()
        """of the programs that parts of the plan come from"""
        for parent in parents:
            if more := relation_of(parent).rules:
                self.rules = (*self.rules, *(r for r in more if r not in self.rules))
        self.bound: Mapping[str, Any] = MappingProxyType(
            {name: value for parent in parents for name, value in relation_of(parent).bound.items()}
        )
        """attributes of the creator whose values are in the plan: nobody else may use it (`session.rights`)"""
        check_running(self.loop_tokens)
        hash(node)  # hashes are cached in the nodes: computed step by step, this avoids deep recursion later

    def take_after(self, before: Relation) -> None:
        """Take over the naming of another relation, which this one replaces."""
        self.plan_why, self.calls, self.rules = before.plan_why, before.calls, before.rules
        self.text = before.text


R_co = TypeVar("R_co", covariant=True)


class HasRelation(Protocol[R_co]):
    """A collection, or a stand-in for one."""

    @property
    def _relation(self) -> R_co: ...


def relation_of(collection: HasRelation[R_co]) -> R_co:
    """The relation of a collection, table or view.

    >>> import everview as ev
    >>> edges = ev.connect().table("edges", {"src": int, "dst": int}, key="src")
    >>> relation_of(edges).label, relation_of(edges).key, [c.name for c in relation_of(edges.distinct()).columns]
    ('edges', (0,), ['src', 'dst'])
    """
    return collection._relation
